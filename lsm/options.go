package lsm

import (
	"log/slog"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/events"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/base/options"
	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/store/wal"
	"github.com/loamdb/loam/internal/store/work"
)

// Options configures a database. A nil *Options and a zero field mean the default. Options are read
// at Open, which fails with ErrInvalidArgument for a value out of range; later changes of the
// struct have no effect. DB.SetOption changes options of an open database.
type Options struct {
	upgrade bool // a LevelDB directory becomes a native one; default false
	follow  bool // as OpenFollower does; default false

	inspector *inspect.Server // set by Open; default nil: nobody is answered

	// What is opened.

	// ErrorIfMissing fails Open with ErrDoesNotExist where there is no database.
	// The default, false, creates one.
	ErrorIfMissing bool
	// ErrorIfExists fails Open with ErrExists where there is a database. The default is false.
	ErrorIfExists bool
	// ReadOnly opens a database without changing anything on disk; writes fail with ErrReadOnly.
	// Any number of read-only openings share the directory, but while a writer has it open they
	// fail with ErrLocked; OpenFollower reads beside a writer. The logs are replayed into memory.
	// The default is false.
	ReadOnly bool
	// FollowInterval bounds the age of the state that reads of a Follower show. While there are
	// reads, the Follower catches up in the background at this interval; the first read after a
	// pause waits until it has caught up. The default, 0, catches up only when CatchUp is called.
	// Only OpenFollower uses it.
	FollowInterval time.Duration
	// NoCreateDirs creates the directory of a new database, but not its parents: a misspelled path
	// is an error. The default, false, creates parents, too.
	NoCreateDirs bool

	// What the caller plugs in.

	// Format is the format of a new database. The default is FormatNative, which no other
	// engine opens; FormatLevelDB is for directories that LevelDB and its tools open too. A
	// database that exists keeps the format that it has; Upgrade and Export change it.
	Format Format
	// Comparer is the order of keys. The default is BytewiseComparer, LevelDB's. Its name is
	// stored: Open with a comparer of another name fails with ErrComparerMismatch. It is called
	// with locks held, so it must not call the database.
	Comparer *Comparer
	// Comparers are the orders of keyspaces that neither are Comparer nor built in: Open must know
	// the order of every keyspace. The default is none.
	Comparers []*Comparer
	// CompactionFilter decides in compactions which entries of the default keyspace to drop or
	// change, for instance outdated ones. The default, nil, keeps all. Other keyspaces have filters
	// of their own, see KeyspaceOptions.
	CompactionFilter *CompactionFilter
	// MergeOperator makes values of the operands of Merge in the default keyspace. Its name is
	// stored. The default, nil, is the stored one if it is known by name, see MergeOperatorNamed.
	// Open fails with ErrNoMergeOperator where there are operands of an unknown operator, or of
	// another one. See docs/merge.md.
	MergeOperator *MergeOperator
	// MergeOperators are the operators of other keyspaces. Open gives each keyspace the one whose
	// name it has stored, so that reads, compactions and Export can use it before a call of
	// DB.Keyspace names it. The default is none.
	MergeOperators []*MergeOperator
	// DefaultTTL is the time to live of values in the default keyspace that are written without
	// one, as by Put; it is rounded up to seconds. See DB.PutTTL. It is not stored: each Open sets
	// it again. The default, 0, is for ever. KeyspaceOptions has the one of another keyspace.
	DefaultTTL time.Duration
	// Clock tells the time by which values expire. Time never goes back: an answer earlier than a
	// previous one, or than 1970, counts as the previous one, or as 1970. Clock is called with
	// locks held, so it must not call the database. A panic in it is an error of Open; later it
	// makes the database read-only, and the time stands still. The default, nil, is time.Now.
	Clock func() time.Time
	// FS is the file system. It is called with locks held, so it must not call the database. The
	// default, nil, is that of the operating system, OSFS.
	FS FS
	// Encryption gives the keys by which all files with keys and values are encrypted, with
	// AES-256-GCM; the native format has it alone, see docs/encryption.md. Mmap, CompactionDirectIO
	// and LargeValue have no effect then. Open fails with ErrEncryption where a key is missing or
	// wrong, where the database is encrypted and Encryption is nil, and, without AllowClear, where
	// the database is not encrypted. The default, nil, encrypts nothing.
	Encryption KeyProvider
	// AllowClear, beside Encryption, lets Open read files that are not encrypted: new files are,
	// and Rekey encrypts the others. Export writes a clear database then. The default is false.
	AllowClear bool
	// Logger takes messages about failures. It is called on the goroutine of the EventListener, and
	// may call the database. The default, nil, discards the messages.
	Logger *slog.Logger
	// Events takes events of background work. The default, nil, is no listener.
	Events *EventListener
	// Inspect opens a socket in the directory that answers other processes of the same user, loam
	// top for instance; see docs/observe.md. On systems without such sockets Open fails with
	// errors.ErrUnsupported. LOAM_INSPECT=1 in the environment sets Inspect for all databases of
	// the process; then Open succeeds without a socket, too. Read-only openings and followers open
	// no socket. The default is false.
	Inspect bool

	// Memory.

	// Cache is a block cache that several databases may share; it overrides CacheSize. The default,
	// nil, gives the database a cache of its own, of CacheSize bytes.
	Cache *Cache
	// Resources bounds memory, background work and descriptors of several databases together. Its
	// memory overrides CacheSize and bounds memtables, too. The default, nil, shares nothing.
	Resources *Resources
	// CacheSize is the size of the database's own block cache in bytes, which includes the indexes
	// and filters of tables. The default is 64 MiB; negative: no cache. The cache should hold the
	// data that is read again and again.
	CacheSize int64
	// WriteBufferSize is the size of a memtable in bytes. The default is 64 MiB. A larger one makes
	// fewer and larger tables in level 0, and takes longer to replay from the log at Open.
	WriteBufferSize int64
	// MaxMemtables is how many memtables a keyspace may have, the one that takes writes included,
	// before writes wait for a flush. The default is 3: one takes writes, one is flushed, one
	// waits.
	MaxMemtables int
	// MaxMemtableBytes bounds the memory of the memtables of all keyspaces together, in bytes. When
	// the memtables that take writes reach half of it, the largest are flushed; when all memtables
	// reach it, writes wait for flushes. The default, 0, is MaxMemtables times WriteBufferSize, as
	// much as one keyspace may have.
	MaxMemtableBytes int64
	// MaxOpenFiles is how many table files the database keeps open at once. The default is 1000.
	// All databases of the process together open at most half of its limit of descriptors, and
	// 16,384. A read of a table that is not open opens it first.
	MaxOpenFiles int

	// Tables. A change applies to tables written from then on.

	// BlockSize is the size of a table's block in bytes before compression, the unit of reading.
	// The default is 4 KiB, LevelDB's. Larger blocks compress better; a random read costs more.
	// What all keys of a native block share beyond 64 bytes is stored, and counts, once.
	BlockSize int
	// BlockRestartInterval is the number of entries between restart points, whose
	// keys are stored whole. The default is 16, LevelDB's; a larger one saves bytes.
	BlockRestartInterval int
	// MaxFileSize is the size in bytes at which a compaction starts another table. The default is
	// 64 MiB. A smaller one lets a compaction rewrite less at a time, at the price of more files.
	MaxFileSize int64
	// Compression is how blocks are packed, by level if it is a CompressionByLevel. The
	// default is SnappyCompression, which every LevelDB reads.
	Compression Compression
	// ZstdLevel is the effort of ZstdCompression, from 1 (fast) to 4 (small). The
	// default is 1, as compactions repeat the effort.
	ZstdLevel int
	// BloomBits is the size of a table's filter in bits per key. The default is 10: about one in a
	// hundred lookups of a missing key reads a block in vain. Negative: no filter. There is no
	// filter either with a Comparer whose EqualIsBytewise is false.
	BloomBits int
	// PrefixLength makes filters hold the first PrefixLength bytes of each key, too. An iterator
	// whose bounds or Prefix lie within one such prefix skips the tables that have no key with it.
	// It works only with the order of BytewiseComparer, and needs filters: with BloomBits below 0,
	// Open fails with ErrInvalidArgument. The default, 0, adds no prefixes.
	PrefixLength int
	// LevelDBFilter adds the filter blocks that LevelDB reads to tables in LevelDB's format, beside
	// Loam's own. The default, false, saves these bytes; LevelDB opens tables without them.
	LevelDBFilter bool
	// MaxDecodedBlock is the size in bytes above which a compressed block is refused
	// as damage, so that a hostile file cannot take all memory. Blocks are written accordingly, so
	// values of more than half of it, or of 32 MiB, are not compressed. A table that was written
	// with a larger one may be refused. The default is 64 MiB.
	MaxDecodedBlock int64
	// Mmap says whether blocks that are not cached are read in place, in the mapped files of
	// tables, which saves a system call and a copy each. The default is MmapAuto. MmapOff is for
	// programs that handle SIGBUS themselves, and for disks that may stop answering for a while: a
	// page fault blocks a thread, a system call only a goroutine. Under a Comparer of the program
	// tables are read by system calls, too.
	Mmap MmapMode

	// Background work.

	// CompactionDirectIO makes compactions read and write tables without the page cache of the
	// operating system (O_DIRECT), so that they do not displace other pages. If the file system
	// does not support it, and on systems other than Linux, they use the page cache. The default is
	// false.
	CompactionDirectIO bool
	// MaxBackgroundJobs is how many pieces of automatic compactions run at once. A flush does not
	// count: it has its own goroutine. The default is the number of processors that Go uses, at
	// least 2.
	MaxBackgroundJobs int
	// MaxSubcompactions is the number of pieces into which one compaction is cut, each on a
	// goroutine of its own. The default is the number of processors that Go uses, at least 2.
	MaxSubcompactions int
	// CompactionRate bounds the reads and writes of flushes and compactions in bytes a second,
	// except while writers wait for them. The default, 0, is no bound.
	CompactionRate int64
	// L0Compaction is the number of tables in level 0 that starts a compaction. The default is 4,
	// as in LevelDB, or L0Stop - 1 if that is less. With a larger number compactions write less,
	// and every read searches more tables.
	L0Compaction int
	// L0Stop is the number of tables in level 0 at which writes wait; from half of it on they are
	// delayed. It must be above L0Compaction. The default is 40, or L0Compaction + 8 if
	// L0Compaction is 40 or more: level 0 takes new tables while a large run is merged.
	L0Stop int
	// LargeValue is the length in bytes from which on a value is written only once, to the log:
	// tables refer to it, and the log stays as long as they do. Compactions copy values only out of
	// logs most of whose values are obsolete. Merge operands stay in tables, what is made of them
	// does not. Versions before 0.3 refuse a database with such references. It has no effect in
	// LevelDB's format. The default, 0, stores all values in tables. See docs/values.md.
	LargeValue int64
	// MaxMergeOperands is how many operands of one key a read may fold without consequence. When
	// reads fold more again and again, the memtable is flushed and sorted runs are merged, which
	// replaces the operands by a value. The default is 1000.
	MaxMergeOperands int
	// MaxSpaceAmplification is the size of the tables at which compactions for space begin, as a
	// multiple of the live bytes: those that are neither overwritten nor deleted. The same is true
	// of LargeValue's files. The default is 1.3. While writes are fast it counts as at least 1.5,
	// because these compactions delay writes. At 1.7 times the live bytes writes begin to be
	// delayed, and during compactions the tables take up to 2 times; with a value above 1.5 both
	// limits grow. Level 0, which is merged when it has L0Compaction tables, comes on top.
	MaxSpaceAmplification float64
	// WALPreallocate is how many bytes are allocated ahead of the log's end, so that an append does
	// not change the file's metadata. The default is 8 MiB; negative: none. If the process is
	// killed, these bytes stay in the file as zeros.
	WALPreallocate int64
	// MaxWALSize is the size of all logs together, in bytes, above which the keyspaces that need
	// the oldest log are flushed: otherwise a rarely written keyspace would keep all logs since its
	// last flush. The default, 0, is four times WriteBufferSize.
	MaxWALSize int64
	// WALRetentionBytes keeps obsolete logs for feeds of changes, up to this many bytes together.
	// The default, 0, keeps none, or means no limit of bytes if WALRetentionTime is set. If both
	// are set, a log is deleted when it exceeds either limit.
	WALRetentionBytes int64
	// WALRetentionTime keeps obsolete logs for feeds of changes for this long after their last
	// write. The default, 0, keeps none, or means no limit of time if WALRetentionBytes is set.
	WALRetentionTime time.Duration
	// PlainWAL appends to the log by system calls only, for programs that handle SIGBUS themselves.
	// The default, false, appends by stores into the mapped file where the system allows it: a
	// store costs less than a system call.
	PlainWAL bool
	// DisableCompaction opens the database with automatic compaction paused, for instance to load
	// much data; ResumeCompaction starts it. The default is false.
	DisableCompaction bool
}

