package kvbench

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/kvbench/arg"
	"github.com/loamdb/loam/internal/kvbench/experiment"
	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// command is a parsed command line.
type command struct {
	help        bool
	list        bool
	version     bool
	experiments []chosen
	benchmarks  []string
	engines     []string
	drivers     []store.Driver // those named by --engine
	db          string
	json        string
	html        string
	format      string
	tsv         string
	rounds      int
	memory      int64 // limit of a run's memory; 0: none
	scale       float64
	variant     string // beginning of the names of the variants wanted
	progress    string
	params      runner.Params
	settings    []store.Setting
	given       map[string]bool // flags named on the command line
}

// chosen is an experiment asked for; num 0 leaves its number of entries.
type chosen struct {
	*experiment.Experiment
	num int64
}

// usageError is what is wrong with a command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usage(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// flag is one row of the table of flags.
type flag struct {
	name string
	arg  string // what the value is called in help; "": a switch
	doc  string
	def  string // as help shows it
	set  func(c *command, v string) error
}

// flags are those of the benchmark itself; an engine's options follow them.
var flags = []flag{
	{"benchmarks", "LIST", "benchmarks to run, in this order, with commas", "LevelDB's eighteen",
		func(c *command, v string) error { return c.setBenchmarks(v) }},
	{"num", "N", "entries; experiments have their own", "1000000",
		countFlag(1, mostEntries, func(c *command, n int64) { c.params.Num = n })},
	{"reads", "N", "reads; negative: as many as entries", "-1",
		countFlag(math.MinInt64, mostEntries, func(c *command, n int64) {
			c.params.Reads = n
		})},
	{"scale", "F", "factor on every experiment's number of entries", "1",
		func(c *command, v string) error { return setFloat(&c.scale, v, 1e-9, 1e6) }},
	{"variant", "TEXT", "only the variants of experiments whose names begin with TEXT", "all",
		textFlag(func(c *command) *string { return &c.variant })},
	{"seconds", "N", "how long writes, gets, seeks and mixes of these go on that make no new " +
		"database, with their rate over time; 0: for all operations", "0",
		countFlag(0, 1<<30, func(c *command, n int64) {
			c.params.Duration = time.Duration(n) * time.Second
		})},
	{"value_size", "BYTES", "size of values", "100", sizeFlag(0, 1<<30, func(c *command, n int64) {
		c.params.ValueSize = int(n)
	})},
	{"value_format", "F", "random, or value%d with the key's number", "random",
		(*command).setValueFormat},
	{"compression_ratio", "F", "what values shrink to when compressed", "0.5",
		func(c *command, v string) error {
			return setFloat(&c.params.CompressionRatio, v, 0.01, 1)
		}},
	{"key_format", "F", "%016d or key%d", "%016d", func(c *command, v string) (err error) {
		c.params.Keys.Style, err = workload.ParseKeyStyle(v)
		return err
	}},
	{"key_prefix", "N", "bytes before every key", "0", countFlag(0, workload.MaxPrefix,
		func(c *command, n int64) { c.params.Keys.Prefix = int(n) })},
	{"key_stride", "N", "2: write even numbers only, and miss odd ones", "1",
		countFlag(1, 1<<20, func(c *command, n int64) { c.params.Keys.Stride = int(n) })},
	{"batch_size", "N", "entries in a batch; 0: the benchmark's own", "0",
		countFlag(0, 1<<24, func(c *command, n int64) { c.params.Batch = int(n) })},
	{"threads", "N", "threads, each doing all operations", "1",
		countFlag(1, 1<<16, func(c *command, n int64) { c.params.Threads = int(n) })},
	{"seed", "N", "seed of random keys; 0: LevelDB's", "0",
		countFlag(0, mostSeed, func(c *command, n int64) { c.params.Seed = uint32(n) })},
	{"sync", "", "make every write durable", "0", boolFlag(func(c *command, on bool) {
		c.params.Sync = on
	})},
	{"sync_every", "N", "make every N-th write durable; 0: none", "0",
		countFlag(0, mostEntries, func(c *command, n int64) { c.params.SyncEvery = n })},
	{"histogram", "", "run once more with every operation timed, for percentiles", "0",
		boolFlag(func(c *command, on bool) { c.params.Histogram = on })},
	{"comparisons", "", "count calls of the key comparison function", "0",
		boolFlag(func(c *command, on bool) { c.params.Comparisons = on })},
	{"use_existing_db", "", "keep the database in --db; benchmarks that need a new one are skipped",
		"0", boolFlag(func(c *command, on bool) { c.params.UseExisting = on })},
	{"db", "DIR", "directory of the database, or of those of several engines, kept at the end",
		"temporary", textFlag(func(c *command) *string { return &c.db })},
	{"engine", "NAME", "engine to run; several with commas, or all: in pairs with the first", "",
		(*command).setEngines},
	{"format", "F", "leveldb or native; both: the engine's formats in pairs",
		"native; the default tables show both", textFlag(func(c *command) *string {
			return &c.format
		})},
	{"rounds", "N", "repetitions; the summary gives medians, and the longest time of all", "1",
		countFlag(1, 1000, func(c *command, n int64) { c.rounds = int(n) })},
	{"memory", "SIZE", "run in a cgroup with a limit of memory, page cache and all else counted, " +
		"and no swap", "no limit", sizeFlag(leastMemory, 1<<50, func(c *command, n int64) {
		c.memory = n
	})},
	{"quiet", "", "after every fill wait until background work is done, and time that",
		"0; 1 with several engines", boolFlag(func(c *command, on bool) { c.params.Quiet = on })},
	{"json", "FILE", "write the results to FILE", "", textFlag(func(c *command) *string {
		return &c.json
	})},
	{"html", "FILE", "write the results to FILE as a page with plots", "",
		textFlag(func(c *command) *string { return &c.html })},
	{"tsv", "FILE", "write the results to FILE in the columns of RocksDB's benchmark.sh", "",
		textFlag(func(c *command) *string { return &c.tsv })},
	{"progress", "WHEN", "auto, always or never", "auto", (*command).setProgress},
	{"list", "", "list benchmarks and experiments", "", boolFlag(func(c *command, on bool) {
		c.list = on
	})},
	{"help", "", "print this text", "", boolFlag(func(c *command, on bool) { c.help = on })},
	{"version", "", "print the version", "", boolFlag(func(c *command, on bool) {
		c.version = on
	})},
}

