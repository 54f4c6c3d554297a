package work

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree"
)

// TestPaceSpreadsTheWait has a disk that takes long for each table, and a writer that
// takes no time: it is always ahead of the flush, and must wait for it, a little in each
// write instead of a flush long in one.
func TestPaceSpreadsTheWait(t *testing.T) {
	const flush = 500 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) (o vfs.Outcome) {
			if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".ldb") {
				o.Delay = flush
			}
			return o
		})
		d := openDatabase(t, fsys)
		d.jobs.Pause()
		var longest time.Duration
		begin := time.Now()
		for i := range 20 * 60 { // memtables of 60 entries or so
			before := time.Now()
			d.mustPut(fmt.Sprint("key", i%100))
			if took := time.Since(before); i >= 5*60 { // the first flush tells how long one takes
				longest = max(longest, took)
			}
		}
		if longest > flush/10 {
			t.Errorf("a write took %v beside flushes of %v", longest, flush)
		}
		if took := time.Since(begin); took > 20*flush*3/2 {
			t.Errorf("20 memtables were filled in %v", took)
		}
		state := d.tree.Acquire()
		sealed := len(state.Sealed)
		state.Unref()
		if sealed < 2 {
			t.Errorf("%d memtables are sealed", sealed)
		}
		// A write that must not wait is served as long as there is room.
		if err := d.put("now", write.NoStall); err != nil && !errors.Is(err, base.ErrBusy) {
			t.Error(err)
		}
		if n := d.jobs.paceNanos.Load(); n == 0 {
			t.Error("no delay beside two sealed memtables")
		}
		if err := d.jobs.WaitFlushed(d.tree, 0); err != nil {
			t.Fatal(err)
		}
		if n := d.jobs.paceNanos.Load(); n != 0 {
			t.Errorf("a delay of %d ns per KiB without a flush", n)
		}
	})
}

// TestRateIsLiftedForWaiters has a flush that may write a byte a second, and a writer that waits
// for it although there may be more sealed memtables: it waits for their memory.
func TestRateIsLiftedForWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openFormat(t, vfs.NewMem(), base.Native, nil)
		d.jobs.opts.Keyspaces = true
		l := d.jobs.limits.Load()
		d.jobs.SetLimits(Limits{MaxJobs: l.MaxJobs, MaxSubcompactions: 1, MaxMemTables: 8,
			L0Trigger: l.L0Trigger, L0Stop: l.L0Stop, FileSize: l.FileSize,
			WriteBuffer: l.WriteBuffer, MaxMemTableBytes: 1, BytesPerSecond: 1})
		d.mustPut("a")
		if err := d.jobs.Seal(d.tree); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := d.jobs.wait(nil, 0); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("the writer waited for %v", took)
		}
	})
}

// TestPaceFollowsReports: an estimate from the last flush, then from the bytes written.
func TestPaceFollowsReports(t *testing.T) {
	now := time.Unix(1e9, 0)
	after := func(d time.Duration) time.Time { return now.Add(d) }
	p := pace{bytes: 64 << 20, begun: now, of: 1000, rate: 64 << 20, tail: 100 * time.Millisecond}
	for _, step := range []struct {
		at   time.Duration
		done uint64
		left time.Duration
	}{
		{0, 0, time.Second},
		{500 * time.Millisecond, 0, 500 * time.Millisecond},
		{2 * time.Second, 0, 125 * time.Millisecond},
		{3 * time.Second, 10, 125 * time.Millisecond}, // one report tells no pace
		{4 * time.Second, 500, 1100 * time.Millisecond},
		{7 * time.Second, 1000, 100 * time.Millisecond},
	} {
		if step.done > 0 {
			p.report(step.done, after(step.at))
		}
		if left := p.left(after(step.at)); left != step.left {
			t.Errorf("after %v, with %d written: %v left, want %v", step.at, step.done, left,
				step.left)
		}
	}
	p.end(false, after(8*time.Second))
	if p.rate != 8<<20 || p.tail != time.Second {
		t.Errorf("%.0f bytes a second, the end took %v", p.rate, p.tail)
	}
	p.begun = now
	p.end(true, after(time.Hour))
	if p.rate != 8<<20 {
		t.Error("a failed flush counts")
	}
}

// TestRotationFindsItsLog: while a flush runs, another rotation finds its log ready.
func TestRotationFindsItsLog(t *testing.T) {
	var logs atomic.Int64
	reached, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d := openDatabase(t, vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		switch {
		case op.Kind == vfs.OpCreateLog && strings.HasSuffix(op.Name, ".log"):
			logs.Add(1)
		case op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, ".ldb"):
			once.Do(func() { close(reached) })
			<-open
		}
		return vfs.Outcome{}
	}))
	d.mustPut("a")
	d.seal()
	<-reached
	made := logs.Load()
	d.mustPut("b")
	d.seal()
	if n := logs.Load() - made; n != 0 {
		t.Errorf("a rotation beside a flush made %d logs", n)
	}
	close(open)
	if err := d.jobs.WaitFlushed(d.tree, 0); err != nil {
		t.Fatal(err)
	}
}

// TestCompactionsGiveWayToFlushes: compactions that want the last processor, or all, give way to a
// flush, while level 0 is short and no seek pays for its merge.
func TestCompactionsGiveWayToFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openDatabase(t, vfs.NewMem())
		d.jobs.Pause()
		s, procs := d.jobs, runtime.GOMAXPROCS(0)
		gives := func(workers int, flushed *Keyspace) bool {
			s.onPace(func(time.Time) { s.workers, s.pace.k = workers, flushed })
			before := time.Now()
			s.yieldToFlush()
			return time.Since(before) > 0
		}
		defer gives(0, nil)
		half := s.limits.Load().L0Stop / 2
		for files := 0; files <= half; {
			if got := gives(procs-1, d.tree); got != (files < half) {
				t.Errorf("level 0 has %d tables: compactions give way: %v", files, got)
			}
			if files == 2 {
				if gives(procs, nil) || procs > 1 && gives(procs-2, d.tree) {
					t.Error("compactions give way without need")
				}
				var it tree.Iterator
				d.tree.Init(&it, &tree.IterOptions{})
				for range 1000 {
					it.SeekGE([]byte("ke"))
				}
				it.Close()
				if gives(procs, d.tree) {
					t.Error("compactions that seeks wait for give way")
				}
				d.tree.SpendRunsSought(math.MaxUint64)
			}
			gives(0, nil)
			d.mustPut("key")
			d.seal()
			if err := s.WaitFlushed(d.tree, 0); err != nil {
				t.Fatal(err)
			}
			state := d.tree.Acquire()
			files = len(state.Version.Levels[0].Files)
			state.Unref()
		}
	})
}
