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
	// ReadOnly changes nothing on disk, and writes fail with ErrReadOnly. Any number of such
	// openings share the directory, but none with a writer: that is ErrLocked, see OpenFollower.
	// The logs are replayed into memory. The default is false.
	ReadOnly bool
	// FollowInterval is how old, at most, the state is that reads of a Follower show: it catches up
	// in the background at this interval while there are reads, and the first read after a pause
	// waits until it has caught up. The default, 0, leaves it to CatchUp. Only OpenFollower uses
	// it.
	FollowInterval time.Duration
	// NoCreateDirs creates the directory of a new database, but not its parents, so
	// that a misspelled path is an error. The default, false, creates both.
	NoCreateDirs bool

	// What the caller plugs in.

	// Format is the format of a new database. The default is FormatNative, which no other
	// engine opens; FormatLevelDB is for directories that LevelDB and its tools open too. A
	// database that exists keeps the format that it has; Upgrade and Export change it.
	Format Format
	// Comparer is the order of keys. The default is BytewiseComparer, LevelDB's. Its
	// name is stored: another one fails Open with ErrComparerMismatch. It is called
	// with locks held, so it must not call the database.
	Comparer *Comparer
	// Comparers are further orders that keyspaces have: Open must know the order of every keyspace.
	// Comparer and the built-in ones are known. The default is none.
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
	// MergeOperators are further operators that keyspaces have: Open takes the one whose name a
	// keyspace has stored, so that reads, compactions and Export can use it before Keyspace names
	// it. The default is none.
	MergeOperators []*MergeOperator
	// DefaultTTL is how long values in the default keyspace live that are written without a time of
	// their own, as by Put; it is rounded up to seconds. See PutTTL. It is not stored. The default,
	// 0, is for ever. Other keyspaces have times of their own, see KeyspaceOptions.
	DefaultTTL time.Duration
	// Clock is the time by which values expire. It never goes back: a time before an earlier
	// answer, or before 1970, counts as that. It is called with locks held, so it must not call the
	// database. The default, nil, is time.Now.
	Clock func() time.Time
	// FS is the file system. It is called with locks held, so it must not call the database. The
	// default, nil, is that of the operating system, OSFS.
	FS FS
	// Logger takes messages about failures. It is called as EventListener is, and may call the
	// database. The default, nil, discards them.
	Logger *slog.Logger
	// Events takes events of background work. The default, nil, is no listener.
	Events *EventListener
	// Inspect answers other processes of the same user, loam top for instance, on a socket in the
	// directory; see docs/observe.md. Open fails with errors.ErrUnsupported where there are none.
	// LOAM_INSPECT=1 in the environment sets it for all databases of a process; one without a
	// socket opens then all the same. A database that is opened to be read has none. The default is
	// false.
	Inspect bool

	// Memory.

	// Cache is a block cache that databases share; it overrides CacheSize. The default, nil, is a
	// cache of the database's own.
	Cache *Cache
	// Resources bounds memory, background work and descriptors of several databases together. Its
	// memory overrides CacheSize and bounds memtables, too. The default, nil, shares nothing.
	Resources *Resources
	// CacheSize is the size of the database's own block cache in bytes, with the tables' indexes
	// and filters in it. The default is 64 MiB; negative: none. Size it to the data that is read
	// again and again.
	CacheSize int64
	// WriteBufferSize is the size of a memtable in bytes. The default is 64 MiB. A larger one makes
	// fewer and larger tables in level 0, and takes longer to replay from the log at Open.
	WriteBufferSize int64
	// MaxMemtables is how many memtables there may be, the one that takes writes included, before
	// writes wait for a flush. The default is 3: one takes writes while one is flushed and one
	// waits.
	MaxMemtables int
	// MaxMemtableBytes bounds the memory of the memtables of all keyspaces together, in bytes: when
	// those that take writes have half of it, the largest are flushed, and when all have as much,
	// writes wait for flushes. The default, 0, is MaxMemtables times WriteBufferSize, what one
	// keyspace may have.
	MaxMemtableBytes int64
	// MaxOpenFiles is how many table files the database keeps open at once, within the process's
	// limit of descriptors. The default is 1000. A read of a table that is not open opens it first.
	MaxOpenFiles int

	// Tables. A change applies to tables written from then on.

	// BlockSize is the size of a table's block in bytes before compression, the unit of reading.
	// The default is 4 KiB, LevelDB's. Larger blocks compress better and make a random read dearer.
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
	// BloomBits is the size of a table's filter in bits per key. The default is 10,
	// where about one lookup of a missing key in a hundred reads a block for nothing;
	// negative: no filter. A Comparer without EqualIsBytewise has none either.
	BloomBits int
	// PrefixLength makes filters hold the first PrefixLength bytes of keys, too: an iterator
	// whose bounds or Prefix are within one such prefix passes over tables that have none of
	// it. It takes the order of BytewiseComparer, and filters: beside BloomBits below 0 it is
	// ErrInvalidArgument. The default, 0, is none.
	PrefixLength int
	// LevelDBFilter also writes the filter blocks that LevelDB reads, beside Loam's own. The
	// default, false, saves their bytes; LevelDB opens the tables all the same.
	LevelDBFilter bool
	// MaxDecodedBlock is the size in bytes above which a compressed block is refused
	// as damage, so that a hostile file cannot take all memory. The default is 64 MiB.
	MaxDecodedBlock int64
	// Mmap says whether blocks that are not cached are read in place, in the mapped files of
	// tables, which saves a system call and a copy each. The default is MmapAuto. MmapOff suits a
	// host that handles SIGBUS itself, and disks that may not answer for long: a page fault stops a
	// thread, not only a goroutine.
	Mmap MmapMode

	// Background work.

	// CompactionDirectIO reads and writes the tables of compactions past the page cache of the
	// operating system, so that they do not displace other pages. Where the file system cannot do
	// it, and on systems other than Linux, compactions use the page cache. The default is false.
	CompactionDirectIO bool
	// MaxBackgroundJobs is how many pieces of automatic compactions run at once. The
	// flush is not counted: it has a goroutine of its own. The default is the number
	// of processors that Go uses, at least 2.
	MaxBackgroundJobs int
	// MaxSubcompactions is the number of pieces into which one compaction is cut, each on a
	// goroutine of its own. The default is the number of processors that Go uses, at least 2.
	MaxSubcompactions int
	// CompactionRate bounds the reads and writes of flushes and compactions in bytes a second,
	// except while writers wait for them. The default, 0, is no bound.
	CompactionRate int64
	// L0Compaction is the number of tables in level 0 that starts a compaction. The
	// default is 4, LevelDB's, or less if L0Stop is. A larger one writes less, and every
	// read searches more tables.
	L0Compaction int
	// L0Stop is the number of tables in level 0 at which writes wait; from half of it on they are
	// delayed. It must be above L0Compaction. The default is 40, as level 0 takes new tables while
	// a large run is merged, and at least L0Compaction + 8.
	L0Stop int
	// LargeValue is the length in bytes from which on a value is written once: its log stays, as
	// long as a value in it lives, and tables refer to it; not values that expire, nor operands.
	// Older versions refuse a database with references. The default, 0, is none.
	LargeValue int64
	// MaxMergeOperands is how many operands of a key a read folds before it causes work: where
	// reads fold more again and again, the memtable is flushed and runs of tables are merged, which
	// folds them for good. The default is 1000.
	MaxMergeOperands int
	// MaxSpaceAmplification is the size of the tables at which compactions for space begin, as a
	// multiple of the bytes that are neither overwritten nor deleted. The default is 1.3. While
	// writes are fast it is at least 1.5, as these compactions delay writes. At 1.7 writes begin to
	// be delayed, and during compactions the tables take up to 2; both grow with a value above 1.5.
	// Level 0, which is merged when it has L0Compaction tables, comes on top.
	MaxSpaceAmplification float64
	// WALPreallocate is how many bytes of the log are allocated ahead of its end, so
	// that an append changes no metadata of the file. The default is 8 MiB; negative:
	// none. A killed process leaves them as zeros.
	WALPreallocate int64
	// MaxWALSize is the size of all logs in bytes above which the keyspaces that need the oldest
	// log are flushed, so that a rarely written keyspace keeps no logs. The default, 0, is four
	// times WriteBufferSize.
	MaxWALSize int64
	// WALRetentionBytes keeps obsolete logs for feeds of changes, up to so many bytes together. The
	// default, 0, keeps none, or sets no limit if WALRetentionTime is set; where both are set, a
	// log goes when it exceeds either.
	WALRetentionBytes int64
	// WALRetentionTime keeps obsolete logs for so long after their last write. The default, 0,
	// keeps none, or sets no limit if WALRetentionBytes is set.
	WALRetentionTime time.Duration
	// PlainWAL appends to the log by system calls only, never by stores into its mapped file, for
	// hosts that handle SIGBUS themselves. The default is false, as a store costs less than a
	// system call.
	PlainWAL bool
	// DisableCompaction opens the database with automatic compaction paused, for instance to load
	// much data; ResumeCompaction starts it. The default is false.
	DisableCompaction bool
}

