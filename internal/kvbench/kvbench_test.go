package kvbench

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/kvbench/experiment"
	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/kvbench/table"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

// engine is the model under the default engine's name.
type engine struct{ *storetest.Model }

func (engine) Name() string { return "loam" }

func newEngine() engine { return engine{storetest.NewModel()} }

func invoke(t *testing.T, e store.Driver, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	var out, err bytes.Buffer
	code = Main(args, &out, &err, e)
	if left, _ := os.ReadDir(os.Getenv("TMPDIR")); len(left) > 0 {
		t.Errorf("%v left %v behind", args, left)
	}
	return code, out.String(), err.String()
}

// full fails as a file on a full disk does.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestFullOutput: results that were not written are a failure.
func TestFullOutput(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for _, args := range [][]string{{"--num=10", "--benchmarks=fillseq"}, {"--list"}, {"--help"}} {
		var errs bytes.Buffer
		if code := Main(args, full{}, &errs, newEngine()); code != exitFailed ||
			!strings.Contains(errs.String(), syscall.ENOSPC.Error()) {
			t.Errorf("%v: exit %d: %s", args, code, errs.String())
		}
	}
}

// TestReportFiles names files for reports that cannot be written: no benchmark runs.
func TestReportFiles(t *testing.T) {
	missing, dir := filepath.Join(t.TempDir(), "missing", "report"), t.TempDir()
	for _, flag := range []string{"html", "json", "tsv"} {
		for _, file := range []string{missing, dir} {
			code, out, err := invoke(t, newEngine(), "--"+flag+"="+file, "--num=10")
			if code != exitUsage || out != "" || !strings.HasPrefix(err, "kvbench: --"+flag+": ") ||
				!strings.Contains(err, file[:8]) {
				t.Errorf("--%s=%s: exit %d, %q, %q", flag, file, code, out, err)
			}
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
	if code, out, err := invoke(t, newEngine(), "--json="+dir+"/r", "--html="+dir+"/./r",
		"--num=10"); code != exitUsage || out != "" || !strings.Contains(err, "another report") {
		t.Errorf("two reports in one file: exit %d, %q, %q", code, out, err)
	}
}

// removing is the model, and removes directories as many engines do.
type removing struct{ engine }

func (removing) Destroy(dir string) error { return os.RemoveAll(dir) }

// TestDirectoryNames: however --db names a directory, the database is in the directory itself, a
// link to it stays, and the files that benchmarks put beside the database are outside.
func TestDirectoryNames(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links are for few users there")
	}
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(top, "a b", "db")
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Symlink(dir, filepath.Join(top,
		"link"))); err != nil {
		t.Fatal(err)
	}
	for at, names := range map[string][]string{
		top: {dir + "/", "link", "link/", "a b/../link/."}, dir: {".", "../db", "./"},
	} {
		t.Chdir(at)
		for _, name := range names {
			e := removing{newEngine()}
			code, out, errs := invoke(t, e, "--num=10", "--benchmarks=fillseq,ingest", "--db",
				name)
			if dirs := e.Dirs(); code != exitOK || len(dirs) != 1 || dirs[0] != dir {
				t.Errorf("--db=%s: exit %d, the database is in %q: %s%s", name, code, dirs, out,
					errs)
			}
			if to, err := os.Readlink(filepath.Join(top, "link")); err != nil || to != dir {
				t.Fatalf("--db=%s: the link leads to %q, %v", name, to, err)
			}
			if at == dir { // it was removed, and made again
				t.Chdir(dir)
			}
		}
	}
}

