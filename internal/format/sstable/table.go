// Package sstable is the contract between the engine and its table formats
// (sstable/ldb, sstable/native). The engine sees tables only through
// Reader and Writer; package files picks the format by the footer's magic.
package sstable

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/os/vfs"
)

// ReadFlags modify a read.
type ReadFlags uint8

const (
	// MemoryOnly answers from memory or fails with base.ErrWouldBlock.
	MemoryOnly ReadFlags = 1 << iota
	// NoFill leaves the block cache as it is.
	NoFill
	// Scan marks a long sequential read: the reader may read ahead.
	Scan
	// Private reads past the cache altogether, in large chunks, and builds no
	// point-lookup columns: for compactions.
	Private
	// NoValue says that the caller does not look at the value. A value in a log is not read then.
	NoValue
)

// Position is how far a point read has come in a table: as far as memory leads,
// which is a data block or, of an index that is only partly in memory, a part of
// it. It means something to the Reader that gave it and to no other.
type Position uint64

// Hit is an entry that a point read found, or the cost of finding none.
type Hit struct {
	Trailer  base.Trailer
	Position Position // from which GetNext goes on
	// Searched is the cost of a block that was searched in vain, in searches of a cached block:
	// SearchedCached or SearchedRead; 0 if none was searched.
	Searched uint32
}

// Costs of searching a block for a key that it does not have.
const (
	SearchedCached = 1
	SearchedRead   = 8 // the block is read from the file and decompressed
)

// Pinned is a data block that stays in the cache until it is released. The zero Pinned is not
// Valid.
type Pinned = cache.Frame

// Reader reads one immutable table. It is safe for concurrent use.
//
// A point read has stages so that a batch of keys can go through them side by
// side: PrefetchFilter, MayContain (filter), Find (index), Prefetch, then for a block in the
// cache Pin and GetPinned, else GetAt. All take the same Lookup, of base.MakeLookup.
type Reader interface {
	// Get appends the newest visible value of the key to dst. found is false, and
	// dst as it was, when this table holds no visible entry of the key; hit says
	// what kind of entry it is, which may be one without a value. With
	// base.ErrWouldBlock, GetAt goes on from hit.Position.
	Get(l base.Lookup, flags ReadFlags, dst []byte) (value []byte, hit Hit, found bool, err error)
	// PrefetchFilter hints that MayContain will be called; it does not block.
	PrefetchFilter(l base.Lookup)
	// MayContain reports whether the filter, if any, admits the key.
	MayContain(l base.Lookup) bool
	// MayContainRange reports whether there may be entries with user keys in [lower, upper); a
	// nil upper is no bound. It says no only by a filter that holds prefixes, see
	// WriterOptions.PrefixLength.
	MayContainRange(lower, upper []byte) bool
	// Find begins a Get in memory. It reports false when that already
	// tells that the table ends before the key.
	Find(l base.Lookup) (Position, bool)
	// Prefetch hints that Pin or GetAt will be called; it does not block.
	Prefetch(p Position)
	// Pin pins the data block at p if it is in the cache, and starts loading the entry into the
	// processor's cache. GetPinned must follow, or Entry and Release.
	Pin(p Position, l base.Lookup) (Pinned, bool)
	// GetPinned is GetAt in a block of Pin, which it releases.
	GetPinned(b Pinned, p Position, l base.Lookup, dst []byte) (value []byte, hit Hit, found bool)
	// Entry is GetPinned that releases nothing: the value lies in the block.
	Entry(b Pinned, p Position, l base.Lookup) (value []byte, hit Hit, found bool)
	// GetAt is Get from where Find, or a Get with base.ErrWouldBlock, stopped.
	GetAt(p Position, l base.Lookup, flags ReadFlags, dst []byte) (value []byte, hit Hit,
		found bool, err error)
	// GetNext is Get for the newest entry of the key that is older than prev, which
	// Get, GetAt or GetNext found for l. After base.ErrWouldBlock it is called
	// again with the same prev.
	GetNext(prev Hit, l base.Lookup, flags ReadFlags, dst []byte) (value []byte, hit Hit,
		found bool, err error)
	// NewSource iterates over the table, range tombstones left out.
	NewSource(flags ReadFlags) base.Source
	// RangeDels are the table's range tombstones, which are in memory; nil: it has none.
	// They may be used after Close.
	RangeDels() *rangedel.List
	// OffsetOf estimates the file offset at which the key's data begins.
	OffsetOf(key []byte, t base.Trailer) uint64
	// SplitKeys returns ascending user keys that cut the table into parts of about the
	// same size: n parts, or as many as there are blocks if these are fewer. The keys
	// need not be those of entries. It does not read the file.
	SplitKeys(n int) [][]byte
	// Cached is how many of the table's blocks are in the block cache.
	Cached() int
	// Warm reads the blocks into the cache, from the first on, until they take
	// room bytes there, and says how many they took. stop is asked every 200 us or
	// so; its error ends it.
	Warm(room int64, stop func() error) (used int64, err error)
	// VerifyMeta reads the blocks without entries that opening the table did not read, and
	// checks them.
	VerifyMeta() error
	// Layout lists the pieces of the file in their order.
	Layout() ([]Piece, error)
	// MemoryUsage is the bytes of index, filter and cache slots held.
	MemoryUsage() int64
	// Props describes the table.
	Props() Props
	// Close frees the memory; nobody may be reading.
	Close() error
}

