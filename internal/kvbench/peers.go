package kvbench

import (
	"fmt"
	"math"
	"slices"

	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/kvbench/table"
	"github.com/loamdb/loam/internal/workload/store"
)

// tooBusy is how many cores others may keep at work before a run counts as
// disturbed. Disturbed pairs are left out where there are others.
const tooBusy = 0.3

// versus is a peer beside the first engine: one step of one variant.
type versus struct {
	ratios    []float64 // of each pair: how many times the peer's time is ours
	ours      []float64 // micros/op
	theirs    []float64
	disturbed int // pairs left out
}

func (v *versus) ratio() float64 { return median(v.ratios) }

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Sorted(slices.Values(values))
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

// spreadOf is the distance of the extremes in percent of the median.
func spreadOf(values []float64) float64 {
	m := median(values)
	if len(values) < 2 || m == 0 {
		return 0
	}
	return (slices.Max(values) - slices.Min(values)) * 100 / m
}

// compareRuns sets step i of a peer's runs beside those of the first engine
// that they were paired with.
func compareRuns(first string, all []*Run, peer *Run, step int) versus {
	var quiet, every versus
	for _, a := range all {
		if a.Engine != first || a.Pair != peer.Engine || a.Experiment != peer.Experiment ||
			a.Num != peer.Num || a.Threads != peer.Threads {
			continue
		}
		for _, b := range all {
			if b.Engine != peer.Engine || b.Pair != first || b.Experiment != a.Experiment ||
				b.Round != a.Round ||
				b.Num != a.Num || !sameVariant(a, b) || b.Variant != peer.Variant ||
				step >= len(a.Steps) || step >= len(b.Steps) {
				continue
			}
			x, y := &a.Steps[step], &b.Steps[step]
			if x.Name != y.Name || x.MicrosPerOp == 0 || y.MicrosPerOp == 0 {
				continue
			}
			every.add(x, y)
			if math.Max(a.Busy, b.Busy) <= tooBusy {
				quiet.add(x, y)
			} else {
				quiet.disturbed++
			}
		}
	}
	if len(quiet.ratios) > 0 {
		return quiet
	}
	every.disturbed = quiet.disturbed
	return every
}

// sameVariant: a variant that is called after the engine is the same one.
func sameVariant(a, b *Run) bool { return a.Variant == b.Variant || a.own() && b.own() }

// own reports whether the run had the engine's own settings.
func (run *Run) own() bool {
	return run.Variant != "" && len(run.Settings) == 0 && len(run.Ignored) == 0
}

func (v *versus) add(ours, theirs *Step) {
	v.ours = append(v.ours, ours.MicrosPerOp)
	v.theirs = append(v.theirs, theirs.MicrosPerOp)
	v.ratios = append(v.ratios, theirs.MicrosPerOp/ours.MicrosPerOp)
}

// peers prints the table of a comparison: a row for each step, for every engine
// its time, and for the peers how many times longer that is than ours.
func (s *session) peers(columns []column) {
	titles := map[string]string{}
	for _, d := range s.drivers {
		titles[d.Name()] = d.Title()
	}
	ours := s.driver.Title()
	rows := [][]string{slices.Concat([]string{"variant", "benchmark", "engine", "micros/op",
		"spread", ours, "times", "spread", "CPU us/op", "quiet s", "MB on disk", "P50", "P99",
		"peak MB", "quiet MB",
		"lag P50 ms", "lag P99 ms", "resident MB", "last/2nd tenth"}, machine.MemoryTitles,
		[]string{publishedTitle(columns[0].runs[0])})}
	var disturbed int
	for _, c := range columns {
		for i, st := range c.runs[0].Steps {
			v := c.series(i)
			if len(v.steps) == 0 {
				continue
			}
			row := []string{c.runs[0].Variant, st.Name, titles[c.runs[0].Engine],
				number(v.median(micros)), percent(v.spread()), "-", "-", "-"}
			if c.runs[0].Engine != s.driver.Name() {
				p := compareRuns(s.driver.Name(), s.report.Runs, c.runs[0], i)
				disturbed += p.disturbed
				if len(p.ratios) > 0 {
					row[3], row[4] = number(median(p.theirs)), percent(spreadOf(p.theirs))
					row[5], row[6], row[7] = number(median(p.ours)), fmt.Sprintf("%.2f",
						p.ratio()), percent(spreadOf(p.ratios))
				}
			}
			row = append(row, number(v.median(cpuMicros)), quietSeconds(v), diskSize(v))
			for _, f := range append([]figure{{"P50", quantileText("P50")},
				{"P99", quantileText("P99")}}, extraFigures...) {
				row = append(row, f.text(v))
			}
			rows = append(rows, append(row, dash(st.Published, "%.3f")))
		}
	}
	s.group(columns, rows[1:])
	table.Print(s.out, table.Trim(rows))
	fmt.Fprintf(s.out, "times: how many times longer the engine takes than %s in the same pair "+
		"(above 1: %s is faster).\n", ours, ours)
	fmt.Fprintf(s.out, "%s\n%s\n", spaceLegend, machine.MemoryLegend)
	if disturbed > 0 {
		fmt.Fprintf(s.out, "WARNING: others kept the machine busy before %d pairs of figures; "+
			"those are left out where quiet ones remain.\n", disturbed)
	}
	s.engines()
}

// engines prints what the figures of each engine depend on.
func (s *session) engines() {
	for _, e := range s.report.Engines {
		fmt.Fprintf(s.out, "%s %s: a write without sync %s", e.Title, e.Version,
			durabilityText(e.Durability))
		for _, n := range e.Notes {
			fmt.Fprintf(s.out, "; %s", n)
		}
		fmt.Fprintln(s.out)
	}
}

// spaceLegend explains the columns of space.
const spaceLegend = "MB on disk: live tables; peak MB and quiet MB: all files of the directory, " +
	"at most and after the time to quiet."

// group puts the engines of one step together. Rows are in the order of the
// columns: all steps of one variant of one engine after another.
func (s *session) group(columns []column, rows [][]string) {
	rank := map[*[]string]int{}
	at := 0
	for _, c := range columns {
		first := slices.IndexFunc(columns, func(d column) bool {
			return sameVariant(c.runs[0], d.runs[0])
		})
		for i := range c.runs[0].Steps {
			if len(c.series(i).steps) > 0 {
				rank[&rows[at]] = first*1000 + i
				at++
			}
		}
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return rank[&rows[a]] - rank[&rows[b]] })
	sorted := make([][]string, len(rows))
	for i, j := range order {
		sorted[i] = rows[j]
	}
	copy(rows, sorted)
}

func durabilityText(d store.Durability) string {
	if d == store.InProcess {
		return "is lost when the process is killed (in process)"
	}
	return "survives a kill"
}

func percent(f float64) string { return fmt.Sprintf("%.0f%%", f) }

// optional prints a number that may be unknown.
func optional[T int64 | float64](p *T, unit float64, format string) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprintf(format, float64(*p)/unit)
}