// formatOption is the option of engines with several formats.
const formatOption = "format"

// The names of formats: that of new databases, and the one that LevelDB reads.
const (
	nativeFormat  = "native"
	leveldbFormat = experiment.LevelDBFormat
)

// bothFormats is the value of --format that adds to each engine those named after it.
const bothFormats = "both"

// mostEntries has keys of 16 digits still, and mostSeed is the last seed of random keys from which
// the threads of a run have seeds of their own.
const (
	mostEntries = 1e15
	mostSeed    = 1<<31 - 1<<24
)

// leastMemory is what kvbench itself needs to start.
const leastMemory = 32 << 20

// aliases are LevelDB's names for options that engines call otherwise.
var aliases = map[string]string{"open_files": "max_open_files"}

func countFlag(low, high int64, set func(*command, int64)) func(*command, string) error {
	return func(c *command, v string) error {
		n, err := arg.Count(v)
		switch {
		case err != nil:
			return err
		case n < low || n > high:
			return fmt.Errorf("want %d to %d", low, high)
		}
		set(c, n)
		return nil
	}
}

func sizeFlag(low, high int64, set func(*command, int64)) func(*command, string) error {
	return func(c *command, v string) error {
		n, err := arg.Size(v)
		if err != nil {
			return err
		}
		if n < low || n > high {
			return fmt.Errorf("want %d to %d", low, high)
		}
		set(c, n)
		return nil
	}
}

func boolFlag(set func(*command, bool)) func(*command, string) error {
	return func(c *command, v string) error {
		on, ok := arg.Bool(v)
		if !ok {
			return errors.New("want 1 or 0")
		}
		set(c, on)
		return nil
	}
}

func textFlag(field func(*command) *string) func(*command, string) error {
	return func(c *command, v string) error {
		if v == "" {
			return errors.New("want a name")
		}
		*field(c) = v
		return nil
	}
}

func setFloat(p *float64, v string, low, high float64) error {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil || !(f >= low && f <= high) {
		return fmt.Errorf("want a number from %g to %g", low, high)
	}
	*p = f
	return nil
}

func (c *command) setBenchmarks(v string) error {
	c.benchmarks = nil
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if _, ok := workload.Find(name); !ok {
			return fmt.Errorf("no benchmark %q; did you mean %q?", name,
				arg.Nearest(name, benchmarkNames()))
		}
		c.benchmarks = append(c.benchmarks, name)
	}
	if len(c.benchmarks) == 0 {
		return errors.New("want at least one benchmark")
	}
	return nil
}