// Props is what a reader or writer knows about a table as a whole. Zero where
// the format does not record it.
type Props struct {
	Size       uint64 // bytes of the file
	Entries    uint64
	Deletes    uint64
	RawKeys    uint64 // bytes of user keys + trailers
	RawValues  uint64
	Blocks     int
	FilterBits int // per key, 0 without filter
	// PrefixLength is the length of the prefixes in the filter, 0 if there are none.
	PrefixLength int
	Format       string // "ldb", "native"
	// Outside says that the table was written outside of a database, with sequence number 0
	// for all that is in it.
	Outside bool
	// FileNum is the number that the table was written with; 0: it records none.
	FileNum uint64
	// Recorded is the crc32c of the file by what the table records of itself; 0: not known.
	Recorded uint32

	Keyspace     base.KeyspaceID
	KeyspaceName string
	// FirstLog: what the keyspace has in logs before it is in this table, or was in others when it
	// was begun.
	FirstLog             uint64
	Ingested             []Ingested
	Comparer             string // name
	RangeDels            uint64 // range tombstones, which are no Entries and no Deletes
	Kinds                uint64 // bit k: there are entries of kind k
	MinSeq, MaxSeq       base.SeqNum
	MinExpiry, MaxExpiry uint64 // seconds since 1970 of the first and last expiry
	// Sample is of the keys. nil where the comparer's equality is not bytewise, and for an opened
	// table without one.
	Sample *base.KeySample
}

// ForRepair is what a table of the native format records of the database, for a repair without a
// MANIFEST.
type ForRepair struct {
	FirstLog uint64            // Props.FirstLog; 0: not known
	Ingested func() []Ingested // Props.Ingested, asked when the table ends; nil: none
}

// Ingested is a table that an ingest added, whose file says neither its keyspace nor its sequence
// number. Tables that are written later record it, for a repair without a MANIFEST.
type Ingested struct {
	Num      uint64      // of the file
	Seq      base.SeqNum // of all that is in it
	Keyspace base.KeyspaceID
}

// MaxIngested is how many ingested tables a table records, the newest ones.
const MaxIngested = 1024

// Coverage is the part of a table that a source returned since it was last
// positioned, moving forward.
type Coverage struct {
	From, To int    // blocks [From, To), without a gap
	Entries  uint64 // of these blocks
	Blocks   int    // of the whole table, by its index
	Total    uint64 // entries of the whole table; 0 where the format does not record it
}

// Covered is a source that knows its Coverage: every one opened with Private.
type Covered interface {
	base.Source
	Coverage() Coverage
}

// Redirected is a source that can read its blocks by another descriptor of the table's file.
type Redirected interface {
	base.Source
	// ReadFrom has the source use f from now on, and close it.
	ReadFrom(f vfs.ReadFile)
}

