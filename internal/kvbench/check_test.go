package kvbench

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/kvbench/experiment"
	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/workload/store"
)

// writeReport makes a report in which a peer takes ratio times as long.
func writeReport(t *testing.T, dir string, day int, ratio float64) string {
	return writeReportOf(t, dir, day, ratio, "")
}

// writeReportOf makes one of databases in a format.
func writeReportOf(t *testing.T, dir string, day int, ratio float64, format string) string {
	t.Helper()
	r := Report{
		Schema: 1, Tool: "kvbench", Complete: true, Engines: []Engine{{Name: "a"}, {Name: "b"}},
		Engine: Engine{Name: "a", Format: format},
		Environment: machine.Environment{Time: fmt.Sprintf("2026-01-%02dT00:00:00Z", day),
			Commit: "abc+", CPU: "x", Cores: 2},
	}
	for _, e := range []struct {
		engine, pair string
		us           float64
	}{{"a", "b", 2}, {"b", "a", 2 * ratio}} {
		r.Runs = append(r.Runs, &Run{Engine: e.engine, Pair: e.pair, Round: 1, Num: 10,
			Steps: []Step{{Name: "fillseq", MicrosPerOp: e.us}}})
	}
	b, err := json.Marshal(&r)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "report.json")
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestCheck: one bad run is noted, two are an alarm.
func TestCheck(t *testing.T) {
	dir, history := t.TempDir(), t.TempDir()
	for i, tt := range []struct {
		ratio float64
		want  string
		alarm bool
	}{
		{2, "fillseq    b      2.00", false},
		{2.1, "2.00  1.05", false},
		{1.7, "2.00  0.85  low; the next run decides", false},
		{2.0, "2.05  0.98", false},
		{1.7, "low; the next run decides", false},
		{1.6, "ALARM: twice in a row", true},
	} {
		var out bytes.Buffer
		err := checkReport([]string{writeReport(t, dir, i+1, tt.ratio), history}, &out)
		if errors.Is(err, errAlarm) != tt.alarm || err != nil && !tt.alarm ||
			!strings.Contains(out.String(), tt.want) {
			t.Errorf("run %d: %v, no %q in\n%s", i, err, tt.want, out.String())
		}
	}
	if files, _ := os.ReadDir(history); len(files) != 6 ||
		files[0].Name() != "2026-01-01T000000Z-abc-changed.json" {
		t.Errorf("%v", files)
	}
	var other, out, errs bytes.Buffer
	if err := checkReport([]string{writeReportOf(t, dir, 8, 1, "native"), history},
		&other); err != nil || !strings.Contains(other.String(), "after 0 runs") {
		t.Errorf("a run of another format: %v\n%s", err, other.String())
	}
	if code := Main([]string{"check", writeReportOf(t, dir, 9, 1.5, "leveldb"), history}, &out,
		&errs, newEngine()); code != exitFailed ||
		!strings.Contains(errs.String(), "slower than before: fillseq (b) at ") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	if code := Main([]string{"check", history}, &out, &errs, newEngine()); code != exitUsage {
		t.Errorf("exit %d without a report", code)
	}
}

// TestPageTellsOfMemory: the page and the table warn of a run that wrote and flushed nothing.
func TestPageTellsOfMemory(t *testing.T) {
	wal, none, some := int64(9), int64(0), int64(1)
	for _, flush := range []*int64{&none, &some, nil} {
		r := Report{Complete: true, Engines: []Engine{{Name: "loam", Title: "Loam"}},
			Runs: []*Run{{Engine: "loam", Steps: []Step{{Name: "fillseq", WAL: &wal, Flush: flush,
				OpsPerSecond: 1, MicrosPerOp: 9890}}}}}
		page, err := r.page()
		text := string(page)
		if err != nil || strings.Contains(text, "flushed nothing") != (flush == &none) ||
			!strings.Contains(text, "write N values in key order; longer is better") ||
			!strings.Contains(text, "9.89 ms") {
			t.Errorf("flush %v: %v, %s", flush, err, text)
		}
		var out bytes.Buffer
		s := &session{c: &command{rounds: 1}, drivers: []store.Driver{newEngine()}, out: &out}
		s.summary([]column{{runs: r.Runs}}, &experiment.Experiment{})
		if strings.Contains(out.String(), "flushed nothing") != (flush == &none) {
			t.Errorf("flush %v:\n%s", flush, out.String())
		}
	}
}

// TestPageRatios has a table with a row for each benchmark and a column for each peer: how many
// times longer it takes, in the same pair. The page of a single engine has none.
func TestPageRatios(t *testing.T) {
	r := Report{Complete: true, Engines: []Engine{{Name: "loam", Title: "Loam"},
		{Name: "other", Title: "Other"}, {Name: "third", Title: "Third"}}}
	run := func(engine, pair string, fill, read float64) {
		r.Runs = append(r.Runs, &Run{Engine: engine, Pair: pair, Round: 1, Steps: []Step{
			{Name: "fillseq", MicrosPerOp: fill}, {Name: "readseq", MicrosPerOp: read}}})
	}
	run("loam", "other", 2, 4)
	run("other", "loam", 5, 2)
	run("loam", "third", 1, 4)
	run("third", "loam", 3, 0)
	page, err := r.page()
	want := "<tr><th>benchmark</th><th>Other</th><th>Third</th></tr>\n" +
		"<tr><td>fillseq</td><td>2.50</td><td>3.00</td></tr>\n" +
		"<tr><td>readseq</td><td>0.50</td><td>-</td></tr>\n"
	if err != nil || !strings.Contains(string(page), want) {
		t.Errorf("%v, %s", err, page)
	}
	r.Engines, r.Runs = r.Engines[:1], r.Runs[:1]
	if page, err = r.page(); err != nil || strings.Contains(string(page), "in the same\npairs") {
		t.Errorf("%v, %s", err, page)
	}
}
