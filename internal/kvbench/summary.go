package kvbench

import (
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/kvbench/experiment"
	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/kvbench/table"
)

// column is the rounds of one variant in a summary.
type column struct {
	name string
	runs []*Run
}

// series is one step over all rounds.
type series struct{ steps []*Step }

func (c *column) series(i int) series {
	var s series
	for _, r := range c.runs {
		if i < len(r.Steps) && r.Steps[i].Skipped == "" && r.Steps[i].Text == "" {
			s.steps = append(s.steps, &r.Steps[i])
		}
	}
	return s
}

// median of a number of each round.
func (s series) median(f func(*Step) float64) float64 {
	v := s.values(f)
	if len(v) == 0 {
		return 0
	}
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}

func (s series) values(f func(*Step) float64) []float64 {
	v := make([]float64, len(s.steps))
	for i, st := range s.steps {
		v[i] = f(st)
	}
	slices.Sort(v)
	return v
}

func micros(s *Step) float64 { return s.MicrosPerOp }

// spread is the distance of the extremes in percent of the median.
func (s series) spread() float64 {
	v := s.values(micros)
	if len(v) < 2 || s.median(micros) == 0 {
		return 0
	}
	return (v[len(v)-1] - v[0]) * 100 / s.median(micros)
}

// summary prints the table at the end. All columns have the same steps.
func (s *session) summary(columns []column, e *experiment.Experiment) {
	fmt.Fprintln(s.out)
	switch {
	case e.Costs:
		s.costs(columns)
	case s.apart():
		s.peers(columns)
	case len(columns) == 1:
		s.wide(&columns[0])
	default:
		s.beside(columns)
	}
	if slices.ContainsFunc(columns, func(c column) bool {
		return slices.ContainsFunc(c.runs, (*Run).inMemory)
	}) {
		fmt.Fprintln(s.out, "WARNING: "+memoryWarning)
	}
	if e.Source != "" {
		fmt.Fprintf(s.out, "times: how many times faster than published (%s).\n", e.Source)
	}
	for _, n := range e.Notes {
		fmt.Fprintln(s.out, n)
	}
}

// timed reports whether the operations of a step were timed one by one.
func timed(steps []Step) bool {
	return slices.ContainsFunc(steps, func(st Step) bool { return st.Latency != nil })
}

// wide is the table of a single column.
func (s *session) wide(c *column) {
	steps := c.runs[0].Steps
	rows := [][]string{{"benchmark", "micros/op", "ops/s", "MB/s", "CPU us/op", "stall"}}
	for _, f := range tailFigures {
		if timed(steps) {
			rows[0] = append(rows[0], f.title)
		}
	}
	var extra []figure
	for _, f := range extraFigures {
		for i := range steps {
			if f.text(c.series(i)) != "-" {
				extra = append(extra, f)
				rows[0] = append(rows[0], f.title)
				break
			}
		}
	}
	rows[0] = append(rows[0], "found")
	if s.c.rounds > 1 {
		rows[0] = append(rows[0], "spread")
	}
	for i, st := range steps {
		v := c.series(i)
		if len(v.steps) == 0 {
			continue
		}
		row := []string{
			st.Name,
			number(v.median(micros)),
			fmt.Sprintf("%.0f", v.median(func(s *Step) float64 { return s.OpsPerSecond })),
			dash(v.median(func(s *Step) float64 { return s.MBPerSecond }), "%.1f"),
			number(v.median(cpuMicros)),
			stallText(v),
		}
		for _, f := range tailFigures {
			if timed(steps) {
				row = append(row, f.text(v))
			}
		}
		for _, f := range extra {
			row = append(row, f.text(v))
		}
		row = append(row, foundText(v.steps[0]))
		if s.c.rounds > 1 {
			row = append(row, fmt.Sprintf("%.0f%%", v.spread()))
		}
		rows = append(rows, row)
	}
	table.Print(s.out, rows)
}

