// Package wal is the write-ahead log of one database: the log that is written,
// the next one that stands ready, full ones, and the replay of logs at Open.
package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Options is what a Set needs of its database. All fields are required, in the native
// format.
type Options struct {
	FS     vfs.FS
	Dir    string
	Format base.Format // of the directory
	// Preallocate is how many bytes a log allocates ahead of its end, 0 for none.
	Preallocate int64
	// NewFileNum returns the number of the next log.
	NewFileNum func() uint64
	// Fail makes the database read-only with err as the cause, and returns the
	// error that later writes get.
	Fail func(err error) error
	// Panicked is Fail for a recovered panic.
	Panicked func(r any) error

	// Rename runs rename, which gives the log of this name another one, unless the file
	// has to stay; Delete deletes a log some time. Native only: the chained framing
	// tells what a file holds of another log.
	Rename func(name string, rename func() error) error
	Delete func(name string)

	// Retention keeps obsolete logs; the zero value keeps none.
	Retention Retention
	// LargeValue is the length in bytes from which on the places of values are noted, see Places;
	// 0: none are. Native only.
	LargeValue int64
	// Release says that only references of tables need a log, see manifest.Set.ReleaseLog: whether
	// there are any, and whether there were. Native only; it must not wait.
	Release func(num uint64) (needed, used bool)

	// Obsoleted, if not nil, takes the oldest kept log when others became obsolete, or must be
	// deleted. It must not wait.
	Obsoleted func(num uint64)
}

// Set is the logs of an open database.
//
// A new log's first record is a marker: an empty batch that carries the sequence number with which
// the log begins. In LevelDB's framing recovery compares it with the end of the log before, and so
// sees when a power cut took that log's tail; in the native one the log's first chunk says where
// the log before ended. Writes therefore go on at once after a rotation: the new log may reach the
// disk before the old one, but recovery then does not replay it. Nothing in it was acknowledged as
// synced, because Sync waits for the older logs first.
//
// If a log was ever synced, rotation syncs it in the background: its writers
// will probably sync again. Otherwise it stays unsynced, because its memtable
// may reach a table first, and is closed then.
//
// In the native format an obsolete log becomes the next one: it is renamed, and written from its
// beginning. Its entries are in tables by then, and the MANIFEST says so. So a crash at any point
// leaves a log that is obsolete, under its old name, or one that was not begun, under its new one,
// until the first chunk under the new name is written.
//
// Rotate, Append, Sync and Close are for one goroutine at a time, the commit
// leader.
type Set struct {
	opts Options

	// Guarded by the caller.
	cur    *record.Writer
	num    atomic.Uint64 // of cur
	synced bool          // Sync was called since the rotation
	behind bool          // batches were appended since the last Sync
	torn   bool          // cur ends with the rest of a failed append, see cut
	next   base.SeqNum   // the number that follows what the log has
	// installed is what Installed has got and the log does not tell yet; 0: nothing.
	installed base.SeqNum
	parts     [][]byte
	head      [batchrepr.HeaderLen]byte
	places    []place // of the large values in cur

	broken atomic.Pointer[error] // why a log failed for good

	fullMu       sync.Mutex // a leaf
	older        []*fullLog // being synced in the background, oldest first
	full         []*fullLog // full logs that are not obsolete, in the order of their numbers
	unsyncedFull []*fullLog // oldest first
	reusable     uint64     // an obsolete log to reuse, 0: none
	durable      record.LogEnd
	retained     []keptLog   // obsolete logs that are kept, in the order of their numbers
	holds        int         // Holds that were not released: everything stays in retained
	expiry       *time.Timer // of the oldest of retained; nil: it has none
	closing      bool        // no timer is set any more

	spareMu sync.Mutex // guards spare; held while a log is made, so that numbers ascend
	spare   *newLog

	bytes atomic.Int64
	kept  atomic.Int64  // bytes of full
	cuts  atomic.Uint64 // see Cuts
	syncs hist.Histogram
}

// newLog is a log with a durable name and no record.
type newLog struct {
	w      *record.Writer
	num    uint64
	former int64 // bytes that the file had as another log
}

