package runner

import (
	"fmt"
	"strings"
	"time"

	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/kvbench/cgroup"
	"github.com/loamdb/loam/internal/kvbench/machine"
	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// Result is what one benchmark measured. Numbers that are not known are nil.
type Result struct {
	Name    string
	Skipped string // why it was not run; the rest is zero then
	Text    string // what a property said
	Message string // in brackets at the end of the report line
	Threads int

	Ops           int64
	Bytes         int64 // of keys and values, or through a codec
	Found, Asked  int64 // reads
	Conflicts     int64 // transactions that were begun again
	BackgroundOps int64 // writes beside the measured reads

	Elapsed time.Duration // from the first thread's start to the last one's end
	Busy    time.Duration // sum over threads

	CPUUser, CPUSystem time.Duration   // of the process
	Written            *int64          // bytes handed to the kernel by calls of the process
	Dirtied            *int64          // bytes of pages that it made dirty, by mappings, too
	MaxRSS             int64           // bytes, of the process so far
	Memory             *machine.Memory // nil: the system does not tell
	Metrics            *store.Metrics
	Comparisons        *int64
	Latency            *hist.Histogram // nanoseconds; nil: not asked for
	// nanoseconds that a follower was behind; nil: there was none
	Lag      *hist.Histogram
	Resident *int64         // bytes by which the resident set grew at most; nil: not watched
	Shared   int64          // bytes of memory that databases shared
	Quiet    *time.Duration // that background work went on; nil: not waited for
	// most bytes that the directory took, time to quiet included; nil: not watched
	DiskPeak  *int64
	DiskQuiet *int64 // bytes that it took when quiet; nil: not waited for
	// bytes of the keys and values in the database; nil: they have other sizes than the run's, or
	// are not known
	Live *int64
	// Tenths are the microseconds of an operation in each tenth of a benchmark whose cost may grow
	// with the operations before; Flat is the last one as a multiple of the second.
	Tenths  []float64
	Flat    float64
	note    string
	Samples []Sample
	Endless bool // it went on until Params.Duration was over
}

// MicrosPerOp is the time of one operation as its caller saw it.
func (r Result) MicrosPerOp() float64 {
	return r.Busy.Seconds() * 1e6 / float64(max(r.Ops, 1))
}

// OpsPerSecond is the rate of all threads together.
func (r Result) OpsPerSecond() float64 { return perSecond(float64(max(r.Ops, 1)), r.Elapsed) }

// MBPerSecond is in units of 2^20 bytes; 0 when bytes were not counted.
func (r Result) MBPerSecond() float64 { return perSecond(float64(r.Bytes)/(1<<20), r.Elapsed) }

func perSecond(n float64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return n / d.Seconds()
}

// overTime is how many lines the rate over time has.
const overTime = 20

// timeTable prints the rate over time.
func (r Result) timeTable() string {
	all := Intervals(r.Samples, r.Elapsed, overTime)
	if len(all) < 2 {
		return ""
	}
	mean := r.OpsPerSecond()
	lowest := all[0].Rate
	var b strings.Builder
	fmt.Fprintf(&b, "\nOver time:\n%9s %12s %7s %7s", "seconds", "ops/s", "of mean", "stall")
	for _, v := range all {
		lowest = min(lowest, v.Rate)
		stall := "-"
		if v.Stall >= 0 {
			stall = fmt.Sprintf("%.0f%%", v.Stall*100)
		}
		fmt.Fprintf(&b, "\n%9.1f %12.0f %6.0f%% %7s", v.End.Seconds(), v.Rate,
			v.Rate*100/max(mean, 1), stall)
	}
	fmt.Fprintf(&b, "\nLowest: %.0f%% of the mean", lowest*100/max(mean, 1))
	return b.String()
}

// Line is the report line in the form of LevelDB's benchmark, without newline.
func (r Result) Line() string {
	switch {
	case r.Skipped != "":
		return fmt.Sprintf("%-12s : skipped (%s)", r.Name, r.Skipped)
	case r.Text != "":
		return "\n" + strings.TrimSuffix(r.Text, "\n")
	}
	var extra string
	if r.Bytes > 0 {
		extra = fmt.Sprintf(" %6.1f MB/s", r.MBPerSecond())
	}
	if r.Message != "" {
		extra += " " + r.Message
	}
	line := fmt.Sprintf("%-12s : %11.3f micros/op;%s", r.Name, r.MicrosPerOp(), extra)
	if r.Quiet != nil {
		line += fmt.Sprintf(" quiet after %.2f s", r.Quiet.Seconds())
	}
	if r.Endless {
		line += r.timeTable()
	}
	if r.Latency != nil {
		line += "\nMicroseconds per op:\n" + formatHistogram(r.Latency)
	}
	if r.Comparisons != nil {
		line += fmt.Sprintf("\nComparisons: %d", *r.Comparisons)
	}
	return line
}

// merge adds up the threads.
func (r *Result) merge(team []*thread) {
	start, end := team[0].start, team[0].end
	for _, t := range team {
		start, end = min(start, t.start), max(end, t.end)
		r.Busy += t.end - t.start
		r.Ops += t.done
		r.Bytes += t.bytes
		r.Found += t.found
		r.Asked += t.asked
		r.Conflicts += t.conflicts
		r.addTenths(t)
		if t.hist != nil {
			if r.Latency == nil {
				r.Latency = new(hist.Histogram)
			}
			r.Latency.Merge(t.hist)
		}
	}
	r.Elapsed = end - start
	if team[0].in > 0 {
		var in, out int64
		for _, t := range team {
			in, out = in+t.in, out+t.out
		}
		r.Message = fmt.Sprintf("(output: %.1f%%)", float64(out)*100/float64(in))
	}
}

// describe sets the message that LevelDB's benchmark gives.
func (r *Result) describe(spec *workload.Spec, num int64) {
	switch {
	case spec.Kind == workload.Queue:
		r.Message = r.tenthsText()
	case spec.Order == workload.Few:
		r.Message = fmt.Sprintf("(%d of %d found, %d conflicts)", r.Found, r.Asked, r.Conflicts)
	case spec.Count:
		r.Message = fmt.Sprintf("(%d of %d found)", r.Found, r.Asked)
	case spec.Followed:
		r.Message = r.lagText()
	case spec.Kind == workload.Put && r.Ops != num*int64(r.Threads):
		r.Message = fmt.Sprintf("(%d ops)", r.Ops)
	case spec.Kind == workload.Codec && spec.Subject == "crc32c":
		r.Message = "(4K per op)"
	case spec.Kind == workload.Codec && spec.Decode:
		r.Message = ""
	}
}

func (r *Result) addUsage(before, after usage) {
	// The kernel splits a time by the ticks that it met: that of looks may exceed the process's.
	sum := after.user + after.system - before.user - before.system
	r.CPUUser = min(max(after.user-before.user, 0), sum)
	r.CPUSystem = sum - r.CPUUser
	if before.written >= 0 && after.written >= 0 {
		n := after.written - before.written
		r.Written = &n
	}
	if before.dirtied >= 0 && after.dirtied >= 0 {
		n := after.dirtied - before.dirtied
		r.Dirtied = &n
	}
}

// addMemory keeps the figures of the watcher, and the largest ones of the process so far.
func (r *Result) addMemory(m *machine.Memory, most int64) {
	if m != nil {
		most = max(most, m.Peak)
		if own, cache, ok := cgroup.Now(); ok {
			m.Group = &machine.Group{Own: own, Cache: cache}
		}
	}
	r.Memory, r.MaxRSS = m, most
}

func (r *Result) addSpace(peak, last int64) {
	r.DiskPeak = &peak
	if r.Quiet != nil {
		r.DiskQuiet = &last
	}
}

func (r *Result) addMetrics(before, after store.Metrics) {
	d := after // gauges stay as they are
	d.WALBytes = since(before.WALBytes, after.WALBytes)
	d.FlushBytes = since(before.FlushBytes, after.FlushBytes)
	d.CompactionBytes = since(before.CompactionBytes, after.CompactionBytes)
	d.CacheHits = since(before.CacheHits, after.CacheHits)
	d.CacheMisses = since(before.CacheMisses, after.CacheMisses)
	d.Stall = time.Duration(since(int64(before.Stall), int64(after.Stall)))
	r.Metrics = &d
}

func since(before, after int64) int64 {
	if before == store.Unknown || after == store.Unknown {
		return store.Unknown
	}
	return after - before
}
