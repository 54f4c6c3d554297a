package runner

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// shared is what the threads of one benchmark have in common.
type shared struct {
	r        *Runner
	db       store.Store
	data     *workload.ValueData
	clock    func() time.Duration
	stop     atomic.Bool // interrupted, or a thread failed
	quit     atomic.Bool // the measured threads are done: background writers end
	ops      int64       // of each thread
	batch    int
	size     int           // of values
	sync     bool          // every write is durable
	named    bool          // values follow the key's number
	of       int           // measured threads
	inserted uint64        // keys that mixed benchmarks inserted before
	stride   int64         // operations between looks at stop
	duration time.Duration // of a thread, after which it begins no operation; 0: no end
	samples  *sampler      // nil: none are taken
	// The figures count from this baseline. Only a benchmark of one thread moves it.
	from baseline
}

// role is what a background thread does for as long as the measured ones run.
type role uint8

const (
	overwriter role = iota
	scanner
	compactor
	beater
)

// thread counts one goroutine's work. The clock is read at its start and end,
// and after every operation only when a histogram is asked for.
type thread struct {
	*shared
	seed    uint32
	rand    workload.Rand
	keys    *workload.Keys
	vals    workload.Values
	names   *workload.Names
	hist    *hist.Histogram // nil: not asked for
	done    int64
	next    int64 // value of done at which tick looks up
	look    int64 // value of done at which progress is published
	bytes   int64
	found   int64
	asked   int64
	in      int64 // bytes into and
	out     int64 // out of a codec
	start   time.Duration
	end     time.Duration
	last    time.Duration // end of the last operation, with a histogram
	err     error
	buf     []byte          // the value last read
	index   int             // among the measured threads
	mix     workload.Mixer  // of a mixed benchmark
	inserts uint64          // keys inserted by it
	sum     uint64          // of the counters that were read
	tenths  []time.Duration // of a Queue benchmark
	note    string          // for the message of its result
	// conflicts is how many transactions were begun again.
	conflicts int64
	role      role        // of a background thread
	rate      float64     // operations a second at most; 0: no limit
	rated     int64       // value of done at which keepRate looks
	writes    int64       // of values and batches
	own       store.Store // of a Shared benchmark; the others have db

	_         [64]byte
	published atomic.Int64
	_         [64]byte
}

// keepRate waits until the operations done are not more than t.rate allows. The wait is
// no operation's time.
func (t *thread) keepRate() {
	if t.rate == 0 || t.done < t.rated {
		return
	}
	t.rated = t.done + rateStep
	due := t.start + time.Duration(float64(t.done)/t.rate*float64(time.Second))
	if ahead := due - t.clock(); ahead > time.Millisecond { // sleeps are not exact
		time.Sleep(ahead)
		t.last = t.clock()
	}
}

// durable reports whether the next write, of a value or of a batch, is to be durable.
func (t *thread) durable() bool {
	t.writes++
	every := t.r.Params.SyncEvery
	return t.sync || every > 0 && t.writes%every == 0
}

// rateStep is how many operations pass between two looks whether they come too fast.
const rateStep = 16

// tick counts an operation and reports whether to go on.
func (t *thread) tick() bool {
	t.done++
	return t.done < t.next || t.lookUp()
}

// ticks counts n operations that were done together; a histogram has them as one.
func (t *thread) ticks(n int64) bool {
	t.done += n
	return t.done < t.next || t.lookUp()
}

func (t *thread) lookUp() bool {
	t.next = t.done + t.stride
	if t.hist != nil {
		now := t.clock()
		t.hist.Record(int64(now - t.last))
		t.last = now
		t.next = t.done + 1
		if t.done < t.look {
			return true
		}
		t.look = t.done + t.stride
	}
	t.published.Store(t.done)
	if t.duration > 0 && t.clock()-t.start >= t.duration {
		return false
	}
	return !t.stop.Load()
}

func (t *thread) fail(err error) {
	t.err = err
	t.stop.Store(true)
}

