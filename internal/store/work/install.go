package work

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/compact"
)

// installFlush makes the tables live, and the memtable and the logs that only it
// needed obsolete, in one edit.
func (s *Scheduler) installFlush(k *Keyspace, m *tree.Sealed, result compact.Result) error {
	err := s.syncLogsOf(k, m)
	if err == nil {
		err = s.syncValueLogs(result)
	}
	if err != nil {
		s.discard(result)
		return err
	}
	s.install.Lock()
	defer s.install.Unlock()
	oldest, ok := s.oldestLogWithout(m)
	state := k.Acquire()
	if state == nil && s.isDropped(k) {
		s.discard(result)
		return errDropped
	}
	if state == nil {
		return errStopped // Close came first; the log still has it all
	}
	defer state.Unref()
	if !ok {
		return errStopped
	}
	edit := &manifest.Edit{Added: result.Added}
	edit.SetLogNum(oldest)
	if s.opts.Keyspaces {
		first, _ := state.OldestLog(m)
		edit.SetFirstLog(first)
	}
	s.opts.Manifest.SetLastSeq(m.Last)
	s.noteObsolete(oldest)
	if err := s.installLocked(k, edit, m, result); err != nil {
		return err
	}
	s.deleteLogs(oldest)
	s.weighValues() // the logs are the tables' now
	s.updateDelay(k)
	return nil
}

// noteObsolete puts the last sequence number of the logs before oldest into the next edit, which
// makes them obsolete. It may be of a keyspace that was dropped, so that no table has it; and the
// next log, whose marker says where it begins, may not be durable. After a power cut the number
// would be given out again, and a feed of changes that had seen it would miss a write.
func (s *Scheduler) noteObsolete(oldest uint64) {
	if s.opts.Keyspaces {
		s.opts.Manifest.SetLastSeq(s.opts.WAL.LastBefore(oldest))
	}
}

// deleteLogs deletes the logs before oldest, which the MANIFEST says are obsolete.
func (s *Scheduler) deleteLogs(oldest uint64) {
	for _, num := range s.opts.WAL.TakeObsolete(oldest) {
		s.opts.Files.DeleteFile(s.opts.Manifest.Format().FileName(base.FileLog, num))
	}
}

// oldestLogWithout is the number of the oldest log that any tree needs once a memtable is in
// tables; ok is false when a tree is closed. The current log is always needed. Its number is loaded
// first: an entry that goes to an older log is in its memtable before the next log is begun.
func (s *Scheduler) oldestLogWithout(m *tree.Sealed) (oldest uint64, ok bool) {
	oldest = s.opts.WAL.Num()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.opts.All {
		if k.dropped {
			continue
		}
		log, any, ok := k.OldestLog(m)
		if !ok {
			return 0, false
		}
		if any {
			oldest = min(oldest, log)
		}
	}
	// A state of before BeginLog may name a log that is obsolete already.
	return max(oldest, s.opts.Manifest.LogNum()), true
}

// installCompaction makes the change of a compaction live.
func (s *Scheduler) installCompaction(k *Keyspace, edit *manifest.Edit,
	results []compact.Result) error {
	s.install.Lock()
	defer s.install.Unlock()
	err := s.installLocked(k, edit, nil, results...)
	if err == nil {
		s.weighValues()
		s.updateDelay(k)
	}
	return err
}

// installLocked writes the edit of a tree to the manifest and makes its version current,
// without the memtable flushed if that is not nil; updateDelay follows. results are the tables
// that the edit adds, as far as they are new: if it fails they stay as orphans until the MANIFEST
// is known to be without it.
//
// REQUIRES: s.install held.
func (s *Scheduler) installLocked(k *Keyspace, edit *manifest.Edit, flushed *tree.Sealed,
	results ...compact.Result) error {
	edit.Keyspace = k.ID()
	version, err := s.opts.Manifest.Apply(edit)
	if err := s.applied(err, results...); err != nil {
		return err
	}
	if listed, filtered := filteredAbove(results); filtered {
		k.InstallFiltered(version, listed)
	} else {
		k.Install(version, flushed, 0)
	}
	s.estimateLive(k)
	return nil
}

// applied sees to the tables of an edit that failed, and to old MANIFESTs. REQUIRES: s.install
// held.
func (s *Scheduler) applied(err error, results ...compact.Result) error {
	if errors.Is(err, base.ErrNoKeyspace) {
		for _, r := range results {
			s.discard(r)
		}
		return errDropped
	}
	if err != nil {
		for _, r := range results {
			s.orphans = append(s.orphans, r.Added...)
			s.orphanValues = append(s.orphanValues, r.Values...)
		}
		return s.manifestError(err)
	}
	s.dropOrphans()
	for _, name := range s.opts.Manifest.TakeObsolete() {
		s.opts.Files.DeleteFile(name)
	}
	return nil
}

// filteredAbove returns the snapshots above which a compaction filter changed entries.
// All pieces of a compaction have the same ones.
func filteredAbove(results []compact.Result) (snapshots []base.SeqNum, filtered bool) {
	for _, r := range results {
		if r.FilterRemoved+r.FilterChanged > 0 {
			return r.Snapshots, true
		}
	}
	return nil, false
}

// mendManifest begins a new MANIFEST if the last edit failed for lack of space or descriptors. A
// job calls it before it writes tables: while the MANIFEST cannot be written, none would be of use.
func (s *Scheduler) mendManifest() error {
	s.install.Lock()
	defer s.install.Unlock()
	if err := s.opts.Manifest.Mend(); err != nil {
		return s.manifestError(err)
	}
	s.dropOrphans()
	return nil
}

// RenewManifest begins a new MANIFEST; the old one is deleted.
func (s *Scheduler) RenewManifest() error {
	s.install.Lock()
	defer s.install.Unlock()
	if err := s.opts.Manifest.Err(); err != nil {
		return s.manifestError(err)
	}
	if err := s.opts.Manifest.StartManifest(); err != nil {
		return s.manifestError(err)
	}
	return s.applied(nil)
}

// manifestError makes the database read-only unless the error heals.
func (s *Scheduler) manifestError(err error) error {
	if base.IsShortage(err) && s.opts.Manifest.Err() == nil {
		return err
	}
	return s.fail(err)
}

// dropOrphans deletes the tables and value files of failed edits.
//
// REQUIRES: s.install held; the MANIFEST has been written since.
func (s *Scheduler) dropOrphans() {
	for _, a := range s.orphans {
		s.opts.Files.Obsolete(a.Meta)
	}
	s.discardValues(s.orphanValues)
	s.orphans, s.orphanValues = nil, nil
}

// discard deletes the tables and value files of a job that failed before its edit.
func (s *Scheduler) discard(r compact.Result) {
	for _, a := range r.Added {
		s.opts.Files.Obsolete(a.Meta) // it may be open: warm, openDense
	}
	for _, num := range r.Abandoned {
		s.opts.Files.DeleteFile(s.opts.Files.TableName(num))
	}
	s.discardValues(r.Values)
}