// optionTable drives defaults, validation, Set and the documentation. An option is a field and a
// row.
var optionTable = options.Table[Options]{
	{Name: "error_if_missing", Doc: "fail when there is no database instead of creating it",
		Field: func(o *Options) any { return &o.ErrorIfMissing }},
	{Name: "error_if_exists", Doc: "fail when the database exists",
		Field: func(o *Options) any { return &o.ErrorIfExists }},
	{Name: "create_dirs", Doc: "make missing parent directories of a new database too; false by " +
		"default in C, Java and Python", Inverted: true,
		Field: func(o *Options) any { return &o.NoCreateDirs }},
	{Name: "read_only", Doc: "change nothing on disk",
		Field: func(o *Options) any { return &o.ReadOnly }},
	{Name: "follow",
		Doc:   "read what another process writes, see docs/follower.md; OpenFollower sets it",
		Field: func(o *Options) any { return &o.follow }},
	{Name: "follow_interval", Doc: "how often a follower catches up by itself, with ms, m or h " +
		"behind it if not in seconds; 0: never", Unit: "seconds", Min: 0,
		Max:   (1<<63 - 1) / int64(time.Second),
		Field: func(o *Options) any { return &o.FollowInterval }},
	{Name: "format", Doc: "format of a new database: native, or leveldb, which LevelDB opens too",
		Default: int64(FormatNative), Min: 0, Max: 2, Field: func(o *Options) any {
			return options.Choice{Value: (*uint8)(&o.Format), Names: formatNames}
		}},
	{Name: "comparator", Doc: "order of keys, by the name that the database stores",
		Field: func(o *Options) any { return comparerField(&o.Comparer) }},
	{Name: "compaction_filter", Dynamic: options.Part, Doc: "entries that compactions remove: " +
		"prefix: and the beginnings of their keys, separated by commas, %xx being a byte; or " +
		"none", Field: func(o *Options) any { return filterField(&o.CompactionFilter) }},
	{Name: "merge_operator", Doc: "makes values of operands, by the name that the database " +
		"stores: uint64add, int64add, max, min, append, append:DELIMITER or json_merge",
		Field: func(o *Options) any { return mergeOperatorField(&o.MergeOperator) }},
	{Name: "default_ttl", Dynamic: options.Part, Doc: "how long values live that are put without " +
		"a time to live, with ms, m or h behind it if not in seconds; 0: for ever",
		Unit: "seconds", Min: 0, Max: (1<<63 - 1) / int64(time.Second),
		Field: func(o *Options) any { return &o.DefaultTTL }},
	{Name: "encryption", Doc: "keys of the encryption: file: and the path of a key file, key: " +
		"and 64 hexadecimal digits, passphrase: and a passphrase, or none; native",
		Field: func(o *Options) any { return encryptionField(&o.Encryption) }},
	{Name: "allow_clear", Doc: "beside encryption, read files that are not encrypted, and export " +
		"clear ones", Field: func(o *Options) any { return &o.AllowClear }},
	{Name: "inspect", Doc: "answer loam top and others on a socket in the directory, see " +
		"docs/observe.md; LOAM_INSPECT=1 in the environment sets it",
		Field: func(o *Options) any { return &o.Inspect }},
	{Name: "cache_size", Dynamic: options.Whole,
		Doc: "block cache, indexes and filters included; 0: none", Unit: "bytes", Default: 64 << 20,
		Min: -1, Max: 1 << 46, NoneBelow: true,
		Field: func(o *Options) any { return &o.CacheSize }},
	{Name: "write_buffer_size", Dynamic: options.Part, Doc: "size of one memtable", Unit: "bytes",
		Default: 64 << 20, Min: 64 << 10, Max: 2 << 30,
		Field: func(o *Options) any { return &o.WriteBufferSize }},
	{Name: "max_memtables", Dynamic: options.Whole, Doc: "memtables in memory before writes wait",
		Unit: "memtables", Default: 3, Min: 2, Max: 64,
		Field: func(o *Options) any { return &o.MaxMemtables }},
	{Name: "max_memtable_bytes", Dynamic: options.Whole,
		Doc:  "memory of the memtables of all keyspaces; 0: max_memtables write buffers",
		Unit: "bytes", Min: 0, Max: 1 << 46,
		Field: func(o *Options) any { return &o.MaxMemtableBytes }},
	{Name: "max_open_files", Dynamic: options.Whole,
		Doc: "table files kept open at once, within the process's limit", Unit: "files",
		Default: 1000, Min: 4, Max: 1 << 20,
		Field: func(o *Options) any { return &o.MaxOpenFiles }},
	{Name: "block_size", Dynamic: options.Part, Doc: "size of a table block before compression",
		Unit: "bytes", Default: 4 << 10, Min: 256, Max: 4 << 20,
		Field: func(o *Options) any { return &o.BlockSize }},
	{Name: "block_restart_interval", Dynamic: options.Part,
		Doc: "entries between restart points of a block", Unit: "entries", Default: 16, Min: 1,
		Max: 1 << 16, Field: func(o *Options) any { return &o.BlockRestartInterval }},
	{Name: "max_file_size", Dynamic: options.Whole,
		Doc: "size at which a compaction starts another table", Unit: "bytes", Default: 64 << 20,
		Min: 64 << 10, Max: 1 << 40, Field: func(o *Options) any { return &o.MaxFileSize }},
	{Name: "compression", Dynamic: options.Part, Doc: "none, snappy or zstd, or one for level 0 " +
		"and each level below it, as in none,snappy,zstd: the last one counts for all deeper " +
		"levels", Default: int64(SnappyCompression), Field: func(o *Options) any {
		return options.Choices{Value: (*uint16)(&o.Compression), Names: sstable.CompressionNames}
	}},
	{Name: "zstd_level", Dynamic: options.Part, Doc: "zstd effort from 1 (fast) to 4 (small)",
		Default: 1, Min: 1, Max: 4, Field: func(o *Options) any { return &o.ZstdLevel }},
	{Name: "bloom_bits", Dynamic: options.Part, Doc: "filter bits per key; 0: none", Unit: "bits",
		Default: 10, Min: -1, Max: maxBloomBits, NoneBelow: true,
		Field: func(o *Options) any { return &o.BloomBits }},
	{Name: "prefix_length", Dynamic: options.Part, Doc: "filters also hold so many bytes at the " +
		"beginnings of keys, and iterators within one prefix pass over tables without it; 0: " +
		"none", Unit: "bytes", Min: 0, Max: sstable.MaxPrefixLength,
		Field: func(o *Options) any { return &o.PrefixLength }},
	{Name: "leveldb_filter", Dynamic: options.Part,
		Doc:   "also write the filter blocks that LevelDB reads",
		Field: func(o *Options) any { return &o.LevelDBFilter }},
	{Name: "max_decoded_block", Doc: "compressed blocks that declare more than this are refused",
		Unit: "bytes", Default: 64 << 20, Min: 1 << 20, Max: 4<<30 - 1,
		Field: func(o *Options) any { return &o.MaxDecodedBlock }},
	{Name: "mmap", Doc: "read tables in place in mapped files: auto (on local file systems), on " +
		"or off; C, Java, Node and Python take auto for off", Max: 2, Field: func(o *Options) any {
		return options.Choice{Value: (*uint8)(&o.Mmap), Names: mmapNames}
	}},
	{Name: "compaction_direct_io", Doc: "compactions read and write tables past the page cache, " +
		"where the file system can (Linux)",
		Field: func(o *Options) any { return &o.CompactionDirectIO }},
	{Name: "max_background_jobs", Dynamic: options.Whole,
		Doc: "pieces of automatic compactions at once; the flush is not counted", Unit: "jobs",
		PerProcessor: true, Min: 1, Max: 256,
		Field: func(o *Options) any { return &o.MaxBackgroundJobs }},
	{Name: "max_subcompactions", Dynamic: options.Whole,
		Doc: "parts of one compaction that run in parallel", Unit: "parts", PerProcessor: true,
		Min: 1, Max: 256, Field: func(o *Options) any { return &o.MaxSubcompactions }},
	{Name: "compaction_rate", Dynamic: options.Whole, Doc: "what flushes and compactions read " +
		"and write while no writer waits for them; 0: no bound", Unit: "bytes a second",
		Max: 1 << 46, Field: func(o *Options) any { return &o.CompactionRate }},
	{Name: "l0_compaction", Dynamic: options.Whole,
		Doc: "tables in level 0 that start a compaction", Unit: "tables", Default: 4, Min: 1,
		Max: 1 << 10, Field: func(o *Options) any { return &o.L0Compaction }},
	{Name: "l0_stop", Dynamic: options.Whole, Doc: "tables in level 0 at which writes wait",
		Unit: "tables", Default: 40, Min: 2, Max: 1 << 12,
		Field: func(o *Options) any { return &o.L0Stop }},
	{Name: "large_value", Doc: "length of values that stay in the log; native; 0: none",
		Unit: "bytes", Max: 1 << 32, Field: func(o *Options) any { return &o.LargeValue }},
	{Name: "max_merge_operands",
		Doc: "operands that reads fold without causing a flush or compaction", Unit: "operands",
		Default: 1000, Min: 2, Max: 1 << 30,
		Field: func(o *Options) any { return &o.MaxMergeOperands }},
	{Name: "max_space_amplification", Dynamic: options.Whole,
		Doc:  "space of the tables when writes are not fast, as a multiple of live data",
		Unit: "times", Fraction: 1.3, Min: 1, Max: 100,
		Field: func(o *Options) any { return &o.MaxSpaceAmplification }},
	{Name: "wal_preallocate", Doc: "log allocated ahead of its end; 0: none", Unit: "bytes",
		Default: 8 << 20, Min: -1, Max: 1 << 30, NoneBelow: true,
		Field: func(o *Options) any { return &o.WALPreallocate }},
	{Name: "max_wal_size", Dynamic: options.Whole,
		Doc:  "logs from which on keyspaces that keep old ones are flushed; 0: four write buffers",
		Unit: "bytes", Min: 0, Max: 1 << 46, Field: func(o *Options) any { return &o.MaxWALSize }},
	{Name: "wal_retention_bytes", Doc: "logs kept for feeds of changes beyond need; 0: none, or " +
		"no limit if wal_retention_seconds is set", Unit: "bytes", Min: 0, Max: 1 << 50,
		Field: func(o *Options) any { return &o.WALRetentionBytes }},
	{Name: "wal_retention_seconds", Doc: "how long logs are kept for feeds of changes after " +
		"their last write, with ms, m or h behind it if not in seconds; 0: not, or no limit " +
		"if wal_retention_bytes is set", Unit: "seconds", Min: 0,
		Max:   (1<<63 - 1) / int64(time.Second),
		Field: func(o *Options) any { return &o.WALRetentionTime }},
	{Name: "plain_wal", Doc: "append to the log by system calls only, never by stores into its " +
		"mapped file; C, Java, Node and Python set it",
		Field: func(o *Options) any { return &o.PlainWAL }},
	{Name: "disable_compaction", Doc: "start with automatic compaction paused",
		Field: func(o *Options) any { return &o.DisableCompaction }},
}