// TestUsage: what is wrong is named, with the nearest right one, and exits 2.
func TestUsage(t *testing.T) {
	const built = "run bin/kvbench-peers, which make peers builds with those that are installed"
	for args, want := range map[string]string{
		"--valuesize=100": "unknown flag --valuesize; did you mean " +
			"--value_size?",
		"--write_bufer_size 1": "unknown flag --write_bufer_size; did you mean " +
			"--write_buffer_size?",
		"--openfiles=3": "unknown flag --openfiles; did you mean " +
			"--open_files?",
		"-nmu=3": "unknown flag --nmu; did you mean --num?",
		"--benchmarks=fillseq,raedrandom": "--benchmarks=fillseq,raedrandom: " +
			`no benchmark "raedrandom"; did you mean "readrandom"?`,
		"--benchmarks=,": "--benchmarks=,: want at least one benchmark",
		"levledb":        `no experiment "levledb"; did you mean "leveldb"?`,
		"readrandom": `no experiment "readrandom"; ` +
			`a single benchmark is run by --benchmarks=readrandom`,
		"bloom=x":      "bloom=x: want a number such as 1000000 or 10M",
		"bloom=0":      "bloom=0: want 1 or more",
		"blom=5":       `no experiment "blom"; did you mean "bloom"?`,
		"--num=ten":    "--num=ten: want a number such as 1000000 or 10M",
		"--num=0":      "--num=0: want 1 to 1000000000000000",
		"--num":        "--num needs a value",
		"--cache_size": "--cache_size needs a value",
		"--value_size=1x": "--value_size=1x: want a size such as 4096 " +
			"or 64MiB",
		"--value_size=4GiB": "--value_size=4GiB: want 0 to 1073741824",
		"--compression_ratio=2": "--compression_ratio=2: want a number from " +
			"0.01 to 1",
		"--histogram=maybe": "--histogram=maybe: want 1 or 0",
		"--key_format=%d": "--key_format=%d: key format \"%d\": want " +
			"%016d or key%d",
		"--value_format=x":     "--value_format=x: want random or value%d",
		"--key_prefix=1000000": "--key_prefix=1000000: want 0 to 4096",
		"--seed=4294967297":    "--seed=4294967297: want 0 to 2130706432",
		"--rounds=1001":        "--rounds=1001: want 1 to 1000",
		"--threads=1M":         "--threads=1M: want 1 to 65536",
		"--batch_size=20M":     "--batch_size=20M: want 0 to 16777216",
		"--key_stride=2M":      "--key_stride=2M: want 1 to 1048576",
		"--engine=loan":        `no engine "loan"; did you mean "loam"?`,
		"--engine=rocksdb":     `this program does not have the engine "rocksdb"; ` + built,
		"--engine=loam,pebble": `this program does not have the engine "pebble"; ` + built,
		"--compression=bad": "--compression=bad: option compression: want " +
			"something good",
		"--memory=1MiB": "--memory=1MiB: want 33554432 to " +
			"1125899906842624",
		"--db=":        "--db=: want a name",
		"--progress=x": "--progress=x: want auto, always or never",
		"--scale=2": "--scale needs an experiment (" +
			strings.Join(experiment.Names(), ", ") + ")",
		"--use_existing_db":            "--use_existing_db needs --db",
		"leveldb --benchmarks=fillseq": "--benchmarks cannot be given with an experiment",
		"leveldb --use_existing_db --db=x": "--use_existing_db cannot be given with an " +
			"experiment",
		"--histogram leveldb --benchmarks stats": "--benchmarks cannot be given with an experiment",
	} {
		code, out, err := invoke(t, newEngine(), strings.Fields(args)...)
		if code != 2 || out != "" || err != "kvbench: "+want+"\nTry kvbench --help.\n" {
			t.Errorf("%s: exit %d, %q\nwant %q", args, code, err, want)
		}
	}
}

// TestFlagForms: all spellings of a flag mean the same.
func TestFlagForms(t *testing.T) {
	drivers := []store.Driver{newEngine()}
	for _, args := range [][]string{
		{"--num=2M", "--sync", "--cache_size=8MiB", "--open_files=7"},
		{"-num", "2000000", "-sync=true", "-cache_size", "8MiB", "-open_files", "7"},
		{"--num", "2e6", "--sync", "1", "--cache-size", "8MiB", "--max_open_files=7"},
	} {
		c, _, err := parse(args, drivers)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if c.params.Num != 2e6 || !c.params.Sync ||
			settingsText(c.settings) != " (cache_size=8MiB max_open_files=7)" {
			t.Errorf("%v: %+v %v", args, c.params, c.settings)
		}
	}
	// LevelDB's numbers for the default, and for codecs.
	c, _, err :=
		parse(strings.Fields("--bloom_bits=-1 --cache_size=-1 --write_buffer_size=0 "+
			"--compression=0 --bloom_bits=0"), drivers)
	if err != nil || settingsText(c.settings) != " (compression=none bloom_bits=0)" {
		t.Errorf("%v %v", c, err)
	}
}

