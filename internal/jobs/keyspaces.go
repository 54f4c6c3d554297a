package jobs

import (
	"errors"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/commit"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/tree"
)

// CreateKeyspace makes a keyspace durable and returns its ID and its version, with
// a reference for the caller.
func (s *Scheduler) CreateKeyspace(name string, c *base.Comparer) (base.KeyspaceID, *manifest.Version, error) {
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
	if err != nil && !errors.Is(err, manifest.ErrNoKeyspace) {
		return s.manifestError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.spaceLocked(t); k != nil {
		k.dropped = true
	}
	s.forgetDroppedLocked()
	s.cond.Broadcast()
	return err
}

// forgetDroppedLocked takes keyspaces off the list that were dropped and have no
// plan in progress.
func (s *Scheduler) forgetDroppedLocked() {
	s.spaces = slices.DeleteFunc(s.spaces, func(k *keyspace) bool { return k.dropped && len(k.running) == 0 })
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
	k := s.spaces[0]
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
// log must not leave what one tree has of a batch without the rest.
func (s *Scheduler) syncLogsOf(k *keyspace, m *tree.Sealed) error {
	s.mu.Lock()
	several := len(s.spaces) > 1
	s.mu.Unlock()
	state := k.Acquire()
	if state == nil {
		return nil // nothing will be installed
	}
	defer state.Unref()
	if !several {
		return nil
	}
	next, _ := state.OldestLog(m) // m is the oldest, and has no entry in that log
	return s.opts.WAL.SyncBefore(next)
}

// Share is the part of a group that goes to one tree.
type Share struct {
	Tree    *tree.Tree
	Bytes   int64
	Entries int
}

// MakeRoomFor is MakeRoom for a group over several trees. It rotates the memtables
// that are full and no others; they share one new log. Commit leader only.
func (s *Scheduler) MakeRoomFor(shares []Share, mode commit.Mode) error {
	total := int64(0)
	for _, sh := range shares {
		total += sh.Bytes
	}
	if err := s.delay(total, mode); err != nil {
		return err
	}
	rotateLog := s.rotateLogOnce()
	if err := s.boundLogs(rotateLog); err != nil {
		return err
	}
	for _, sh := range shares {
		fits, err := sh.Tree.HasRoom(sh.Bytes, sh.Entries)
		if err != nil {
			return err
		}
		if fits {
			continue
		}
		if err := s.waitForRoom(sh.Tree, mode); err != nil {
			return err
		}
		if err := sh.Tree.Rotate(sh.Bytes, sh.Entries, rotateLog); err != nil {
			return err
		}
		s.Wake()
	}
	for _, sh := range shares {
		sh.Tree.BeginLog(s.opts.WAL.Num())
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
	w := s.opts.WAL
	if w.Size() > s.opts.WriteBuffer {
		if _, err := rotateLog(s.opts.Seqs.Visible()); err != nil {
			return err
		}
	}
	if w.Kept() < s.opts.MaxLogs || w.Bytes() < s.nextLook {
		return nil
	}
	s.nextLook = w.Bytes() + s.opts.WriteBuffer/4
	oldest, pinning := s.pinOldest()
	if oldest == w.Num() {
		return nil
	}
	for _, t := range pinning {
		if err := t.Rotate(0, 0, rotateLog); err != nil {
			return err
		}
	}
	s.Wake()
	return nil
}

// pinOldest returns the number of the oldest log that is needed, and the trees whose
// memtables need it. They have no sealed one, which would need an older log.
func (s *Scheduler) pinOldest() (oldest uint64, pinning []*tree.Tree) {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest = s.opts.WAL.Num()
	for _, k := range s.spaces {
		state := k.Current()
		if k.dropped || state == nil {
			continue
		}
		log, any := state.OldestLog(nil)
		if !any {
			continue
		}
		if log < oldest {
			oldest, pinning = log, pinning[:0]
		}
		if log == oldest && len(state.Sealed) == 0 {
			pinning = append(pinning, k.Tree)
		}
	}
	return oldest, pinning
}
