package kvbench

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/kvbench/follower"
	"github.com/loamdb/loam/internal/kvbench/loam"
	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

// child is what this program does as the process that another test interrupts.
var child = func() {}

// TestMain makes this program the other process of a comparison as well.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && strings.HasPrefix(os.Args[1], taskFlag) {
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr, newEngine(), peer{storetest.NewModel()},
			hog{storetest.NewModel()}))
	}
	if len(os.Args) == 2 && os.Args[1] == follower.Flag {
		os.Exit(Main(os.Args[1:], os.Stdout, os.Stderr, loam.Drivers()...))
	}
	child()
	os.Exit(m.Run())
}

// peer is a second engine, which has no cache.
type peer struct{ *storetest.Model }

func (peer) Name() string    { return "peer" }
func (peer) Title() string   { return "Peer" }
func (peer) Notes() []string { return []string{"made for a test"} }

func (p peer) Options() []store.Option { return p.Model.Options()[:1] }

// TestPeers: pairs in the order A B B A, each in its own process, one report.
func TestPeers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := t.TempDir()
	file, page, tsv := filepath.Join(dir, "r.json"), filepath.Join(dir, "r.html"), filepath.Join(
		dir, "r.tsv")
	var out, errs bytes.Buffer
	code := Main([]string{
		"--engine=all", "--rounds=2", "--num=2000", "--benchmarks=fillseq,readrandom,ycsba",
		"--cache_size=1MiB", "--quiet=0", "--json", file, "--html", page, "--tsv", tsv,
	}, &out, &errs, newEngine(), peer{storetest.NewModel()})
	if code != 0 {
		t.Fatalf("exit %d: %s%s", code, errs.String(), out.String())
	}
	for _, want := range []string{
		"Peer goes without (block_size=4096 ", "benchmark   engine  micros/op",
		"\nPeer 1.0: a write without sync is lost when the process is killed (in process); made " +
			"for a test\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	r, err := readReport(file)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, run := range r.Runs {
		order = append(order, run.Engine)
		if len(run.Steps) != 3 || *run.Steps[1].Found != 2000 || len(run.Steps[0].Samples) == 0 ||
			run.Steps[0].DiskPeak == nil {
			t.Errorf("%+v", run)
		}
	}
	if got := strings.Join(order, " "); got != "loam peer peer loam" || len(r.Engines) != 2 ||
		r.Engines[1].Notes == nil {
		t.Errorf("%s, %+v", got, r.Engines)
	}
	for name, want := range map[string]string{page: "<svg", tsv: "ops_sec\tmb_sec\tlsm_sz"} {
		if b, err := os.ReadFile(name); err != nil || !strings.Contains(string(b), want) {
			t.Errorf("%s: no %q, %v", name, want, err)
		}
	}
	table, err := r.tsv()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(table), "\n"), "\n")
	for _, line := range lines {
		if n := strings.Count(line, "\t") + 1; n != 28 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if len(lines) != 1+4*3 {
		t.Errorf("%d lines", len(lines))
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	out.Reset()
	if code := Main([]string{"compare", file, file}, &out, &errs, newEngine()); code != 0 ||
		strings.Count(out.String(), "  1.000") < 6 {
		t.Errorf("compare: exit %d\n%s", code, out.String())
	}
	if code := Main([]string{"compare", file, tsv}, &out, &errs, newEngine()); code != exitUsage {
		t.Errorf("compare took a table for a report: exit %d", code)
	}
}

// TestCompareByName compares reports that have some benchmarks in common, at other places, and
// one of them twice.
func TestCompareByName(t *testing.T) {
	dir := t.TempDir()
	file := func(name, benchmarks string) string {
		file := filepath.Join(dir, name)
		if code, _, errs := invoke(t, newEngine(), "--num=10", "--benchmarks="+benchmarks,
			"--json="+file); code != exitOK {
			t.Fatalf("exit %d: %s", code, errs)
		}
		return file
	}
	a := file("a.json", "fillseq,readrandom,readseq,readrandom")
	b := file("b.json", "fillseq,fillrandom,readrandom,readrandom,readreverse")
	var out, errs bytes.Buffer
	if code := Main([]string{"compare", a, b}, &out, &errs, newEngine()); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	if n := strings.Count(out.String(), "readrandom"); n != 2 ||
		!strings.Contains(out.String(), "fillseq") || strings.Contains(out.String(), "readseq") {
		t.Errorf("%s", out.String())
	}
}

// TestCompareTellsOfDifferences: what the runs of two reports did not do alike is told once each.
func TestCompareTellsOfDifferences(t *testing.T) {
	dir := t.TempDir()
	compare := func(more ...string) string {
		var files []string
		for i, args := range [][]string{nil, more} {
			files = append(files, filepath.Join(dir, fmt.Sprint(i)))
			args = append([]string{"--num=10", "--benchmarks=fillseq", "--rounds=2",
				"--json=" + files[i]}, args...)
			if code, _, errs := invoke(t, newEngine(), args...); code != exitOK {
				t.Fatalf("exit %d: %s", code, errs)
			}
		}
		var out, errs bytes.Buffer
		if code := Main(append([]string{"compare"}, files...), &out, &errs,
			newEngine()); code != exitOK {
			t.Fatalf("exit %d: %s", code, errs.String())
		}
		return out.String()
	}
	if out := compare(); strings.Contains(out, "WARNING") {
		t.Error(out)
	}
	b, err := os.ReadFile(filepath.Join(dir, "1"))
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte(`"complete": true`), []byte(`"complete": false`), 1)
	if err := os.WriteFile(filepath.Join(dir, "2"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	code, text, _ := invoke(t, newEngine(), "compare", filepath.Join(dir, "0"),
		filepath.Join(dir, "2"))
	if code != exitOK || !strings.Contains(text, "WARNING: a run of a report failed or was") {
		t.Errorf("exit %d: %s", code, text)
	}
	out := compare("--value_size=50", "--sync", "--cache_size=1MiB", "--key_prefix=3")
	for _, want := range []string{"value_size: 100 and 50", "sync: false and true",
		"options: none and cache_size=1MiB",
		"keys: %016d, stride 1, prefix 0 and %016d, stride 1, prefix 3"} {
		if strings.Count(out, "WARNING: the reports differ in "+want+"\n") != 1 {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "WARNING"); n != 4 {
		t.Errorf("%d warnings in\n%s", n, out)
	}
}

func TestCompareRuns(t *testing.T) {
	run := func(engine, pair string, round int, busy, us float64) *Run {
		return &Run{Engine: engine, Pair: pair, Round: round, Busy: busy,
			Steps: []Step{{Name: "x", MicrosPerOp: us}}}
	}
	all := []*Run{
		run("a", "b", 1, 0, 1), run("b", "a", 1, 0, 2), run("b", "a", 2, 0, 6),
		run("a", "b", 2, 0, 2), run("a", "c", 1, 0, 5), run("c", "a", 1, 0, 5),
		run("a", "b", 3, 0.9, 1), run("b", "a", 3, 0, 50),
	}
	v := compareRuns("a", all, all[1], 0)
	if v.ratio() != 2.5 || median(v.ours) != 1.5 || v.disturbed != 1 || spreadOf(v.ratios) != 40 {
		t.Errorf("%+v", v)
	}
	if v := compareRuns("a", all, all[5], 0); v.ratio() != 1 {
		t.Errorf("%+v", v)
	}
}

// TestFollowed: another process follows a real database, and its lag is in the report.
func TestFollowed(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	file := filepath.Join(t.TempDir(), "r.json")
	var out, errs bytes.Buffer
	code := Main([]string{"--num=3000", "--benchmarks=fillseq,overwritefollowed,readseq", "--json",
		file, "--progress=never"}, &out, &errs, loam.Drivers()...)
	if code != 0 || !strings.Contains(out.String(), "(follower behind by P50: ") &&
		!strings.Contains(out.String(), "(the follower caught up at the end only)") {
		t.Fatalf("exit %d, %s%s", code, errs.String(), out.String())
	}
	r, err := readReport(file)
	if err != nil {
		t.Fatal(err)
	}
	if s := r.Runs[0].Steps; s[1].Lag == nil || s[0].Lag != nil || *s[2].Found != 3000 {
		t.Errorf("%+v", s)
	}
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestSharedBesidePeers: the table of a comparison has the percentiles of the quiet database.
func TestSharedBesidePeers(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out, errs bytes.Buffer
	code := Main([]string{"--engine=all", "budget=2000", "--quiet=0", "--progress=never"}, &out,
		&errs, newEngine(), peer{storetest.NewModel()})
	if code != 0 || !regexp.MustCompile(`benchmark +engine +micros/op .* P50 +P99 `).MatchString(
		out.String()) {
		t.Errorf("exit %d: %s%s", code, errs.String(), out.String())
	}
}
