package wal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/record"
	"github.com/loamdb/loam/internal/vfs"
)

// chain is what the replay of chained logs knows beyond single logs.
//
// A log's first chunk names the log before it, where that ended, and up to where it was
// durable. Set.Sync syncs the older logs first. So if a log has been synced, all logs
// before it were durable to their ends.
type chain struct {
	first uint64           // the first log that is needed
	ends  map[uint64]int64 // where the records of each log end
	gap   *record.LogEnd   // the first place behind which something is missing; nil: none
}

// chainedLog replays one log of the chained framing. It fails if something is missing, there or in
// the logs before it, that is known to have been durable.
func (r *Replay) chainedLog(num uint64, name string, f vfs.ReadFile) error {
	reader := r.chainReader(num, name, f)
	for first := true; ; first = false {
		batch, err := reader.Next()
		if first {
			if err := r.checkBefore(reader, num, name, f); err != nil {
				return err
			}
		}
		if former := reader.Former(); former >= max(r.chain.first, 1) {
			// Only a log that is not needed becomes another one.
			return &base.Corruption{File: name, Length: f.Size(), Kind: "log record", Reason: fmt.Sprintf("the file is log %06d, which is needed", former)}
		}
		r.chain.ends[num] = reader.End()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, base.ErrCorruption) && reader.Tail():
			r.drop(name, reader.End(), f.Size(), err, !reader.Follows())
			r.missingFrom(record.LogEnd{Num: num, End: reader.End()})
			return nil
		case err != nil:
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if first && r.carried(batch) {
			return nil
		}
		if first && r.behindHole(batch) {
			r.dropBehindHole(name, f.Size(), batch)
			return nil
		}
		if err := r.valid(batch); err != nil {
			var c *base.Corruption
			if errors.As(err, &c) {
				c.File, c.Offset = name, reader.Offset()
			}
			return err
		}
		if err := r.apply(num, batch); err != nil {
			return err
		}
	}
}

func (r *Replay) chainReader(num uint64, name string, f vfs.ReadFile) *record.ChainReader {
	synced := int64(0)
	if r.Synced.Num == num {
		synced = r.Synced.End
	}
	return record.NewChainReader(f, f.Size(), name, num, synced)
}

// missingFrom notes that something is missing behind a place.
func (r *Replay) missingFrom(at record.LogEnd) {
	if r.chain.gap == nil {
		r.chain.gap = &at
	}
}

// checkBefore compares what the first chunk of a log says of the log before it with what
// was read of that, and fails if what is missing was durable.
func (r *Replay) checkBefore(reader *record.ChainReader, num uint64, name string, f vfs.ReadFile) error {
	begin, begun := reader.Begin()
	if !begun {
		return nil
	}
	before := begin.Before
	if before.Num >= max(r.chain.first, 1) && r.chain.ends[before.Num] < before.End {
		r.missingFrom(record.LogEnd{Num: before.Num, End: r.chain.ends[before.Num]})
	}
	gap := r.chain.gap
	switch {
	case gap == nil:
		return nil
	case gap.Num == before.Num && before.Durable > gap.End, gap.Num < before.Num && before.Durable > 0:
		return r.lostDurable(num)
	}
	// Nobody has read this log yet, up to its end.
	all := r.chainReader(num, name, f)
	for {
		if _, err := all.Next(); err != nil {
			if all.Durable() > 0 || r.Synced.Num == num && r.Synced.End > 0 {
				return r.lostDurable(num)
			}
			if errors.Is(err, io.EOF) || errors.Is(err, base.ErrCorruption) && all.Tail() {
				return nil
			}
			return fmt.Errorf("reading %s: %w", name, err)
		}
	}
}

// lostDurable is the error for the gap, behind which log num says that nothing may be
// missing.
func (r *Replay) lostDurable(num uint64) error {
	gap := r.chain.gap
	c := base.Corruptf("log record", "the log ends here, but log %06d was begun behind more, which had been synced", num)
	c.File, c.Offset = r.Format.FileName(base.FileLog, gap.Num), gap.End
	return c
}

// dropChained drops a log behind a gap, after checkBefore.
func (r *Replay) dropChained(num uint64, name, why string) error {
	f, err := r.FS.Open(filepath.Join(r.Dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	reader := r.chainReader(num, name, f)
	if _, err := reader.Next(); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, base.ErrCorruption) {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if err := r.checkBefore(reader, num, name, f); err != nil {
		return err
	}
	return r.dropWhole(num, name, why)
}

// missing is the error for a log that is not there, although the manifest knows that it
// was synced.
func (r *Replay) missing(num uint64) error {
	c := base.Corruptf("log record", "the log is missing")
	c.File = r.Format.FileName(base.FileLog, num)
	return c
}