// fullLog is a log that was rotated away.
type fullLog struct {
	w     *record.Writer
	num   uint64
	last  base.SeqNum // before the next log
	bytes int64
	ended time.Time // when it was rotated away
	// places are those of the large values in it.
	places []place
	done   chan struct{} // closed when the writer is, after the background sync if there is one

	// Valid after done.
	err    error // of the sync
	closed error // of closing
	synced bool  // it was synced before it was closed
}

// isClosed reports whether nothing is done to the log's file any more.
func (l *fullLog) isClosed() bool {
	select {
	case <-l.done:
		return l.err == nil && l.closed == nil
	default:
		return false
	}
}

// New returns a Set without a log; Rotate makes the first one.
func New(o Options) *Set {
	s := &Set{opts: o}
	s.opts.Fail = func(err error) error {
		err = o.Fail(err)
		s.broken.CompareAndSwap(nil, &err)
		return err
	}
	return s
}

// Num is the number of the log that is written, 0 before the first Rotate.
func (s *Set) Num() uint64 { return s.num.Load() }

// Bytes is how many bytes of batches were appended.
func (s *Set) Bytes() int64 { return s.bytes.Load() }

// Size is how many bytes the current log has. Commit leader only.
func (s *Set) Size() int64 { return s.cur.Size() }

// Kept is how many bytes the logs have that are not obsolete, the current one
// included. Commit leader only.
func (s *Set) Kept() int64 { return s.kept.Load() + s.cur.Size() }

// Part is the beginning of a log, whole records.
type Part struct {
	Num  uint64
	Size int64 // bytes
}

// Parts lists the logs that are not obsolete, and the obsolete ones that are kept, oldest first,
// with their present lengths. Commit leader only.
func (s *Set) Parts() (parts []Part) {
	s.fullMu.Lock()
	for i := range s.retained {
		if l := s.retained[i].log; l != nil {
			parts = append(parts, Part{l.num, l.bytes})
		}
	}
	for _, l := range s.full {
		parts = append(parts, Part{l.num, l.bytes})
	}
	s.fullMu.Unlock()
	if s.cur != nil {
		parts = append(parts, Part{s.Num(), s.cur.Size()})
	}
	return parts
}

// Syncs tells how long the syncs of the current log took.
func (s *Set) Syncs() *hist.Histogram { return &s.syncs }

func (s *Set) path(num uint64) string {
	return filepath.Join(s.opts.Dir, s.opts.Format.FileName(base.FileLog, num))
}

// Create makes the log for the first Rotate, and returns its number. The caller makes its
// directory entry durable.
func (s *Set) Create() (num uint64, err error) {
	s.spareMu.Lock()
	defer s.spareMu.Unlock()
	if s.spare, err = s.createFile(); err != nil {
		return 0, s.failUnlessShort(fmt.Errorf("creating log: %w", err))
	}
	return s.spare.num, nil
}

// create makes a log whose directory entry is durable. If it fails, the file is removed
// again.
//
// REQUIRES: spareMu held.
func (s *Set) create() (*newLog, error) {
	next, err := s.createFile()
	if err != nil {
		return nil, fmt.Errorf("creating log: %w", err)
	}
	if err := s.opts.FS.SyncDir(s.opts.Dir); err != nil {
		s.discard(next)
		err = fmt.Errorf("creating log %06d: %w", next.num, err)
		if !base.IsShortage(err) {
			return nil, s.opts.Fail(err) // a failed sync is never tried again
		}
		return nil, err
	}
	return next, nil
}

// maxTaken is how many names of new logs may be taken by files of other programs.
const maxTaken = 100

// createFile makes the file of a log under the next free number, out of an obsolete log
// if there is one.
func (s *Set) createFile() (*newLog, error) {
	var err error
	for range maxTaken {
		num := s.opts.NewFileNum()
		if next := s.reuse(num); next != nil {
			return next, nil
		}
		var l vfs.Log
		l, err = s.opts.FS.CreateLog(s.path(num), max(s.opts.Preallocate, 0))
		if err == nil {
			return &newLog{w: record.NewWriter(l), num: num}, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			_ = s.opts.FS.Remove(s.path(num)) // usually there is nothing
			return nil, err
		}
	}
	return nil, err
}