var timing = regexp.MustCompile(`[0-9]+\.[0-9]{3} micros/op;( +[0-9.]+ MB/s)?`)

// TestDefault runs LevelDB's eighteen steps and holds the output to its form.
func TestDefault(t *testing.T) {
	code, out, stderr := invoke(t, newEngine(), "--num=2000", "--value_size=50")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	head, rest, _ := strings.Cut(out, rule+"\n")
	for _, want := range []string{
		"Model:      version 1.0\n", "\nDate:       ", "\nCPU:        ",
		"\nKeys:       16 bytes each\n", "\nValues:     50 bytes each (25 bytes after " +
			"compression)\n", "\nEntries:    2000\n",
		"\nRawSize:    0.1 MB (estimated)\n", "\nFileSize:   0.1 MB (estimated)\n",
	} {
		if !strings.Contains(head, want) {
			t.Errorf("no %q in\n%s", want, head)
		}
	}
	lines := strings.Split(rest, "\n")
	for i, name := range workload.DefaultSteps {
		prefix := name + strings.Repeat(" ", max(12-len(name), 0)) + " : "
		if !strings.HasPrefix(lines[i], prefix) || !strings.HasPrefix(name, "zstd") &&
			!timing.MatchString(lines[i]) {
			t.Errorf("line %d: %q", i, lines[i])
		}
	}
	if !strings.Contains(rest, "benchmark ") || strings.Count(rest, "  1729 of 2000\n") != 4 {
		t.Errorf("summary:\n%s", rest)
	}
}

func TestExperiments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	code, out, stderr := invoke(t, newEngine(), "leveldb", "bloom=10k", "--scale=0.001",
		"--rounds=2", "--json", file, "--progress=always")
	if code != 0 {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for _, want := range []string{
		"== leveldb: ", "-- LevelDB's defaults (write_buffer_size=4MiB cache_size=8MiB",
		"-- Model's defaults\n", "== bloom: ", "Keys:       key%d, multiples of 2\nValues:     " +
			"value%d\nEntries:    10000\n", "(0 of 10000 found)",
		"10 bits and cache  readmissing", "times: how many times faster than published " +
			"(LevelDB's README", "\nReport: " + file + "\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	head := regexp.MustCompile(
		`\nmicros/op +LevelDB's defaults  CPU us/op  peak RSS MB  times  spread  ` +
			`Model's defaults  CPU us/op  peak RSS MB  times  spread  published \(2011\) +found\n` +
			`-+\nfillseq +([0-9.]+ +[0-9.]+ +[0-9-]+ +[0-9.]+ +[0-9]+% +){2}1.765 +-\n`)
	if !head.MatchString(out) {
		t.Errorf("no table in\n%s", out)
	}
	r, err := readReport(file)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Complete || r.Schema != 1 || len(r.Runs) != 10 || r.Engine.Name != "loam" ||
		r.Environment.Cores == 0 || r.Environment.Go == "" || r.Harness["fillseq"] == 0 {
		t.Errorf("%+v", r)
	}
	first := r.Runs[0]
	if first.Experiment != "leveldb" || first.Variant != "LevelDB's defaults" ||
		first.Num != 1000 || len(first.Steps) != 18 || len(first.Settings) != 6 {
		t.Errorf("%+v", first)
	}
	if s := first.Steps[0]; s.Name != "fillseq" || s.Ops != 1000 || s.Published != 1.765 ||
		s.MicrosPerOp <= 0 || s.Found != nil || s.WAL != nil {
		t.Errorf("%+v", s)
	}
	if s := r.Runs[4].Steps[1]; s.Name != "readmissing" || *s.Found != 0 || *s.Asked != 10000 ||
		s.Published != 10.49 {
		t.Errorf("%+v", s)
	}
}

