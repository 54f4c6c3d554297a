package lsm

// Reader is implemented by DB, Keyspace, Snapshot and Txn, for code that reads any of them. See the
// methods of DB.
type Reader interface {
	// Get appends the value of key to dst.
	Get(key, dst []byte) ([]byte, error)
	// Has reports whether key has a value.
	Has(key []byte) (bool, error)
	// MultiGet looks up many keys in one state.
	MultiGet(keys [][]byte, result *MultiResult) error
	// Iter opens an iterator, which goes both ways within bounds.
	Iter(o *IterOptions) *Iterator
	// Close ends what a caller opened; see each type.
	Close() error
}

// Store is a Reader that can be written: a DB or a Keyspace. Operations of a batch that name
// no keyspace are written where the Store reads.
type Store interface {
	Reader
	// Snapshot fixes the present state.
	Snapshot() *Snapshot
	// NewBatch returns an empty batch for this Store.
	NewBatch() *Batch
	// Write makes all operations of a batch take effect together.
	Write(b *Batch, mode WriteMode) error
}

var (
	_ Store  = (*DB)(nil)
	_ Store  = (*Keyspace)(nil)
	_ Reader = (*Snapshot)(nil)
	_ Reader = (*Txn)(nil)
)
