package lsm

import "github.com/loamdb/loam/internal/tree"

// Snapshot is a fixed state of the database to read from. It keeps overwritten
// and deleted entries from being dropped, so close it when done. All methods
// are safe for concurrent use. An iterator of a snapshot ignores IterOptions.Snapshot.
type Snapshot struct {
	reader
	own tree.Snapshot
}

// Snapshot fixes the present state. Close it when done. After Close of the snapshot
// or of the database its reads fail with ErrClosed.
func (k *keyspace) Snapshot() *Snapshot {
	s := &Snapshot{reader: reader{space: k.space}}
	s.at = &s.own
	k.space.DB.Shared.Seqs.Open(s.at)
	return s
}

// Close releases the snapshot. Iterators made from it go on working. Closing
// twice is harmless. The error is always nil.
func (s *Snapshot) Close() error {
	s.space.DB.CloseSnapshot(s.at)
	return nil
}