// twoFormats is an engine that has formats.
type twoFormats struct{ engine }

func (e twoFormats) Options() []store.Option {
	return append(e.engine.Options(), store.Option{Name: formatOption, Default: nativeFormat})
}

func (e twoFormats) Check(s store.Setting) error {
	if s.Name == formatOption {
		return nil
	}
	return e.engine.Check(s)
}

// TestTablesShowFormats: without a choice of engine, format or benchmarks, tables have a column
// for each format.
func TestTablesShowFormats(t *testing.T) {
	for _, c := range []struct {
		args    string
		formats []string // of the runs; "": the default one
		columns string
	}{
		{"--num=1000", []string{"native", "leveldb"}, "micros/op +native format .*leveldb format"},
		{"--num=1000 --format=leveldb", []string{"leveldb"}, ""},
		{"--num=1000 --benchmarks=fillseq", []string{""}, ""},
		{"leveldb --num=1000", []string{"leveldb", "", "leveldb"},
			"Model's defaults, LevelDB's format +fillseq"},
		{"leveldb --num=1000 --format=native", []string{"native", "native"}, ""},
		{"bloom --num=1000", []string{"", "", "leveldb", ""}, "10 bits a key, LevelDB's format"},
	} {
		file := filepath.Join(t.TempDir(), "report.json")
		var out, errs bytes.Buffer
		if code := Main(append(strings.Fields(c.args), "--json", file), &out, &errs,
			twoFormats{newEngine()}); code != 0 {
			t.Fatalf("%s: exit %d, %s", c.args, code, errs.String())
		}
		if c.columns != "" && !regexp.MustCompile(c.columns).MatchString(out.String()) {
			t.Errorf("%s: no %q in\n%s", c.args, c.columns, out.String())
		}
		r, err := readReport(file)
		if err != nil {
			t.Fatal(err)
		}
		var formats []string
		for _, run := range r.Runs {
			format := ""
			for _, set := range run.Settings {
				if set.Name == formatOption {
					format = set.Value
				}
			}
			formats = append(formats, format)
		}
		if !slices.Equal(formats, c.formats) {
			t.Errorf("%s: runs in %q, want %q", c.args, formats, c.formats)
		}
	}
}

// TestVariantsOfNobody: a variant that none of the engines can run is an error of the command line.
func TestVariantsOfNobody(t *testing.T) {
	for _, args := range [][]string{
		{"leveldb=100", "--format=native", "--variant=%s's defaults, LevelDB's"},
		{"bloom=100", "--variant=10 bits a key, L", "--format=native"},
		{"largevalues=100", "--variant=1 KiB, large_value off"},
	} {
		code, _, err := invoke(t, twoFormats{newEngine()}, args...)
		if code != exitUsage || !strings.Contains(err, "do not have") {
			t.Errorf("%v: exit %d, %s", args, code, err)
		}
	}
}

// TestSweeps runs every experiment, small.
func TestSweeps(t *testing.T) {
	for _, e := range experiment.List {
		if e.Grid || e.Name == "leveldb" || e.Name == "bloom" {
			continue // they have tests of their own
		}
		args := []string{e.Name + "=1000"}
		if e.Name == "sustained" {
			args = append(args, "--seconds=3")
		}
		code, out, stderr := invoke(t, newEngine(), args...)
		if code != 0 || !strings.Contains(out, "micros/op") {
			t.Errorf("%s: exit %d, %s\n%s", e.Name, code, stderr, out)
		}
		if found := strings.Contains(out, "\nLowest: "); found != (e.Name == "sustained") {
			t.Errorf("%s: a rate over time: %v\n%s", e.Name, found, out)
		}
		if found := strings.Contains(out, "  P99.99  "); found != (e.Name == "stalls" ||
			e.Name == "blocksize" || e.Name == "budget") {
			t.Errorf("%s: latencies in the table: %v\n%s", e.Name, found, out)
		}
		for _, v := range e.Variants {
			v.Name = strings.ReplaceAll(v.Name, "%s", "Model")
			if !strings.Contains(out, "-- "+v.Name) {
				t.Errorf("%s: no %s in\n%s", e.Name, v.Name, out)
			}
		}
	}
}

