package wal

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/directio"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Dropped is a part of a log that was not replayed.
type Dropped struct {
	File   string
	Offset int64
	Bytes  int64
	Reason string
}

// Report says what a Replay found.
type Report struct {
	Logs      int    // logs replayed
	Records   uint64 // batches in them
	Entries   uint64
	Dropped   []Dropped
	SetAside  []string // files copied to *.lost
	TornBytes int64
}

// Replay reads logs back.
type Replay struct {
	FS     vfs.FS
	Dir    string
	Format base.Format // of the directory
	// Apply takes a batch that is not empty, of log num.
	Apply func(num uint64, batch []byte) error
	// Last is the largest sequence number of the manifest before Run, and of the
	// manifest and the logs after it.
	Last base.SeqNum
	// Keyspaces tells which keyspaces batches may name; nil: none.
	Keyspaces func(base.KeyspaceID) bool
	// Synced is what the manifest knows to have been durable of a log. Native only.
	Synced record.LogEnd
	// Report is filled in by Run and SetAside.
	Report Report
	// Kept has all batches, if they take no more than Keep bytes; Run adds to it.
	Keep int
	Kept [][]byte
	// End is where the last log with a record or a first chunk ends, without the part that was
	// dropped.
	End Place
	// Ends has, of the logs that Run read without damage, the offset behind the last record. What
	// follows is torn, or zeros that were allocated ahead, and may be long as a hole.
	Ends map[uint64]int64
	// Size is how many bytes the file has that Apply gets a batch of, and At is the offset of the
	// batch's record in it.
	Size, At int64

	name     string // of that file
	durable  durability
	obsolete []uint64    // logs that Needed left out
	strange  []uint64    // needed by their numbers, but not regular files
	replayed base.SeqNum // the last of the logs so far; valid if known
	known    bool        // a batch or a marker was read
	inTables base.SeqNum // Last before Run
	marker   base.SeqNum // of the record before in the log, if that is a marker; else 0
	lost     []string    // logs to be set aside
	torn     bool        // a log so far has lost its end, or is missing
	chain    chain       // of native logs
}

// Needed returns the numbers, ascending, of the logs that a manifest with these log
// numbers needs. Only regular files count, and only names that knows takes for a log's. What is not
// a regular file and has one of the two numbers is damage: the database wrote a log of that name.
// A larger number is a log's if the next log names it, see checkBefore; else it may be a table's.
func (r *Replay) Needed(knows func(name string) (base.FileType, uint64), logNum,
	prevLogNum uint64) ([]uint64, error) {
	names, err := r.FS.List(r.Dir)
	if err != nil {
		return nil, err
	}
	var nums []uint64
	for _, name := range names {
		if t, _ := r.Format.ParseFileName(name); t != base.FileLog {
			continue
		}
		t, num := knows(name)
		if t != base.FileLog {
			continue
		}
		info, err := r.FS.Stat(filepath.Join(r.Dir, name))
		if err != nil {
			return nil, err
		}
		obsolete := num < logNum && (num == 0 || num != prevLogNum)
		switch regular := info.Mode().IsRegular(); {
		case !regular && obsolete:
		case !regular && num != 0 && (num == logNum || num == prevLogNum):
			return nil, notRegular(name)
		case !regular:
			r.strange = append(r.strange, num)
		case obsolete:
			r.obsolete = append(r.obsolete, num)
		default:
			nums = append(nums, num)
		}
	}
	slices.Sort(nums)
	return nums, nil
}

// notRegular is the error for a log whose name is now that of a link or a directory.
func notRegular(name string) error {
	return base.Corruptf("log record", "the log is not a regular file").At(name, 0, 0)
}

// Run replays the logs nums, the first of which should be first unless that is
// 0. It changes nothing on disk. A failure to read is an error; damage ends the
// replay there, and what follows is reported and to be set aside.
func (r *Replay) Run(nums []uint64, first uint64) error {
	r.chain = chain{first: first, nums: nums, ends: map[uint64]int64{}}
	r.inTables, r.Ends = r.Last, map[uint64]int64{}
	if num := r.Synced.Num; num != 0 && num >= first && !slices.Contains(nums, num) {
		return r.missing(num)
	}
	if err := r.checkObsolete(); err != nil {
		return err
	}
	if first != 0 && !slices.Contains(nums, first) {
		r.missingFrom(record.LogEnd{Num: first})
		r.Report.Dropped = append(r.Report.Dropped,
			Dropped{File: r.Format.FileName(base.FileLog, first), Reason: "the log is missing"})
		r.torn = true
	}
	for _, num := range nums {
		name := r.Format.FileName(base.FileLog, num)
		if len(r.lost) > 0 {
			drop := r.dropWhole
			if r.Format == base.Native {
				drop = r.dropChained
			}
			if err := drop(num, name, "stands behind a damaged log"); err != nil {
				return err
			}
			continue
		}
		if err := r.log(num, name); err != nil {
			return err
		}
	}
	return nil
}