// team makes the threads of a benchmark: the measured ones and background
// writers. Seeds go up over all threads of a run, writers first, as in
// LevelDB's benchmark.
func (r *Runner) team(spec *workload.Spec, n int) (team, writers []*thread) {
	p := &r.Params
	s := &shared{r: r, db: r.db, clock: r.clock(), ops: r.opsPerThread(spec), of: n,
		inserted: r.inserted}
	s.batch = max(p.Batch, spec.Batch, 1)
	s.size = p.ValueSize
	if spec.ValueSize > 0 {
		s.size = spec.ValueSize
	}
	s.named = p.NamedValues && spec.ValueSize == 0
	s.sync = p.Sync || spec.Sync
	s.data = r.valueData(max(s.size, codecBlock))
	s.stride = 256
	if s.sync || s.size >= 1<<13 || spec.Kind == workload.Open {
		s.stride = 1
	}
	seed := p.Seed
	if seed == 0 {
		seed = 1000
	}
	rate := spec.Share.Rate
	if spec.HalfRate {
		rate = r.rate / 2 / float64(n)
	}
	s.duration = r.duration(spec)
	background := slices.Concat(slices.Repeat([]role{overwriter}, spec.Writers),
		slices.Repeat([]role{scanner}, spec.Scanners),
		slices.Repeat([]role{compactor}, spec.Compactors))
	if spec.Followed {
		background = append(background, beater)
	}
	background = append(background, slices.Repeat([]role{overwriter}, spec.Share.Loaders)...)
	for i := range n + len(background) {
		r.threads++
		t := &thread{
			shared: s,
			seed:   seed + r.threads,
			rand:   workload.NewRand(seed + r.threads),
			keys:   workload.NewKeys(p.Keys),
			vals:   s.data.Values(),
			names:  workload.NewNames("value"),
			next:   s.stride,
		}
		if i < len(background) {
			t.role, t.rate = background[i], spec.WriteRate
			writers = append(writers, t)
			if len(r.shared) > 0 {
				t.own = r.shared[len(writers)]
			}
			continue
		}
		t.index, t.rate = i-len(background), rate
		if len(r.shared) > 0 {
			t.own = r.shared[t.index]
		}
		if p.Histogram || spec.Share.Rate > 0 {
			t.hist = new(hist.Histogram)
			t.next = 1
		}
		if spec.Kind == workload.Mixed {
			t.mix = t.mixer(spec) // its sums over all keys are no operation's time
		}
		team = append(team, t)
	}
	return team, writers
}

// launch lets all threads go at once and returns when the last has ended.
func (s *shared) launch(spec *workload.Spec, team, writers []*thread) {
	gate := make(chan struct{})
	var measured, background sync.WaitGroup
	for _, w := range writers {
		background.Go(func() {
			<-gate
			if w.duration > 0 {
				w.start = w.clock()
			}
			switch w.role {
			case overwriter:
				w.overwrite()
			case scanner:
				w.scanAll()
			case compactor:
				w.compactAgain()
			case beater:
				w.beat()
			}
		})
	}
	for _, t := range team {
		measured.Go(func() {
			<-gate
			t.start = t.clock()
			t.last = t.start
			t.run(spec)
			t.end = t.clock()
			t.published.Store(t.done)
		})
	}
	close(gate)
	measured.Wait()
	s.quit.Store(true)
	background.Wait()
}

func (t *thread) run(spec *workload.Spec) {
	switch spec.Kind {
	case workload.Put:
		t.fill(spec)
	case workload.Delete:
		t.delete(spec)
	case workload.DeleteRange:
		t.deleteRange(spec)
	case workload.Add:
		t.add(spec)
	case workload.Transact:
		t.transact(spec)
	case workload.Queue:
		t.queue(spec)
	case workload.Stretch:
		t.stretches(spec)
	case workload.PrefixScan:
		t.prefixScans(spec)
	case workload.Get:
		t.get(spec)
	case workload.MultiGet:
		t.multiGet(spec)
	case workload.Update:
		t.update(spec)
	case workload.Mixed:
		t.mixed()
	case workload.NewIterator:
		t.iterators()
	case workload.Scan:
		t.scan(spec)
	case workload.Seek:
		t.seek(spec)
	case workload.Open:
		t.reopen(spec)
	case workload.Compact:
		t.compact()
	case workload.Copy:
		t.copies(spec.Subject)
	case workload.Changes:
		t.changes(spec)
	case workload.Hold:
		t.hold(spec)
	case workload.Release:
		t.release()
	case workload.Shared:
		t.share(spec)
	case workload.Codec:
		t.codec(spec)
	}
}

// fill puts entries the way that a benchmark says.
func (t *thread) fill(spec *workload.Spec) {
	spaces, ok := t.db.(store.Keyspaced)
	switch {
	case spec.Subject == workload.IntoTables:
		t.putTables()
	case spec.Subject == workload.BulkLoad:
		t.bulkLoad(spec)
	case ok && spec.Keyspaces > 0:
		t.putSpread(spec, spaces)
	case spec.TTL > 0:
		t.putExpiring(spec)
	case t.batch > 1:
		t.putBatches(spec)
	default:
		t.put(spec)
	}
	if spec.Settle {
		t.settle()
	}
}