// Salvage takes what is readable of a damaged table.
type Salvage struct {
	// Add takes entries in strictly ascending internal order, range tombstones among
	// them. An error ends the salvage.
	Add func(key []byte, t base.Trailer, codec base.Codec, value []byte) error
	// Lost takes every unreadable part.
	Lost func(Lost)
}

// Lost is a part of a damaged table that cannot be read.
type Lost struct {
	Offset, Length int64 // bytes of the file; Length is 0 when unknown
	Reason         string
	// Smallest and Largest are user keys between which the lost entries lie; nil
	// where unknown.
	Smallest, Largest []byte
}

// Meta describes a finished table.
type Meta struct {
	Props
	Smallest, Largest base.InternalKey
	Checksum          uint32 // crc32c of the whole file; 0 where the format has none
	// ValueLogs are the logs that entries of base.KindValueHandle lead into, in the order of their
	// numbers.
	ValueLogs []base.ValueLog
}

// Writer writes one table. It is used by one goroutine.
type Writer interface {
	// Add takes entries in strictly ascending internal order; an order
	// violation is an error. It retains nothing of its arguments. Range tombstones,
	// of kind KindRangeDelete with the limit as value, are the fragments of a
	// rangedel.List, newest first: they ascend among themselves, and come before or
	// after any entry.
	Add(key []byte, t base.Trailer, codec base.Codec, value []byte) error
	// EstimatedSize is the size of the file if it were finished now.
	EstimatedSize() uint64
	// Entries is how many have been added, range tombstones left out.
	Entries() uint64
	// Finish writes the rest and starts to make it durable; it frees the buffers. Only
	// Sync and Close may follow.
	Finish() (Meta, error)
	// Sync makes the finished table durable. Several tables are finished first and then
	// synced, as one commit of the file system's journal may serve them all.
	Sync() error
	// Close closes the file, whether finished or abandoned, and frees buffers.
	Close() error
}

// MaxPrefixLength is the greatest WriterOptions.PrefixLength.
const MaxPrefixLength = 255

// WriterOptions configures a table; the caller fills in every field.
type WriterOptions struct {
	Format          base.Format // of the directory, and of the table
	Comparer        *base.Comparer
	BlockSize       int // bytes of a block before compression
	RestartInterval int // entries between restart points
	Compression     Compression
	Levels          PerLevel // what ForLevel goes by; 0: Compression
	// MaxDecoded is that of the readers, see blocktable.Env: blocks are made so that they accept
	// them. 0: that of readers with the default, which is also the most that writers go by.
	MaxDecoded uint32
	ZstdLevel  int
	BloomBits  int // per key in the whole-table filter, 0 for none
	// PrefixLength is how many bytes at the beginnings of keys the filter holds besides the
	// keys; 0: none. Only the bytewise comparer has such filters.
	PrefixLength int
	// FileNum is the number of the file and Keyspace the one that its entries are of; the
	// native format records both. 0: not known.
	FileNum  uint64
	Keyspace base.KeyspaceID
	// KeyspaceName is recorded by the native format, for a repair without a MANIFEST.
	KeyspaceName string
	// ForRepair is recorded for the same; nil: nothing.
	ForRepair *ForRepair
	// FineSample records a sample of more keys, see base.KeySample.
	FineSample bool
	// Spare has the buffers of writers that a job has finished; nil: none.
	Spare         *Spare
	LevelDBFilter bool // also write LevelDB's own filter blocks
	// MaxWhole is the memory of an index and a filter above which the native format cuts them into
	// parts, except in level 0; 0: as much as an index may take that is not cut.
	MaxWhole int
	DirectIO bool // past the page cache, where the file system lets that
	// Pace is called after so many bytes were written, and may sleep; nil: it is not.
	Pace func(bytes int64)
}

// Prefixes is how long the prefixes in the filter are, 0 if it has none.
func (o *WriterOptions) Prefixes() int {
	if o.BloomBits <= 0 || o.Comparer.Name != base.Bytewise.Name {
		return 0
	}
	return max(o.PrefixLength, 0)
}

// ForLevel returns the options of a table of a level.
func (o WriterOptions) ForLevel(level int) WriterOptions {
	if o.Levels != 0 {
		o.Compression = o.Levels.At(level)
	}
	if level == 0 {
		o.MaxWhole = 0
	}
	return o
}
