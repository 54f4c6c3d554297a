package work

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree"
)

// CreateKeyspace makes a keyspace durable and returns its ID and its version, with
// a reference for the caller.
func (s *Scheduler) CreateKeyspace(name string,
	c *base.Comparer) (base.KeyspaceID, *manifest.Version, error) {
	s.install.Lock()
	defer s.install.Unlock()
	id, version, err := s.opts.Manifest.CreateKeyspace(name, c)
	if err != nil && !errors.Is(err, base.ErrExists) && !errors.Is(err, base.ErrInvalidArgument) {
		err = s.manifestError(err)
	}
	return id, version, err
}

// DropKeyspace makes durable that the keyspace of a tree is gone. Nothing is started
// for it any more; what runs ends without effect. Its memtables need no log from
// now on. When it fails the keyspace must not be written before DropKeyspace is
// called again.
func (s *Scheduler) DropKeyspace(t *tree.Tree) error {
	s.install.Lock()
	defer s.install.Unlock()
	err := s.opts.Manifest.DropKeyspace(t.ID())
	if err != nil && !errors.Is(err, base.ErrNoKeyspace) {
		return s.manifestError(err)
	}
	s.Forget(t)
	return err
}

// Forget takes a keyspace away whose MANIFEST does not have it any more.
func (s *Scheduler) Forget(t *tree.Tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.spaceLocked(t); k != nil {
		k.dropped = true
	}
	s.trees.forgetDropped()
	s.cond.Broadcast()
}

func (s *Scheduler) isDropped(k *keyspace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return k.dropped
}

// ReleaseLogs deletes the logs that no tree needs, after a keyspace was dropped that
// needed them. The tree of the default keyspace was added first.
func (s *Scheduler) ReleaseLogs() (err error) {
	defer s.catchPanic(&err)
	s.install.Lock()
	defer s.install.Unlock()
	oldest, ok := s.oldestLogWithout(nil)
	if !ok || oldest <= s.opts.Manifest.LogNum() {
		return nil
	}
	s.mu.Lock()
	k := s.trees.all[0]
	s.mu.Unlock()
	edit := &manifest.Edit{}
	edit.SetLogNum(oldest)
	if err := s.installLocked(k, edit, nil); err != nil {
		return err
	}
	s.deleteLogs(oldest)
	return nil
}

// syncLogsOf makes the logs of a sealed memtable durable before its tables are live,
// if batches may have entries in several trees: a power cut that takes the end of a
// log must not leave what one tree has of a batch without the rest. Logs that are kept must not
// have less than the tables either.
func (s *Scheduler) syncLogsOf(k *keyspace, m *tree.Sealed) error {
	s.mu.Lock()
	several := len(s.trees.all) > 1
	s.mu.Unlock()
	state := k.Acquire()
	if state == nil {
		return nil // nothing will be installed
	}
	defer state.Unref()
	if !several && !s.opts.WAL.Retains() {
		return nil
	}
	next, _ := state.OldestLog(m) // m is the oldest, and has no entry in that log
	return s.opts.WAL.SyncBefore(next)
}

// share is the part of a group that goes to one tree.
type share struct {
	tree    *tree.Tree
	bytes   int64
	entries int
}

// entryOverhead bounds the bytes of an entry in a batch besides key and value.
const entryOverhead = 16

// sharesOf divides a group among the trees, which find returns, or nil for a keyspace
// that was dropped. It reuses the memory of shares.
func sharesOf(shares []share, find func(base.KeyspaceID) *tree.Tree, group [][]byte) []share {
	for _, b := range group {
		last := -1
		for it := batchrepr.Read(b); ; {
			id, _, key, value, ok := it.Next()
			if !ok {
				break
			}
			if last < 0 || shares[last].tree.ID() != id {
				if last = slices.IndexFunc(shares, func(sh share) bool {
					return sh.tree.ID() == id
				}); last < 0 {
					t := find(id)
					if t == nil {
						continue
					}
					last, shares = len(shares), append(shares, share{tree: t})
				}
				shares[last].bytes += batchrepr.HeaderLen
			}
			shares[last].bytes += int64(len(key) + len(value) + entryOverhead)
			shares[last].entries++
		}
	}
	return shares
}

// MakeRoomForGroup is MakeRoom for a group over several trees, which find returns. It
// rotates the memtables that are full and no others; they share one new log. Commit leader
// only.
func (s *Scheduler) MakeRoomForGroup(find func(base.KeyspaceID) *tree.Tree, group [][]byte,
	mode write.Mode) error {
	s.shares = sharesOf(s.shares[:0], find, group)
	total := int64(0)
	for _, sh := range s.shares {
		total += sh.bytes
	}
	if err := s.delay(total, mode); err != nil {
		return err
	}
	rotateLog := s.rotateLogOnce()
	if err := s.boundLogs(rotateLog); err != nil {
		return err
	}
	s.opts.Account.Wrote(total)
	if err := s.boundMemory(rotateLog, mode); err != nil {
		return err
	}
	for _, sh := range s.shares {
		fits, err := sh.tree.HasRoom(sh.bytes, sh.entries)
		if err != nil {
			return err
		}
		if fits {
			continue
		}
		if err := s.waitForRoom(sh.tree, mode); err != nil {
			return err
		}
		if err := sh.tree.Rotate(sh.bytes, sh.entries, rotateLog); err != nil {
			return err
		}
		s.wakeSealed(sh.tree)
	}
	for _, sh := range s.shares {
		sh.tree.BeginLog(s.opts.WAL.Num())
	}
	return nil
}