// TestFlagsOverExperiments: what the command line names wins.
func TestFlagsOverExperiments(t *testing.T) {
	e := newEngine()
	dir := filepath.Join(t.TempDir(), "db")
	if code, out, err := invoke(t, e, "leveldb", "--num=1000", "--cache_size=1MiB", "--db",
		dir); code != 0 || !strings.Contains(out, "-- Model's defaults (cache_size=1MiB)\n") {
		t.Fatalf("exit %d, %s%s", code, out, err)
	}
	// The last step that writes is fill100K, and the database is kept.
	if got := e.Table(dir).Contents(); len(got) != 1 || len(got["0000000000000"+"999"]) == 1 {
		t.Errorf("%d entries", len(got))
	}
	if code, out, err := invoke(t, e, "--benchmarks=readrandom,fillseq", "--num=1000",
		"--use_existing_db", "--db", dir); code != 0 ||
		!strings.Contains(out, "fillseq      : skipped (--use_existing_db is true)\n") {
		t.Errorf("exit %d, %s%s", code, out, err)
	}
}

func TestExitCodes(t *testing.T) {
	e := newEngine()
	broken := errors.New("disk on fire")
	e.Fail = func(op string) error {
		if op == "get" {
			return broken
		}
		return nil
	}
	file := filepath.Join(t.TempDir(), "r.json")
	code, _, err := invoke(t, e, "--num=1000", "--benchmarks=fillseq,readrandom,compact",
		"--json="+file)
	if code != exitFailed || err != "kvbench: readrandom: disk on fire\n" {
		t.Errorf("a failing engine: exit %d, %q", code, err)
	}
	var r Report
	if b, err := os.ReadFile(file); err != nil || json.Unmarshal(b, &r) != nil || r.Complete ||
		len(r.Runs[0].Steps) != 1 {
		t.Errorf("the report of a failed run: %+v %v", r, err)
	}

	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "photo.jpg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, err := invoke(t, newEngine(), "--db", dir); code != exitUsage ||
		!strings.Contains(err, "not made by kvbench") {
		t.Errorf("a stranger's directory: exit %d, %q", code, err)
	}

	if code, _, err := invoke(t, liar{newEngine()}.engine(), "--num=1000",
		"--benchmarks=fillseq,readrandom"); code != exitWrong ||
		!strings.Contains(err, "wrong answers: readrandom found 0, what was written before "+
			"says 1000") {
		t.Errorf("a lying engine: exit %d, %q", code, err)
	}
	if code, _, err := invoke(t, newEngine(), "--json=/nonexistent/x", "--benchmarks=fillseq",
		"--num=10"); code != exitUsage || !strings.Contains(err, "--json: ") {
		t.Errorf("a report that cannot be written: exit %d, %q", code, err)
	}
}

// liar empties its database when reads begin.
type liar struct{ e engine }

func (l liar) engine() engine {
	l.e.Fail = func(op string) error {
		if op == "get" {
			for _, dir := range l.e.Dirs() {
				l.e.Table(dir).Empty()
			}
		}
		return nil
	}
	return l.e
}

