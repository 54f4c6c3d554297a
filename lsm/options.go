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

// Options configures a database. A nil *Options and a zero field mean the
// default. Options are read at Open; changing them later has no effect.
type Options struct {
	// What is opened.

	ErrorIfMissing bool // do not create the database
	ErrorIfExists  bool // refuse an existing database
	ReadOnly       bool // change nothing on disk; writes fail with ErrReadOnly; any number of readers share the directory
	NoCreateDirs   bool // create the database's directory, but not its parents

	// What the caller plugs in. Comparer and FS are called in the midst of reads,
	// writes and background work, with locks held: they must not call the database
	// and wait for it. Logger and Events may, see EventListener.

	Comparer *Comparer      // order of keys; default BytewiseComparer
	FS       FS             // file system; default the operating system's
	Logger   *slog.Logger   // where messages go; default nowhere
	Events   *EventListener // who is told of background work; default nobody

	// Memory.

	Cache           *Cache // block cache to share; overrides CacheSize
	CacheSize       int64  // bytes of a block cache of its own; negative: none
	WriteBufferSize int64  // bytes of one memtable
	MaxMemtables    int    // memtables in memory before writes wait
	MaxOpenFiles    int    // table files kept open at once

	// Tables.

	BlockSize            int         // bytes of a block before compression
	BlockRestartInterval int         // entries between restart points
	MaxFileSize          int64       // bytes at which a compaction starts another table
	Compression          Compression // of blocks
	ZstdLevel            int         // 1 (fast) to 4 (small)
	BloomBits            int         // filter bits per key; negative: none
	LevelDBFilter        bool        // also write the filter that LevelDB reads
	MaxDecodedBlock      int64       // bytes above which a compressed block is refused

	// Background work.

	MaxBackgroundJobs int   // flushes and compactions at once
	MaxSubcompactions int   // parts of one compaction that run in parallel
	L0Compaction      int   // tables in level 0 that start a compaction
	L0Stop            int   // tables in level 0 at which writes wait
	WALPreallocate    int64 // bytes of log allocated ahead of the end; negative: none
	PlainWAL          bool  // append to the log by system calls only, never by stores into its mapped file
	DisableCompaction bool  // start with automatic compaction paused

	// MaxSpaceAmplification is what the tables may take when writes are not coming in
	// fast, as a multiple of the entries that are neither overwritten nor deleted.
	// Beside fast writes it is at least 1.5, and up to 2 while merges run.
	MaxSpaceAmplification float64
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
	{name: "max_background_jobs", doc: "flushes and compactions at once", unit: "jobs", min: 1, max: 256, field: func(o *Options) any { return &o.MaxBackgroundJobs }},
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
	Name, Doc, Unit string
	Default         string
	Min, Max        int64 // both 0 for switches
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
// compression takes a name. An unknown name's error says the nearest one.
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
func (o *Options) tables() sstable.WriterOptions {
	return sstable.WriterOptions{
		Comparer: o.Comparer, BlockSize: o.BlockSize, RestartInterval: o.BlockRestartInterval,
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
