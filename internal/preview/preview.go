// Package preview reaches features of package lsm that its API does not offer yet:
// their files have no format that is stored for good. Tests of this module use it.
package preview

import "github.com/loamdb/loam/internal/base"

// Keyspaces is set by package lsm.
var Keyspaces KeyspaceAPI

// KeyspaceAPI is what a database does with keyspaces. A parameter options is a
// *lsm.Options, db a *lsm.DB. A directory that was opened with keyspaces is not
// opened without them any more.
type KeyspaceAPI interface {
	// Enable makes Open with these options one with keyspaces. comparers finds the
	// comparer of a keyspace by name; nil knows those of package lsm.
	Enable(options any, comparers func(name string) *base.Comparer)
	// Open returns a keyspace, which is created if there is none of that name. A nil
	// comparer is that of the default keyspace for a new one, and any for others.
	Open(db any, name string, c *base.Comparer) (Keyspace, error)
	// Drop drops a keyspace. Iterators and snapshots that are open go on.
	Drop(db any, name string) error
	// List returns the names of all keyspaces, the default one first.
	List(db any) []string
}

// Keyspace is a keyspace of an open database. Parameters named batch are *lsm.Batch,
// snapshot *lsm.Snapshot or nil, options *lsm.IterOptions or nil, result
// *lsm.MultiResult; Iter returns a *lsm.Iterator.
type Keyspace interface {
	// Put and Delete add an operation to a batch.
	Put(batch any, key, value []byte)
	Delete(batch any, key []byte)

	Get(key, dst []byte, snapshot any) ([]byte, error)
	TryGet(key, dst []byte, snapshot any) ([]byte, error)
	Has(key []byte, snapshot any) (bool, error)
	MultiGet(keys [][]byte, snapshot, result any) error
	Iter(options any) any

	Flush() error
	CompactRange(start, limit []byte) error
}
