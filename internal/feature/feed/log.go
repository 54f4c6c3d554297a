package feed

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/wal"
)

// log is a log that was begun.
type log struct {
	num   uint64
	first base.SeqNum // with which it begins
}

// logs lists the logs that were begun and stay, oldest first. known are some of them from before.
func (e *Env) logs(known []log) (logs []log, err error) {
	oldest := e.Oldest()
	o := wal.TailOptions{FS: e.FS, Dir: e.Dir, Format: e.Format()}
	nums, err := wal.Logs(o)
	if err != nil {
		return nil, err
	}
	for _, num := range nums {
		if num < oldest {
			continue
		}
		for len(known) > 0 && known[0].num < num {
			known = known[1:]
		}
		if len(known) > 0 && known[0].num == num {
			logs = append(logs, known[0])
			continue
		}
		first, err := wal.FirstSeq(o, num)
		switch {
		case errors.Is(err, wal.ErrNotYet), errors.Is(err, wal.ErrLogGone),
			errors.Is(err, base.ErrCorruption):
			continue
		case err != nil:
			return nil, err
		}
		logs = append(logs, log{num, first})
	}
	return logs, nil
}

// judge fails if the log that was read, or one of those that have no first record, is damaged:
// Open's code decides.
func (e *Env) judge(read *reader, logs []log) error {
	o := wal.TailOptions{FS: e.FS, Dir: e.Dir, Format: e.Format()}
	nums, err := wal.Logs(o)
	for _, num := range nums {
		listed := slices.ContainsFunc(logs, func(l log) bool { return l.num == num })
		if err != nil || num < e.Oldest() || listed && (read == nil || num != read.num) {
			continue
		}
		err = wal.JudgeLog(o, num, e.Synced(num))
	}
	return err
}

// reader reads one log.
type reader struct {
	*record.Tail
	file  vfs.ReadFile
	num   uint64
	limit base.SeqNum // from which on another log counts
	cuts  uint64      // before anything was read
	known func(base.KeyspaceID) bool
}

// open opens a log, to be read from a place on where a record ends.
func (e *Env) open(num uint64, at int64, limit base.SeqNum) (*reader, error) {
	format := e.Format()
	name := format.FileName(base.FileLog, num)
	r := &reader{num: num, limit: limit, cuts: e.Cuts()}
	var err error
	if r.file, err = e.FS.Open(filepath.Join(e.Dir, name)); err != nil {
		return nil, err
	}
	if format == base.Native {
		r.Tail, r.known = record.NewChainTail(r.file, name, num, at), func(base.KeyspaceID) bool {
			return true
		}
	} else {
		r.Tail = record.NewTail(r.file, name, at)
	}
	return r, nil
}

// part is a record of a log, or what counts of it.
type part struct {
	batch       []byte
	first, last base.SeqNum
	log         uint64
	end         int64 // of the record in the log
}

// next returns the next record that has operations from sequence number from on. It fails with
// wal.ErrNotYet where the whole records end.
func (r *reader) next(from base.SeqNum) (part, error) {
	for {
		batch, err := r.Next()
		if err != nil {
			return part{}, err
		}
		if err := batchrepr.Validate(batch, r.known); err != nil {
			return part{}, r.Invalid(err)
		}
		n := base.SeqNum(batchrepr.Count(batch))
		if first := batchrepr.Seq(batch); n > 0 && first+n > from {
			return part{batch: batch, first: first, last: first + n - 1, log: r.num, end: r.End()},
				nil
		}
	}
}