// reuse makes an obsolete log the log num. It returns nil if there is none, or if that
// fails: then the file is deleted.
func (s *Set) reuse(num uint64) *newLog {
	old := s.takeReusable()
	if old == 0 {
		return nil
	}
	var l vfs.Log
	var former int64
	name := s.opts.Format.FileName(base.FileLog, old)
	err := s.opts.Rename(name, func() (err error) {
		l, former, err = vfs.ReuseLog(s.opts.FS, s.path(old), s.path(num),
			max(s.opts.Preallocate, 0))
		return err
	})
	if err != nil {
		if !errors.Is(err, fs.ErrExist) {
			_ = s.opts.FS.Remove(s.path(num)) // usually there is nothing
		}
		s.opts.Delete(name)
		return nil
	}
	return &newLog{w: record.NewWriter(l), num: num, former: former}
}

// discard removes a log that has no entries. If that fails, recovery finds a
// log that is empty or torn in its marker.
func (s *Set) discard(l *newLog) {
	_ = l.w.Close()
	_ = s.opts.FS.Remove(s.path(l.num))
}

// Prepare makes the log for the next Rotate. Any goroutine.
func (s *Set) Prepare() {
	s.spareMu.Lock()
	defer s.spareMu.Unlock()
	if s.spare == nil {
		s.spare, _ = s.create() // it reports a failed sync; after other failures Rotate tries again
	}
}

// Trim gives back the disk space of logs that are kept to be reused: the obsolete one is
// deleted, and an empty file takes the place of a spare log that was one. Any goroutine,
// before Close.
func (s *Set) Trim() {
	s.spareMu.Lock()
	defer s.spareMu.Unlock()
	s.deleteReusable()
	if p := s.spare; p != nil && p.former > 0 {
		s.spare = nil
		s.discard(p)
		s.spare, _ = s.create() // it reports a failed sync; after other failures Rotate tries again
	}
}

// takeReusable returns the obsolete log to reuse, and forgets it; 0: none.
func (s *Set) takeReusable() (num uint64) {
	s.fullMu.Lock()
	defer s.fullMu.Unlock()
	num, s.reusable = s.reusable, 0
	return num
}

// deleteReusable deletes the obsolete log that was to be reused.
func (s *Set) deleteReusable() {
	if old := s.takeReusable(); old != 0 {
		s.opts.Delete(s.opts.Format.FileName(base.FileLog, old))
	}
}

// take returns the spare log, or makes one.
func (s *Set) take() (*newLog, error) {
	s.spareMu.Lock()
	defer s.spareMu.Unlock()
	if p := s.spare; p != nil {
		s.spare = nil
		return p, nil
	}
	return s.create()
}

// Rotate starts the next log, which begins after sequence number last, and returns
// its number. After a shortage the current log stays, and Rotate may be tried again; any
// other failure makes the database read-only.
func (s *Set) Rotate(last base.SeqNum) (num uint64, err error) {
	if err := s.cutTorn(); err != nil {
		return 0, err
	}
	if s.cur != nil && (s.next <= last || s.installed != 0) {
		err := s.SkipTo(last + 1)
		// Without the marker a replay in LevelDB's format would take the next log for one behind a
		// hole. In both formats no log follows a torn one.
		needed := s.next <= last && s.opts.Format != base.Native || s.torn
		if err != nil && (needed || !base.IsShortage(err)) {
			return 0, err
		}
	}
	next, err := s.take()
	if err == nil {
		err = s.mark(next, last+1)
	}
	if err != nil {
		return 0, s.failUnlessShort(err)
	}
	if s.cur != nil {
		s.retire(last)
	}
	s.cur, s.next = next.w, last+1
	s.num.Store(next.num)
	return next.num, nil
}

