package experiment

import "github.com/loamdb/loam/internal/kvbench/shapes"

// shaped has a variant for each shape of package shapes.
func shaped() Experiment {
	e := Experiment{
		Name:  "shapes",
		Title: "the shapes of databases that people have, 64 MB of each",
		Doc: "values of 8 B to 256 KiB, long keys, filters, codecs, caches, threads, batches, " +
			"series, hot keys, what is held open: 64 MB of each, in one table",
		Num: shapes.Entries, Matched: true, Grid: true,
		Notes: []string{"Reads before compact are of what fills and overwrites left, those after " +
			"it of one sorted run. With threads, each of them writes all entries."},
	}
	for _, s := range shapes.List {
		e.Variants = append(e.Variants, Variant{Name: s.Name, Settings: s.Own(),
			Steps: Steps(s.Steps...), Adjust: s.Apply})
	}
	return e
}
