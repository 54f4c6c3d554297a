package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
)

// chain is what the replay of chained logs knows beyond single logs.
//
// Whether an entry is missing is judged by the chain alone, never by sequence numbers:
//
//  1. Within a log each chunk names the sum of the chunk before it, so that no record between two
//     others can be missing.
//  2. A log's first chunk names the log before it, and where that ended (Predecessor). All appends
//     and rotations are the commit leader's, one at a time, so that End is final. Nothing is
//     missing between two logs exactly if the older one was read to End.
//     A log has a durable name before its first chunk. So no power cut takes a log that another one
//     was begun behind: where it is missing it was deleted, as an edit of the MANIFEST says that is
//     damaged or missing, or by another program.
//  3. The first log that the MANIFEST needs has no older one to compare: entries of older logs are
//     in tables.
//  4. A log that names none before it was begun by an opening, whose MANIFEST needs no older log.
//     Where an older one is needed, that MANIFEST never was in force: the log holds copies of older
//     entries only (isCopy).
//
// Sequence numbers cannot tell. An ingest takes some that are in no log, and the last number of the
// MANIFEST grows with the flushes of all keyspaces, past a gap in the log of one. They have to
// ascend.
//
// Set.Sync syncs the older logs first. So if any of a log is durable, all logs before it are
// durable to their ends.
type chain struct {
	first uint64           // the first log that is needed
	nums  []uint64         // the logs that are there
	ends  map[uint64]int64 // where the records of each log end that was read
	gap   *record.LogEnd   // the first place behind which something is missing; nil: none
}