// OptionDoc describes one option that Set knows.
type OptionDoc struct {
	Name    string // Name is what Set takes, such as "block_size".
	Doc     string // Doc is one line of text.
	Unit    string // Unit is "bytes", for instance; empty for switches and names.
	Default string // Default is the value that a zero field has, as Set takes it.
	// Min and Max are the range of a number; both are 0 for switches and names.
	Min, Max int64
	// Dynamic says for which part SetOption changes the option: "database", "keyspace" (one or
	// all), or "" if it is fixed.
	Dynamic string
}

// OptionDocs lists the options in the order of the options table, for documentation and for
// bindings of other languages.
func OptionDocs() []OptionDoc {
	var docs []OptionDoc
	for _, d := range optionTable.Docs() {
		docs = append(docs, OptionDoc(d))
	}
	return docs
}

// Set sets an option by its name in the options table (OptionDocs, docs/options.md), from text:
// switches take true and false, sizes a number with an optional KiB, MiB or GiB, durations a number
// of seconds or one followed by ms, m or h, and the others a name. It fails with
// ErrInvalidArgument; for an unknown option the error suggests the nearest name.
func (o *Options) Set(name, value string) error { return optionTable.Set(o, name, value) }

// resolve returns a copy with every default filled in, or an error that names the field that is out
// of range or contradicts another one.
func (o *Options) resolve() (*Options, error) {
	r, err := o.complete()
	if err == nil && r.PrefixLength > 0 && r.BloomBits < 0 {
		return nil, base.Invalidf("prefix_length is %d, and there are no filters to hold the "+
			"prefixes: set bloom_bits, or prefix_length to 0", r.PrefixLength)
	}
	return r, err
}

