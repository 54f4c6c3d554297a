package lsm

import (
	"iter"

	"github.com/loamdb/loam/internal/sstable"
	"github.com/loamdb/loam/internal/tree"
)

// Snapshot is a fixed state of the database to read from. It keeps overwritten
// and deleted entries from being dropped, so close it when done. All methods
// are safe for concurrent use.
type Snapshot struct {
	db *DB
	at tree.Snapshot
}

// Snapshot fixes the present state. Close it when done. After Close of the snapshot
// or of the database its reads fail with ErrClosed.
func (db *DB) Snapshot() *Snapshot {
	s := &Snapshot{db: db}
	db.shared.Seqs.Open(&s.at)
	return s
}

// Close releases the snapshot. Iterators made from it go on working. Closing
// twice is harmless. The error is always nil.
func (s *Snapshot) Close() error {
	s.at.Close()
	s.db.spaces.closeUnread(s.db.shared.Seqs)
	return nil
}

// Get is DB.Get on the snapshot.
func (s *Snapshot) Get(key, dst []byte) ([]byte, error) { return s.db.tree.Get(key, dst, &s.at, 0) }

// TryGet is DB.TryGet on the snapshot.
func (s *Snapshot) TryGet(key, dst []byte) ([]byte, error) {
	return s.db.tree.Get(key, dst, &s.at, sstable.MemoryOnly)
}

// GetNoFill is DB.GetNoFill on the snapshot.
func (s *Snapshot) GetNoFill(key, dst []byte) ([]byte, error) {
	return s.db.tree.Get(key, dst, &s.at, sstable.NoFill)
}

// Has is DB.Has on the snapshot.
func (s *Snapshot) Has(key []byte) (bool, error) { return s.db.tree.Has(key, &s.at) }

// MultiGet is DB.MultiGet on the snapshot.
func (s *Snapshot) MultiGet(keys [][]byte, r *MultiResult) error {
	return s.db.multiGet(keys, &s.at, r)
}

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
