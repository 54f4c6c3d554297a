// Package runner runs benchmarks of package workload against a store and
// measures them: it owns the threads, the clock, the counting and the rules
// about when a database must be new.
//
// A Runner is used by one goroutine; Live may be called from others.
package runner

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// Params are the numbers of a run, as flags give them.
type Params struct {
	Num              int64 // entries
	Reads            int64 // reads; negative: Num
	ValueSize        int
	Batch            int // entries in a batch; 0: the benchmark's own
	Threads          int
	Seed             uint32 // 0: 1000, LevelDB's
	Sync             bool   // every write durable
	SyncEvery        int64  // every n-th write durable, of a value or a batch; 0: none
	Histogram        bool   // time each operation
	Keys             workload.KeyFormat
	CompressionRatio float64
	CodecBytes       int64 // 0: the benchmark's own
	UseExisting      bool  // never destroy; benchmarks that need a new database are skipped
	Comparisons      bool
	// after benchmarks that write wait until background work has ended
	Quiet    bool
	Timeline bool // take samples while benchmarks write, or go on for Duration
	// benchmarks of single operations in an old database go on so long; 0: for N operations
	Duration    time.Duration
	NamedValues bool // values are value%d with the key's number, not ValueSize bytes
}

// Runner runs benchmarks one after another on one database directory.
type Runner struct {
	Driver store.Driver
	Config store.Config
	Dir    string
	Params Params
	// Clock is monotonic time; nil: the system's.
	Clock func() time.Duration
	// Sleep is for rests that are no operation's time; nil: the system's.
	Sleep func(time.Duration)
	// Follow starts a follower of the database in dir, in a process of its own; stop ends it and
	// tells how far it was behind at each catch-up. nil: there can be none.
	Follow func(dir string, c store.Config) (stop func() ([]time.Duration, error), err error)

	db     store.Store
	needs  store.Needs   // what db was opened for
	held   held          // what Hold has taken of db
	shared []store.Store // the databases of a Shared benchmark
	begun  bool          // the directory has been made ours
	oracle *oracle       // nil: what the database holds is not known
	// the entries in the database have not all the size of the run's
	mixedSizes bool
	threads    uint32
	rate       float64 // operations a second of the last benchmark that wrote without waiting
	maxRSS     int64   // the most resident so far
	inserted   uint64  // keys beyond Num that mixed benchmarks inserted
	values     *workload.ValueData
	compare    atomic.Int64
	live       atomic.Pointer[Live]
}

// ErrWrong is wrapped when a benchmark's reads found other than they had to.
var ErrWrong = errors.New("wrong answers")

// ErrInterrupted is returned when the context ended during a benchmark.
var ErrInterrupted = errors.New("interrupted")

// Live is a benchmark under way.
type Live struct {
	Name  string
	Total int64 // operations to do, all threads together; 0: unknown
	team  []*thread
}

// Done is the number of operations done so far, to a few hundred.
func (l *Live) Done() int64 {
	var n int64
	for _, t := range l.team {
		n += t.published.Load()
	}
	return n
}

// Live returns the benchmark under way, or nil.
func (r *Runner) Live() *Live { return r.live.Load() }

// Close closes the database and leaves its files.
func (r *Runner) Close() error {
	if r.db == nil {
		return nil
	}
	db := r.db
	r.db = nil
	return errors.Join(r.held.close(), db.Close())
}

