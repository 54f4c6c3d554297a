// Table makes a table and a plot of a report of kvbench, for a page that is read by people:
//
//	go run ./bench/table build/peers.json docs/bench.svg
//
// It prints the table in Markdown and writes the plot. Rows are benchmarks, columns engines, and
// the numbers medians over the rounds.
package main

import (
	"encoding/json"
	"fmt"
	"html"
	"math"
	"os"
	"slices"
	"strings"
)

// report is what of a report of kvbench is needed here.
type report struct {
	Engines []struct {
		Name, Title, Version string
		Notes                []string
	}
	Environment struct {
		Time, CPU, Go, Commit string
		Cores                 int
	}
	Complete bool
	Runs     []struct {
		Engine      string
		Experiment  string
		Variant     string
		Num         int64
		ValueSize   int   `json:"value_size"`
		MemoryLimit int64 `json:"memory_limit_bytes"`
		Steps       []struct {
			Name        string
			MicrosPerOp float64 `json:"micros_per_op"`
		}
	}
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: table REPORT.json PLOT.svg")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func run(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}
	for _, run := range r.Runs {
		if first := r.Runs[0]; run.Experiment != first.Experiment || run.Variant != first.Variant ||
			run.Num != first.Num || run.ValueSize != first.ValueSize {
			return fmt.Errorf("%s: it has runs of several variants or sizes, and a table has one",
				from)
		}
	}
	t := r.table()
	if len(t.rows) == 0 {
		return fmt.Errorf("%s: there are no figures in it", from)
	}
	fmt.Print(t.markdown())
	return os.WriteFile(to, []byte(t.plot()), 0o644)
}

// table has the figures in microseconds per operation; 0 where an engine has none.
type table struct {
	engines []string // titles, with figures
	rows    []row
	caption string
}

type row struct {
	name   string
	micros []float64 // by engine
}

func (r *report) table() table {
	var t table
	all := map[string]map[string][]float64{} // by engine and benchmark
	var names []string
	for _, run := range r.Runs {
		if all[run.Engine] == nil {
			all[run.Engine] = map[string][]float64{}
		}
		seen := map[string]int{}
		for _, s := range run.Steps {
			seen[s.Name]++
			if s.MicrosPerOp == 0 {
				continue
			}
			name := s.Name
			if n := seen[s.Name]; n > 1 { // the same benchmark later in the run
				name = fmt.Sprintf("%s, again (%d)", s.Name, n)
			}
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
			all[run.Engine][name] = append(all[run.Engine][name], s.MicrosPerOp)
		}
	}
	var engines, versions, left []string
	for _, e := range r.Engines {
		if all[e.Name] == nil {
			left = append(left, strings.Join(append([]string{e.Title}, e.Notes...), ", "))
			continue
		}
		engines = append(engines, e.Name)
		t.engines = append(t.engines, e.Title)
		versions = append(versions, e.Title+" "+e.Version)
	}
	for _, n := range names {
		x := row{name: n}
		for _, e := range engines {
			x.micros = append(x.micros, median(all[e][n]))
		}
		t.rows = append(t.rows, x)
	}
	if len(r.Runs) == 0 {
		return t
	}
	first := &r.Runs[0]
	date, _, _ := strings.Cut(r.Environment.Time, "T")
	t.caption = fmt.Sprintf("Microseconds per operation, less is better, the best in bold. %s, %d "+
		"cores (%s), %s entries of 16 + %d bytes", date, r.Environment.Cores,
		strings.TrimSpace(r.Environment.CPU), count(first.Num), first.ValueSize)
	if first.MemoryLimit > 0 {
		t.caption += fmt.Sprintf(", in %d MB of memory with the page cache",
			first.MemoryLimit>>20)
	}
	t.caption += ". " + strings.Join(versions, ", ") + "."
	for _, l := range left {
		t.caption += " Left out: " + l + "."
	}
	if !r.Complete {
		t.caption += " The run was not completed."
	}
	return t
}

