// Package store is what a benchmark asks of a key-value engine. A driver
// adapts one engine to it; the benchmark imports no engine itself.
//
// A Driver and a Store are used by several goroutines at once. Iterators,
// batches and value buffers belong to one goroutine.
package store

import (
	"errors"
	"sync/atomic"
	"time"
)

// Driver makes stores of one engine.
type Driver interface {
	// Name is one lower-case word, as given to --engine.
	Name() string
	// Title is the engine's name as people write it.
	Title() string
	// Version is the engine's version.
	Version() string
	// Durability says what a write without sync survives.
	Durability() Durability
	// Options are the settings that Config may carry.
	Options() []Option
	// Check returns an error for a wrong setting, before anything is opened.
	Check(s Setting) error
	// Open opens the database in dir, which it creates unless c says otherwise.
	Open(dir string, c Config) (Store, error)
	// Destroy removes the database in dir; none there is not an error.
	Destroy(dir string) error
	// Codec returns the engine's own codec or checksum, for one goroutine:
	// "snappy", "zstd" or "crc32c". A checksum's Encode appends the four bytes of the sum and its
	// Decode is nil.
	Codec(name string) (Codec, bool)
}

// Noted is implemented by drivers whose engine's build or settings the reader
// of a figure must know of. Notes is called while a store is open, or after.
type Noted interface{ Notes() []string }

// Durability is the class of a write that does not ask for sync.
type Durability string

const (
	SurvivesKill Durability = "survives kill" // in the kernel before the call returns
	InProcess    Durability = "in process"    // a killed process loses it
)

// Option describes a setting of an engine. The settings that engines have in
// common carry the same names: write_buffer_size, cache_size, block_size,
// block_restart_interval, max_file_size, max_open_files, compression (none,
// snappy, zstd), bloom_bits (0: none).
type Option struct{ Name, Doc, Default string }

// Setting is an option's name and its value.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Config is how to open a store.
type Config struct {
	// Settings in the order given; a later one wins. What is not named is left
	// at the engine's default.
	Settings []Setting
	// MustExist refuses to create a database.
	MustExist bool
	// Comparisons, when not nil, counts the calls of the key comparison
	// function. Drivers that cannot count leave it alone.
	Comparisons *atomic.Int64
	Needs
}

// Needs are what a benchmark asks of a store beyond single reads and writes. Engines that
// must be opened for it are; a store that cannot do it leaves out the interface.
type Needs struct {
	Counters     bool // store.Counters
	Transactions bool // store.Transactional
	Locks        bool // its transactions lock what they read for update and write
	Changes      bool // store.Changing
}

// Reader is what a store and a snapshot of it have in common.
type Reader interface {
	// Get appends the value to dst.
	Get(key, dst []byte) (value []byte, found bool, err error)
	// Has reports whether the key is there.
	Has(key []byte) (bool, error)
	// MultiGet reads several keys at once into r.
	MultiGet(keys [][]byte, r Values) error
	// NewValues returns what MultiGet fills.
	NewValues() Values
	// NewIterator returns an unpositioned iterator over all keys.
	NewIterator() (Iterator, error)
}

// Store is an open database.
type Store interface {
	Reader
	Put(key, value []byte, sync bool) error
	Delete(key []byte, sync bool) error
	NewBatch() Batch
	// Write applies a batch made by this store's NewBatch.
	Write(b Batch, sync bool) error
	Snapshot() (Snapshot, error)
	// Flush writes what is in memory to tables.
	Flush() error
	// Compact compacts everything.
	Compact() error
	Property(name string) (string, bool)
	// Metrics may be called at any time.
	Metrics() Metrics
	Close() error
}

// Keyspaced is implemented by stores that may have keyspaces, or column families.
type Keyspaced interface {
	// OpenKeyspaces opens keyspaces 0 to n-1, which it creates where they are missing. It
	// fails where the database can have none.
	OpenKeyspaces(n int) error
	// PutIn adds an entry of a keyspace to a batch.
	PutIn(b Batch, keyspace int, key, value []byte)
}

