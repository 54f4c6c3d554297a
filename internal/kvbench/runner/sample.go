package runner

import (
	"context"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// Sample is the state of a benchmark at one time.
type Sample struct {
	At      time.Duration // since its start
	Ops     int64
	Metrics store.Metrics
}

const (
	sampleEvery = 100 * time.Millisecond
	maxSamples  = 400 // every second one is dropped beyond
)

// sampler watches a benchmark from a goroutine of its own.
type sampler struct {
	stop, done chan struct{}
	mu         sync.Mutex
	start      time.Time // guarded by mu
	samples    []Sample  // guarded by mu
}

// sample starts to watch; finish ends it.
func (r *Runner) sample(live *Live) *sampler {
	s := &sampler{stop: make(chan struct{}), done: make(chan struct{}), start: time.Now()}
	db := r.db
	look := func() {
		machine.Look(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.samples = append(s.samples, Sample{time.Since(s.start), live.Done(), db.Metrics()})
		})
	}
	go func() {
		defer close(s.done)
		every := sampleEvery
		for {
			select {
			case <-s.stop:
				look()
				return
			case <-time.After(every):
			}
			look()
			if s.thin() {
				every *= 2
			}
		}
	}()
	return s
}

// thin drops every second sample where there are too many.
func (s *sampler) thin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.samples) < maxSamples {
		return false
	}
	for i := range maxSamples / 2 {
		s.samples[i] = s.samples[2*i+1]
	}
	s.samples = s.samples[:maxSamples/2]
	return true
}

// restart forgets what came before the measured operations.
func (s *sampler) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.start, s.samples = time.Now(), nil
}

func (s *sampler) finish() []Sample {
	close(s.stop)
	<-s.done
	return s.samples
}

// Interval is what a benchmark did in a part of its time.
type Interval struct {
	End   time.Duration // since its start
	Rate  float64       // operations a second
	Stall float64       // share of the time for which writes waited; negative: unknown
}

// Intervals cuts the time that a benchmark took, by its samples, into at most n intervals of about
// leastInterval or more.
func Intervals(samples []Sample, elapsed time.Duration, n int) (all []Interval) {
	count := max(min(time.Duration(n), elapsed/leastInterval), 1)
	var last Sample
	for i, s := range samples {
		due := elapsed * time.Duration(len(all)+1) / count
		if s.At < due || len(all) == int(count) { // the rest is time to quiet
			continue
		}
		if len(all)+1 == int(count) {
			s.At = elapsed // nothing was done from then on
		}
		d := (s.At - last.At).Seconds()
		v := Interval{End: s.At, Rate: float64(s.Ops-last.Ops) / d, Stall: -1}
		if s.Metrics.Stall != store.Unknown {
			before := last.Metrics.Stall
			if len(all) == 0 {
				before = samples[0].Metrics.Stall
			}
			v.Stall = (s.Metrics.Stall - before).Seconds() / d
		}
		all, last = append(all, v), samples[i]
	}
	return all
}

// leastInterval is long enough that a rate in it says something.
const leastInterval = time.Second

// Quiet is when the process did next to nothing for a while.
const (
	quietWindow   = 50 * time.Millisecond
	quietWindows  = 6
	quietCPU      = quietWindow / 10
	quietBytes    = 64 << 10
	quietPatience = 30 * time.Minute
)

// waitQuiet waits until background work has ended and returns how long it went on, and the usage
// after the first quiet window: the others are waited for to be sure. It looks at the process
// alone, so it is the same for every engine.
func waitQuiet(ctx context.Context) (work time.Duration, atEnd usage) {
	start := time.Now()
	last, windows := readUsage(), 0
	for time.Since(start) < quietPatience {
		select {
		case <-ctx.Done():
			return time.Since(start), readUsage()
		case <-time.After(quietWindow):
		}
		var now usage
		machine.Look(func() { now = readUsage() })
		windows++
		if now.user+now.system-last.user-last.system > quietCPU ||
			now.written-last.written > quietBytes {
			windows = 0
		}
		if last = now; windows <= 1 {
			atEnd = now
		}
		if windows == quietWindows {
			work = max(time.Since(start)-quietWindows*quietWindow, 0)
			return work.Truncate(time.Millisecond), atEnd
		}
	}
	return time.Since(start), readUsage()
}

// settles reports whether a benchmark leaves background work that is waited for.
func (r *Runner) settles(spec *workload.Spec) bool {
	return r.Params.Quiet && r.db != nil && spec.NeedsStore() && changes(spec)
}

// changes reports whether a benchmark changes the files of the database.
func changes(spec *workload.Spec) bool { return spec.Writes() || spec.Kind == workload.Compact }