// rotateLogOnce returns a function that starts a log at its first call and returns
// the number of that one afterwards. Nothing is appended in between.
func (s *Scheduler) rotateLogOnce() func(last base.SeqNum) (uint64, error) {
	log := uint64(0)
	return func(last base.SeqNum) (num uint64, err error) {
		if log == 0 {
			log, err = s.opts.WAL.Rotate(last)
		}
		return log, err
	}
}

// boundLogs keeps a tree that is seldom written from keeping logs alive: when they
// have MaxLogs bytes, it seals the memtables that need the oldest one, and looks
// again after a quarter of a write buffer. A log is full at the size of a write
// buffer, so that there is an oldest one to delete.
func (s *Scheduler) boundLogs(rotateLog func(base.SeqNum) (uint64, error)) error {
	w, o := s.opts.WAL, s.limits.Load()
	if w.Size() > o.WriteBuffer {
		if _, err := rotateLog(s.opts.Seqs.Visible()); err != nil {
			return err
		}
	}
	if w.Kept() < o.MaxLogs || w.Bytes() < s.nextLook {
		return nil
	}
	s.nextLook = w.Bytes() + o.WriteBuffer/4
	oldest, pinning := s.pinOldest()
	if oldest == w.Num() {
		return nil
	}
	for _, t := range pinning {
		if err := t.Rotate(0, 0, rotateLog); err != nil {
			return err
		}
		s.wakeSealed(t)
	}
	return nil
}

// pinOldest returns the number of the oldest log that is needed, and the trees whose
// memtables need it. They have no sealed one, which would need an older log.
func (s *Scheduler) pinOldest() (oldest uint64, pinning []*tree.Tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest = s.opts.WAL.Num()
	for _, k := range s.trees.all {
		state := k.Acquire()
		if state == nil {
			continue
		}
		log, any := state.OldestLog(nil)
		sealed := len(state.Sealed) > 0
		state.Unref()
		if k.dropped || !any {
			continue
		}
		if log < oldest {
			oldest, pinning = log, pinning[:0]
		}
		if log == oldest && !sealed {
			pinning = append(pinning, k.Tree)
		}
	}
	return oldest, pinning
}

// boundMemory keeps the memtables of all trees together below MaxMemTableBytes, and those of all
// databases below their shared limit. When those that take writes have more than half of it, it
// seals the largest; when all have more, it waits for flushes. It looks again after an eighth of
// a write buffer, or a sixteenth of the bound if that is less. Commit leader only.
func (s *Scheduler) boundMemory(rotateLog func(base.SeqNum) (uint64, error),
	mode write.Mode) error {
	w := s.opts.WAL
	if w.Bytes() < s.nextWeigh {
		return nil
	}
	o := s.limits.Load()
	step := min(o.WriteBuffer/8, o.MaxMemTableBytes/16)
	if s.opts.Account != nil {
		step = min(step, s.opts.Account.Interval())
	}
	s.nextWeigh = w.Bytes() + step
	for {
		active, sealed, largest := s.memTableBytes()
		s.boundSpare(active + sealed)
		if !s.tooMuchMemory(active, sealed) || largest == nil {
			return s.waitForMemory(mode)
		}
		if err := largest.Rotate(0, 0, rotateLog); err != nil {
			return err
		}
		s.wakeSealed(largest)
	}
}

// boundSpare frees the memory kept for the next memtable if it is too much in addition to the
// memtables, which have the given bytes. Those of one tree leave room for it: it was one of them.
func (s *Scheduler) boundSpare(memTables int64) {
	s.mu.Lock()
	several := len(s.trees.all) > 1
	s.mu.Unlock()
	if several && memTables+s.opts.Spare.Bytes() > s.limits.Load().MaxMemTableBytes {
		s.opts.Spare.Trim()
	}
}

// memTableBytes is the memory of the memtables that take writes and of sealed ones, and the
// tree of the largest that may be sealed now, or nil.
func (s *Scheduler) memTableBytes() (active, sealed int64, largest *tree.Tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	active, sealed, largest = s.memTableBytesLocked()
	return active, sealed, largest
}

func (s *Scheduler) memTableBytesLocked() (active, sealed int64, largest *tree.Tree) {
	most := int64(0)
	for _, k := range s.trees.all {
		state := k.Acquire()
		if state == nil {
			continue
		}
		n := state.Mem.MemoryUsage()
		active += n
		for _, m := range state.Sealed {
			sealed += m.Mem.MemoryUsage()
		}
		if n > most && !k.dropped && len(state.Sealed) < s.limits.Load().MaxMemTables-1 {
			most, largest = n, k.Tree
		}
		state.Unref()
	}
	return active, sealed, largest
}

// waitForMemory returns when the memtables of all trees have less than MaxMemTableBytes, or
// no flush is under way that would make it so. Commit leader only.
func (s *Scheduler) waitForMemory(mode write.Mode) error {
	var start time.Time
	s.mu.Lock()
	defer func() {
		s.waitsFor = ""
		s.mu.Unlock()
		if !start.IsZero() {
			s.opts.EndStall()
			s.stalled(StallMemTables, time.Since(start))
		}
	}()
	for {
		if err := s.opts.Writable(); err != nil {
			return err
		}
		active, sealed, _ := s.memTableBytesLocked()
		switch {
		case sealed == 0 || !s.mustWaitForMemory(active, sealed):
			return nil
		case s.flush.err != nil:
			return fmt.Errorf("no room for the write, as flushing fails: %w", s.flush.err)
		case mode&write.NoStall != 0:
			return fmt.Errorf("%w: waiting for %s", base.ErrBusy, StallMemTables)
		}
		if start.IsZero() {
			start = time.Now()
			s.opts.BeginStall()
		}
		s.scheduleLocked()
		if !s.flushing {
			return nil // nothing would end the wait
		}
		s.waitsFor = StallMemTables
		s.cond.Wait()
	}
}