// RotateWith starts the first log with batches that have their sequence numbers already. There are
// some. Those that follow each other without a gap become one record, which is one append. Durable
// says that they are durable, for the MANIFEST: SyncFirst makes them so before it is in force. last
// is the sequence number before the next batch.
func (s *Set) RotateWith(batches [][]byte, last base.SeqNum) (num uint64, err error) {
	if num, err = s.Rotate(batchrepr.Seq(batches[0]) - 1); err != nil {
		return 0, err
	}
	for len(batches) > 0 {
		n, next := 0, batchrepr.Seq(batches[0])
		for n < len(batches) && batchrepr.Seq(batches[n]) == next {
			next += base.SeqNum(batchrepr.Count(batches[n]))
			n++
		}
		if err := s.Append(batches[:n]); err != nil {
			return 0, err
		}
		batches = batches[n:]
	}
	if s.next <= last && s.opts.Format != base.Native {
		s.installed = last // see Tail.Settled
	}
	if err := s.SkipTo(last + 1); err != nil {
		return 0, err
	}
	s.setDurable(s.cur.Size())
	return num, nil
}

// SyncFirst makes the batches of RotateWith durable. No other log is needed after that.
func (s *Set) SyncFirst() error { return s.syncCurrent() }

// mark writes the marker of a log that begins with sequence number first.
func (s *Set) mark(l *newLog, first base.SeqNum) error {
	err := s.begin(l)
	if err == nil {
		err = l.w.Append(s.marker(first))
	}
	if err != nil {
		s.discard(l)
		return fmt.Errorf("writing log %06d: %w", l.num, err)
	}
	return nil
}

// marker is an empty batch, which says that the next batch has sequence number first. Behind the
// largest sequence number, which a directory of a stranger may have, there is no next batch.
func (s *Set) marker(first base.SeqNum) []byte {
	b := batchrepr.Init(s.head[:0])
	batchrepr.SetSeq(b, min(first, base.MaxSeqNum))
	return b
}

// begin writes what a chained log begins with.
func (s *Set) begin(l *newLog) error {
	if s.opts.Format != base.Native {
		return nil
	}
	b := record.Begin{Num: l.num, Former: l.former}
	if s.cur != nil {
		b.Before = record.Predecessor{Num: s.Num(), End: s.cur.Size(), Durable: s.cur.Durable()}
	}
	return l.w.Begin(b)
}

// retire puts the current log among the full ones. last is the last sequence number before the next
// log.
func (s *Set) retire(last base.SeqNum) {
	old := &fullLog{w: s.cur, num: s.Num(), last: last, bytes: s.cur.Size(), ended: time.Now(),
		places: s.places, done: make(chan struct{})}
	s.places = nil
	s.fullMu.Lock()
	s.full = append(s.full, old)
	s.kept.Add(old.bytes)
	if s.synced || s.Retains() {
		s.synced = false
		s.syncInBackground(old)
	} else {
		s.unsyncedFull = append(s.unsyncedFull, old)
	}
	s.fullMu.Unlock()
}

// syncInBackground syncs and closes a full log.
//
// REQUIRES: fullMu held.
func (s *Set) syncInBackground(old *fullLog) {
	s.older = append(s.older, old)
	go func() {
		defer close(old.done)
		returned := false
		defer func() {
			r := recover()
			if r == nil && !returned {
				r = base.ErrGoexit
			}
			if r != nil {
				old.err = s.opts.Panicked(r)
			}
		}()
		if old.err = old.w.Sync(); old.err != nil {
			_ = s.opts.Fail(fmt.Errorf("syncing log %06d: %w", old.num, old.err))
		}
		old.synced = old.err == nil
		old.closed = old.w.Close()
		returned = true
	}()
}

// SyncBefore makes the full logs before num durable, except obsolete ones. If a batch
// has entries in several trees, the tables of one tree must not survive a power cut
// that takes the log with the entries of the others. Any goroutine.
func (s *Set) SyncBefore(num uint64) error {
	for _, o := range s.syncFull(num, num) {
		<-o.done
		if o.err != nil {
			return s.fail("syncing", o.err)
		}
	}
	s.fullMu.Lock()
	defer s.fullMu.Unlock()
	for _, o := range slices.Backward(s.full) {
		if o.num < num {
			s.raiseDurable(record.LogEnd{Num: o.num, End: o.bytes})
			break
		}
	}
	return nil
}

// BeginSync begins to make the full logs before num durable. Any goroutine.
func (s *Set) BeginSync(num uint64) { s.syncFull(num, 0) }

