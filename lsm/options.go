package lsm

import (
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/sstable"
	"github.com/loamdb/loam/internal/vfs"
)

// comparers finds the comparers of keyspaces by name, nil for unknown ones.
type comparers struct{ named func(name string) *Comparer }

// Options configures a database. A nil *Options and a zero field mean the
// default. Options are read at Open; changing them later has no effect. A value
// out of range fails Open with ErrInvalidArgument.
type Options struct {
	keyspaces *comparers // that there are keyspaces, see package preview; default none

	// What is opened.

	// ErrorIfMissing fails Open with ErrDoesNotExist where there is no database.
	// The default, false, creates one.
	ErrorIfMissing bool
	// ErrorIfExists fails Open with ErrExists where there is a database. The
	// default is false.
	ErrorIfExists bool
	// ReadOnly changes nothing on disk: writes fail with ErrReadOnly, and any
	// number of readers share the directory. The logs are replayed into memory. The
	// default is false.
	ReadOnly bool
	// NoCreateDirs creates the directory of a new database, but not its parents, so
	// that a misspelled path is an error. The default, false, creates both.
	NoCreateDirs bool

	// What the caller plugs in.

	// Comparer is the order of keys. The default is BytewiseComparer, LevelDB's. Its
	// name is stored: another one fails Open with ErrComparerMismatch. It is called
	// with locks held, so it must not call the database.
	Comparer *Comparer
	// FS is the file system. The default is the operating system's. It is called
	// with locks held, so it must not call the database.
	FS FS
	// Logger takes messages about failures. It may call the database, see
	// EventListener. The default discards them.
	Logger *slog.Logger
	// Events is told of background work. The default, nil, is no listener.
	Events *EventListener

	// Memory.

	// Cache is a block cache that databases share; it overrides CacheSize. The
	// default, nil, is a cache of the database's own.
	Cache *Cache
	// CacheSize is the size of the database's own block cache in bytes, with the
	// tables' indexes and filters in it. The default is 64 MiB; negative: none. Size
	// it to the data that is read again and again.
	CacheSize int64
	// WriteBufferSize is the size of a memtable in bytes. The default is 64 MiB. A
	// larger one makes fewer and larger tables in level 0, and takes longer to
	// replay from the log at Open.
	WriteBufferSize int64
	// MaxMemtables is how many memtables there may be, the one that takes writes
	// included, before writes wait for a flush. The default is 3: one takes writes
	// while one is flushed and one waits.
	MaxMemtables int
	// MaxOpenFiles is how many table files the database keeps open at once, within
	// the process's limit of descriptors. The default is 1000. A read of a table
	// that is not open opens it first.
	MaxOpenFiles int

	// Tables. A change applies to tables written from then on.

	// BlockSize is the size of a table's block in bytes before compression, the unit
	// of reading. The default is 4 KiB, LevelDB's. Larger blocks compress better and
	// make a random read dearer.
	BlockSize int
	// BlockRestartInterval is the number of entries between restart points, whose
	// keys are stored whole. The default is 16, LevelDB's; a larger one saves bytes.
	BlockRestartInterval int
	// MaxFileSize is the size in bytes at which a compaction starts another table.
	// The default is 64 MiB. A smaller one lets a compaction rewrite less at a time,
	// at the price of more files.
	MaxFileSize int64
	// Compression is how blocks are packed. The default is SnappyCompression, which
	// every LevelDB reads.
	Compression Compression
	// ZstdLevel is the effort of ZstdCompression, from 1 (fast) to 4 (small). The
	// default is 1, as compactions repeat the effort.
	ZstdLevel int
	// BloomBits is the size of a table's filter in bits per key. The default is 10,
	// where about one lookup of a missing key in a hundred reads a block for nothing;
	// negative: no filter. A Comparer without EqualIsBytewise has none either.
	BloomBits int
	// LevelDBFilter also writes the filter blocks that LevelDB reads, beside Loam's
	// own. The default, false, saves their bytes; LevelDB opens the tables all the
	// same.
	LevelDBFilter bool
	// MaxDecodedBlock is the size in bytes above which a compressed block is refused
	// as damage, so that a hostile file cannot take all memory. The default is 64 MiB.
	MaxDecodedBlock int64

	// Background work.

	// MaxBackgroundJobs is how many pieces of automatic compactions run at once. The
	// flush is not counted: it has a goroutine of its own. The default is the number
	// of processors that Go uses, at least 2.
	MaxBackgroundJobs int
	// MaxSubcompactions is into how many pieces one compaction is cut, each on a
	// goroutine of its own. The default is the number of processors that Go uses, at
	// least 2.
	MaxSubcompactions int
	// L0Compaction is the number of tables in level 0 that starts a compaction. The
	// default is 4, LevelDB's. A larger one writes less, and every read searches more
	// tables.
	L0Compaction int
	// L0Stop is the number of tables in level 0 at which writes wait. The default is
	// 24. From half of it on, writes are delayed. If it is not above L0Compaction, it
	// is L0Compaction + 8.
	L0Stop int
	// MaxSpaceAmplification is what the tables may take while writes are not fast, as
	// a multiple of the bytes that are neither overwritten nor deleted. The default is
	// 1.3. Beside fast writes it is at least 1.5, as each merge for the sake of space
	// delays them; from 1.7 on they are delayed, and while merges run it is up to 2.
	// Level 0, which is merged when it has L0Compaction tables, comes on top.
	MaxSpaceAmplification float64
	// WALPreallocate is how many bytes of the log are allocated ahead of its end, so
	// that an append changes no metadata of the file. The default is 8 MiB; negative:
	// none. A killed process leaves them as zeros.
	WALPreallocate int64
	// PlainWAL appends to the log by system calls only, never by stores into its
	// mapped file, for hosts that take SIGBUS for themselves. The default is false,
	// as a store costs less than a system call.
	PlainWAL bool
	// DisableCompaction opens the database with automatic compaction paused, for
	// instance to load much data; ResumeCompaction starts it. The default is false.
	DisableCompaction bool
}

