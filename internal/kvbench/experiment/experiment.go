// Package experiment is the data of kvbench's experiments: which benchmarks they run, on how many
// entries, with which settings, and the figures that others published.
//
// All of it is constant.
package experiment

import (
	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// LevelDBFormat is the value of the option format for databases that LevelDB reads.
const LevelDBFormat = "leveldb"

// Experiment is a published measurement, repeated, or one of our own: steps under one or more
// settings.
type Experiment struct {
	Name, Title string
	Doc         string
	Source      string // where the published figures come from
	Num         int64
	Adjust      func(p *runner.Params) // what it sets besides the number of entries; nil: nothing
	Matched     bool                   // settings are matched beside peers
	Grid        bool                   // its table of ratios, or times, is in the text, too
	Costs       bool                   // its table is of what steps write and take up when quiet
	Variants    []Variant
	Notes       []string
}

// Variant is one way to open the database.
type Variant struct {
	Name     string // %s stands for the engine's name
	Settings []store.Setting
	Steps    []Step
	// where tables show an engine's formats; "": the engine's default
	Format string
	Alone  bool                   // only there
	Needs  string                 // engines without this option are left out; "": none
	Scale  float64                // factor on the number of entries; 0: 1
	Adjust func(p *runner.Params) // what it sets on top of the experiment; nil: nothing
}

// Step is one benchmark with the published time of an operation, 0 if none.
type Step struct {
	Bench     string
	Published float64 // microseconds
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
var leveldbSteps = []Step{
	{"fillseq", 1.765}, {"fillsync", 268.409}, {"fillrandom", 2.460}, {"overwrite", 2.380},
	{"readrandom", 16.677}, {"readrandom", 0}, {"readseq", 0.476}, {"readreverse", 0.724},
	{"compact", 0},
	{"readrandom", 11.602}, {"readseq", 0.423}, {"readreverse", 0.663},
	{"fill100K", 0},
	{"crc32c", 0}, {"snappycomp", 0}, {"snappyuncomp", 0}, {"zstdcomp", 0}, {"zstduncomp", 0},
}

func bloomVariant(name string, published float64, settings ...store.Setting) Variant {
	return Variant{Name: name, Settings: settings,
		Steps: []Step{{"fillseq", 0}, {"readmissing", published}}}
}

// List is all experiments, in the order in which help lists them.
var List = append([]Experiment{
	{
		Name:  "leveldb",
		Title: "LevelDB's table: 16-byte keys, 100-byte values, its eighteen steps",
		Doc: "LevelDB's eighteen steps, with its defaults and format, and with the engine's " +
			"own in both formats",
		Source: "LevelDB's README, 2011: Core 2 Quad Q6600 2.40 GHz, 1 million entries",
		Num:    1_000_000,
		Variants: []Variant{
			{Name: "LevelDB's defaults", Settings: leveldbSettings, Steps: leveldbSteps,
				Format: LevelDBFormat},
			{Name: "%s's defaults", Steps: leveldbSteps},
			{Name: "%s's defaults, LevelDB's format", Steps: leveldbSteps, Format: LevelDBFormat,
				Alone: true},
		},
		Notes: []string{
			"Published with a cache that holds everything: readrandom 9.775 before and 5.215 " +
				"after compaction.",
			"Published fillsync was 10,000 writes to a disk of its time.",
		},
	},
	{
		Name: "bloom",
		Title: "what a Bloom filter saves: even numbers of key%d are there, random odd ones " +
			"are read",
		Doc: "reads of missing keys: no filter, 10 bits a key, filter and block cache",
		Source: "10 million missing keys read in 104.9 s, 36.9 s and 37.5 s, 2.8 times faster " +
			"with the filter",
		Num: 10_000_000,
		Adjust: func(p *runner.Params) {
			p.Keys.Style, p.Keys.Stride = workload.Named, 2
			p.NamedValues = true
		},
		Variants: []Variant{
			bloomVariant("no filter", 10.49, store.Setting{Name: "bloom_bits", Value: "0"},
				store.Setting{Name: "cache_size", Value: "8MiB"}),
			bloomVariant("10 bits a key", 3.69, store.Setting{Name: "bloom_bits", Value: "10"},
				store.Setting{Name: "cache_size", Value: "8MiB"}),
			{
				Name: "10 bits a key, LevelDB's format",
				Settings: []store.Setting{{Name: "bloom_bits", Value: "10"},
					{Name: "cache_size", Value: "8MiB"}},
				Steps: Steps("fillseq", "readmissing"), Format: LevelDBFormat, Alone: true,
			},
			bloomVariant("10 bits and cache", 3.75, store.Setting{Name: "bloom_bits", Value: "10"},
				store.Setting{Name: "cache_size", Value: "512MiB"}),
		},
	},
}, append(sweeps, shaped(), largeValues())...)

// Find returns the experiment with the name; nil: there is none.
func Find(name string) *Experiment {
	for i := range List {
		if List[i].Name == name {
			return &List[i]
		}
	}
	return nil
}

// Names are those of all experiments.
func Names() []string {
	names := make([]string, len(List))
	for i := range List {
		names[i] = List[i].Name
	}
	return names
}

// VariantNames are those of the variants, with %s for the engine's name.
func (e *Experiment) VariantNames() []string {
	names := make([]string, len(e.Variants))
	for i := range names {
		names[i] = e.Variants[i].Name
	}
	return names
}
