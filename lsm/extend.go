package lsm

import (
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Errors. Test with errors.Is; every error that concerns a file names it. Texts do
// not name this library: the program adds the name of the opened database when it wraps them.
var (
	// ErrNotFound: the key has no value.
	ErrNotFound = base.ErrNotFound
	// ErrClosed: the database, snapshot, iterator or another object has been closed; the text says
	// which.
	ErrClosed = base.ErrClosed
	// ErrCorruption: bytes on disk are damaged; errors.As with
	// *CorruptionError gives file, offset and reason.
	ErrCorruption = base.ErrCorruption
	// ErrReadOnly: the database was opened read-only, or a failed write to the log or
	// manifest, or a panic, made it so; the cause is wrapped.
	ErrReadOnly = base.ErrReadOnly
	// ErrLocked: another opening, in this process or another, has the directory. The text names the
	// other process where the system knows it. OpenFollower reads the directory meanwhile.
	ErrLocked = base.ErrLocked
	// ErrBusy: a NoStall write would have had to wait.
	ErrBusy = base.ErrBusy
	// ErrWouldBlock: TryGet could not answer from memory.
	ErrWouldBlock = base.ErrWouldBlock
	// ErrInvalidArgument: an option, a name or the bytes of a batch are malformed or
	// out of range, or a snapshot is another database's.
	ErrInvalidArgument = base.ErrInvalidArgument
	// ErrNotADatabase: the directory holds something else.
	ErrNotADatabase = base.ErrNotADatabase
	// ErrNewerFormat: a newer version of Loam wrote the directory.
	ErrNewerFormat = base.ErrNewerFormat
	// ErrNeedsNative: LevelDB's format, which the directory has, cannot hold what was
	// asked for. Upgrade makes it a native one.
	ErrNeedsNative = base.ErrNeedsNative
	// ErrNoKeyspace: there is no keyspace of that name, or it was dropped.
	ErrNoKeyspace = base.ErrNoKeyspace
	// ErrExists: the database exists, and Options.ErrorIfExists is set.
	ErrExists = base.ErrExists
	// ErrDoesNotExist: there is no database, and Options.ErrorIfMissing or ReadOnly
	// is set.
	ErrDoesNotExist = base.ErrDoesNotExist
	// ErrInUse: a callback made a call that would wait for it; docs/locking.md lists which calls
	// callbacks may make.
	ErrInUse = base.ErrInUse
	// ErrComparerMismatch: the database was created with another comparer.
	ErrComparerMismatch = base.ErrComparerMismatch
	// ErrNoMergeOperator: Merge, and reads of merged keys, need Options.MergeOperator, or the
	// operator differs from that of the operands.
	ErrNoMergeOperator = base.ErrNoMergeOperator
	// ErrMergeFailed: the merge operator failed on the named key, with its error. The
	// operands stay; a Put or Delete of the key ends the failures.
	ErrMergeFailed = base.ErrMergeFailed
	// ErrTooLarge: a key, value or batch is above the limit.
	ErrTooLarge = base.ErrTooLarge
	// ErrDirectoryChanged: files of the open database, LOCK among them, were
	// removed or replaced by another program. What was written last may be gone.
	ErrDirectoryChanged = base.ErrDirectoryChanged

	// The next three are shortages: no later operation fails because of one,
	// and what the background has to do is tried again, at once after Resume.

	// ErrNoSpace: a shortage that heals. The disk or a quota is full, or a file would pass
	// RLIMIT_FSIZE.
	ErrNoSpace = base.ErrNoSpace
	// ErrNoMemory: a shortage that heals. The system refused memory.
	ErrNoMemory = base.ErrNoMemory
	// ErrTooManyFiles: a shortage that heals. The process or the system has no descriptor left.
	ErrTooManyFiles = base.ErrTooManyFiles
)

// CorruptionError says where damaged bytes are and why they were refused. errors.As finds it
// in an error for which errors.Is(err, ErrCorruption) holds.
type CorruptionError struct {
	File   string // name within the directory; "" if unknown
	Offset int64  // bytes from the start of the file; -1 if unknown
	Length int64  // bytes concerned; 0 if unknown
	Kind   string // the structure, such as "table block"
	Reason string // what is wrong, in words, lower case
	Final  bool   // the checksum is right: another read gives the same bytes
}

// Error names file, place, structure and reason.
func (e *CorruptionError) Error() string { return (*base.Corruption)(e).Error() }

// Is makes errors.Is(e, ErrCorruption) hold.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorruption }

// CallbackError is what a comparer panics with to report that it cannot compare: the
// database becomes read-only with this cause, and loses nothing.
type CallbackError struct {
	Callback string // what failed: "comparator"
	Reason   string // why, in the callback's words
}

// Error says which callback failed, and why.
func (e *CallbackError) Error() string { return (*base.CallbackError)(e).Error() }

// As lets the engine recognize the error; programs do not call it.
func (e *CallbackError) As(target any) bool {
	to, ok := target.(**base.CallbackError)
	if ok {
		*to = (*base.CallbackError)(e)
	}
	return ok
}

// Comparer orders the keys of a database. Its fields:
//
//   - Name is stored. A database opens only with the comparer it was created with.
//   - Compare returns a value below, equal to or above 0 for a below, equal to or above b.
//   - Separator appends to dst a short key k with a <= k < b, for a < b; nil: a itself.
//   - Successor appends to dst a short key k >= a; nil: a itself.
//   - EqualIsBytewise says that equal keys are the same bytes. Without it there are no
//     filters and no hash index.
//
// The functions must be pure and safe for concurrent use.
type Comparer = base.Comparer

// MergeOperator makes values of operands, see DB.Merge. Its fields:
//
//   - Name is stored. A keyspace that has operands opens only with their operator.
//   - Full returns the value of key: existing, nil if there is none, with the operands
//     applied in their order, oldest first. Where it returns an error, reads of the key fail
//     with ErrMergeFailed, and nothing is lost.
//   - Partial returns one operand that does what left does and right after it, whatever the
//     existing value is; with false the two stay two operands. It must be associative. nil: there
//     is none.
//
// Both may append the result to dst, which is empty, to save an allocation. They must be pure
// and safe for concurrent use, and keep or change none of their arguments. A panic counts as
// an error. No lock is held while they run, but in the background flushes and compactions wait
// for them: they may read other keys, and calls that would wait for them fail with ErrInUse.
type MergeOperator = mergeop.Operator

// MergeOperatorNamed finds one of the operators that are known by name, which Options.Set
// takes, or nil.
func MergeOperatorNamed(name string) *MergeOperator {
	op, _ := mergeop.Named(name)
	return op
}

// BytewiseComparer is the default order, LevelDB's.
var BytewiseComparer = base.Bytewise

// ReverseBytewiseComparer orders keys by descending bytes.
var ReverseBytewiseComparer = base.ReverseBytewise

// IndexedDBComparer is Chrome's order of IndexedDB keys ("idb_cmp1").
var IndexedDBComparer = base.IndexedDB

// FS is the file system a database lives on. nil in Options is the operating system's, OSFS. A
// wrapper embeds an FS and overrides some of its methods. All are safe for concurrent use. Names
// are absolute paths, which the operating system's own file system resolves from the directory that
// it holds open, and a wrapper of it by name.
//
// Three more methods are optional, and lost where a wrapper does not pass them on:
// Link(oldName, newName string) error gives a file a second name, which spares copies of tables
// where a database is copied; LockShared(name string) (io.Closer, error) is a Lock that readers
// share; ReuseLog(oldName, newName string, ahead int64) (LogFile, int64, error) makes an old log
// the next one, and returns its size.
type FS interface {
	// Create makes a new regular file for writing. It fails with fs.ErrExist where the name is
	// taken, by whatever.
	Create(name string) (WriteFile, error)
	// CreateLog makes a new file as Create does, for appending small records. ahead is how many
	// bytes to allocate ahead of the end, 0 for none.
	CreateLog(name string, ahead int64) (LogFile, error)
	// Open opens a regular file for reading, and refuses everything else.
	Open(name string) (ReadFile, error)
	// Remove deletes a file or an empty directory.
	Remove(name string) error
	// Rename gives a file or directory another name, and replaces a file of that name in one step.
	Rename(oldName, newName string) error
	// MkdirAll makes a directory and its parents.
	MkdirAll(dir string) error
	// List returns the names in a directory, sorted.
	List(dir string) ([]string, error)
	// Stat describes a file; it does not follow a final link.
	Stat(name string) (fs.FileInfo, error)
	// SyncDir makes creations, links, renames and removals in a directory durable.
	SyncDir(dir string) error
	// Lock takes the exclusive lock of a file, which it makes if there is none, until Close. It
	// fails with ErrLocked where the file is locked.
	Lock(name string) (io.Closer, error)
}

// OSFS is the operating system's file system, for wrappers to embed.
func OSFS() FS { return vfs.Default }

// ReadFile is a file that an FS opened for reading. It is safe for concurrent use.
type ReadFile = interface {
	io.ReaderAt
	io.Closer
	// Size is the length in bytes when the file was opened.
	Size() int64
	// Prefetch hints that n bytes from off on will be read soon. It does not block.
	Prefetch(off, n int64)
}

// WriteFile is a file that an FS created, written from front to back by one goroutine at a time.
type WriteFile = interface {
	io.Writer
	// Sync makes what was written durable.
	Sync() error
	// Close does not sync.
	Close() error
}

// LogFile is a log that an FS created, appended to by one goroutine at a time. After an error of
// Append only Truncate and Close follow, after an error of Truncate or Sync only Close.
type LogFile = interface {
	// Append writes all of p at the end, so that it survives the end of the process, and does not
	// keep p. A failed one may leave any part of p at the end.
	Append(p []byte) error
	// Truncate cuts the file back to size bytes, where an earlier Append ended. It does not run
	// beside a Sync.
	Truncate(size int64) error
	// Sync makes everything durable that was appended before the call. It may run beside an Append.
	Sync() error
	// Close does not sync.
	Close() error
}

// Compression says how the blocks of tables are packed: all in one way, or by level, see
// CompressionByLevel.
type Compression uint16

// The compressions of tables.
const (
	// DefaultCompression is SnappyCompression.
	DefaultCompression Compression = iota
	// NoCompression stores blocks as they are.
	NoCompression
	// SnappyCompression packs blocks with Snappy, which every LevelDB reads.
	SnappyCompression
	// ZstdCompression packs blocks with Zstandard, which LevelDB reads since 1.23.
	ZstdCompression
)

// CompressionByLevel is the compression of level 0 and of up to six levels below it; the last one
// counts for all deeper levels. Without levels it is DefaultCompression; Open refuses any other
// list.
func CompressionByLevel(levels ...Compression) Compression {
	list := make([]sstable.PerLevel, len(levels))
	for i, l := range levels {
		list[i] = l.perLevel()
	}
	return Compression(sstable.ByLevel(list))
}

// String is what Options.Set takes: "none", "snappy" or "zstd", or several of them, for level 0
// and the levels below it, with commas between.
func (c Compression) String() string { return c.perLevel().String() }

func (c Compression) perLevel() sstable.PerLevel { return sstable.PerLevel(c) }

// Format names what is written into a database's directory.
type Format uint8

// The formats of databases.
const (
	// DefaultFormat is FormatNative.
	DefaultFormat Format = iota
	// FormatLevelDB is LevelDB's format, which every LevelDB opens. It has neither keyspaces
	// nor merges nor range deletes.
	FormatLevelDB
	// FormatNative is Loam's own format, which no other engine opens.
	FormatNative
)

var formatNames = []string{"default", "leveldb", "native"}

// String is the name that Options.Set takes: "leveldb" or "native".
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return "unknown"
}

