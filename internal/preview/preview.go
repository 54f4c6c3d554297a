// Package preview reaches features of package lsm that its API does not offer yet:
// their files have no format that is stored for good. Tests of this module use it.
package preview

import "github.com/loamdb/loam/internal/base"

// Keyspaces is set by package lsm.
var Keyspaces KeyspaceAPI

// SetDefaultFormat is set by package lsm: it changes the format of new databases whose
// options name none, and returns the one before. No database may be opening meanwhile.
var SetDefaultFormat func(base.Format) base.Format

// KeyspaceAPI is what a database does with keyspaces. A parameter options is a
// *lsm.Options, db a *lsm.DB. Databases in the native format have keyspaces, those in
// LevelDB's have none.
type KeyspaceAPI interface {
	// Enable makes a database that Open creates with these options a native one.
	// comparers finds the comparer of a keyspace by name; nil knows those of package
	// lsm.
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