// log replays one log.
func (r *Replay) log(num uint64, name string) error {
	f, err := r.FS.Open(filepath.Join(r.Dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	r.Report.Logs++
	r.Size, r.name, r.durable = f.Size(), name, unknown
	if r.Format == base.Native {
		return r.chainedLog(num, name, f)
	}
	reader := record.NewReader(f, f.Size(), name)
	var zeros error // zeros stand before the next record
	for first := true; ; first = false {
		batch, err := reader.Next()
		switch {
		case errors.Is(err, io.EOF):
			r.readTo(num, reader.End())
			r.Ends[num] = reader.End()
			return nil
		case errors.Is(err, base.ErrCorruption) && r.known && reader.Zeros():
			if zeros = err; reader.Resume() {
				continue
			}
			return err
		case errors.Is(err, base.ErrCorruption):
			torn := reader.Tail()
			r.readTo(num, reader.End())
			r.drop(name, damageAt(err), f.Size(), err, torn)
			return nil
		case err != nil:
			return fmt.Errorf("reading %s: %w", name, err)
		}
		if zeros != nil && !r.follows(batch) {
			r.readTo(num, damageAt(zeros))
			r.drop(name, damageAt(zeros), f.Size(), zeros, false)
			return nil
		}
		zeros = nil
		if first && r.carried(batch) {
			return nil
		}
		if first && r.behindHole(batch) {
			r.dropBehindHole(name, f.Size(), batch)
			return nil
		}
		if err := r.valid(batch); err != nil {
			r.readTo(num, reader.Offset())
			r.drop(name, reader.Offset(), f.Size(), err, false)
			return nil
		}
		if err := r.apply(num, batch); err != nil {
			return err
		}
	}
}

// readTo sets End, unless nothing of the log was read.
func (r *Replay) readTo(num uint64, end int64) {
	if end > 0 {
		r.End = Place{num, end}
	}
}

// valid reports what is wrong with a batch that was read.
func (r *Replay) valid(batch []byte) error {
	err := batchrepr.Validate(batch, r.Keyspaces)
	if err == nil && batchrepr.Count(batch) > 0 && batchrepr.Seq(batch) <= r.replayed {
		err = base.Corruptf("wal record", "sequence number %d follows %d", batchrepr.Seq(batch),
			r.replayed)
	}
	if r.Format != base.Native || err != nil {
		return err
	}
	before := r.marker
	if r.marker = 0; isMarker(batch) {
		r.marker = batchrepr.Seq(batch)
	}
	// Set.Installed writes two equal markers behind a durable edit of the MANIFEST. Each edit has
	// the last sequence number of its moment, so that a MANIFEST that ends before this one has a
	// smaller number, and one that has it, or later ones, does not.
	if r.marker != 0 && r.marker == before && r.inTables < r.marker-1 {
		err = base.Corruptf("wal record", "the MANIFEST had the tables of an ingest with sequence "+
			"number %d, but ends at number %d: its last edits are missing", r.marker-1, r.inTables)
	}
	return err
}

// dropBehindHole drops a whole log, which begins with batch.
func (r *Replay) dropBehindHole(name string, size int64, batch []byte) {
	r.drop(name, 0, size,
		fmt.Errorf("a log before it lost its end: the last sequence number replayed is %d, this "+
			"log begins with %d", r.replayed, batchrepr.Seq(batch)), false)
}

// damageAt is where in its file the damage begins.
func damageAt(err error) int64 {
	var c *base.Corruption
	if errors.As(err, &c) {
		return max(c.Offset, 0)
	}
	return 0
}

// follows reports whether this batch continues the replayed ones without a gap.
func (r *Replay) follows(batch []byte) bool {
	return batchrepr.Validate(batch, r.Keyspaces) == nil && batchrepr.Seq(batch) == r.replayed+1
}

// isMarker reports whether a batch is a marker: empty, with the sequence number that the next batch
// has, or a later one.
func isMarker(batch []byte) bool {
	return len(batch) == batchrepr.HeaderLen && batchrepr.Count(batch) == 0
}

// carried reports whether a log that begins with this batch is one into which a recovery
// carried the entries of the logs before it, and that no MANIFEST made the first one
// needed: the recovery was cut off, and nothing else was written into the log.
func (r *Replay) carried(first []byte) bool {
	return r.known && isMarker(first) && batchrepr.Seq(first) <= r.replayed
}

// behindHole reports whether a log in LevelDB's framing that begins with this batch was written
// after entries that are gone. All sequence numbers are in logs there; for chained logs see chain.
//
// Once an entry was replayed, the log must begin with the next sequence number: a log
// before it that was cut off between two records looks complete. The manifest's
// sequence number does not help, because LevelDB's may be from the middle of the logs.
// Where the first log has to begin is known only if it has a marker, which must follow
// the entries in tables. Without one a gap is allowed there, because other engines
// leave gaps.
func (r *Replay) behindHole(first []byte) bool {
	switch {
	case len(first) < batchrepr.HeaderLen:
		return false // not a batch: damage
	case r.known:
		return batchrepr.Seq(first) > r.replayed+1
	case isMarker(first):
		return batchrepr.Seq(first) > r.Last+1
	}
	return r.torn
}

// drop reports what is not replayed, from offset to the file's end. A torn tail is
// dropped for good; otherwise the file is set aside, and the logs after it too.
func (r *Replay) drop(name string, offset, size int64, why error, torn bool) {
	n := size - offset
	r.Report.Dropped = append(r.Report.Dropped, Dropped{File: name, Offset: offset, Bytes: n,
		Reason: why.Error()})
	if torn {
		r.Report.TornBytes += n
		r.torn = true
	} else if !slices.Contains(r.lost, name) {
		r.lost = append(r.lost, name)
	}
}

// dropWhole drops a log unread.
func (r *Replay) dropWhole(_ uint64, name, why string) error {
	info, err := r.FS.Stat(filepath.Join(r.Dir, name))
	if err != nil {
		return err
	}
	r.lost = append(r.lost, name)
	r.drop(name, 0, info.Size(), errors.New(why), false)
	return nil
}

// apply hands a batch on.
func (r *Replay) apply(num uint64, batch []byte) error {
	n := batchrepr.Count(batch)
	r.Report.Records++
	r.Report.Entries += uint64(n)
	if n == 0 {
		if isMarker(batch) {
			r.replayed, r.known = max(r.replayed, batchrepr.Seq(batch)-1), true
			// what was taken outside of the logs is not given out again
			r.Last = max(r.Last, r.replayed)
		}
		return nil
	}
	if err := r.Apply(num, batch); err != nil {
		return err
	}
	if r.Keep -= len(batch); r.Keep >= 0 {
		r.Kept = append(r.Kept, slices.Clone(batch))
	} else {
		r.Keep, r.Kept = -1, nil
	}
	r.replayed, r.known = batchrepr.Seq(batch)+base.SeqNum(n)-1, true
	r.Last = max(r.Last, r.replayed)
	return nil
}

// durability is what Durable knows of a log.
type durability uint8

const (
	unknown durability = iota
	durable
	notDurable
)

// Durable makes the log durable that Apply gets a batch of, and reports whether it is: tables may
// refer to it then.
func (r *Replay) Durable() bool {
	if r.durable == unknown {
		r.durable = notDurable
		if directio.Durable(r.FS, filepath.Join(r.Dir, r.name)) {
			r.durable = durable
		}
	}
	return r.durable == durable
}

// SetAside copies damaged logs to *.lost before they become obsolete.
func (r *Replay) SetAside() error {
	for _, name := range r.lost {
		r.Report.SetAside = append(r.Report.SetAside, name+".lost")
		if err := r.copyFile(name, name+".lost"); err != nil {
			return fmt.Errorf("setting %s aside: %w", name, err)
		}
	}
	if len(r.lost) == 0 {
		return nil
	}
	return r.FS.SyncDir(r.Dir)
}

// copyFile copies a file of the directory and syncs the copy, but not its name. It
// replaces the copy of an interrupted recovery.
func (r *Replay) copyFile(from, to string) error {
	path := filepath.Join(r.Dir, to)
	if err := vfs.RemoveIfThere(r.FS, path); err != nil {
		return err
	}
	return vfs.Copy(r.FS, filepath.Join(r.Dir, from), r.FS, path, vfs.WholeFile,
		func([]byte) error { return nil })
}
