package kvbench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/loamdb/loam/internal/kvbench/table"
	"github.com/loamdb/loam/internal/workload/store"
)

// commands are the words that are no experiment.
var commands = map[string]func(args []string, w io.Writer) error{
	"check":   checkReport,
	"compare": compareReports,
}

// readReport reads what --json wrote.
func readReport(file string) (*Report, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if r.Tool != "kvbench" || r.Schema != 1 {
		return nil, fmt.Errorf("%s: not a report of kvbench", file)
	}
	return r, nil
}

// stepKey names a figure: a benchmark in a variant of an experiment.
type stepKey struct {
	engine, experiment, variant string
	num                         int64
	threads                     int
	name                        string
	nth                         int // how many steps of the run before have the name
}

func (r *Report) figures() (order []stepKey, by map[stepKey][]float64) {
	by = map[stepKey][]float64{}
	for _, run := range r.Runs {
		engine := r.engineOf(run)
		nth := map[string]int{}
		for _, st := range run.Steps {
			k := stepKey{engine, run.Experiment, run.Variant, run.Num, run.Threads, st.Name,
				nth[st.Name]}
			nth[st.Name]++
			if st.Skipped != "" || st.Text != "" || st.MicrosPerOp == 0 {
				continue
			}
			if by[k] == nil {
				order = append(order, k)
			}
			by[k] = append(by[k], st.MicrosPerOp)
		}
	}
	return order, by
}

// compareReports prints how many times faster the second report's figures are.
func compareReports(args []string, w io.Writer) error {
	if len(args) != 2 {
		return errors.New("want two files that --json wrote: kvbench compare a.json b.json")
	}
	a, err := readReport(args[0])
	if err != nil {
		return err
	}
	b, err := readReport(args[1])
	if err != nil {
		return err
	}
	rows := [][]string{{"engine", "benchmark", "a us/op", "spread", "b us/op", "spread", "a/b",
		"lowest", "highest"}}
	order, old := a.figures()
	_, fresh := b.figures()
	for _, k := range order {
		x, y := old[k], fresh[k]
		if len(y) == 0 {
			continue
		}
		low, high := extremes(x, y)
		rows = append(rows, []string{
			k.engine, k.text(), number(median(x)), percent(spreadOf(x)), number(median(y)),
			percent(spreadOf(y)), fmt.Sprintf("%.3f", median(x)/median(y)),
			fmt.Sprintf("%.3f", low), fmt.Sprintf("%.3f", high),
		})
	}
	if len(rows) == 1 {
		return errors.New("the two reports have no benchmark of the same engine, experiment, " +
			"--num and --threads in common")
	}
	table.Print(w, rows)
	fmt.Fprintf(w, "a: %s, %s\nb: %s, %s\n", args[0], a.stamp(), args[1], b.stamp())
	fmt.Fprintln(w, "a/b: of the medians; above 1 b is faster. lowest and highest: over all "+
		"rounds of both.")
	for _, text := range differences(a, b) {
		fmt.Fprintln(w, "WARNING: "+text)
	}
	if !a.Complete || !b.Complete {
		fmt.Fprintln(w, "WARNING: a run of a report failed or was interrupted.")
	}
	if x, y := a.Environment, b.Environment; x.CPU != y.CPU || x.Cores != y.Cores || x.OS != y.OS {
		fmt.Fprintln(w, "WARNING: the reports come from different machines.")
	}
	return nil
}

// differences lists the parameters by which runs of two reports differ, of the runs whose figures
// are compared; each difference once.
func differences(a, b *Report) (all []string) {
	for _, x := range a.Runs {
		for _, y := range b.Runs {
			if a.engineOf(x) != b.engineOf(y) || x.Experiment != y.Experiment ||
				x.Variant != y.Variant || x.Num != y.Num || x.Threads != y.Threads {
				continue
			}
			for _, d := range [][3]string{
				{"reads", fmt.Sprint(x.Reads), fmt.Sprint(y.Reads)},
				{"value_size", x.valueText(), y.valueText()},
				{"compression_ratio", fmt.Sprint(x.CompressionRatio),
					fmt.Sprint(y.CompressionRatio)},
				{"keys", x.keyText(), y.keyText()},
				{"seed", fmt.Sprint(x.Seed), fmt.Sprint(y.Seed)},
				{"sync", fmt.Sprint(x.Sync), fmt.Sprint(y.Sync)},
				{"memory", fmt.Sprint(x.MemoryLimit), fmt.Sprint(y.MemoryLimit)},
				{"options", optionsText(x.Settings), optionsText(y.Settings)},
			} {
				text := fmt.Sprintf("the reports differ in %s: %s and %s", d[0], d[1], d[2])
				if d[1] != d[2] && !slices.Contains(all, text) {
					all = append(all, text)
				}
			}
		}
	}
	return all
}

func optionsText(settings []store.Setting) string {
	return cmp.Or(strings.Trim(settingsText(settings), " ()"), "none")
}

func (run *Run) valueText() string {
	if run.NamedValues {
		return "value%d"
	}
	return fmt.Sprint(run.ValueSize)
}

func (run *Run) keyText() string {
	return fmt.Sprintf("%s, stride %d, prefix %d", run.KeyFormat, run.KeyStride, run.KeyPrefix)
}

// engineOf is the name of the engine of a run; older reports have it once.
func (r *Report) engineOf(run *Run) string { return cmp.Or(run.Engine, r.Engine.Name) }

func (k *stepKey) text() string {
	parts := []string{k.name}
	if k.experiment != "" {
		parts = append([]string{k.experiment, k.variant}, parts...)
	}
	return strings.Join(parts, " ")
}

// extremes are the smallest and largest ratios between any two rounds.
func extremes(a, b []float64) (low, high float64) {
	for i, x := range a {
		for j, y := range b {
			r := x / y
			if i+j == 0 {
				low, high = r, r
			}
			low, high = min(low, r), max(high, r)
		}
	}
	return low, high
}

func (r *Report) stamp() string {
	e := &r.Environment
	parts := []string{r.Engine.Name + " " + r.Engine.Version}
	if e.Commit != "" {
		parts = append(parts, "commit "+e.Commit)
	}
	return strings.Join(append(parts, e.Time, fmt.Sprintf("load %.2f", e.Load)), ", ")
}
