package kvbench

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loamdb/loam/internal/kvbench/experiment"
	"github.com/loamdb/loam/internal/kvbench/table"
)

func hasGrid(run *Run) bool {
	e := experiment.Find(run.Experiment)
	return e != nil && e.Grid
}

// gridTitle is the title of step i in a table of ratios. In a grid, the titles of the steps after
// compact say so.
func gridTitle(run *Run, i int) string {
	at := slices.IndexFunc(run.Steps, func(s Step) bool { return s.Name == "compact" })
	switch {
	case !hasGrid(run) || at < 0:
		return stepTitle(run.Steps, i)
	case i > at:
		return run.Steps[i].Name + ", compacted"
	}
	return stepTitle(run.Steps[:at+1], i)
}

// printGrids prints the tables of ratios, or of times, that the page of an experiment begins with.
func (s *session) printGrids(name string) {
	for _, first := range s.report.sections() {
		if first.Experiment != name {
			continue
		}
		g := groupView{}
		if g.ratios(&s.report, s.report.tracks(first)); len(g.Ratios) > 0 {
			fmt.Fprintln(s.out)
			table.Print(s.out, g.Ratios)
			fmt.Fprintln(s.out, g.RatiosNote)
		}
	}
}

// sections are the first runs of the page's sections. A section has an experiment, or its variants
// with the same steps. The steps of a run that failed are a beginning of these.
func (r *Report) sections() (all []*Run) {
	for _, run := range r.Runs {
		if !slices.ContainsFunc(all, run.besides) {
			all = append(all, run)
		}
	}
	return all
}

// besides reports whether two runs are in the same section.
func (run *Run) besides(other *Run) bool {
	n := min(len(run.Steps), len(other.Steps))
	return run.Experiment == other.Experiment && slices.EqualFunc(run.Steps[:n], other.Steps[:n],
		func(a, b Step) bool { return a.Name == b.Name })
}

// variantsOf names the variants of tracks, each once.
func variantsOf(tracks []track) string {
	var names []string
	for _, t := range tracks {
		if !slices.Contains(names, t.sample.Variant) {
			names = append(names, t.sample.Variant)
		}
	}
	return strings.Join(names, ", ")
}