// optionTable drives defaults, validation, Set and the documentation. Adding an option is one
// field and one row.
var optionTable = options.Table[Options]{
	{Name: "error_if_missing", Doc: "fail when there is no database instead of creating it",
		Field: func(o *Options) any { return &o.ErrorIfMissing }},
	{Name: "error_if_exists", Doc: "fail when the database exists",
		Field: func(o *Options) any { return &o.ErrorIfExists }},
	{Name: "create_dirs", Doc: "make missing parent directories of a new database too; false by " +
		"default in C and Python", Inverted: true,
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
		"or off; C, Python and Node take auto for off", Max: 2, Field: func(o *Options) any {
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
		"mapped file; C, Python and Node set it",
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

// resolve returns a copy with every default filled in, or says which field is out of range, or
// of no use beside another one.
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
		FS: o.FS, Format: o.Format.dir(), ErrorIfMissing: o.ErrorIfMissing || o.follow,
		ErrorIfExists: o.ErrorIfExists, NoCreateDirs: o.NoCreateDirs, ReadOnly: o.ReadOnly ||
			o.follow, Upgrade: o.upgrade,
		Comparer: (*base.Comparer)(o.Comparer), Comparers: o.comparerOf,
		Merge: (*mergeop.Operator)(o.MergeOperator), Merges: o.mergeOperatorOf,
		MaxOperands: o.MaxMergeOperands, Filter: o.CompactionFilter.inside(), Logger: o.Logger,
		Listener: func(q *events.Queue) store.Listener {
			return &notifier{events: q, listener: o.Events, notes: o.inspector.Notes()}
		},
		Cache: o.cache, Tables: o.tables(nil), MaxDecoded: o.MaxDecodedBlock,
		MaxOpenFiles: o.MaxOpenFiles, Mmap: o.Mmap != MmapOff &&
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
		LevelDBFilter: o.LevelDBFilter, DirectIO: o.CompactionDirectIO,
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
	if o.Comparer.Name == name {
		return (*base.Comparer)(o.Comparer)
	}
	for _, c := range o.Comparers {
		if c.Name == name {
			return (*base.Comparer)(c)
		}
	}
	c, _ := base.ComparerNamed(name)
	return c
}
