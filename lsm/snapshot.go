package lsm

import (
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/lsm/internal/joined"
)

// Snapshot is a fixed state of the database to read from. It keeps overwritten and deleted entries
// from being dropped, so close it when done. Its reads ignore IterOptions.Snapshot, and fail with
// ErrClosed once the snapshot or the database is closed. Make one with DB.Snapshot. All methods are
// safe for concurrent use.
type Snapshot struct {
	reader
	moment // leads to at
	root   *store.DB
	own    tree.Snapshot // unless it was made by In
}

// moment is embedded for the packages beside this one.
type moment = joined.Snapshot

// Snapshot fixes the present state of all keyspaces and reads this one; Snapshot.In reads another
// one. Close it when done. On a closed database its reads fail with ErrClosed.
func (k *keyspace) Snapshot() *Snapshot {
	s := &Snapshot{reader: reader{of: k.space}, root: k.root.engine.DB}
	s.at, s.moment = &s.own, joined.Of(&s.own)
	seqs := k.root.engine.Sequences()
	seqs.WaitFresh()
	seqs.Open(s.at)
	return s
}

// Close releases the snapshot. Its iterators go on working. Closing twice is harmless. The error is
// always nil.
func (s *Snapshot) Close() error {
	s.root.CloseSnapshot(s.at)
	return nil
}