// complete is resolve of options that are changed one by one, or inherited by a keyspace: filters
// may be off while prefixes are asked for.
func (o *Options) complete() (*Options, error) {
	r := &Options{}
	if o != nil {
		*r = *o
	}
	start, stop := r.L0Compaction, r.L0Stop
	if err := optionTable.Resolve(r); err != nil {
		return nil, err
	}
	if r.Comparer == nil {
		r.Comparer = BytewiseComparer
	}
	for _, c := range append([]*Comparer{r.Comparer}, r.Comparers...) {
		if err := c.usable(); err != nil {
			return nil, err
		}
	}
	for _, op := range r.MergeOperators {
		if op == nil {
			op = &MergeOperator{} // which is not usable
		}
		if err := op.usable(); err != nil {
			return nil, err
		}
	}
	if err := checkFilter(r.CompactionFilter); err != nil {
		return nil, err
	}
	if r.Cache != nil && r.Resources.inside().Bounded() {
		return nil, base.Invalidf("Options.Cache beside Resources with a bound on memory, which " +
			"have a cache")
	}
	if r.FS == nil {
		r.FS = vfs.Default
	}
	if system, ok := r.FS.(vfs.OS); ok {
		system.PlainLog, system.MapAnywhere = r.PlainWAL, r.Mmap == MmapOn
		r.FS = system
	}
	if r.Events == nil {
		r.Events = &EventListener{}
	}
	if r.MaxWALSize == 0 {
		r.MaxWALSize = maxLogs * r.WriteBufferSize
	}
	if r.MaxMemtableBytes == 0 {
		r.MaxMemtableBytes = int64(r.MaxMemtables) * r.WriteBufferSize
	}
	switch {
	case r.L0Stop > r.L0Compaction:
	case stop == 0:
		r.L0Stop = r.L0Compaction + 8
	case start == 0:
		r.L0Compaction = r.L0Stop - 1
	default:
		return nil, base.Invalidf("l0_stop is %d and l0_compaction %d: writes would wait before "+
			"a compaction begins; l0_stop must be larger", stop, start)
	}
	if r.ErrorIfExists && r.ReadOnly {
		return nil, base.Invalidf("error_if_exists beside read_only, which makes no new database")
	}
	return r, nil
}