// option is one row of the table that drives defaults, validation, Set, and
// the documentation.
type option struct {
	name, doc, unit string
	def             int64
	min, max        int64
	noneBelow       bool    // zero given by name means "none", kept as -1
	inverted        bool    // the field of a switch says the opposite of its name
	fraction        float64 // default of a number with a fraction
	field           func(*Options) any
}

// options is the one table of options. Adding an option is one field and one row.
var options = []option{
	{name: "error_if_missing", doc: "fail when there is no database instead of creating it", field: func(o *Options) any { return &o.ErrorIfMissing }},
	{name: "error_if_exists", doc: "fail when the database exists", field: func(o *Options) any { return &o.ErrorIfExists }},
	{name: "create_dirs", doc: "make missing parent directories of a new database too; false by default in C and Python", inverted: true, field: func(o *Options) any { return &o.NoCreateDirs }},
	{name: "read_only", doc: "change nothing on disk", field: func(o *Options) any { return &o.ReadOnly }},
	{name: "comparator", doc: "order of keys, by the name that the database stores", field: func(o *Options) any { return &o.Comparer }},
	{name: "cache_size", doc: "block cache, indexes and filters included; 0: none", unit: "bytes", def: 64 << 20, min: -1, max: 1 << 46, noneBelow: true, field: func(o *Options) any { return &o.CacheSize }},
	{name: "write_buffer_size", doc: "size of one memtable", unit: "bytes", def: 64 << 20, min: 64 << 10, max: 2 << 30, field: func(o *Options) any { return &o.WriteBufferSize }},
	{name: "max_memtables", doc: "memtables in memory before writes wait", unit: "memtables", def: 3, min: 2, max: 64, field: func(o *Options) any { return &o.MaxMemtables }},
	{name: "max_open_files", doc: "table files kept open at once, within the process's limit", unit: "files", def: 1000, min: 4, max: 1 << 20, field: func(o *Options) any { return &o.MaxOpenFiles }},
	{name: "block_size", doc: "size of a table block before compression", unit: "bytes", def: 4 << 10, min: 256, max: 4 << 20, field: func(o *Options) any { return &o.BlockSize }},
	{name: "block_restart_interval", doc: "entries between restart points of a block", unit: "entries", def: 16, min: 1, max: 1 << 16, field: func(o *Options) any { return &o.BlockRestartInterval }},
	{name: "max_file_size", doc: "size at which a compaction starts another table", unit: "bytes", def: 64 << 20, min: 64 << 10, max: 1 << 40, field: func(o *Options) any { return &o.MaxFileSize }},
	{name: "compression", doc: "none, snappy or zstd", def: int64(SnappyCompression), min: 0, max: 3, field: func(o *Options) any { return &o.Compression }},
	{name: "zstd_level", doc: "zstd effort from 1 (fast) to 4 (small)", def: 1, min: 1, max: 4, field: func(o *Options) any { return &o.ZstdLevel }},
	{name: "bloom_bits", doc: "filter bits per key; 0: none", unit: "bits", def: 10, min: -1, max: 64, noneBelow: true, field: func(o *Options) any { return &o.BloomBits }},
	{name: "leveldb_filter", doc: "also write the filter blocks that LevelDB reads", field: func(o *Options) any { return &o.LevelDBFilter }},
	{name: "max_decoded_block", doc: "compressed blocks that declare more than this are refused", unit: "bytes", def: 64 << 20, min: 1 << 20, max: 4<<30 - 1, field: func(o *Options) any { return &o.MaxDecodedBlock }},
	{name: "max_background_jobs", doc: "pieces of automatic compactions at once; the flush is not counted", unit: "jobs", min: 1, max: 256, field: func(o *Options) any { return &o.MaxBackgroundJobs }},
	{name: "max_subcompactions", doc: "parts of one compaction that run in parallel", unit: "parts", min: 1, max: 256, field: func(o *Options) any { return &o.MaxSubcompactions }},
	{name: "l0_compaction", doc: "tables in level 0 that start a compaction", unit: "tables", def: 4, min: 1, max: 1 << 10, field: func(o *Options) any { return &o.L0Compaction }},
	{name: "l0_stop", doc: "tables in level 0 at which writes wait", unit: "tables", def: 24, min: 2, max: 1 << 12, field: func(o *Options) any { return &o.L0Stop }},
	{name: "max_space_amplification", doc: "space of the tables when writes are not fast, as a multiple of live data", unit: "times", fraction: 1.3, min: 1, max: 100, field: func(o *Options) any { return &o.MaxSpaceAmplification }},
	{name: "wal_preallocate", doc: "log allocated ahead of its end; 0: none", unit: "bytes", def: 8 << 20, min: -1, max: 1 << 30, noneBelow: true, field: func(o *Options) any { return &o.WALPreallocate }},
	{name: "plain_wal", doc: "append to the log by system calls only, never by stores into its mapped file; C, Python and Node set it", field: func(o *Options) any { return &o.PlainWAL }},
	{name: "disable_compaction", doc: "start with automatic compaction paused", field: func(o *Options) any { return &o.DisableCompaction }},
}

