package lsm

import (
	"iter"
	"slices"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/sstable"
)

// Snapshot is a fixed state of the database to read from. It keeps overwritten
// and deleted entries from being dropped, so close it when done. All methods
// are safe for concurrent use.
type Snapshot struct {
	db     *DB
	seq    base.SeqNum
	closed atomic.Bool
}

// snapshotList holds the sequence numbers of open snapshots, ascending, one
// entry for each snapshot. Guarded by DB.mu.
type snapshotList []base.SeqNum

// Snapshot fixes the present state. After Close of the database its reads fail
// with ErrClosed.
func (db *DB) Snapshot() *Snapshot {
	db.mu.Lock()
	defer db.mu.Unlock()
	s := &Snapshot{db: db, seq: base.SeqNum(db.visible.Load())}
	db.snapshots = append(db.snapshots, s.seq) // visible only grows: stays sorted
	return s
}

// Close releases the snapshot. Iterators made from it go on working. Closing
// twice is harmless.
func (s *Snapshot) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	s.db.mu.Lock()
	defer s.db.mu.Unlock()
	i, found := slices.BinarySearch(s.db.snapshots, s.seq)
	if found {
		s.db.snapshots = slices.Delete(s.db.snapshots, i, i+1)
	}
	return nil
}

// Get is DB.Get on the snapshot.
func (s *Snapshot) Get(key, dst []byte) ([]byte, error) { return s.db.get(key, dst, s, 0) }

// TryGet is DB.TryGet on the snapshot.
func (s *Snapshot) TryGet(key, dst []byte) ([]byte, error) { return s.db.get(key, dst, s, memoryOnly) }

// GetNoFill is DB.GetNoFill on the snapshot.
func (s *Snapshot) GetNoFill(key, dst []byte) ([]byte, error) {
	return s.db.get(key, dst, s, sstable.NoFill)
}

// Has is DB.Has on the snapshot.
func (s *Snapshot) Has(key []byte) (bool, error) { return s.db.has(key, s) }

// MultiGet is DB.MultiGet on the snapshot.
func (s *Snapshot) MultiGet(keys [][]byte, r *MultiResult) error { return s.db.multiGet(keys, s, r) }

// Iter is DB.Iter on the snapshot; o.Snapshot is ignored.
func (s *Snapshot) Iter(o *IterOptions) *Iterator {
	var with IterOptions
	if o != nil {
		with = *o
	}
	with.Snapshot = s
	return s.db.Iter(&with)
}

// All is DB.All on the snapshot.
func (s *Snapshot) All(lower, upper []byte, err *error) iter.Seq2[[]byte, []byte] {
	return s.db.walk(IterOptions{Lower: lower, Upper: upper, Snapshot: s}, (*Iterator).First, (*Iterator).Next, err)
}

// Backward is DB.Backward on the snapshot.
func (s *Snapshot) Backward(lower, upper []byte, err *error) iter.Seq2[[]byte, []byte] {
	return s.db.walk(IterOptions{Lower: lower, Upper: upper, Snapshot: s}, (*Iterator).Last, (*Iterator).Prev, err)
}

// Prefix is DB.Prefix on the snapshot.
func (s *Snapshot) Prefix(prefix []byte, err *error) iter.Seq2[[]byte, []byte] {
	return s.db.walk(IterOptions{Prefix: prefix, Snapshot: s}, (*Iterator).First, (*Iterator).Next, err)
}

// snapshotSeqs lists the open snapshots, ascending.
func (db *DB) snapshotSeqs() []base.SeqNum {
	db.mu.Lock()
	defer db.mu.Unlock()
	return slices.Clone(db.snapshots)
}