func (f Format) dir() base.Format {
	if f == FormatLevelDB {
		return base.LevelDB
	}
	return base.Native
}

// MmapMode says whether tables are read in place, where their files are mapped.
type MmapMode uint8

// The modes of Options.Mmap.
const (
	// MmapAuto maps tables on 64-bit Linux and macOS, on file systems that are known to
	// be local.
	MmapAuto MmapMode = iota
	// MmapOn maps tables on all file systems of these systems.
	MmapOn
	// MmapOff reads tables by system calls only.
	MmapOff
)

var mmapNames = []string{"auto", "on", "off"}

// String is the name that Options.Set takes: "auto", "on" or "off".
func (m MmapMode) String() string {
	if int(m) < len(mmapNames) {
		return mmapNames[m]
	}
	return "unknown"
}

// Cache is a block cache that any number of databases may share. It is safe
// for concurrent use. Make one with NewCache.
type Cache struct {
	c      *cache.Cache
	closed atomic.Bool
}

// NewCache makes a cache of the given capacity in bytes, its own metadata, the
// tables' indexes and filters included. The memory lies outside the Go heap
// and is taken as it fills. Close it when no database will be opened with it
// any more.
func NewCache(capacity int64) *Cache { return &Cache{c: cache.New(max(capacity, 0))} }

