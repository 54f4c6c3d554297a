package kvbench

import (
	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/kvbench/table"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// experiment is a published measurement, repeated: the same steps under one or
// more settings.
type experiment struct {
	name, title string
	doc         string
	source      string // where the published figures come from
	num         int64
	adjust      func(p *runner.Params) // what it sets besides the number of entries
	matched     bool                   // beside peers, settings are matched
	grid        bool                   // its table of ratios, or times, is in the text, too
	variants    []variant
	notes       []string
}

// variant is one way to open the database.
type variant struct {
	name     string // %s stands for the engine's name
	settings []store.Setting
	steps    []step
	// where tables show an engine's formats; "": the engine's default
	format string
	alone  bool                   // only there
	scale  float64                // factor on the number of entries; 0: 1
	adjust func(p *runner.Params) // what it sets on top of the experiment
}

// step is one benchmark with the published time of an operation, 0 if none.
type step struct {
	bench     string
	published float64 // microseconds
}

var leveldbSettings = []store.Setting{
	{Name: "write_buffer_size", Value: "4MiB"},
	{Name: "cache_size", Value: "8MiB"},
	{Name: "block_size", Value: "4096"},
	{Name: "max_file_size", Value: "2MiB"},
	{Name: "compression", Value: "snappy"},
	{Name: "bloom_bits", Value: "0"},
}

// leveldbSteps are LevelDB's defaults with the figures of its README of 2011.
var leveldbSteps = []step{
	{"fillseq", 1.765}, {"fillsync", 268.409}, {"fillrandom", 2.460}, {"overwrite", 2.380},
	{"readrandom", 16.677}, {"readrandom", 0}, {"readseq", 0.476}, {"readreverse", 0.724},
	{"compact", 0},
	{"readrandom", 11.602}, {"readseq", 0.423}, {"readreverse", 0.663},
	{"fill100K", 0},
	{"crc32c", 0}, {"snappycomp", 0}, {"snappyuncomp", 0}, {"zstdcomp", 0}, {"zstduncomp", 0},
}

func bloomVariant(name string, published float64, settings ...store.Setting) variant {
	return variant{name: name, settings: settings,
		steps: []step{{"fillseq", 0}, {"readmissing", published}}}
}

var experiments = append([]experiment{
	{
		name:  "leveldb",
		title: "LevelDB's table: 16-byte keys, 100-byte values, its eighteen steps",
		doc: "LevelDB's eighteen steps, with its defaults and format, and with the engine's " +
			"own in both formats",
		source: "LevelDB's README, 2011: Core 2 Quad Q6600 2.40 GHz, 1 million entries",
		num:    1_000_000,
		variants: []variant{
			{name: "LevelDB's defaults", settings: leveldbSettings, steps: leveldbSteps,
				format: leveldbFormat},
			{name: "%s's defaults", steps: leveldbSteps},
			{name: "%s's defaults, LevelDB's format", steps: leveldbSteps, format: leveldbFormat,
				alone: true},
		},
		notes: []string{
			"Published with a cache that holds everything: readrandom 9.775 before and 5.215 " +
				"after compaction.",
			"Published fillsync was 10,000 writes to a disk of its time.",
		},
	},
	{
		name: "bloom",
		title: "what a Bloom filter saves: even numbers of key%d are there, random odd ones " +
			"are read",
		doc: "reads of missing keys: no filter, 10 bits a key, filter and block cache",
		source: "10 million missing keys read in 104.9 s, 36.9 s and 37.5 s, 2.8 times faster " +
			"with the filter",
		num: 10_000_000,
		adjust: func(p *runner.Params) {
			p.Keys.Style, p.Keys.Stride = workload.Named, 2
			p.NamedValues = true
		},
		variants: []variant{
			bloomVariant("no filter", 10.49, store.Setting{Name: "bloom_bits", Value: "0"},
				store.Setting{Name: "cache_size", Value: "8MiB"}),
			bloomVariant("10 bits a key", 3.69, store.Setting{Name: "bloom_bits", Value: "10"},
				store.Setting{Name: "cache_size", Value: "8MiB"}),
			{
				name: "10 bits a key, LevelDB's format",
				settings: []store.Setting{{Name: "bloom_bits", Value: "10"},
					{Name: "cache_size", Value: "8MiB"}},
				steps: steps("fillseq", "readmissing"), format: leveldbFormat, alone: true,
			},
			bloomVariant("10 bits and cache", 3.75, store.Setting{Name: "bloom_bits", Value: "10"},
				store.Setting{Name: "cache_size", Value: "512MiB"}),
		},
	},
}, append(sweeps, shapesExperiment())...)

func findExperiment(name string) *experiment {
	for i := range experiments {
		if experiments[i].name == name {
			return &experiments[i]
		}
	}
	return nil
}

// publishedTitle is the title of the column with the published figures of a run's experiment.
func publishedTitle(run *Run) string {
	if e := findExperiment(run.Experiment); e != nil {
		return table.Published(e.source)
	}
	return "published"
}

func experimentNames() []string {
	names := make([]string, len(experiments))
	for i := range experiments {
		names[i] = experiments[i].name
	}
	return names
}