func (c *command) setEngines(v string) error {
	c.engines = nil
	for name := range strings.SplitSeq(v, ",") {
		if name = strings.TrimSpace(name); name == "" || slices.Contains(c.engines, name) {
			return errors.New("want names of engines, each once")
		}
		c.engines = append(c.engines, name)
	}
	return nil
}

func (c *command) setValueFormat(v string) error {
	switch v {
	case "random", "value%d":
		c.params.NamedValues = v != "random"
		return nil
	}
	return errors.New("want random or value%d")
}

func (c *command) setProgress(v string) error {
	if v != "auto" && v != "always" && v != "never" {
		return errors.New("want auto, always or never")
	}
	c.progress = v
	return nil
}

func benchmarkNames() []string {
	names := make([]string, len(workload.Specs))
	for i, s := range workload.Specs {
		names[i] = s.Name
	}
	return names
}

func defaults() *command {
	return &command{
		rounds:   1,
		scale:    1,
		progress: "auto",
		given:    map[string]bool{},
		params: runner.Params{
			Num:              1_000_000,
			Reads:            -1,
			ValueSize:        100,
			Threads:          1,
			CompressionRatio: 0.5,
		},
	}
}

// parse reads a command line: flags as --name=value, --name value or -name
// value, and names of experiments. Engine options are checked by the driver.
func parse(args []string, drivers []store.Driver) (*command, store.Driver, error) {
	c := defaults()
	var words, rest []string // rest: pairs that may be engine options
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if !strings.HasPrefix(word, "-") || word == "-" {
			words = append(words, word)
			continue
		}
		name, value, has := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-"), "=")
		name = strings.ReplaceAll(name, "-", "_")
		f := findFlag(name)
		switch {
		case has:
		case f != nil && f.arg == "":
			value = "1"
			if len(args) > 0 {
				if _, ok := arg.Bool(args[0]); ok {
					value, args = args[0], args[1:]
				}
			}
		case len(args) > 0 && (f != nil || knownOption(name, drivers)):
			value, args = args[0], args[1:]
		case f != nil || knownOption(name, drivers):
			return nil, nil, usage("--%s needs a value", name)
		}
		c.given[name] = true
		if f == nil {
			rest = append(rest, name, value)
			continue
		}
		if err := f.set(c, value); err != nil {
			return nil, nil, usage("--%s=%s: %v", name, value, err)
		}
	}
	driver, err := c.resolve(words, rest, drivers)
	return c, driver, err
}

// resolve settles what depends on more than one flag.
func (c *command) resolve(words, rest []string, drivers []store.Driver) (store.Driver, error) {
	if err := c.choose(drivers); err != nil {
		return nil, err
	}
	if c.format != "" && c.format != bothFormats {
		rest = append(rest, formatOption, c.format)
	}
	for ; len(rest) > 0; rest = rest[2:] {
		if err := c.setOption(rest[0], rest[1]); err != nil {
			return nil, err
		}
	}
	for _, w := range words {
		switch {
		case w == "help":
			c.help = true
		case w == "list":
			c.list = true
		default:
			e, err := chooseExperiment(w)
			if err != nil {
				return nil, err
			}
			c.experiments = append(c.experiments, e)
		}
	}
	if len(c.drivers) > 1 && !c.given["quiet"] {
		c.params.Quiet = true
	}
	c.params.Timeline = c.html != "" || c.json != "" || c.params.Duration > 0
	return c.drivers[0], c.conflicts()
}

// peers are engines of kvbench-peers.
var peers = []string{"badger", "bbolt", "goleveldb", "leveldb", "lmdb", "pebble", "rocksdb",
	"sqlite"}

// choose finds the engines named; none is the first driver.
func (c *command) choose(drivers []store.Driver) error {
	names := make([]string, len(drivers))
	for i, d := range drivers {
		names[i] = d.Name()
	}
	switch {
	case len(c.engines) == 0:
		c.engines = names[:1]
	case len(c.engines) == 1 && c.engines[0] == "all":
		c.engines = names
	}
	several := false // formats of an engine
	for _, e := range c.engines {
		i := slices.Index(names, e)
		if i < 0 {
			if slices.Contains(peers, e) {
				return usage("this program does not have the engine %q; run bin/kvbench-peers, "+
					"which make peers builds with "+
					"those that are installed", e)
			}
			return usage("no engine %q; did you mean %q?", e, arg.Nearest(e, names))
		}
		c.drivers = append(c.drivers, drivers[i])
		if c.format != bothFormats {
			continue
		}
		for _, d := range drivers {
			if strings.HasPrefix(d.Name(), e+"-") {
				several = true
				if !slices.Contains(c.engines, d.Name()) {
					c.drivers = append(c.drivers, d)
				}
			}
		}
	}
	if c.format == bothFormats && !several {
		return usage("--format=both: %s has one format", c.drivers[0].Title())
	}
	return nil
}