// count writes a number of entries.
func count(n int64) string {
	if n >= 1_000_000 && n%100_000 == 0 {
		return fmt.Sprintf("%g million", float64(n)/1e6)
	}
	return fmt.Sprint(n)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// best is the index of the smallest figure.
func (x *row) best() int {
	b := -1
	for i, v := range x.micros {
		if v > 0 && (b < 0 || v < x.micros[b]) {
			b = i
		}
	}
	return b
}

func (t *table) markdown() string {
	var s strings.Builder
	s.WriteString("| |")
	for _, e := range t.engines {
		s.WriteString(" " + e + " |")
	}
	s.WriteString("\n|---|" + strings.Repeat("---|", len(t.engines)) + "\n")
	for _, x := range t.rows {
		s.WriteString("| " + x.name + " |")
		for i, v := range x.micros {
			cell := figure(v)
			if i == x.best() {
				cell = "**" + cell + "**"
			}
			s.WriteString(" " + cell + " |")
		}
		s.WriteString("\n")
	}
	return s.String() + "\n" + t.caption + "\n"
}

// figure writes a number with three digits.
func figure(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// The plot's measures, in its own units.
const (
	width  = 720
	label  = 130 // of the names of benchmarks
	top    = 44  // of the legend
	height = 30  // of a row
	right  = 20
)

var colours = []string{"#d1495b", "#2e86ab", "#3b8d5a", "#e0a100", "#7a5195", "#6c757d",
	"#00838f", "#8d6e63"}

// plot draws a row for each benchmark with a dot for each engine, on a logarithmic axis.
func (t *table) plot() string {
	low, high := math.Inf(1), 0.0
	for _, x := range t.rows {
		for _, v := range x.micros {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
	}
	from, to := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	at := func(v float64) float64 {
		return label + (math.Log10(v)-from)/max(to-from, 1)*(width-label-right)
	}
	bottom := top + height*len(t.rows)
	var s strings.Builder
	fmt.Fprintf(&s, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">
<title>Microseconds per operation of %s; further left is better</title>
<style>
text { font: 13px system-ui, sans-serif; fill: #333; }
.grid { stroke: #ccc; }
@media (prefers-color-scheme: dark) { text { fill: #ddd; } .grid { stroke: #444; } }
</style>
`, width, bottom+34, html.EscapeString(strings.Join(t.engines, ", ")))
	for i, e := range t.engines {
		x := label + i*(width-label)/len(t.engines)
		fmt.Fprintf(&s, `<circle cx="%d" cy="16" r="6" fill="%s"/><text x="%d" y="21">%s</text>`+
			"\n", x, colours[i%len(colours)], x+11, html.EscapeString(e))
	}
	for e := from; e <= to; e++ {
		v := math.Pow(10, e)
		fmt.Fprintf(&s, `<path class="grid" d="M%.1f %dV%d"/>`+
			`<text x="%.1f" y="%d" text-anchor="middle">%g</text>`+"\n", at(v), top-8, bottom,
			at(v), bottom+16, v)
	}
	fmt.Fprintf(&s, `<text x="%d" y="%d" text-anchor="end">us per operation</text>`+"\n",
		width-right, bottom+31)
	for i, x := range t.rows {
		y := top + i*height + height/2
		fmt.Fprintf(&s, `<text x="0" y="%d">%s</text>`+"\n", y+4, html.EscapeString(x.name))
		for j := len(x.micros) - 1; j >= 0; j-- { // the first engine is drawn last, above others
			if v := x.micros[j]; v > 0 {
				fmt.Fprintf(&s, `<circle cx="%.1f" cy="%d" r="6" fill="%s"><title>%s: %s us`+
					`</title></circle>`+"\n", at(v), y, colours[j%len(colours)],
					html.EscapeString(t.engines[j]), figure(v))
			}
		}
	}
	s.WriteString("</svg>\n")
	return s.String()
}