// Run runs one benchmark. A result with Skipped set is not an error.
func (r *Runner) Run(ctx context.Context, spec workload.Spec) (Result, error) {
	p := &r.Params
	res := Result{Name: spec.Name, Threads: r.threadCount(&spec), Endless: r.duration(&spec) > 0}
	if spec.Fresh && p.UseExisting {
		res.Skipped = "--use_existing_db is true"
		return res, nil
	}
	if res.Skipped = r.unfit(&spec); res.Skipped != "" {
		return res, nil
	}
	if spec.HalfRate && r.rate == 0 {
		res.Skipped = "no benchmark before wrote at full speed"
		return res, nil
	}
	// The database stays for later benchmarks. Whether there are transactions is known when it is
	// opened for them.
	if spec.Fresh && r.db != nil && !spec.Queue.Txn {
		if res.Skipped = r.unusable(&spec); res.Skipped != "" {
			return res, nil
		}
	}
	if spec.NeedsStore() {
		if err := r.prepare(ctx, &spec); err != nil {
			return res, err
		}
		if res.Skipped = r.unusable(&spec); res.Skipped != "" {
			return res, nil
		}
	}
	if spec.Kind == workload.Shared {
		return r.runShared(ctx, &spec, res)
	}
	if err := r.bring(ctx, &spec); err != nil {
		if errors.Is(err, errNoState) {
			res.Skipped = err.Error()
			return res, nil
		}
		return res, err
	}
	if spec.Keyspaces > 0 {
		if err := r.db.(store.Keyspaced).OpenKeyspaces(spec.Keyspaces); err != nil {
			res.Skipped = err.Error()
			return res, nil
		}
	}
	switch spec.Kind {
	case workload.Property:
		text, ok := r.db.Property(spec.Subject)
		if !ok {
			text = "(failed)"
		}
		res.Text, res.Ops = text, 1
		return res, nil
	case workload.Codec:
		c, ok := r.Driver.Codec(spec.Subject)
		if !ok {
			res.Skipped = fmt.Sprintf("%s has no %s", r.Driver.Title(), spec.Subject)
			return res, nil
		}
		if c.Close != nil {
			c.Close()
		}
	}
	res, err := r.measure(ctx, &spec, res)
	if spec.State == workload.Warm && err == nil {
		err = r.reopenWith() // as it was before
	}
	return res, err
}

// threadCount is how many threads are in the figures.
func (r *Runner) threadCount(spec *workload.Spec) int {
	switch spec.Kind {
	case workload.Open, workload.Compact, workload.Property, workload.Copy, workload.Changes,
		workload.Queue, workload.Hold, workload.Release:
		return 1
	}
	if spec.Kind == workload.Shared {
		if spec.Share.Each {
			return spec.Share.Databases
		}
		return 1
	}
	if spec.Subject == workload.IntoTables || spec.Subject == workload.BulkLoad {
		return 1
	}
	if r.Params.Threads > 1 {
		return r.Params.Threads
	}
	return max(spec.Threads, 1)
}