// beside sets variants side by side: the time of an operation, and how many
// times faster it is than the published one.
func (s *session) beside(columns []column) {
	first := columns[0].runs[0].Steps
	if len(columns) > 2 || slices.ContainsFunc(columns, func(c column) bool {
		return timed(c.runs[0].Steps)
	}) {
		s.stacked(columns)
		return
	}
	for i := range first {
		for _, c := range columns[1:] {
			if c.runs[0].Steps[i].Published != first[i].Published {
				s.stacked(columns)
				return
			}
		}
	}
	rows := [][]string{{"micros/op"}}
	for _, c := range columns {
		rows[0] = append(rows[0], c.name, "CPU us/op", "peak RSS MB", "times")
		if s.c.rounds > 1 {
			rows[0] = append(rows[0], "spread")
		}
	}
	rows[0] = append(rows[0], publishedTitle(columns[0].runs[0]), "found")
	for i, st := range first {
		row := []string{st.Name}
		for _, c := range columns {
			v := c.series(i)
			row = append(row, number(v.median(micros)), number(v.median(cpuMicros)),
				memoryFigures()[0].text(v), timesFaster(st.Published, v.median(micros)))
			if s.c.rounds > 1 {
				row = append(row, fmt.Sprintf("%.0f%%", v.spread()))
			}
		}
		if v := columns[0].series(i); len(v.steps) > 0 {
			rows = append(rows, append(row, dash(st.Published, "%.3f"), foundText(v.steps[0])))
		}
	}
	table.Print(s.out, rows)
}

// figure is one column of the stacked table, the median over all rounds; a column in which no row
// has anything to say is left out.
type figure struct {
	title string
	text  func(v series) string
}

func at(f func(*Step) float64, format string) func(series) string {
	return func(v series) string { return dash(v.median(f), format) }
}

// numbers are those of the rounds that have the number.
func (s series) numbers(f func(*Step) (n float64, known bool)) (all []float64) {
	for _, st := range s.steps {
		if n, ok := f(st); ok {
			all = append(all, n)
		}
	}
	return all
}

// known is the median over the rounds that have the number, "-" if none has.
func (s series) known(f func(*Step) (float64, bool), format string) string {
	all := s.numbers(f)
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf(format, median(all))
}

// units is known of a number that is nil where it is not.
func units[T int64 | float64](f func(*Step) *T, unit float64, format string) func(series) string {
	return func(v series) string {
		return v.known(func(s *Step) (float64, bool) {
			p := f(s)
			return float64(value(p)) / unit, p != nil
		}, format)
	}
}

// tailFigures are the latencies of the slowest operations, in microseconds.
var tailFigures = []figure{
	{"P99.9", quantileText("P99.9")},
	{"P99.99", quantileText("P99.99")},
	{"longest", longest},
}

// longest is the time of the slowest operation of all rounds.
func longest(v series) string {
	most := int64(-1)
	for _, st := range v.steps {
		if st.Latency != nil {
			most = max(most, st.Latency.Max)
		}
	}
	if most < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(most)/1e3)
}

// extraFigures are those that few steps have.
var extraFigures = append([]figure{
	{"peak MB", units(func(s *Step) *int64 { return s.DiskPeak }, 1<<20, "%.1f")},
	{"quiet MB", units(func(s *Step) *int64 { return s.DiskQuiet }, 1<<20, "%.1f")},
	{"lag P50 ms", lagText("P50")},
	{"lag P99 ms", lagText("P99")},
	{"resident MB", units(func(s *Step) *int64 { return s.Resident }, 1<<20, "%.1f")},
	{"last/2nd tenth", at(func(s *Step) float64 { return s.Flat }, "%.2f")},
}, memoryFigures()...)

func memoryFigures() (all []figure) {
	for i, title := range machine.MemoryTitles {
		all = append(all, figure{title, func(v series) string {
			return v.known(func(s *Step) (float64, bool) { return s.Memory.MB(i) }, "%.0f")
		}})
	}
	return all
}