// SyncFull makes full log num durable and closes it. If ok, its file does not change any more,
// until it is deleted or becomes another log; otherwise it is obsolete, or may not be durable. Any
// goroutine.
func (s *Set) SyncFull(num uint64) (ok bool) {
	s.syncFull(num+1, 0)
	s.fullMu.Lock()
	i := slices.IndexFunc(s.full, func(l *fullLog) bool { return l.num == num })
	var l *fullLog
	if i >= 0 {
		l = s.full[i]
	}
	s.fullMu.Unlock()
	if l == nil {
		return false
	}
	<-l.done
	return l.synced && l.closed == nil
}

// syncFull begins to sync the full logs before begin, and returns those before num
// whose sync has not ended or has failed.
func (s *Set) syncFull(begin, num uint64) (logs []*fullLog) {
	s.fullMu.Lock()
	defer s.fullMu.Unlock()
	s.older = slices.DeleteFunc(s.older, func(o *fullLog) bool {
		select {
		case <-o.done:
			return o.err == nil
		default:
			return false
		}
	})
	for _, o := range s.takeUnsyncedLocked(begin) {
		s.syncInBackground(o)
	}
	for _, o := range s.older {
		if o.num < num {
			logs = append(logs, o)
		}
	}
	return logs
}

// takeUnsyncedLocked removes the logs before num from the unsynced full ones.
//
// REQUIRES: fullMu held.
func (s *Set) takeUnsyncedLocked(num uint64) (logs []*fullLog) {
	s.unsyncedFull = slices.DeleteFunc(s.unsyncedFull, func(o *fullLog) bool {
		if o.num < num {
			logs = append(logs, o)
		}
		return o.num < num
	})
	return logs
}

// LastBefore is the last sequence number of the full logs before num, or 0. Any goroutine.
func (s *Set) LastBefore(num uint64) (last base.SeqNum) {
	s.fullMu.Lock()
	defer s.fullMu.Unlock()
	for _, l := range s.full {
		if l.num < num {
			last = l.last
		}
	}
	return last
}

// TakeObsolete closes the full logs before oldest, whose entries are in tables now, as the MANIFEST
// says, and returns the numbers of the obsolete logs that Retention does not keep, each once: the
// files may be deleted. One of them may be kept, to become the next log. Any goroutine.
func (s *Set) TakeObsolete(oldest uint64) (nums []uint64) {
	s.closeBefore(oldest)
	s.fullMu.Lock()
	n := 0
	for ; n < len(s.full) && s.full[n].num < oldest; n++ {
		l := s.full[n]
		s.kept.Add(-l.bytes)
		l.places = nil // the memtables with the values are in tables
		s.retained = append(s.retained, keptLog{num: l.num, bytes: l.bytes, ended: l.ended, log: l})
	}
	s.full = slices.Delete(s.full, 0, n)
	nums, first := s.expireLocked()
	s.fullMu.Unlock()
	s.obsoleted(first)
	return nums
}

// closeBefore closes the full logs before num whose sync has not begun.
func (s *Set) closeBefore(num uint64) {
	s.fullMu.Lock()
	logs := s.takeUnsyncedLocked(num)
	s.fullMu.Unlock()
	for _, o := range logs {
		func() {
			defer close(o.done) // also when the file system panics: SyncFull may wait
			o.closed = o.w.Close()
		}()
	}
}

// Append writes one group as one record, so that recovery finds all of it or
// nothing. When that fails for a shortage, the log is cut back to its last whole
// record, and the next Append may succeed; any other failure, also of the cut,
// makes the database read-only.
//
// Where the group does not begin with the number behind the record before, a marker comes first,
// see SkipTo.
func (s *Set) Append(group [][]byte) error {
	if err := s.cutTorn(); err != nil {
		return err
	}
	first := batchrepr.Seq(group[0])
	if first > s.next || s.installed != 0 {
		if err := s.SkipTo(first); err != nil {
			return err
		}
	}
	begin := s.cur.Size()
	if len(group) == 1 {
		if err := s.cur.Append(group[0]); err != nil {
			return s.failAppend(err)
		}
		s.next = first + base.SeqNum(batchrepr.Count(group[0]))
		s.appended(group, begin, len(group[0]))
		return nil
	}
	copy(s.head[:], group[0][:batchrepr.HeaderLen])
	s.parts = append(s.parts[:0], s.head[:])
	n, size := uint32(0), 0
	for _, b := range group {
		n += batchrepr.Count(b)
		size += len(b)
		s.parts = append(s.parts, b[batchrepr.HeaderLen:])
	}
	batchrepr.SetCount(s.head[:], n)
	err := s.cur.AppendParts(s.parts...)
	if err != nil {
		return s.failAppend(err)
	}
	s.next = first + base.SeqNum(n)
	s.appended(group, begin, size)
	return nil
}

