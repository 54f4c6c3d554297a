package kvbench

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/kvbench/cgroup"
	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

// hog is an engine that takes 256 MB of memory.
type hog struct{ *storetest.Model }

func (hog) Name() string  { return "hog" }
func (hog) Title() string { return "Hog" }

func (h hog) Open(dir string, c store.Config) (store.Store, error) {
	memory := make([]byte, 256<<20)
	for i := 0; i < len(memory); i += 4096 {
		memory[i] = 1
	}
	defer runtime.KeepAlive(memory)
	return h.Model.Open(dir, c)
}

// TestKilledPeerIsLeftOut: the other engines of a comparison go on.
func TestKilledPeerIsLeftOut(t *testing.T) {
	g, err := cgroup.New(leastMemory)
	if err != nil {
		t.Skip(err)
	}
	if err := g.Remove(); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	file := filepath.Join(t.TempDir(), "r.json")
	var out, errs bytes.Buffer
	code := Main([]string{"--engine=loam,hog,peer", "--rounds=2", "--num=1000", "--memory=128MiB",
		"--benchmarks=fillseq,readrandom", "--quiet=0", "--json", file}, &out, &errs, newEngine(),
		hog{storetest.NewModel()}, peer{storetest.NewModel()})
	const killed = "hog: killed for taking more than the 128 MB of --memory"
	if code != exitOK || strings.Count(errs.String(), killed) != 1 {
		t.Fatalf("exit %d: %s%s", code, errs.String(), out.String())
	}
	r, err := readReport(file)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]int{}
	for _, run := range r.Runs {
		runs[run.Engine]++
	}
	if runs["loam"] != 4 || runs["peer"] != 2 || runs["hog"] != 0 ||
		!slices.Contains(r.Engines[1].Notes, killed) {
		t.Errorf("%v, %+v", runs, r.Engines)
	}
	if _, err := r.page(); err != nil {
		t.Error(err)
	}
}

// TestMemoryIsRow: text, JSON and page have the resident sets of each engine, and CPU.
func TestMemoryIsRow(t *testing.T) {
	if machine.WatchMemory().Finish() == nil {
		t.Skip("the system does not tell the resident set")
	}
	t.Setenv("TMPDIR", t.TempDir())
	file := filepath.Join(t.TempDir(), "r.json")
	for _, args := range [][]string{{"--engine=loam"}, {"--engine=loam,peer"}} {
		var out, errs bytes.Buffer
		if code := Main(append(args, "--num=1000", "--benchmarks=fillseq,readrandom", "--json",
			file), &out, &errs, newEngine(), peer{storetest.NewModel()}); code != exitOK {
			t.Fatalf("exit %d: %s", code, errs.String())
		}
		r, err := readReport(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range r.Runs {
			for _, st := range run.Steps {
				if m := st.Memory; m == nil || m.Peak < m.Quiet.Total() ||
					m.Quiet.Anon <= 0 || m.Quiet.File <= 0 || m.Group != nil ||
					st.MaxRSS < m.Peak {
					t.Errorf("%s of %s: %+v, %d", st.Name, run.Engine, m, st.MaxRSS)
				}
			}
		}
		page, err := r.page()
		for _, title := range []string{"CPU us/op", "peak RSS MB", "quiet RSS MB", "own quiet"} {
			if !strings.Contains(out.String(), title) || err != nil ||
				!strings.Contains(string(page), title) {
				t.Errorf("%v: no %s in text or page, %v:\n%s", args, title, err, out.String())
			}
		}
	}
}

// TestMemory: a run within its limit reports it, one beyond it ends with the reason, and a limit
// without cgroups is refused.
func TestMemory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	small := []string{"--memory=256MiB", "--num=1000", "--benchmarks=fillseq,readrandom",
		"--json=" + file}
	g, err := cgroup.New(leastMemory)
	if err != nil {
		if code, _, errs := invoke(t, newEngine(), small...); code != exitFailed ||
			!strings.HasPrefix(errs, "kvbench: --memory: ") {
			t.Errorf("exit %d, %q", code, errs)
		}
		t.Skip(err)
	}
	if err := g.Remove(); err != nil {
		t.Fatal(err)
	}
	code, out, errs := invoke(t, newEngine(), small...)
	if code != exitOK ||
		!strings.Contains(out, "\nLimit:      256 MB of memory, page cache included, no swap\n") ||
		!strings.Contains(out, "(1000 of 1000 found)") {
		t.Fatalf("exit %d, %s%s", code, errs, out)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 1 || r.Runs[0].MemoryLimit != 256<<20 || len(r.Runs[0].Steps) != 2 {
		t.Errorf("%+v", r.Runs)
	}
	for _, st := range r.Runs[0].Steps {
		if m := st.Memory; m == nil || m.Group == nil || m.Group.Own == 0 ||
			m.Quiet.Anon > m.Group.Own+8<<20 || m.Peak < m.Quiet.Total() {
			t.Errorf("%s: %+v", st.Name, m)
		}
	}
	page, err := r.page()
	if err != nil || !strings.Contains(string(page), "256 MB of memory for each run") {
		t.Errorf("the page does not tell the limit: %v", err)
	}

	// The model keeps 200 MB in memory.
	code, _, errs = invoke(t, newEngine(), "--memory=64MiB", "--num=200", "--value_size=1MiB",
		"--benchmarks=fillseq")
	if code != exitFailed || errs != "kvbench: loam: killed for taking more than the 64 MB of "+
		"--memory\n" {
		t.Errorf("exit %d, %q", code, errs)
	}

	// --db names the database itself, which the next run finds.
	dir := filepath.Join(t.TempDir(), "db")
	if code, _, errs := invoke(t, newEngine(), "--memory=256MiB", "--num=1000",
		"--benchmarks=fillseq", "--db", dir); code != exitOK {
		t.Fatalf("exit %d, %s", code, errs)
	}
	if _, err := os.Stat(filepath.Join(dir, "KVBENCH")); err != nil {
		t.Error(err)
	}
}