// chainedLog replays one log of the chained framing. It fails if something is missing, there or in
// the logs before it, that is known to be durable.
func (r *Replay) chainedLog(num uint64, name string, f vfs.ReadFile) error {
	reader := r.chainReader(num, name, f)
	r.marker = 0
	for first := true; ; first = false {
		batch, err := reader.Next()
		if first {
			if begun, err := r.checkBefore(reader, num, name, f); err != nil || begun &&
				r.passOver(reader, name, f.Size()) {
				return err
			}
		}
		if former := reader.Former(); former >= max(r.chain.first, 1) {
			// Only a log that is not needed becomes another one.
			return base.Corruptf("log record", "the file is log %06d, which is needed", former).At(
				name, 0, f.Size())
		}
		r.chain.ends[num] = reader.End()
		r.readTo(num, reader.End())
		switch {
		case errors.Is(err, io.EOF):
			r.Ends[num] = reader.End()
			return nil
		case errors.Is(err, base.ErrCorruption) && reader.Tail():
			r.drop(name, reader.End(), f.Size(), err, !reader.Follows())
			r.missingFrom(record.LogEnd{Num: num, End: reader.End()})
			return nil
		case err != nil:
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if err := r.valid(batch); err != nil {
			var c *base.Corruption
			if errors.As(err, &c) {
				c.File, c.Offset = name, reader.Offset()
			}
			return err
		}
		r.At = reader.Offset()
		if err := r.apply(num, batch); err != nil {
			return err
		}
	}
}

// checkObsolete fails if a log that is needed has the name of an obsolete one. The file of its own
// name, which was not begun then, looks like a spare log.
func (r *Replay) checkObsolete() error {
	if r.Format != base.Native {
		return nil
	}
	for _, num := range r.obsolete {
		b, begun, err := r.readBegin(num)
		if err != nil {
			return err
		}
		if !begun || b.Num < max(r.chain.first, num+1) {
			continue
		}
		switch own, begun, err := r.readBegin(b.Num); {
		case err != nil:
			return err
		case begun && own.Num == b.Num:
			continue
		}
		return base.Corruptf("log record", "the file is log %06d, which is needed", b.Num).At(
			r.Format.FileName(base.FileLog, num), 0, 0)
	}
	return nil
}

// readBegin reads the first chunk of a log, if it has one.
func (r *Replay) readBegin(num uint64) (b record.Begin, ok bool, err error) {
	f, err := r.FS.Open(filepath.Join(r.Dir, r.Format.FileName(base.FileLog, num)))
	if errors.Is(err, fs.ErrNotExist) {
		return b, false, nil
	}
	if err != nil {
		return b, false, err
	}
	defer f.Close()
	return record.ReadBegin(f)
}

// passOver reports whether a log that was begun is not replayed, after checkBefore. Behind a gap it
// is dropped: nothing in it was synced.
func (r *Replay) passOver(reader *record.ChainReader, name string, size int64) bool {
	begin, _ := reader.Begin()
	gap := r.chain.gap
	switch isCopy := begin.Before.Num == 0 && len(r.chain.ends) > 0; {
	case isCopy:
		return true
	case gap == nil:
		return false
	}
	r.drop(name, 0, size,
		fmt.Errorf("a log before it lost its end: %s ends at %d, this log was begun behind more",
			r.Format.FileName(base.FileLog, gap.Num), gap.End), false)
	return true
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

// checkBefore compares the end of the log before with the one in the first chunk of this log. It
// fails if missing records are known to be durable. begun reports whether the log has a first
// chunk.
func (r *Replay) checkBefore(reader *record.ChainReader, num uint64, name string,
	f vfs.ReadFile) (begun bool, err error) {
	begin, begun := reader.Begin()
	if !begun {
		return false, nil
	}
	before := begin.Before
	if slices.Contains(r.strange, before.Num) {
		return true, notRegular(r.Format.FileName(base.FileLog, before.Num))
	}
	if before.Num >= max(r.chain.first, 1) && !slices.Contains(r.chain.nums, before.Num) {
		return true, base.Corruptf("log record", "the log is missing, but log %06d was begun "+
			"behind it", num).At(r.Format.FileName(base.FileLog, before.Num), 0, 0)
	}
	if gap := r.chain.gap; gap != nil && gap.Num == before.Num && before.End <= gap.End {
		r.chain.gap = nil // the torn bytes are behind the last record
	}
	if before.Num >= max(r.chain.first, 1) && r.chain.ends[before.Num] < before.End {
		r.missingFrom(record.LogEnd{Num: before.Num, End: r.chain.ends[before.Num]})
	}
	gap := r.chain.gap
	switch {
	case gap == nil:
		return true, nil
	case gap.Num == before.Num && before.Durable > gap.End, gap.Num < before.Num &&
		before.Durable > 0:
		return true, r.lostDurable(num)
	}
	return true, r.checkUnsynced(num, name, f)
}

// checkUnsynced fails if any of a log behind a gap is known to be durable.
func (r *Replay) checkUnsynced(num uint64, name string, f vfs.ReadFile) error {
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

// lostDurable is the error for the gap. By log num, the missing records are durable.
func (r *Replay) lostDurable(num uint64) error {
	gap := r.chain.gap
	what := "ends here"
	if _, read := r.chain.ends[gap.Num]; !read {
		what = "is missing"
	}
	return base.Corruptf("log record", "the log %s, but log %06d was begun behind more, which had "+
		"been synced", what, num).At(r.Format.FileName(base.FileLog, gap.Num), gap.End, 0)
}

// dropChained drops a log behind a gap, after checkBefore.
func (r *Replay) dropChained(num uint64, name, why string) error {
	f, err := r.FS.Open(filepath.Join(r.Dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	reader := r.chainReader(num, name, f)
	if _, err := reader.Next(); err != nil && !errors.Is(err, io.EOF) &&
		!errors.Is(err, base.ErrCorruption) {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	if _, err := r.checkBefore(reader, num, name, f); err != nil {
		return err
	}
	return r.dropWhole(num, name, why)
}

// missing is the error for a log that is not there, although the manifest knows that it
// was synced.
func (r *Replay) missing(num uint64) error {
	return base.Corruptf("log record", "the log is missing").At(
		r.Format.FileName(base.FileLog, num), 0, 0)
}
