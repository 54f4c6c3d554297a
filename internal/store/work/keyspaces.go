package work

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree"
)

// CreateKeyspace makes a keyspace durable and returns its ID and its version, with
// a reference for the caller.
func (s *Scheduler) CreateKeyspace(name string, c *base.Comparer,
	merge string) (base.KeyspaceID, *manifest.Version, error) {
	s.install.Lock()
	defer s.install.Unlock()
	id, version, err := s.opts.Manifest.CreateKeyspace(name, c, merge)
	if err != nil && !errors.Is(err, base.ErrExists) && !errors.Is(err, base.ErrInvalidArgument) {
		err = s.manifestError(err)
	}
	return id, version, err
}

// DropKeyspace makes durable that a keyspace is gone. Nothing is started for it any more; what runs
// ends without effect. Its memtables need no log from now on. When it fails the keyspace must not
// be written before DropKeyspace is called again.
func (s *Scheduler) DropKeyspace(k *Keyspace) error {
	s.install.Lock()
	defer s.install.Unlock()
	err := s.opts.Manifest.DropKeyspace(k.ID())
	if err != nil && !errors.Is(err, base.ErrNoKeyspace) {
		return s.manifestError(err)
	}
	s.Forget(k)
	return err
}

// Forget is called when the MANIFEST does not have a keyspace any more.
func (s *Scheduler) Forget(k *Keyspace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.dropped = true
	s.values.noteLiveLocked(k, treeValues{})
	s.trees.forget(k)
	s.cond.Broadcast()
}

func (s *Scheduler) isDropped(k *Keyspace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return k.dropped
}

// ReleaseLogs deletes the logs that no tree needs, after a keyspace was dropped that needed them.
func (s *Scheduler) ReleaseLogs() (err error) {
	defer s.catchPanic(&err)
	s.install.Lock()
	defer s.install.Unlock()
	oldest, ok := s.oldestLogWithout(nil)
	if !ok || oldest <= s.opts.Manifest.LogNum() {
		return nil
	}
	edit := &manifest.Edit{}
	edit.SetLogNum(oldest)
	s.noteObsolete(oldest)
	if err := s.installLocked(s.home, edit, nil); err != nil {
		return err
	}
	s.deleteLogs(oldest)
	s.weighValues()
	s.updateDelay(s.home)
	return nil
}

// severalTrees reports whether there is more than one keyspace.
func (s *Scheduler) severalTrees() bool {
	n := 0
	for range s.opts.All {
		if n++; n > 1 {
			return true
		}
	}
	return false
}

// syncLogsOf makes the logs of a sealed memtable durable before its tables are live,
// if batches may have entries in several trees: a power cut that takes the end of a
// log must not leave what one tree has of a batch without the rest. Logs that are kept must not
// have less than the tables either.
func (s *Scheduler) syncLogsOf(k *Keyspace, m *tree.Sealed) error {
	if !s.opts.WAL.Retains() && !s.severalTrees() {
		return nil
	}
	state := k.Acquire()
	if state == nil {
		return nil // nothing will be installed
	}
	defer state.Unref()
	next, _ := state.OldestLog(m) // m is the oldest, and has no entry in that log
	return s.opts.WAL.SyncBefore(next)
}