func TestHelp(t *testing.T) {
	for _, arg := range []string{"--help", "-h", "help"} {
		code, out, _ := invoke(t, newEngine(), arg)
		if code != 0 || !strings.Contains(out, "--write_buffer_size=V") ||
			!strings.Contains(out, "--benchmarks=LIST") {
			t.Errorf("%s: exit %d\n%s", arg, code, out)
		}
	}
	code, out, _ := invoke(t, newEngine(), "list")
	for _, name := range append(benchmarkNames(), experiment.Names()...) {
		if !strings.Contains(out, "\n  "+name+" ") {
			t.Errorf("exit %d: %s is not listed", code, name)
		}
	}
	if code, out, _ := invoke(t, newEngine(), "--version"); code != 0 ||
		out != "kvbench, Model 1.0\n" {
		t.Errorf("exit %d: %q", code, out)
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	table.Print(&b, [][]string{{"name", "n"}, {"a", "1.0"}, {"long", "-"}, {"é", "200.0"}})
	want := "name      n\n-----------\na       1.0\nlong      -\né     200.0\n"
	if b.String() != want {
		t.Errorf("\n%s, want\n%s", b.String(), want)
	}
}

// TestMediansOfRounds: each figure of a table is the median of all rounds, the longest time that of
// all, and a round without a figure does not count; a percentile that was not taken has no dot.
func TestMediansOfRounds(t *testing.T) {
	number := func(n int64) *int64 { return &n }
	seconds := func(n float64) *float64 { return &n }
	var c column
	for i, n := range []int64{9, 1, 3, 5, 4} {
		ms := n * 1e6
		st := Step{Name: "ycsba", MicrosPerOp: float64(n), Ops: 1, Seconds: 1, Bytes: 1,
			MBPerSecond: float64(n), Flat: float64(n),
			CPUUser: float64(n), CPUSystem: float64(n), MaxRSS: n << 20,
			Memory: &machine.Memory{Peak: n << 20, AtPeak: machine.Pages{Anon: n << 20},
				Quiet: machine.Pages{Anon: n << 20}},
			Written: number(n << 20), DiskPeak: number(n << 20), DiskQuiet: number(n << 20),
			DiskSize: number(n << 20), Resident: number(n << 20), Stall: seconds(float64(n) / 100),
			Quiet: seconds(float64(n)), Lag: &Latency{Count: 1, Quantiles: map[string]int64{
				"P50": ms, "P99": ms}},
			Latency: &Latency{Count: 1, Max: ms, Quantiles: map[string]int64{"P50": 1000 * n,
				"P75": 1000 * n, "P99": 1000 * n, "P99.9": 1000 * n}},
		}
		if i == 4 { // the fifth round has nothing but its time
			st = Step{Name: "ycsba", MicrosPerOp: 4, Seconds: 1}
		}
		c.runs = append(c.runs, &Run{Engine: "loam", Steps: []Step{st}})
	}
	v := c.series(0)
	for _, f := range slices.Concat(tailFigures, extraFigures, stackedFigures, pageFigures) {
		got := f.text(v)
		switch f.title {
		case "micros/op", "CPU us/op", "ops/s", "found", "spread", "seconds", "w-amp", "P99.99",
			"P95", "published", "times", "cgroup own MB", "cgroup cache MB", "stall",
			"CPU user s", "CPU sys s", "process RSS MB", "last/2nd tenth":
			continue // a round without the figure counts as 0, or no round has it
		case "longest", "max":
			if got != "9000.0" {
				t.Errorf("%s is %s", f.title, got)
			}
		default:
			if n, err := strconv.ParseFloat(got, 64); err != nil || n != 4 && n != 0.04 {
				t.Errorf("%s is %s, want the median 4", f.title, got)
			}
		}
	}
	g := groupView{}
	g.latencies([]track{{name: "Loam", sample: c.runs[0], runs: c.runs}}, 0)
	if svg := string(g.Charts[0].SVG); strings.Count(svg, "<circle") != len(percentiles) {
		t.Errorf("%d dots: %s", strings.Count(svg, "<circle"), svg)
	}
}

func TestMedian(t *testing.T) {
	var c column
	for _, m := range []float64{5, 1, 2, 4} {
		c.runs = append(c.runs, &Run{Steps: []Step{{MicrosPerOp: m}}})
	}
	v := c.series(0)
	if v.median(micros) != 3 || v.spread() != 400.0/3 {
		t.Errorf("median %v, spread %v", v.median(micros), v.spread())
	}
}