// Expiring is implemented by stores that hold values for a time.
type Expiring interface {
	// PutTTL stores a value that is gone after ttl.
	PutTTL(key, value []byte, ttl time.Duration, sync bool) error
}

// PrefixReader is implemented by stores that may pass over what has no key with a prefix.
type PrefixReader interface {
	// NewPrefixIterator returns an unpositioned iterator that need not show other keys than
	// those that begin with prefix.
	NewPrefixIterator(prefix []byte) (Iterator, error)
}

// RangeDeleter is implemented by stores that delete a range of keys by one write.
type RangeDeleter interface {
	// DeleteRange deletes the keys from start up to, not including, limit.
	DeleteRange(start, limit []byte, sync bool) error
}

// Counters is implemented by stores that add to a number without reading it.
type Counters interface {
	// Add adds n to the number of 64 bits, little-endian, that is the key's value. A
	// missing key counts as 0.
	Add(key []byte, n uint64, sync bool) error
}

// Transactional is implemented by stores that have transactions.
type Transactional interface {
	// Begin begins a transaction. old is one of the store's that has ended, whose memory may
	// be used again, or nil.
	Begin(old Txn) (Txn, error)
}

// ErrConflict is wrapped by what a call of a transaction that came in another one's way
// returns: it is to be begun again.
var ErrConflict = errors.New("conflict")

// Txn is a transaction, for one goroutine. After an error it is to be rolled back.
type Txn interface {
	// GetForUpdate appends the value to dst. The commit fails with ErrConflict if the key
	// was written since, or nobody else can write it before.
	GetForUpdate(key, dst []byte) (value []byte, found bool, err error)
	// Put copies both.
	Put(key, value []byte) error
	// Delete copies the key.
	Delete(key []byte) error
	// Commit ends the transaction, unless it fails.
	Commit(sync bool) error
	Rollback() error
}

// Snapshot is a frozen view of a store.
type Snapshot interface {
	Reader
	Close() error
}

// Batch is a list of writes applied at once.
type Batch interface {
	Put(key, value []byte)
	Delete(key []byte)
	Clear()
}

// Values are the answers of one MultiGet.
type Values interface {
	// Value returns the i-th answer, valid until the next MultiGet.
	Value(i int) (value []byte, found bool)
}

// Iterator walks keys in order. Key and Value are valid until the next move.
type Iterator interface {
	First() bool
	Last() bool
	SeekGE(key []byte) bool
	SeekLT(key []byte) bool
	Next() bool
	Prev() bool
	Valid() bool
	Key() []byte
	Value() []byte
	Err() error
	Close() error
}

// Codec compresses blocks. What a function returns is valid until its next
// call; it may lie in dst, which callers hand back to be used again.
type Codec struct {
	Encode func(dst, src []byte) []byte
	Decode func(dst, src []byte) ([]byte, error)
	Close  func() // nil: nothing to give back
}

// Metrics are running totals since the store was opened. Unknown marks what
// the engine does not tell.
type Metrics struct {
	WALBytes        int64         // written to logs
	FlushBytes      int64         // written to tables from memory
	CompactionBytes int64         // written to tables by compactions
	Stall           time.Duration // time that writes waited for background work
	CacheHits       int64
	CacheMisses     int64
	DiskSize        int64   // live tables now
	Tables          int64   // live tables now
	Debt            int64   // bytes that compactions still have to move
	Levels          []int64 // bytes of the tables of each level; nil: not told
}

// Unknown is the value of a metric that the engine does not tell.
const Unknown = -1

// UnknownMetrics has every field unknown.
func UnknownMetrics() Metrics {
	return Metrics{
		WALBytes: Unknown, FlushBytes: Unknown, CompactionBytes: Unknown, Stall: Unknown,
		CacheHits: Unknown, CacheMisses: Unknown, DiskSize: Unknown, Tables: Unknown, Debt: Unknown,
	}
}
