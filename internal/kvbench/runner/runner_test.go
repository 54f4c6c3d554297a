package runner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/internal/workload/store/storetest"
)

const num = 3000

func newRunner(t *testing.T) (*Runner, *storetest.Model) {
	m := storetest.NewModel()
	r := &Runner{
		Driver: m,
		Dir:    filepath.Join(t.TempDir(), "db"),
		Params: Params{Num: num, Reads: -1, ValueSize: 20, Threads: 1, CompressionRatio: 0.5,
			CodecBytes: 40960},
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, m
}

func run(t *testing.T, r *Runner, names ...string) (last Result) {
	t.Helper()
	for _, name := range names {
		spec, ok := workload.Find(name)
		if !ok {
			t.Fatalf("no benchmark %s", name)
		}
		res, err := r.Run(context.Background(), spec)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		last = res
	}
	return last
}

// reference is what benchmarks must leave behind, written without the runner's
// code: the keys of seed 1000 and so on.
type reference struct {
	values *workload.ValueData
	m      map[string]string
	seed   uint32
}

func newReference() *reference {
	return &reference{values: workload.NewValueData(0.5, 4096), m: map[string]string{}, seed: 1000}
}

func (f *reference) thread() workload.Rand {
	f.seed++
	return workload.NewRand(f.seed)
}

func (f *reference) put(n int, size int, key func(i uint64, r *workload.Rand) uint64) {
	r, v := f.thread(), f.values.Values()
	if size > 4096 {
		v = workload.NewValueData(0.5, size).Values()
	}
	for i := range n {
		f.m[fmt.Sprintf("%016d", key(uint64(i), &r))] = string(v.Next(size))
	}
}

func (f *reference) delete(n int, key func(i uint64, r *workload.Rand) uint64) {
	r := f.thread()
	for i := range n {
		delete(f.m, fmt.Sprintf("%016d", key(uint64(i), &r)))
	}
}

func inOrder(i uint64, _ *workload.Rand) uint64  { return i }
func atRandom(_ uint64, r *workload.Rand) uint64 { return r.Uniform(num) }

// TestContents runs every benchmark that writes and compares what is there.
func TestContents(t *testing.T) {
	tests := []struct {
		steps []string
		want  func(f *reference)
	}{
		{[]string{"fillseq"}, func(f *reference) { f.put(num, 20, inOrder) }},
		{[]string{"ingest"}, func(f *reference) { f.put(num, 20, inOrder) }},
		{[]string{"changes"}, func(f *reference) { f.put(num, 20, atRandom) }},
		{[]string{"ingestrandom"}, func(f *reference) {
			p := workload.NewPermutation(num, f.seed+1)
			f.put(num, 20, func(i uint64, _ *workload.Rand) uint64 { return p.At(i) })
		}},
		{[]string{"fillbatch"}, func(f *reference) { f.put(num, 20, inOrder) }},
		{[]string{"fillrandom"}, func(f *reference) { f.put(num, 20, atRandom) }},
		{[]string{"fillsync"}, func(f *reference) { f.put(num/1000, 20, atRandom) }},
		{[]string{"fill100K"}, func(f *reference) { f.put(num/1000, 100000, atRandom) }},
		{[]string{"fillseq", "fillrandom", "overwrite"}, func(f *reference) {
			f.thread()
			f.put(num, 20, atRandom)
			f.put(num, 20, atRandom)
		}},
		{[]string{"fillseq", "deleterandom"}, func(f *reference) {
			f.put(num, 20, inOrder)
			f.delete(num, atRandom)
		}},
		{[]string{"fillrandom", "deleteseq"}, func(f *reference) { f.seed++ }},
		{[]string{"fillseq", "readrandom", "readmissing", "seekrandom", "open", "compact", "stats",
			"readseq"}, func(f *reference) { f.put(num, 20, inOrder) }},
	}
	for _, tt := range tests {
		r, m := newRunner(t)
		run(t, r, tt.steps...)
		f := newReference()
		tt.want(f)
		if got := m.Table(r.Dir).Contents(); !maps.Equal(got, f.m) {
			t.Errorf("%v: %d entries left, want %d or others", tt.steps, len(got), len(f.m))
		}
	}
}

func TestEveryBenchmark(t *testing.T) {
	for _, threads := range []int{1, 3} {
		r, _ := newRunner(t)
		r.Params.Threads = threads
		run(t, r, "fillseq")
		for _, spec := range workload.Specs {
			res, err := r.Run(context.Background(), spec)
			if err != nil {
				t.Errorf("%s: %v", spec.Name, err)
			}
			each := int64(max(res.Threads, 1))
			switch {
			case spec.Keyspaces > 0:
				if res.Skipped != "Model has no keyspaces" {
					t.Errorf("%s: %+v", spec.Name, res)
				}
				continue
			case spec.Followed:
				if res.Skipped != "there is no program that could follow" {
					t.Errorf("%s: %+v", spec.Name, res)
				}
				continue
			case strings.HasPrefix(spec.Name, "zstd"):
				if res.Skipped != "Model has no zstd" {
					t.Errorf("%s: %+v", spec.Name, res)
				}
			case spec.Kind == workload.Codec && res.Ops != 10*each:
				t.Errorf("%s: %d operations", spec.Name, res.Ops)
			case spec.Kind != workload.Codec && spec.Kind != workload.Scan &&
				res.Ops != spec.Ops(num, num)*each:
				t.Errorf("%s: %d operations, want %d", spec.Name, res.Ops, spec.Ops(num, num)*each)
			}
			if spec.Writers > 0 && res.BackgroundOps == 0 {
				t.Errorf("%s: nobody wrote", spec.Name)
			}
			if !strings.Contains(res.Line(), spec.Name) && res.Text == "" {
				t.Errorf("%s: %q", spec.Name, res.Line())
			}
		}
	}
}

// TestFound: the report has the keys found and the keys asked for.
func TestFound(t *testing.T) {
	r, _ := newRunner(t)
	r.Params.Reads = 500
	for _, tt := range []struct{ fill, read, want string }{
		{"fillseq", "readrandom", "(500 of 500 found)"},
		{"fillseq", "readmissing", "(0 of 500 found)"},
		{"fillseq", "readhot", "(500 of 500 found)"},
		{"fillseq", "readrandomsmall", "(1 of 1 found)"},
		{"fillseq", "seekrandom", "(500 of 500 found)"},
		{"fillseq", "seekordered", "(500 of 500 found)"},
		{"deleteseq", "readrandom", "(0 of 500 found)"},
		{"deleteseq", "seekordered", "(0 of 500 found)"},
	} {
		if got := run(t, r, tt.fill, tt.read); got.Message != tt.want ||
			!strings.HasSuffix(got.Line(), "micros/op; "+tt.want) {
			t.Errorf("%s after %s: %s", tt.read, tt.fill, got.Line())
		}
	}
	r.Params.Keys.Stride = 2
	if got := run(t, r, "fillseq", "readmissing"); got.Found != 0 || got.Asked != 500 {
		t.Errorf("odd keys: %s", got.Line())
	}
}

// TestOracle: an engine that loses or invents is found out.
func TestOracle(t *testing.T) {
	for _, read := range []string{"readrandom", "seekrandom", "readseq", "readreverse",
		"seekordered"} {
		r, m := newRunner(t)
		run(t, r, "fillseq")
		db, err := m.Open(r.Dir, store.Config{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range num / 10 {
			if err := db.Delete(fmt.Appendf(nil, "%016d", i*10+7), false); err != nil {
				t.Fatal(err)
			}
		}
		spec, _ := workload.Find(read)
		if _, err := r.Run(context.Background(), spec); !errors.Is(err, ErrWrong) {
			t.Errorf("%s did not notice that keys are gone: %v", read, err)
		}
	}
	r, m := newRunner(t)
	run(t, r, "fillseq")
	db, _ := m.Open(r.Dir, store.Config{})
	for i := range num {
		if err := db.Put(fmt.Appendf(nil, "%016d.", i), nil, false); err != nil {
			t.Fatal(err)
		}
	}
	spec, _ := workload.Find("readmissing")
	if _, err := r.Run(context.Background(), spec); !errors.Is(err, ErrWrong) {
		t.Errorf("readmissing did not notice keys that nobody wrote: %v", err)
	}
}

// TestOracleThreads: threads, deletions and background writers are foretold.
func TestOracleThreads(t *testing.T) {
	r, m := newRunner(t)
	r.Params.Threads = 2
	run(t, r, "fillrandom", "readrandom", "deleterandom", "readrandom", "readwhilewriting",
		"readrandom", "readseq", "overwrite", "seekrandom")
	if got := int64(len(m.Table(r.Dir).Contents())); got != r.oracle.count {
		t.Errorf("%d entries, foretold %d", got, r.oracle.count)
	}
}

func TestErrors(t *testing.T) {
	broken := errors.New("broken")
	for op, steps := range map[string][]string{
		"put": {"fillseq"}, "write": {"fillbatch"}, "get": {"readrandom"},
		"next": {"readseq", "readreverse", "seekrandom", "seekordered"}, "delete": {"deleteseq"},
		"compact": {"compact"}, "open": {"open"}, "checkpoint": {"checkpoint"},
		"backup": {"backup", "backup2", "restore"}, "restore": {"restore"},
	} {
		for _, step := range steps {
			r, m := newRunner(t)
			run(t, r, "fillseq")
			left := map[string]int{"compact": 0, "open": 0, "write": 2}[op]
			m.Fail = func(o string) error {
				if o == op {
					if left--; left < 0 {
						return broken
					}
				}
				return nil
			}
			spec, _ := workload.Find(step)
			if _, err := r.Run(context.Background(), spec); !errors.Is(err, broken) {
				t.Errorf("%s with a failing %s: %v", step, op, err)
			}
			m.Fail = nil
		}
	}
}

// TestHalfRate: writes come half as fast as those before; the waits are in no latency.
func TestHalfRate(t *testing.T) {
	r, _ := newRunner(t)
	if res := run(t, r, "overwritehalf"); res.Skipped == "" {
		t.Errorf("half of no rate: %s", res.Line())
	}
	run(t, r, "fillseq", "overwrite")
	r.rate = 2 * num / 0.2
	r.Params.Histogram = true
	res := run(t, r, "overwritehalf")
	if res.Elapsed < 190*time.Millisecond || res.Ops != num {
		t.Errorf("%d operations in %v, want 0.2 s", res.Ops, res.Elapsed)
	}
	if sum := time.Duration(res.Latency.Mean() * num); sum > res.Elapsed/2 {
		t.Errorf("of %v all operations took %v", res.Elapsed, sum)
	}
	if r.rate != 2*num/0.2 {
		t.Error("half the rate became the rate")
	}
}

// TestWriteRate: a writer beside the measured thread keeps its rate. The first read waits for its
// writes, so that these take as long as the rate says.
func TestWriteRate(t *testing.T) {
	r, m := newRunner(t)
	run(t, r, "fillseq")
	const writes = 2000
	var puts atomic.Int64
	enough := make(chan struct{})
	m.Fail = func(op string) error {
		switch op {
		case "put":
			if puts.Add(1) == writes {
				close(enough)
			}
		case "get":
			<-enough
		}
		return nil
	}
	if res := run(t, r, "readwhilewriting10k"); res.Elapsed < 190*time.Millisecond {
		t.Errorf("%d writes in %v, want 0.2 s", writes, res.Elapsed)
	}
}

// TestWhileCompacting: the database is compacted meanwhile, once at least.
func TestWhileCompacting(t *testing.T) {
	r, m := newRunner(t)
	run(t, r, "fillseq")
	var compactions atomic.Int64
	m.Fail = func(op string) error {
		if op == "compact" {
			compactions.Add(1)
		}
		return nil
	}
	if res := run(t, r, "overwritewhilecompacting"); res.Ops != num || compactions.Load() == 0 {
		t.Errorf("%d operations beside %d compactions", res.Ops, compactions.Load())
	}
}

// TestDuration: a benchmark goes on for as long as it is told, a fill does not.
func TestDuration(t *testing.T) {
	r, _ := newRunner(t)
	r.Params.Duration, r.Params.Timeline = 100*time.Millisecond, true
	if res := run(t, r, "fillseq"); res.Ops != num {
		t.Errorf("fillseq wrote %d", res.Ops)
	}
	for _, name := range []string{"overwrite", "readrandom", "overwritehalf"} {
		if res := run(t, r, name); res.Elapsed < r.Params.Duration*9/10 ||
			res.Elapsed > 100*r.Params.Duration || len(res.Samples) == 0 {
			t.Errorf("%s: %v", name, res.Elapsed)
		}
	}
}

func TestIntervals(t *testing.T) {
	var samples []Sample
	for i := 1; i <= 60; i++ {
		s := Sample{At: time.Duration(i) * 100 * time.Millisecond, Ops: int64(min(i, 40) * 10)}
		s.Metrics.Stall = time.Duration(max(i-20, 0)) * 50 * time.Millisecond
		samples = append(samples, s)
	}
	all := Intervals(samples, 4*time.Second, 20)
	want := []Interval{{time.Second, 100, 0}, {2 * time.Second, 100, 0},
		{3 * time.Second, 100, 0.5}, {4 * time.Second, 100, 0.5}}
	if !slices.Equal(all, want) {
		t.Errorf("%v, want %v", all, want)
	}
	// The last interval ends with the benchmark, whatever the samples before it were taken at.
	late := []Sample{{At: 1100 * time.Millisecond, Ops: 1100}, {At: 2200 * time.Millisecond,
		Ops: 2200}, {At: 3050 * time.Millisecond, Ops: 2280}}
	if all = Intervals(late, 3*time.Second, 20); len(all) != 3 || all[2].End != 3*time.Second ||
		math.Round(all[2].Rate) != 100 {
		t.Errorf("%v", all)
	}
	if all = Intervals(samples, 6*time.Second, 3); len(all) != 3 || all[2].Rate != 0 {
		t.Errorf("%v", all)
	}
}

func TestInterrupt(t *testing.T) {
	r, m := newRunner(t)
	r.Params.Num = 1 << 40
	r.Params.Reads = 10
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	m.Fail = func(string) error {
		if n++; n == 1000 {
			cancel()
		}
		return nil
	}
	spec, _ := workload.Find("fillseq")
	if _, err := r.Run(ctx, spec); !errors.Is(err, ErrInterrupted) {
		t.Fatalf("%v", err)
	}
}

// TestDirectory: only what was made here is destroyed.
func TestDirectory(t *testing.T) {
	r, m := newRunner(t)
	run(t, r, "fillseq", "fillrandom")
	if o := m.Table(r.Dir).Opens; o != 1 {
		t.Errorf("a fresh database was opened %d times", o)
	}
	again := &Runner{Driver: m, Dir: r.Dir, Params: r.Params}
	run(t, again, "fillseq")
	keep := &Runner{Driver: m, Dir: r.Dir, Params: r.Params}
	keep.Params.UseExisting = true
	if got := run(t, keep, "readrandom"); got.Found != num {
		t.Errorf("the existing database: %s", got.Line())
	}
	if got := run(t, keep, "fillseq").Line(); got != "fillseq      : skipped (--use_existing_db "+
		"is true)" {
		t.Errorf("%q", got)
	}

	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "CURRENT"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	other := &Runner{Driver: m, Dir: foreign, Params: r.Params}
	spec, _ := workload.Find("fillseq")
	if _, err := other.Run(context.Background(), spec); !errors.Is(err, ErrForeign) {
		t.Errorf("destroyed a stranger's directory: %v", err)
	}
	missing := &Runner{Driver: m, Dir: foreign + "/none", Params: keep.Params}
	spec, _ = workload.Find("readseq")
	if _, err := missing.Run(context.Background(), spec); err == nil {
		t.Error("made a database that had to exist")
	}
}

// TestLines holds report lines to LevelDB's form, with a clock that is told.
func TestLines(t *testing.T) {
	r, _ := newRunner(t)
	// One thread reads the clock at its start and at its end.
	clock := func(elapsed time.Duration) func() time.Duration {
		now := -elapsed
		return func() time.Duration { now += elapsed; return now }
	}
	for _, tt := range []struct {
		name    string
		elapsed time.Duration
		want    string
	}{
		{"fillseq", 5295 * time.Microsecond, "fillseq      :       1.765 micros/op;   19.5 MB/s"},
		{"fillsync", 805227 * time.Nanosecond, "fillsync     :     268.409 micros/op;    0.1 " +
			"MB/s (3 ops)"},
		{"fill100K", 3 * time.Millisecond,
			"fill100K     :    1000.000 micros/op;   95.4 MB/s (3 ops)"},
		{"fillbatch", 3 * time.Millisecond, "fillbatch    :       1.000 micros/op;   34.3 MB/s"},
		{"readrandom", 50031 * time.Microsecond, "readrandom   :      16.677 micros/op; (3000 of " +
			"3000 found)"},
		{"readmissing", 3 * time.Millisecond, "readmissing  :       1.000 micros/op; (0 of " +
			"3000 found)"},
		{"readwhilewriting", 3 * time.Millisecond, "readwhilewriting :       1.000 micros/op; " +
			"(3000 of 3000 found)"},
		{"readseq", 1428 * time.Microsecond, "readseq      :       0.476 micros/op;   72.1 MB/s"},
		{"compact", 1500 * time.Millisecond, "compact      : 1500000.000 micros/op;"},
		{"deleteseq", 3 * time.Millisecond, "deleteseq    :       1.000 micros/op;"},
		{"crc32c", time.Millisecond,
			"crc32c       :     100.000 micros/op;   39.1 MB/s (4K per op)"},
		{"snappycomp", time.Millisecond, "snappycomp   :     100.000 micros/op;   39.1 MB/s " +
			"(output: 100.0%)"},
		{"snappyuncomp", time.Millisecond, "snappyuncomp :     100.000 micros/op;   39.1 MB/s"},
		{"zstdcomp", 0, "zstdcomp     : skipped (Model has no zstd)"},
		{"stats", 0, "\n0 entries"},
		{"sstables", 0, "\n(failed)"},
	} {
		r.Clock = clock(tt.elapsed)
		if got := run(t, r, tt.name).Line(); got != tt.want {
			t.Errorf("%s:\n%q, want\n%q", tt.name, got, tt.want)
		}
	}
}

func TestHistogram(t *testing.T) {
	r, _ := newRunner(t)
	r.Params.Histogram = true
	r.Params.Num = 1000
	var now time.Duration
	calls := 0
	r.Clock = func() time.Duration {
		if calls++; calls%100 == 0 {
			now += 40 * time.Microsecond
		} else {
			now += 520 * time.Nanosecond
		}
		return now
	}
	got := run(t, r, "fillseq").Line()
	for _, want := range []string{
		"Microseconds per op:\nCount: 1000  Average: 0.9148", "\nMin: 0.5200  Median: 0.5",
		"  Max: 40.0000\n", "P99.9: 40.00", "[     0.5,     0.6 )       990  99.000%  99.000% " +
			"####################\n", "[      40,      45 )        10   1.000% 100.000%",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestComparisonsAndSync(t *testing.T) {
	r, m := newRunner(t)
	r.Params.Comparisons = true
	r.Params.Sync = true
	if got := run(t, r, "fillseq").Line(); !strings.HasSuffix(got, "\nComparisons: 0") {
		t.Errorf("%q", got)
	}
	if c := m.Table(r.Dir).Config.Comparisons; c == nil {
		t.Error("the driver was not asked to count")
	}
	if s := m.Table(r.Dir).Syncs; s != num {
		t.Errorf("%d writes of %d were synced", s, num)
	}
}

// TestSyncEvery: of all kinds of writes every n-th is durable, a batch being one write.
func TestSyncEvery(t *testing.T) {
	for name, want := range map[string]int{
		"fillseq": num / 7, "fillbatch": 0, "overwrite": num / 7, "deleteseq": num / 7,
		"updaterandom": num / 7, "ttl": num / 7, "mergerandom": num / 7,
		"randombatch": 2 * (num / 4 / 7), "randomtransaction": 2 * (num / 4 / 7),
		"windowed": (num/10 + 2*num) / 7, "bulkload": 0,
	} {
		r, m := newRunner(t)
		r.Params.SyncEvery = 7
		before := 0
		if spec, _ := workload.Find(name); !spec.Fresh {
			run(t, r, "fillseq")
			before = m.Table(r.Dir).Syncs
		}
		run(t, r, name)
		if got := m.Table(r.Dir).Syncs - before; got != want {
			t.Errorf("%s: %d writes were synced, want %d", name, got, want)
		}
	}
}

// TestHalfRateOfBatches: batches come half as fast as the ones before, too.
func TestHalfRateOfBatches(t *testing.T) {
	r, _ := newRunner(t)
	r.Params.Batch = 100
	run(t, r, "fillseq", "overwrite")
	r.rate = 2 * num / 0.2
	if res := run(t, r, "overwritehalf"); res.Elapsed < 180*time.Millisecond || res.Ops != num {
		t.Errorf("%d operations in %v, want 0.2 s", res.Ops, res.Elapsed)
	}
}

func TestCalibrate(t *testing.T) {
	cost := Calibrate()
	for _, name := range []string{"fillseq", "fillrandom", "readrandom", "readseq", "seekordered"} {
		if c := cost[name]; c <= 0 || c > 1e4 {
			t.Errorf("%s: %v ns", name, c)
		}
	}
	t.Log(cost)
}

// TestLoopAllocatesNothing: the harness makes no garbage per operation.
func TestLoopAllocatesNothing(t *testing.T) {
	r := &Runner{Params: Params{Num: 10000, Reads: -1, ValueSize: 100, CompressionRatio: 0.5},
		db: nothing{}}
	r.valueData(codecBlock)
	for _, name := range []string{"fillrandom", "readrandom", "readseq", "seekordered"} {
		spec, _ := workload.Find(name)
		if n := testing.AllocsPerRun(3, func() {
			if _, err := r.measure(context.Background(), &spec,
				Result{Name: name, Threads: 1}); err != nil {
				t.Error(err)
			}
		}); n > 100 {
			t.Errorf("%s: %v allocations for 10000 operations", name, n)
		}
	}
}
