package experiment

import (
	"fmt"
	"strconv"
	"time"

	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// sweeps are the experiments that vary one thing.
var sweeps = []Experiment{
	{
		Name:  "scale",
		Title: "the cost of a write as the database grows",
		Doc:   "fillrandom and reads of 1, 10 and 100 million entries",
		Source: "fillrandom on 24 cores: 5.2 us for 10 million entries, 6.0 for 100 million, " +
			"10.3 for 1,000 million",
		Num: 1_000_000, Matched: true,
		Variants: []Variant{
			scaleVariant("smallest", 1, 0), scaleVariant("10 times", 10, 5.2),
			scaleVariant("100 times", 100, 6.0),
		},
		Notes: []string{"scale=N makes N the smallest size; the published figures stand beside " +
			"their own sizes only."},
	},
	{
		Name:   "cache",
		Title:  "what a block cache saves: random reads of key%d -> value%d",
		Doc:    "random reads of a million small entries with 8 and 100 MB of cache",
		Source: "a million random reads in 9.8 s with 8 MB and 4.8 s with 100 MB",
		Num:    1_000_000,
		Adjust: func(p *runner.Params) { p.Keys.Style, p.NamedValues = workload.Named, true },
		Variants: []Variant{
			{Name: "8 MB", Settings: set("cache_size", "8MiB"),
				Steps: []Step{{"fillseq", 0}, {"readrandom", 9.8}, {"readrandom", 0}}},
			{Name: "100 MB", Settings: set("cache_size", "100MiB"),
				Steps: []Step{{"fillseq", 0}, {"readrandom", 4.8}, {"readrandom", 0}}},
		},
	},
	{
		Name:   "sync",
		Title:  "the cost of durability: a million writes, every 1, 10, 100 or none of them synced",
		Doc:    "writes synced every 1, 10, 100 times, and never",
		Source: "a million writes in more than 90 s, 12 s, 5 s and 3 s",
		Num:    1_000_000, Matched: true,
		Variants: []Variant{syncVariant(1, 90), syncVariant(10, 12), syncVariant(100, 5),
			syncVariant(0, 3)},
	},
	{
		Name:  "batch",
		Title: "writes in batches of 1 to 1,000 entries",
		Doc:   "fillseq and fillrandom in batches of 1, 2, 5, 10, 100, 1,000",
		Num:   1_000_000, Matched: true,
		Variants: sweep("batches of %d", func(n int, p *runner.Params) {
			p.Batch = n
		}, []string{"fillseq", "fillrandom"}, 1, 2, 5, 10, 100, 1000),
	},
	{
		Name:  "compression",
		Title: "what compression costs writes and reads, and saves on disk",
		Doc:   "writes and reads with none, snappy and zstd",
		Num:   2_000_000, Matched: true,
		Variants: []Variant{
			optionVariant("none", set("compression", "none"), compressionSteps...),
			optionVariant("snappy", set("compression", "snappy"), compressionSteps...),
			optionVariant("zstd", set("compression", "zstd"), compressionSteps...),
		},
	},
	{
		Name:  "blocksize",
		Title: "blocks of 4, 8 and 16 KiB, as in RocksDB's benchmark tables",
		Doc: "bulkload, overwrite, readwhilewriting, readrandom with blocks of 4, 8, 16 KiB, " +
			"and percentiles",
		Num: 10_000_000, Matched: true,
		Adjust: func(p *runner.Params) { p.Histogram = true },
		Variants: []Variant{
			optionVariant("4 KiB", set("block_size", "4096"), blockSteps...),
			optionVariant("8 KiB", set("block_size", "8192"), blockSteps...),
			optionVariant("16 KiB", set("block_size", "16384"), blockSteps...),
		},
		Notes: []string{"w-amp: bytes written to log and tables per byte of keys and values."},
	},
	{
		Name:  "filesize",
		Title: "tables of 2, 32 and 64 MB",
		Doc:   "fillrandom, readrandom and compaction with tables of 2, 32, 64 MB",
		Num:   10_000_000, Matched: true,
		Variants: []Variant{
			optionVariant("2 MB", set("max_file_size", "2MiB"), fileSteps...),
			optionVariant("32 MB", set("max_file_size", "32MiB"), fileSteps...),
			optionVariant("64 MB", set("max_file_size", "64MiB"), fileSteps...),
		},
	},
	{
		Name:  "threads",
		Title: "1, 2, 4 and 8 threads, each doing all operations",
		Doc:   "writes and reads by 1, 2, 4, 8 threads",
		Num:   1_000_000, Matched: true,
		Variants: sweep("%d threads", func(n int, p *runner.Params) { p.Threads = n },
			[]string{"fillseq", "fillrandom", "readrandom", "readrandom", "multireadrandom",
				"seekrandom", "readseq"}, 1, 2, 4, 8),
	},
	{
		Name: "stalls",
		Title: "how long single writes take: at full speed, at half of it, beside a compaction " +
			"of everything",
		Doc:    "percentiles of writes at full and half speed, and beside compactions",
		Num:    4_000_000,
		Adjust: func(p *runner.Params) { p.Histogram = true },
		Variants: []Variant{
			{Name: "LevelDB's defaults", Settings: leveldbSettings, Steps: stallSteps},
			{Name: "%s's defaults", Steps: stallSteps},
		},
	},
	{
		Name: "budget",
		Title: "four databases that share 256 MiB: what the process takes, and a quiet one " +
			"beside one that is loaded",
		Doc: "databases that share memory: resident set, and percentiles of a quiet one alone " +
			"and beside a load",
		Num: 4_000_000,
		Variants: []Variant{
			{Name: "%s's defaults", Steps: Steps("budget", "quietshared", "quietwhileloading")},
		},
		Notes: []string{"resident MB: by how much the resident set of the process grew at most; " +
			"the databases share 256 MB."},
	},
	{
		Name:  "values",
		Title: "values of 1, 16 and 256 KiB, copied and where they lie in the cache",
		Doc:   "random reads of large values, with a copy and without one",
		Num:   2_000, Matched: true,
		Variants: []Variant{valuesVariant(1, 80), valuesVariant(16, 10), valuesVariant(256, 1)},
	},
	{
		Name:  "sustained",
		Title: "ten minutes of overwrites after a bulk load, as in RocksDB's benchmark tables",
		Doc:   "bulkload, then overwrite for ten minutes, or --seconds, with its rate over time",
		Num:   10_000_000,
		Adjust: func(p *runner.Params) {
			if p.Duration == 0 {
				p.Duration = 10 * time.Minute
			}
			p.Timeline = true
		},
		Variants: []Variant{
			{Name: "LevelDB's defaults", Settings: leveldbSettings,
				Steps: Steps("bulkload", "overwrite")},
			{Name: "%s's defaults", Steps: Steps("bulkload", "overwrite")},
		},
	},
}

var (
	stallSteps = Steps("filluniquerandom", "overwrite", "overwritehalf",
		"overwritewhilecompacting")
	compressionSteps = []string{"fillseq", "fillrandom", "compact", "readrandom", "readrandom",
		"readseq"}
	blockSteps = []string{"bulkload", "overwrite", "readwhilewriting", "readrandom"}
	fileSteps  = []string{"filluniquerandom", "readrandom", "overwrite", "compact", "readrandom"}
)

func set(name, value string) []store.Setting { return []store.Setting{{Name: name, Value: value}} }

// Steps are benchmarks without published times.
func Steps(names ...string) []Step {
	all := make([]Step, len(names))
	for i, n := range names {
		all[i].Bench = n
	}
	return all
}

func scaleVariant(name string, factor, published float64) Variant {
	return Variant{Name: name, Scale: factor, Steps: []Step{{"fillrandom", published},
		{"readrandom", 0}, {"seekrandom", 0}, {"readseq", 0}}}
}

func syncVariant(every int64, published float64) Variant {
	name := "never"
	if every > 0 {
		name = "every " + strconv.FormatInt(every, 10)
	}
	return Variant{Name: name, Steps: []Step{{"fillrandom", published}},
		Adjust: func(p *runner.Params) { p.SyncEvery = every }}
}

// valuesVariant reads all values once before, so that they are cached, and compacts before that, so
// that they stay so.
func valuesVariant(kib int, scale float64) Variant {
	return Variant{Name: fmt.Sprintf("%d KiB", kib), Scale: scale,
		Steps:  Steps("filluniquerandom", "compact", "readseq", "readrandom", "readpinned"),
		Adjust: func(p *runner.Params) { p.ValueSize = kib << 10 }}
}

func optionVariant(name string, settings []store.Setting, names ...string) Variant {
	return Variant{Name: name, Settings: settings, Steps: Steps(names...)}
}

// sweep makes a variant for each number.
func sweep(format string, apply func(n int, p *runner.Params), names []string,
	numbers ...int) []Variant {
	all := make([]Variant, len(numbers))
	for i, n := range numbers {
		all[i] = Variant{Name: fmt.Sprintf(format, n), Steps: Steps(names...),
			Adjust: func(p *runner.Params) { apply(n, p) }}
	}
	return all
}
