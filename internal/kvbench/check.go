package kvbench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/loamdb/loam/internal/kvbench/table"
)

// record is what the history keeps of a run: ratios to the peers, which stay
// comparable when the machine is faster one day than another.
type record struct {
	Schema  int    `json:"schema"`
	Time    string `json:"time"`
	Commit  string `json:"commit,omitempty"`
	Machine string `json:"machine"`
	Num     int64  `json:"num"`
	// Format is that of the engine's databases; "" is LevelDB's, the only one there was.
	Format string `json:"format,omitempty"`
	// Ratios are how many times longer a peer takes, by peer and benchmark.
	Ratios map[string]map[string]ratio `json:"ratios"`
	file   string
}

type ratio struct {
	Ratio  float64 `json:"ratio"`
	Spread float64 `json:"spread_percent"`
	Pairs  int     `json:"pairs"`
	// Disturbed is true when others kept the machine busy before every pair.
	Disturbed bool `json:"disturbed,omitempty"`
}

// alarmAt is the part of a ratio that may be lost; two runs in a row below it
// are an alarm.
const alarmAt = 0.9

// errAlarm is what a check ends with when a ratio has dropped twice.
var errAlarm = errors.New("slower than before")

// newRecord takes the ratios out of a report.
func newRecord(r *Report) (*record, error) {
	if len(r.Engines) < 2 || len(r.Runs) == 0 {
		return nil, errors.New("the report has no peers")
	}
	if !r.Complete {
		return nil, errors.New("the report is of a run that failed or was interrupted")
	}
	e := &r.Environment
	rec := &record{
		Schema: 1, Time: e.Time, Commit: e.Commit, Num: r.Runs[0].Num,
		Machine: fmt.Sprintf("%d x %s, %s, %s", e.Cores, e.CPU, e.OS, e.FileSystem),
		Format:  formatOf(r),
		Ratios:  map[string]map[string]ratio{},
	}
	for _, peer := range r.Engines[1:] {
		i := slices.IndexFunc(r.Runs, func(run *Run) bool { return run.Engine == peer.Name })
		if i < 0 {
			continue
		}
		by := map[string]ratio{}
		steps := r.Runs[i].Steps
		for j := range steps {
			v := compareRuns(r.Engine.Name, r.Runs, r.Runs[i], j)
			if len(v.ratios) == 0 {
				continue
			}
			by[stepTitle(steps, j)] = ratio{round(v.ratio()), round(spreadOf(v.ratios)),
				len(v.ratios), v.disturbed >= len(v.ratios)}
		}
		rec.Ratios[peer.Name] = by
	}
	return rec, nil
}

// formatOf is the format that the first engine was measured in.
func formatOf(r *Report) string {
	for _, run := range r.Runs {
		for _, set := range run.Settings {
			if set.Name == formatOption && run.Engine == r.Engine.Name {
				return set.Value
			}
		}
	}
	return r.Engine.Format
}

// sameFormat reports whether the ratios of two records are about the same format.
func sameFormat(a, b *record) bool {
	return cmp.Or(a.Format, "leveldb") == cmp.Or(b.Format, "leveldb")
}

// readHistory reads the records in dir that can be compared with now, the
// oldest first.
func readHistory(dir string, now *record) ([]*record, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []*record
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		r := &record{file: filepath.Base(f)}
		if err := json.Unmarshal(b, r); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		if r.Schema == now.Schema && r.Machine == now.Machine && r.Num == now.Num &&
			sameFormat(r, now) && r.Time < now.Time {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *record) int { return strings.Compare(a.Time, b.Time) })
	return all, nil
}

// checkReport compares a report with the history and adds it there.
func checkReport(args []string, w io.Writer) error {
	if len(args) != 2 {
		return errors.New("want a report and the directory of the history: kvbench check " +
			"report.json bench/history")
	}
	r, err := readReport(args[0])
	if err != nil {
		return err
	}
	now, err := newRecord(r)
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	history, err := readHistory(args[1], now)
	if err != nil {
		return err
	}
	alarms := printCheck(w, now, history)
	file := filepath.Join(args[1], fileName(now))
	b, err := json.MarshalIndent(now, "", "  ")
	if err == nil {
		err = writeFile(file, append(b, '\n'))
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "Recorded in %s, after %d runs on this machine.\n", file, len(history))
	if len(alarms) > 0 {
		return fmt.Errorf("%w: %s", errAlarm, strings.Join(alarms, ", "))
	}
	return nil
}

var notInName = regexp.MustCompile(`[^0-9A-Za-z]+`)

func fileName(r *record) string {
	name := strings.Trim(notInName.ReplaceAllString(strings.ReplaceAll(r.Time, ":", ""), "-"), "-")
	if r.Commit != "" {
		name += "-" + notInName.ReplaceAllString(strings.ReplaceAll(r.Commit, "+", "-changed"), "-")
	}
	return name + ".json"
}

// printCheck prints every ratio next to the median of the earlier ones, and returns the ratios that
// dropped in this run and the previous one.
func printCheck(w io.Writer, now *record, history []*record) (alarms []string) {
	rows := [][]string{{"benchmark", "peer", "times", "spread", "before", "part", ""}}
	for _, peer := range slices.Sorted(maps.Keys(now.Ratios)) {
		for _, name := range slices.Sorted(maps.Keys(now.Ratios[peer])) {
			this := now.Ratios[peer][name]
			row := []string{name, peer, fmt.Sprintf("%.2f", this.Ratio), percent(this.Spread), "-",
				"-", ""}
			earlier := past(history, peer, name)
			if len(earlier) > 0 {
				// The previous run confirms a drop and is not part of the baseline.
				base := median(earlier[:max(len(earlier)-1, 1)])
				part := this.Ratio / base
				row[4], row[5] = fmt.Sprintf("%.2f", base), fmt.Sprintf("%.2f", part)
				last := earlier[len(earlier)-1] / base
				switch {
				case part < alarmAt && last < alarmAt && len(earlier) > 1:
					row[6] = "ALARM: twice in a row"
					alarms = append(alarms, fmt.Sprintf("%s (%s) at %.0f %%", name, peer,
						math.Round(part*100)))
				case part < alarmAt:
					row[6] = "low; the next run decides"
				}
			}
			if this.Disturbed {
				row[6] = strings.TrimSpace(row[6] + " (machine was busy)")
			}
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows[1:], func(a, b []string) int { return strings.Compare(a[0], b[0]) })
	table.Print(w, rows)
	fmt.Fprintln(w, "times: how many times longer the peer takes. before: median of the runs "+
		"before the last. part: times / before.")
	return alarms
}

func past(history []*record, peer, name string) []float64 {
	var all []float64
	for _, h := range history {
		if v, ok := h.Ratios[peer][name]; ok && v.Ratio > 0 {
			all = append(all, v.Ratio)
		}
	}
	return all
}