// OptionDoc describes one option that Set knows.
type OptionDoc struct {
	Name     string // as Set takes it, such as "block_size"
	Doc      string // one line of text
	Unit     string // "bytes", for instance; empty for switches and names
	Default  string // as Set takes it
	Min, Max int64  // the range of a number; both 0 for switches
}

// OptionDocs lists the options by name, for documentation and for other
// languages' bindings.
func OptionDocs() []OptionDoc {
	docs := make([]OptionDoc, 0, len(options))
	for _, row := range options {
		d := OptionDoc{Name: row.name, Doc: row.doc, Unit: row.unit, Min: max(row.min, 0), Max: row.max}
		switch row.field(new(Options)).(type) {
		case *bool:
			d.Default = strconv.FormatBool(row.inverted)
		case *Compression:
			d.Default = Compression(row.def).String()
		case **Comparer:
			d.Default = BytewiseComparer.Name
		case *float64:
			d.Default = strconv.FormatFloat(row.fraction, 'g', -1, 64)
		default:
			d.Default = strconv.FormatInt(row.defaultValue(), 10)
		}
		docs = append(docs, d)
	}
	return docs
}

func (row *option) defaultValue() int64 {
	switch row.name {
	case "max_background_jobs", "max_subcompactions":
		return int64(max(2, runtime.GOMAXPROCS(0)))
	}
	return row.def
}

// Set sets an option by its name in the options table, from text: switches
// take true and false, sizes take a number with an optional KiB, MiB or GiB,
// compression and comparator take a name. It fails with ErrInvalidArgument; for
// an unknown name the error says the nearest one.
func (o *Options) Set(name, value string) error {
	for i := range options {
		if options[i].name == name {
			return options[i].set(o, value)
		}
	}
	names := make([]string, len(options))
	for i := range options {
		names[i] = options[i].name
	}
	return fmt.Errorf("%w: no option %q; did you mean %q?", ErrInvalidArgument, name, base.Nearest(name, names))
}