// lagText is a percentile of how far a follower was behind.
func lagText(name string) func(series) string {
	return func(v series) string {
		return v.known(func(st *Step) (float64, bool) {
			if st.Lag == nil || st.Lag.Count == 0 {
				return 0, false
			}
			return float64(st.Lag.Quantiles[name]) / 1e6, true
		}, "%.1f")
	}
}

var stackedFigures = append([]figure{
	{"micros/op", at(micros, "%.3f")},
	{"ops/s", at(func(s *Step) float64 { return s.OpsPerSecond }, "%.0f")},
	{"CPU us/op", at(cpuMicros, "%.3f")},
	{"seconds", at(func(s *Step) float64 { return s.Seconds }, "%.2f")},
	{"published", at(published, "%.3f")},
	{"times", func(v series) string { return timesFaster(v.median(published), v.median(micros)) }},
	{"P50", quantileText("P50")},
	{"P99", quantileText("P99")},
	tailFigures[0], tailFigures[1], tailFigures[2],
	{"w-amp", at((*Step).amplification, "%.1f")},
	{"stall", stallText},
	{"quiet s", quietSeconds},
	{"MB on disk", diskSize},
	extraFigures[0], extraFigures[1], extraFigures[2], extraFigures[3], extraFigures[4],
	{"found", func(v series) string { return foundText(v.steps[0]) }},
	{"spread", func(v series) string {
		if len(v.steps) < 2 {
			return "-"
		}
		return fmt.Sprintf("%.0f%%", v.spread())
	}},
}, memoryFigures()...)

var (
	quietSeconds = units(func(s *Step) *float64 { return s.Quiet }, 1, "%.2f")
	diskSize     = units(func(s *Step) *int64 { return s.DiskSize }, 1<<20, "%.1f")
)

func published(s *Step) float64 { return s.Published }

// quantileText is a percentile in microseconds.
func quantileText(name string) func(series) string {
	return func(v series) string {
		return v.known(func(s *Step) (float64, bool) { return s.quantile(name) }, "%.3f")
	}
}

// stacked gives every variant and step a row.
func (s *session) stacked(columns []column) {
	rows := [][]string{{"variant", "benchmark"}}
	for _, f := range stackedFigures {
		rows[0] = append(rows[0], f.title)
	}
	for _, c := range columns {
		for i, st := range c.runs[0].Steps {
			v := c.series(i)
			if len(v.steps) == 0 {
				continue
			}
			row := []string{c.name, st.Name}
			for _, f := range stackedFigures {
				row = append(row, f.text(v))
			}
			rows = append(rows, row)
		}
	}
	table.Retitle(rows[0], "published", publishedTitle(columns[0].runs[0]))
	table.Print(s.out, table.Trim(rows))
}

func timesFaster(published, ours float64) string {
	if published == 0 || ours == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", published/ours)
}

func cpuMicros(s *Step) float64 {
	return (s.CPUUser + s.CPUSystem) * 1e6 / float64(max(s.Ops, 1))
}

// stallText is the share of the time for which writes waited.
func stallText(v series) string {
	return dash(v.median(func(s *Step) float64 {
		if s.Seconds == 0 {
			return 0
		}
		return value(s.Stall) * 100 / s.Seconds
	}), "%.1f%%")
}

func foundText(s *Step) string {
	if s.Asked == nil {
		return "-"
	}
	return fmt.Sprintf("%d of %d", *s.Found, *s.Asked)
}

// publishedTitle is the title of the column with the published figures of a run's experiment.
func publishedTitle(run *Run) string {
	if e := experiment.Find(run.Experiment); e != nil {
		return table.Published(e.Source)
	}
	return "published"
}

func number(f float64) string { return fmt.Sprintf("%.3f", f) }

func dash(f float64, format string) string {
	if f == 0 {
		return "-"
	}
	return fmt.Sprintf(format, f)
}
