package work

import (
	"slices"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// Deletions free space when they meet what they delete, in a flush or a compaction. So a memtable
// half of whose entries are deletions, or with a range tombstone, is flushed when its keyspace has
// had no write for quietFor, if it is worth it, and tables half of whose entries are deletions are
// compacted before they are due (picker.Config.TombstoneDense), down to the last run.
const (
	quietFor = time.Second
	// A memtable is worth a flush for so many deletions, or where they delete so many bytes by the
	// mean of the tables' entries.
	manyDeletes      = 4096
	manyDeletedBytes = 4 << 20
)

// quietDeletes is which memtables wait for a time without writes. The timer runs only while some
// do. Its fields are guarded by Scheduler.mu.
type quietDeletes struct {
	waiting []*Keyspace
	timer   *time.Timer // nil: it does not run
	busy    bool        // lookAtDeletes runs
	sealed  bool        // one was, and no flush has ended since
}

// memTableDeletes is what the last look at a memtable with deletions saw. Its fields are guarded
// by Scheduler.mu.
type memTableDeletes struct {
	waiting bool               // in quietDeletes.waiting
	mem     *memtable.MemTable // for comparison only: there is no reference
	entries int
}

// ManyDeletes is called when the memtable of k has many deletions, and again after each
// MemTable.TellAgain. Commit leader only.
func (s *Scheduler) ManyDeletes(k *Keyspace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || s.opts.ReadOnly || k.deletes.waiting {
		return
	}
	k.deletes.waiting = true
	if state := k.Acquire(); state != nil { // nil: recovery fills the memtable
		k.deletes.saw(state)
		state.Unref()
	}
	s.deletes.waiting = append(s.deletes.waiting, k)
	s.timeDeletesLocked()
}

// saw notes a memtable as it is now. It reports whether nothing was written since the last look.
func (d *memTableDeletes) saw(state *tree.ReadState) (same bool) {
	n := state.Mem.Len()
	same = d.mem == state.Mem && d.entries == n
	d.mem, d.entries = state.Mem, n
	return same
}

// timeDeletesLocked sets the timer for the next look.
func (s *Scheduler) timeDeletesLocked() {
	if s.deletes.timer == nil && len(s.deletes.waiting) > 0 {
		s.deletes.timer = time.AfterFunc(quietFor, s.lookAtDeletes)
	}
}

// forgetDeletesLocked ends the looks.
func (s *Scheduler) forgetDeletesLocked() {
	if s.deletes.timer != nil {
		s.deletes.timer.Stop()
		s.deletes.timer = nil
	}
	for _, k := range s.deletes.waiting {
		k.deletes = memTableDeletes{}
	}
	s.deletes.waiting = nil
}

// lookAtDeletes has the memtables flushed that are worth it and were not written since the last
// look, and looks again at those that were.
func (s *Scheduler) lookAtDeletes() {
	quiet := s.quietMemTables()
	if quiet == nil {
		return
	}
	var err error
	defer func() {
		s.mu.Lock()
		s.deletes.busy = false
		s.timeDeletesLocked()
		s.cond.Broadcast()
		s.mu.Unlock()
	}()
	defer s.catchPanic(&err)
	for _, state := range quiet {
		defer state.Unref() // all, although the comparer may panic
	}
	worth := make(map[*Keyspace]bool, len(quiet))
	for k, state := range quiet {
		worth[k] = s.worthFlushing(state)
	}
	if dense := s.judged(worth); len(dense) > 0 {
		s.sealQuiet(dense)
	}
}

// quietMemTables begins a look: it returns the keyspaces that wait and were not written since the
// last look, with a reference on each state. It is nil where there is nothing to look for, or
// another look has not ended.
func (s *Scheduler) quietMemTables() map[*Keyspace]*tree.ReadState {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deletes.timer = nil
	if s.closing || s.opts.Writable() != nil {
		s.forgetDeletesLocked()
		return nil
	}
	if s.deletes.busy {
		return nil
	}
	s.deletes.busy = true
	quiet := map[*Keyspace]*tree.ReadState{}
	s.deletes.waiting = slices.DeleteFunc(s.deletes.waiting, func(k *Keyspace) (done bool) {
		if k.dropped {
			k.deletes = memTableDeletes{}
			return true
		}
		switch state := k.Acquire(); {
		case state == nil: // it has not started
		case k.deletes.saw(state):
			quiet[k] = state
		default:
			state.Unref()
		}
		return false
	})
	return quiet
}

// judged returns the keyspaces whose memtables are worth a flush, which wait until these are
// sealed. The others of those looked at wait no more, if they were not written meanwhile.
func (s *Scheduler) judged(worth map[*Keyspace]bool) (dense []*Keyspace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deletes.waiting = slices.DeleteFunc(s.deletes.waiting, func(k *Keyspace) (done bool) {
		flush, looked := worth[k]
		if flush {
			dense = append(dense, k)
		}
		if done = looked && !flush && k.toldAgainLocked(); done {
			k.deletes = memTableDeletes{}
		}
		return done
	})
	return dense
}

// toldAgainLocked makes the memtable call ManyDeletes for later deletions, and reports whether it
// is as the last look saw it.
func (k *Keyspace) toldAgainLocked() bool {
	state := k.Acquire()
	if state == nil {
		return false
	}
	defer state.Unref()
	state.Mem.TellAgain()
	return k.deletes.saw(state)
}

// worthFlushing reports whether half of a memtable are deletions, and of these there are many, or
// they delete much; or whether its range tombstones delete much, and more than it has.
func (s *Scheduler) worthFlushing(state *tree.ReadState) bool {
	least := max(uint64(state.Mem.Bytes()), manyDeletedBytes)
	if s.coversTables(state, least) {
		return true
	}
	n := state.Mem.Deletes()
	if n == 0 || 2*n < state.Mem.Points() {
		return false
	}
	return n >= manyDeletes || uint64(n)*meanEntry(state.Version) >= manyDeletedBytes
}

// coversTables reports whether tables, or parts of some, that lie in range tombstones of the
// memtable have so many bytes, with the values that they refer to.
func (s *Scheduler) coversTables(state *tree.ReadState, least uint64) bool {
	var bytes uint64
	for _, list := range state.Mem.RangeDels() {
		for level := range state.Version.Levels {
			bytes += s.bytesWithin(state, level, list, least)
		}
		if bytes >= least {
			return true
		}
	}
	return false
}

// bytesWithin is how many bytes the tables of a level take, with the values that they refer to,
// within range tombstones; it stops at enough.
func (s *Scheduler) bytesWithin(state *tree.ReadState, level int, list *rangedel.List,
	enough uint64) (n uint64) {
	if list.Count() == 0 {
		return 0
	}
	cmp, l := state.Mem.Comparer(), &state.Version.Levels[level]
	start, limit := list.Ends()
	first := 0
	if level > 0 {
		first = l.FindAt(cmp, start, base.MaxTrailer)
	}
	for _, m := range l.Files[first:] {
		switch {
		case n >= enough || level > 0 && cmp.Cmp(m.Smallest.User, limit) >= 0:
			return n
		case list.Covers(m.Smallest.User, m.Largest.User, false):
			n += m.Size + m.ValueBytes
		default:
			n += s.partWithin(m, list)
		}
	}
	return n
}

// partWithin is how many bytes of a table, with as many of the values that it refers to, lie in
// range tombstones, by the offsets of its blocks; 0 for a table that cannot be read.
func (s *Scheduler) partWithin(m *manifest.FileMeta, list *rangedel.List) uint64 {
	inside := list.Within(m.Smallest.User, m.Largest.User)
	if len(inside) == 0 {
		return 0
	}
	r, err := s.opts.Files.Reader(m)
	if err != nil {
		return 0
	}
	var n uint64
	for _, f := range inside {
		from := r.OffsetOf(f.Start, base.MaxTrailer)
		n += max(from, r.OffsetOf(f.Limit, base.MaxTrailer)) - from
	}
	return n + uint64(float64(n)/float64(max(m.Size, 1))*float64(m.ValueBytes))
}

// meanEntry is how many bytes of table an entry takes, and of a value that it refers to; 0 if that
// is not known.
func meanEntry(v *manifest.Version) uint64 {
	var bytes, entries uint64
	for _, m := range v.Tables() {
		if m.Entries > 0 {
			bytes += m.Size + m.ValueBytes
			entries += m.Entries
		}
	}
	return bytes / max(entries, 1)
}

// sealQuiet seals the memtables of keyspaces that have not been written since the last look. The
// others are looked at again, and so are those that cannot be sealed now.
func (s *Scheduler) sealQuiet(dense []*Keyspace) {
	s.opts.WAL.Trim() // the next log is not to be a large file, as it may stay for long
	_ = s.opts.Exclusive(func() error {
		s.group.log = 0
		for _, k := range dense {
			if !s.maySealQuiet(k) {
				continue
			}
			if err := s.rotate(k, 0, 0); err != nil {
				return err
			}
			s.mu.Lock()
			s.deletes.sealed = true
			s.mu.Unlock()
		}
		return nil
	})
}

// maySealQuiet reports whether the memtable of k is as it was at the last look, and may be sealed
// without a wait. Commit leader only.
func (s *Scheduler) maySealQuiet(k *Keyspace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.Writable() != nil || k.dropped {
		return false
	}
	state := k.Acquire()
	if state == nil {
		return false
	}
	defer state.Unref()
	if !k.deletes.saw(state) {
		return false
	}
	cause, err := s.blockedLocked(k)
	return cause == "" && err == nil
}

// tombstoneDense reports that half of a table are deletions, and that no snapshot is older than one
// of its entries: then each compaction of the table drops deletions, or brings them closer to the
// last run. Of a table of an earlier opening in LevelDB's format that is known once it is open.
func (s *Scheduler) tombstoneDense(k *Keyspace, m *manifest.FileMeta) bool {
	deletes, entries := m.Deletes, m.Entries
	if entries == 0 {
		r, ok := s.opts.Files.OpenNow(m)
		if !ok {
			return false
		}
		deletes, entries = r.Props().Deletes, r.Props().Entries
	}
	return deletes > 0 && 2*deletes >= entries && !s.heldLocked(k, m.Newest)
}

// heldLocked reports whether a snapshot is older than newest, which is 0 where that is not known:
// a compaction must keep what the snapshot sees, and what hides that from others. Once the snapshot
// is closed there is another decision.
func (s *Scheduler) heldLocked(k *Keyspace, newest base.SeqNum) bool {
	if !s.olderSnapshot(newest) {
		return false
	}
	k.heldBySnapshot = true
	s.held.Store(true)
	return s.olderSnapshot(newest) // it may have been closed before SnapshotReleased could see held
}

func (s *Scheduler) olderSnapshot(newest base.SeqNum) bool {
	oldest, any := s.opts.Seqs.Oldest()
	return any && (newest == 0 || oldest < newest)
}

// SnapshotReleased is called after the oldest snapshot was closed. What a decision left alone for
// it is looked at again, minWatch later at the earliest, however many are closed.
func (s *Scheduler) SnapshotReleased() {
	if s.held.Load() && s.held.Swap(false) {
		time.AfterFunc(minWatch, s.lookAtHeld)
	}
}

func (s *Scheduler) lookAtHeld() {
	var err error
	defer s.catchPanic(&err)
	s.mu.Lock()
	if s.closing {
		s.mu.Unlock()
		return
	}
	var withValues []*Keyspace
	for k := range s.opts.All {
		if k.heldBySnapshot {
			s.trees.markDue(k)
		}
		if s.values.trees[k].of > 0 {
			withValues = append(withValues, k)
		}
	}
	s.mu.Unlock()
	if len(withValues) > 0 {
		s.reweighValues(withValues)
	}
	s.Wake()
}