// measure starts the threads together, waits for all and adds them up.
func (r *Runner) measure(ctx context.Context, spec *workload.Spec, res Result) (Result, error) {
	runtime.GC() // what earlier benchmarks left is not collected at the cost of this one
	team, writers := r.team(spec, res.Threads)
	shared := team[0].shared
	live := &Live{Name: spec.Name, Total: r.opsPerThread(spec) * int64(len(team)), team: team}
	if r.duration(spec) > 0 {
		live.Total = 0
	}
	shared.from = r.baseline()
	r.maxRSS = max(r.maxRSS, shared.from.usage.maxRSS)
	memory := machine.WatchMemory()
	r.live.Store(live)
	var samples *sampler
	if r.Params.Timeline && r.db != nil && (spec.Writes() || r.duration(spec) > 0) {
		samples = r.sample(live)
		shared.samples = samples
	}
	var space *spaceWatch
	if r.db != nil && r.Dir != "" && changes(spec) {
		space = watchSpace(r.Dir)
	}
	stop, err := r.follow(spec)
	if err != nil {
		memory.Finish()
		return res, fmt.Errorf("%s: %w", spec.Name, err)
	}
	watch := context.AfterFunc(ctx, func() { shared.stop.Store(true) })
	shared.launch(spec, team, writers)
	watch()
	lagErr := res.addLag(stop)
	r.live.Store(nil)
	var atEnd *usage // nil: it is not waited for
	if r.settles(spec) {
		quiet, use := waitQuiet(ctx)
		res.Quiet, atEnd = &quiet, &use
	}
	if space != nil {
		res.addSpace(space.finish())
	}
	if samples != nil {
		res.Samples = samples.finish()
	}

	after := readUsage()
	if atEnd != nil {
		after.user, after.system = atEnd.user, atEnd.system
	}
	res.addUsage(shared.from.usage, after)
	r.maxRSS = max(r.maxRSS, after.maxRSS)
	res.addMemory(memory.Finish(), r.maxRSS)
	if r.db != nil && spec.NeedsStore() && spec.Kind != workload.Open {
		res.addMetrics(shared.from.metrics, r.db.Metrics())
	}
	res.merge(team)
	for _, w := range writers {
		res.BackgroundOps += w.done
	}
	res.describe(spec, r.Params.Num)
	if spec.Kind == workload.Put && !spec.HalfRate && spec.Subject == "" {
		r.rate = res.OpsPerSecond()
	}
	if r.Params.Comparisons {
		n := r.compare.Swap(0)
		res.Comparisons = &n
	}
	if lagErr != nil {
		return res, fmt.Errorf("%s: %w", spec.Name, lagErr)
	}
	for _, t := range append(team, writers...) {
		if t.err != nil {
			return res, fmt.Errorf("%s: %w", spec.Name, t.err)
		}
	}
	if ctx.Err() != nil {
		return res, ErrInterrupted
	}
	err = r.check(spec, &res, team, writers)
	r.mixedSizes = r.mixedSizes || r.otherSizes(spec)
	if r.oracle != nil && !r.mixedSizes {
		live := r.oracle.count * int64(r.Params.Keys.Len()+r.Params.ValueSize)
		res.Live = &live
	}
	for _, t := range team {
		r.inserted = max(r.inserted, shared.inserted+t.inserts*uint64(len(team)))
	}
	return res, err
}

// otherSizes reports whether a benchmark writes entries that have not the run's size, or that the
// oracle does not count.
func (r *Runner) otherSizes(spec *workload.Spec) bool {
	p := &r.Params
	return p.NamedValues || p.Keys.Style != workload.Padded ||
		spec.ValueSize > 0 && spec.ValueSize != p.ValueSize ||
		spec.Kind == workload.Add || spec.Keyspaces > 0
}

// duration is how long a benchmark goes on; 0: for its number of operations.
func (r *Runner) duration(spec *workload.Spec) time.Duration {
	if spec.Fresh {
		return 0
	}
	switch spec.Kind {
	case workload.Put, workload.Get, workload.MultiGet, workload.Update, workload.Mixed,
		workload.Seek, workload.Transact:
		return r.Params.Duration
	}
	return 0
}

// opsPerThread is how many operations each thread does.
func (r *Runner) opsPerThread(spec *workload.Spec) int64 {
	if r.duration(spec) > 0 {
		return math.MaxInt64 >> 20 // the clock ends it
	}
	if spec.Kind == workload.Codec {
		return max(r.codecBytes(spec)/codecBlock, 1)
	}
	return spec.Ops(r.Params.Num, r.reads())
}

func (r *Runner) reads() int64 {
	if r.Params.Reads < 0 {
		return r.Params.Num
	}
	return r.Params.Reads
}

func (r *Runner) codecBytes(spec *workload.Spec) int64 {
	if r.Params.CodecBytes > 0 {
		return r.Params.CodecBytes
	}
	return spec.Bytes
}

func (r *Runner) clock() func() time.Duration {
	if r.Clock != nil {
		return r.Clock
	}
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

func (r *Runner) valueData(size int) *workload.ValueData {
	if r.values == nil || !r.values.Fits(size) {
		r.values = workload.NewValueData(r.Params.CompressionRatio, size)
	}
	return r.values
}