// appended counts a group of so many bytes, which is a record that begins behind begin in the
// current log.
func (s *Set) appended(group [][]byte, begin int64, size int) {
	s.behind = true
	s.bytes.Add(int64(size))
	if s.opts.LargeValue > 0 && int64(size) > s.opts.LargeValue {
		s.notePlaces(group, begin)
	}
}

// Sync makes everything appended so far durable, the older logs first.
func (s *Set) Sync() error {
	s.synced = true
	if err := s.SyncBefore(math.MaxUint64); err != nil {
		return err
	}
	start := time.Now()
	err := s.syncCurrent()
	s.syncs.Record(int64(time.Since(start)))
	return err
}

// syncCurrent syncs the current log, the older ones being durable.
func (s *Set) syncCurrent() error {
	if err := s.cur.Sync(); err != nil {
		return s.fail("syncing", err)
	}
	s.behind = false
	s.setDurable(s.cur.Durable())
	return nil
}

// setDurable notes that the current log is durable up to end.
func (s *Set) setDurable(end int64) {
	s.fullMu.Lock()
	defer s.fullMu.Unlock()
	s.raiseDurable(record.LogEnd{Num: s.Num(), End: end})
}

// raiseDurable notes that the logs are durable up to end.
//
// REQUIRES: fullMu held.
func (s *Set) raiseDurable(end record.LogEnd) {
	if d := s.durable; d.Num < end.Num || d.Num == end.Num && d.End < end.End {
		s.durable = end
	}
}

// Durable is up to where a sync has made the logs durable, as far as it is known. Any
// goroutine.
func (s *Set) Durable() record.LogEnd {
	s.fullMu.Lock()
	defer s.fullMu.Unlock()
	return s.durable
}

// DurableOf is how many bytes of a log are known to be durable. Any goroutine.
func (s *Set) DurableOf(num uint64) int64 {
	s.fullMu.Lock()
	defer s.fullMu.Unlock()
	if num >= s.durable.Num {
		if num == s.durable.Num {
			return s.durable.End
		}
		return 0
	}
	for _, l := range s.full {
		if l.num == num {
			return l.bytes
		}
	}
	for i := range s.retained {
		if l := &s.retained[i]; l.num == num && l.log != nil {
			return l.bytes
		}
	}
	return 0
}

// fail makes the database read-only if err is not nil.
func (s *Set) fail(doing string, err error) error {
	if err == nil {
		return nil
	}
	return s.opts.Fail(fmt.Errorf("%s log %06d: %w", doing, s.Num(), err))
}

// Close closes the log, synced if that is asked for, waits for the older ones, and removes the
// spare. There must be no commit any more. After a log failed for good none is synced again: Close
// returns that failure if batches were appended since the last sync.
func (s *Set) Close(sync bool) error {
	s.stopExpiry()
	var err error
	if s.cur != nil {
		switch cause := s.broken.Load(); {
		case sync && cause == nil:
			err = s.Sync()
		case sync && s.behind:
			err = *cause
		}
		s.cur.Close()
	}
	for _, o := range s.syncFull(0, math.MaxUint64) {
		<-o.done
	}
	s.closeBefore(math.MaxUint64) // without a sync
	s.deleteReusable()
	if p := s.spare; p != nil {
		s.spare = nil
		p.w.Close()
		if e := s.opts.FS.Remove(s.path(p.num)); err == nil {
			err = e
		}
	}
	return err
}