func (row *option) set(o *Options, value string) error {
	bad := func(why string) error {
		return fmt.Errorf("%w: option %s = %q: %s", ErrInvalidArgument, row.name, value, why)
	}
	switch p := row.field(o).(type) {
	case *bool:
		v, err := strconv.ParseBool(value)
		if err != nil {
			return bad("want true or false")
		}
		*p = v != row.inverted
	case *Compression:
		for i, name := range compressionNames {
			if strings.EqualFold(name, value) {
				*p = Compression(i)
				return nil
			}
		}
		return bad("want none, snappy or zstd")
	case **Comparer:
		c, names := comparerNamed(value)
		if c == nil {
			return bad("want one of " + strings.Join(names, ", ") + ", or set Options.Comparer")
		}
		*p = c
	case *int:
		v, err := row.number(value, bad)
		if err != nil {
			return err
		}
		*p = int(v)
	case *int64:
		v, err := row.number(value, bad)
		if err != nil {
			return err
		}
		*p = v
	case *float64:
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || !row.holds(v) {
			return bad(fmt.Sprintf("want %d to %d", row.min, row.max))
		}
		*p = v
	}
	return nil
}

// holds reports whether a number with a fraction is in range; NaN is not.
func (row *option) holds(v float64) bool { return v >= float64(row.min) && v <= float64(row.max) }

func (row *option) number(value string, bad func(string) error) (int64, error) {
	v, ok := base.ParseSize(value)
	if !ok {
		return 0, bad("want a number, with KiB, MiB or GiB behind it if you like")
	}
	if least := max(row.min, 0); v < least || v > row.max {
		return 0, bad(fmt.Sprintf("want %d to %d", least, row.max))
	}
	if row.noneBelow && v == 0 {
		v = -1
	}
	return v, nil
}

// resolve returns a copy with every default filled in, or says which field is
// out of range.
func (o *Options) resolve() (*Options, error) {
	r := &Options{}
	if o != nil {
		*r = *o
	}
	for i := range options {
		row := &options[i]
		var v int64
		switch p := row.field(r).(type) {
		case *int:
			if *p == 0 {
				*p = int(row.defaultValue())
			}
			v = int64(*p)
		case *int64:
			if *p == 0 {
				*p = row.defaultValue()
			}
			v = *p
		case *Compression:
			if *p == DefaultCompression {
				*p = Compression(row.def)
			}
			v = int64(*p)
		case *float64:
			if *p == 0 {
				*p = row.fraction
			}
			if !row.holds(*p) {
				return nil, fmt.Errorf("%w: option %s = %g: want %d to %d", ErrInvalidArgument, row.name, *p, row.min, row.max)
			}
			continue
		default:
			continue
		}
		if v < row.min || v > row.max {
			return nil, fmt.Errorf("%w: option %s = %d: want %d to %d", ErrInvalidArgument, row.name, v, row.min, row.max)
		}
	}
	if r.Comparer == nil {
		r.Comparer = BytewiseComparer
	}
	if r.Comparer.Name == "" || r.Comparer.Compare == nil {
		return nil, fmt.Errorf("%w: a Comparer needs Name and Compare", ErrInvalidArgument)
	}
	if r.FS == nil {
		r.FS = vfs.Default
	}
	if system, ok := r.FS.(vfs.OS); ok {
		system.PlainLog = r.PlainWAL
		r.FS = system
	}
	if r.Logger == nil {
		r.Logger = slog.New(discard{})
	}
	if r.Events == nil {
		r.Events = &EventListener{}
	}
	if r.L0Stop <= r.L0Compaction {
		r.L0Stop = r.L0Compaction + 8
	}
	return r, nil
}

// tables returns what table writers need to know. o is resolved.
func (o *Options) tables(c *Comparer) sstable.WriterOptions {
	return sstable.WriterOptions{
		Comparer: c, BlockSize: o.BlockSize, RestartInterval: o.BlockRestartInterval,
		Compression: o.Compression.table(), ZstdLevel: o.ZstdLevel,
		BloomBits: max(o.BloomBits, 0), LevelDBFilter: o.LevelDBFilter,
	}
}

// comparerNamed finds one of the comparers that real stores use; if there is
// none of that name, nil and the names there are.
func comparerNamed(name string) (c *Comparer, names []string) {
	for _, c := range []*Comparer{BytewiseComparer, ReverseBytewiseComparer, IndexedDBComparer} {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return nil, names
}