// Close gives up the caller's hold; the memory goes when the last database
// using the cache is closed. Open with it fails with ErrClosed from then on.
// Closing twice is harmless. It is safe for concurrent use.
func (c *Cache) Close() {
	if c.c != nil && !c.closed.Swap(true) {
		c.c.Unref()
	}
}

// hold returns the cache with a reference.
func (c *Cache) hold() (*cache.Cache, error) {
	if c.c == nil {
		return nil, fmt.Errorf("%w: the cache was not made by NewCache", ErrInvalidArgument)
	}
	if c.closed.Load() || !c.c.Ref() {
		return nil, fmt.Errorf("%w: the shared cache", ErrClosed)
	}
	return c.c, nil
}

// TableInfo names a table in an event.
type TableInfo struct {
	Number uint64 // of its file
	Level  int    // where it was, of an input; where it is, of an output
	Size   uint64 // bytes
}

// FlushInfo describes a flush of one memtable.
type FlushInfo struct {
	Bytes    int64         // of the memtable's entries
	Output   []TableInfo   // tables written
	Duration time.Duration // of the flush
	Err      error         // why it failed, or nil; a failed flush is tried again
}

// CompactionInfo describes a compaction. At its begin Output, Duration and Err are
// not set.
type CompactionInfo struct {
	Reason      string        // why it was picked, in words
	Inputs      []TableInfo   // tables merged or moved
	OutputLevel int           // the level of the outputs
	Output      []TableInfo   // tables written or moved
	TrivialMove bool          // the inputs change their level without being rewritten
	Duration    time.Duration // of the compaction
	Err         error         // why it failed or was given up, or nil
}