// chooseExperiment reads an experiment's name, with =N behind it its number of entries.
func chooseExperiment(word string) (chosen, error) {
	name, num, has := strings.Cut(word, "=")
	e := chosen{Experiment: experiment.Find(name)}
	if e.Experiment == nil {
		if _, ok := workload.Find(name); ok {
			return e, usage("no experiment %q; a single benchmark is run by --benchmarks=%s", name,
				name)
		}
		return e, usage("no experiment %q; did you mean %q?", name,
			arg.Nearest(name, experiment.Names()))
	}
	if !has {
		return e, nil
	}
	n, err := arg.Count(num)
	if err == nil && n < 1 {
		err = errors.New("want 1 or more")
	}
	if err != nil {
		return e, usage("%s: %v", word, err)
	}
	e.num = n
	return e, nil
}

func (c *command) conflicts() error {
	switch {
	case len(c.experiments) > 0 && c.given["benchmarks"]:
		return usage("--benchmarks cannot be given with an experiment")
	case len(c.experiments) > 0 && c.params.UseExisting:
		return usage("--use_existing_db cannot be given with an experiment")
	case c.params.UseExisting && c.db == "":
		return usage("--use_existing_db needs --db")
	case c.given["scale"] && len(c.experiments) == 0:
		return usage("--scale needs an experiment (%s)", strings.Join(experiment.Names(), ", "))
	case c.given["variant"] && len(c.experiments) == 0:
		return usage("--variant needs an experiment (%s)", strings.Join(experiment.Names(), ", "))
	}
	for _, e := range c.experiments {
		if names := e.VariantNames(); !slices.ContainsFunc(names, func(name string) bool {
			return strings.HasPrefix(name, c.variant)
		}) {
			return usage("--variant=%s: no variant begins so; there are \"%s\"", c.variant,
				strings.Join(names, `", "`))
		}
	}
	return nil
}

// setOption takes a flag that is not the benchmark's own for one of the
// engines. With several, one that does not have it goes without.
func (c *command) setOption(name, value string) error {
	option := name
	if a, ok := aliases[name]; ok {
		option = a
	}
	names := flagNames()
	var known, taken bool
	var refused error
	s := store.Setting{Name: option, Value: settingValue(option, value)}
	for _, d := range c.drivers {
		for _, o := range d.Options() {
			names = append(names, o.Name)
		}
		if !hasOption(d, option) {
			continue
		}
		known = true
		if err := d.Check(s); err != nil {
			refused = err
		} else {
			taken = true
		}
	}
	switch {
	case known && isDefault(option, value):
		return nil
	case known && !taken:
		return usage("--%s=%s: %v", name, value, refused)
	case known:
		c.settings = append(c.settings, s)
		return nil
	}
	for alias := range aliases {
		names = append(names, alias)
	}
	return usage("unknown flag --%s; did you mean --%s?", name, arg.Nearest(name, names))
}

func hasOption(d store.Driver, name string) bool {
	return slices.ContainsFunc(d.Options(), func(o store.Option) bool { return o.Name == name })
}

// isDefault reports whether LevelDB's benchmark takes the value for "the
// engine's default".
func isDefault(option, value string) bool {
	switch option {
	case "bloom_bits", "cache_size":
		return strings.HasPrefix(value, "-")
	case "write_buffer_size", "max_file_size", "block_size", "max_open_files":
		return value == "0"
	}
	return false
}

// settingValue translates LevelDB's numbers of codecs to their names.
func settingValue(option, value string) string {
	if option == "compression" {
		switch value {
		case "0":
			return "none"
		case "1":
			return "snappy"
		case "2":
			return "zstd"
		}
	}
	return value
}

func findFlag(name string) *flag {
	if name == "h" {
		name = "help"
	}
	for i := range flags {
		if flags[i].name == name {
			return &flags[i]
		}
	}
	return nil
}

func flagNames() []string {
	names := make([]string, len(flags))
	for i := range flags {
		names[i] = flags[i].name
	}
	return names
}

func knownOption(name string, drivers []store.Driver) bool {
	if _, ok := aliases[name]; ok {
		return true
	}
	for _, d := range drivers {
		if hasOption(d, name) {
			return true
		}
	}
	return false
}
