package experiment

import (
	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload/store"
)

// LargeValue is the option from which size on an engine keeps values apart from keys; 0: never.
const LargeValue = "large_value"

// Each database of largevalues has so many bytes for each entry of the run's number.
const largeBytes = 128

// largeReads is the part of the run's number that is read of few values at least.
const largeReads = 50

var largeSteps = []string{"fillseq", "overwrite", "overwrite", "overwrite", "readrandomcold",
	"readrandomwarm", "scan1000cold", "scan1000warm", "deletehalf"}

// largeValues has two variants for each size of values: kept apart from the keys, and not.
func largeValues() Experiment {
	e := Experiment{
		Name:  "largevalues",
		Title: "values of 1 KiB to 1 MiB that do not compress, 128 MB of each",
		Doc: "values of 1, 4, 16, 64 KiB, 1 MiB, incompressible, kept apart from keys and not: " +
			"fill, overwrite 3 times, read and scan cold and warm, delete half",
		Num: 1_000_000, Matched: true, Grid: true, Costs: true,
		Notes: []string{"Half of the keys are deleted by one range delete where the engine has " +
			"them, else by batches."},
	}
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1 KiB", 1 << 10}, {"4 KiB", 4 << 10}, {"16 KiB", 16 << 10}, {"64 KiB", 64 << 10},
		{"1 MiB", 1 << 20}} {
		v := Variant{Name: size.name, Settings: largeSettings("1KiB"), Steps: Steps(largeSteps...),
			Adjust: func(p *runner.Params) { fitLarge(p, size.bytes) }}
		e.Variants = append(e.Variants, v)
		v.Name, v.Settings, v.Needs = size.name+", large_value off", largeSettings("0"), LargeValue
		e.Variants = append(e.Variants, v)
	}
	return e
}

// largeSettings are those of a variant. Memtables are smaller than its bytes, so that reads are of
// files.
func largeSettings(from string) []store.Setting {
	return append(set("write_buffer_size", "16MiB"), set(LargeValue, from)...)
}

// fitLarge makes p, whose number of entries is the run's, that of values of so many bytes.
func fitLarge(p *runner.Params, size int) {
	run := p.Num
	p.ValueSize, p.CompressionRatio = size, 1
	p.Num = max(run*largeBytes/int64(p.Keys.Len()+size), min(run, 16))
	if p.Reads < 0 {
		p.Reads = max(p.Num, run/largeReads)
	}
}