// engine returns the options for package store. o is resolved.
func (o *Options) engine() store.Options {
	ttl, _ := store.Seconds(o.DefaultTTL)
	return store.Options{
		TTL: ttl, Wall: o.Clock,
		FS: o.FS, Keys: o.keys(), Format: o.Format.dir(),
		ErrorIfMissing: o.ErrorIfMissing || o.follow,
		ErrorIfExists:  o.ErrorIfExists, NoCreateDirs: o.NoCreateDirs, ReadOnly: o.ReadOnly ||
			o.follow, Upgrade: o.upgrade,
		Comparer: (*base.Comparer)(o.Comparer), Comparers: o.comparerOf,
		Merge: (*mergeop.Operator)(o.MergeOperator), Merges: o.mergeOperatorOf,
		MaxOperands: o.MaxMergeOperands, Filter: o.CompactionFilter.inside(), Logger: o.Logger,
		Listener: func(q *events.Queue) store.Listener {
			return &notifier{events: q, listener: o.Events, notes: o.inspector.Notes()}
		},
		Cache: o.cache, Tables: o.tables(nil), MaxDecoded: o.MaxDecodedBlock,
		MaxOpenFiles: o.MaxOpenFiles, Mmap: o.Mmap != MmapOff && o.Encryption == nil &&
			!(o.Mmap == MmapAuto && o.Resources.inside().Bounded()),
		LargeValue: max(o.LargeValue, 0), WALPreallocate: o.WALPreallocate,
		WALRetention: wal.Retention{
			Bytes: max(o.WALRetentionBytes, 0),
			For:   max(o.WALRetentionTime, 0).Round(time.Millisecond)},
		Jobs:      work.Options{Paused: o.DisableCompaction, Limits: o.limits()},
		Resources: o.Resources.inside(),
	}
}