// StallInfo describes a write that had to wait.
type StallInfo struct {
	// Cause is "memtables" (as many as there may be wait for their flush: the write is
	// delayed, or waits when the current one is full, too), "level0"
	// (Options.L0Stop is reached) or "debt" (level 0 fills up, or the tables take much
	// more space than what is live in them).
	Cause    string
	Duration time.Duration // of the wait
}

// EventListener takes events of background work. Fields may be nil. Calls
// come one at a time, in the order of the events, on a goroutine that does nothing
// else and exists only while there is something to tell; Options.Logger is called
// by it, too. So a call may use the database as it likes, Close included, and if
// it blocks, only later calls wait: up to 1,024 of them, further ones are dropped
// (Metrics.EventsDropped). ReadOnly is never dropped. Close waits up to a second
// for the calls to end; none begins after Close has returned. A panic in one of
// them makes the database read-only.
type EventListener struct {
	// FlushBegin reports that a flush begins.
	FlushBegin func()
	// FlushEnd reports that a flush ended, well or with an error.
	FlushEnd func(FlushInfo)
	// CompactionBegin reports that a compaction begins.
	CompactionBegin func(CompactionInfo)
	// CompactionEnd reports that a compaction ended, well or with an error.
	CompactionEnd func(CompactionInfo)
	// WriteStall reports a wait of a writer, when it has ended.
	WriteStall func(StallInfo)
	// BackgroundError reports a failed flush or compaction, which is tried again, and a
	// merge operator that failed in one, whose operands stay as they are.
	BackgroundError func(error)
	// ReadOnly reports the failure that made the database read-only.
	ReadOnly func(cause error)
}