// limits returns what the scheduler goes by. o is resolved.
func (o *Options) limits() work.Limits {
	return work.Limits{
		MaxJobs: o.MaxBackgroundJobs, MaxSubcompactions: o.MaxSubcompactions,
		MaxMemTables: o.MaxMemtables, L0Trigger: o.L0Compaction, L0Stop: o.L0Stop,
		FileSize: o.MaxFileSize, WriteBuffer: o.WriteBufferSize,
		MaxSpaceAmplification: o.MaxSpaceAmplification, MaxLogs: o.MaxWALSize,
		MaxMemTableBytes: o.MaxMemtableBytes, BytesPerSecond: o.CompactionRate,
	}
}

// maxBloomBits is the largest size of filters, in bits per key.
const maxBloomBits = 64

// maxLogs is the default of Options.MaxWALSize in write buffers.
const maxLogs = 4

// cache returns the block cache of a database, with a reference. o is resolved.
func (o *Options) cache() (*cache.Cache, error) {
	if o.Cache != nil {
		return o.Cache.hold()
	}
	if o.Resources.inside().Bounded() {
		return o.Resources.inside().Cache()
	}
	return cache.New(max(o.CacheSize, 0)), nil
}

// tables returns what table writers need to know. o is resolved.
func (o *Options) tables(c *base.Comparer) sstable.WriterOptions {
	return sstable.WriterOptions{
		MaxWhole: o.Resources.inside().MaxWhole(), Format: o.Format.dir(), Comparer: c,
		BlockSize: o.BlockSize, RestartInterval: o.BlockRestartInterval,
		Compression: o.Compression.perLevel().At(0), Levels: o.Compression.perLevel(),
		ZstdLevel: o.ZstdLevel, BloomBits: max(o.BloomBits, 0), PrefixLength: o.PrefixLength,
		LevelDBFilter: o.LevelDBFilter, FineSample: o.LargeValue > 0,
		MaxDecoded: uint32(o.MaxDecodedBlock), // the option ends at 1<<32 - 1
		DirectIO:   o.CompactionDirectIO && o.Encryption == nil,
	}
}

// mergeOperatorOf finds the merge operator of a name, or nil.
func (o *Options) mergeOperatorOf(name string) *mergeop.Operator {
	for _, op := range append([]*MergeOperator{o.MergeOperator}, o.MergeOperators...) {
		if op != nil && op.Name == name {
			return (*mergeop.Operator)(op)
		}
	}
	op, _ := mergeop.Named(name)
	return op
}

// comparerOf finds the comparer of a keyspace by its name, or nil. o is resolved.
func (o *Options) comparerOf(name string) *base.Comparer {
	for _, c := range append([]*Comparer{o.Comparer}, o.Comparers...) {
		if c.Name == name {
			return (*base.Comparer)(c)
		}
	}
	c, _ := base.ComparerNamed(name)
	return c
}
