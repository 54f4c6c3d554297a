package work

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/arena"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/internal/tree/picker"
)

// TestIdleMergeGivesWay: the merge of an idle tree continues without writers, pauses during writes,
// and is given up for a full memtable and for continued writes.
func TestIdleMergeGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		d := openDatabase(t, gated(open)) // no flush ends before
		defer close(open)
		k := d.tree
		never := func() error { return nil }
		idle, other := &picker.Plan{}, &picker.Plan{}
		d.jobs.mu.Lock()
		k.quiet.plan, k.optional = idle, idle
		d.jobs.mu.Unlock()

		d.mustPut("a")
		stop := d.jobs.giveWay(k, idle, never)
		if err := stop(); err != nil {
			t.Errorf("nobody writes: %v", err)
		}
		d.mustPut("b")
		begin := time.Now()
		if err := stop(); err != nil || time.Since(begin) < giveWayStep {
			t.Errorf("after a write: %v, after %v", err, time.Since(begin))
		}
		if err := stop(); err != nil {
			t.Errorf("nobody writes again: %v", err)
		}
		if err := d.jobs.giveWay(k, idle, func() error {
			return base.ErrClosed
		})(); !errors.Is(err, base.ErrClosed) {
			t.Errorf("Close: %v", err)
		}

		// Writes that do not end. Seqs stands for them: one goroutine may put.
		seq := d.last
		end := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-end:
					return
				case <-time.After(giveWayStep / 10):
					seq++
					d.shared.Seqs.Publish(seq)
				}
			}
		}()
		stop = d.jobs.giveWay(k, idle, never)
		tries := 0
		for ; tries < 1000 && stop() == nil; tries++ {
			time.Sleep(giveWayStep)
		}
		if tries == 1000 {
			t.Error("a merge does not give way to a writer who goes on")
		}
		close(end)
		<-done
		d.last = seq

		// A manual compaction waits.
		reads := &picker.Plan{}
		d.jobs.mu.Lock()
		k.optional = reads
		k.manualWaits++
		d.jobs.mu.Unlock()
		if err := d.jobs.giveWay(k, reads, never)(); !errors.Is(err, errStopped) {
			t.Errorf("a merge for reads goes on beside a manual compaction that waits: %v", err)
		}
		if err := d.jobs.giveWay(k, other, never)(); err != nil {
			t.Errorf("a plan that is needed ends for a manual compaction: %v", err)
		}
		d.jobs.mu.Lock()
		k.optional = idle
		d.jobs.mu.Unlock()
		if err := d.jobs.giveWay(k, idle, never)(); !errors.Is(err, errStopped) {
			t.Errorf("the merge of an idle tree goes on beside a manual compaction that waits: %v",
				err)
		}
		d.jobs.mu.Lock()
		k.manualWaits--
		d.jobs.mu.Unlock()

		stop, others := d.jobs.giveWay(k, idle, never), d.jobs.giveWay(k, other, never)
		d.mustPut("c")
		d.seal()
		if err := stop(); !errors.Is(err, errStopped) {
			t.Errorf("a memtable waits for its flush: %v", err)
		}
		if err := others(); err != nil {
			t.Errorf("a plan that is none of an idle tree: %v", err)
		}
	})
}

// TestFast: writers are fast while they fill memtables one after the other.
func TestFast(t *testing.T) {
	var q quiet
	now := time.Unix(1e9, 0)
	if q.fast(now) {
		t.Error("fast before the first flush")
	}
	q.flushed(now)
	if q.fast(now) {
		t.Error("fast after one flush")
	}
	now = now.Add(fastFor / 2)
	q.flushed(now)
	if !q.fast(now) || q.fast(now.Add(fastFor)) {
		t.Error("after two flushes in a row", q.fast(now), q.fast(now.Add(fastFor)))
	}
	now = now.Add(2 * fastFor)
	if q.flushed(now); q.fast(now) {
		t.Error("fast after a pause")
	}
}

// TestDelayCountsSpace: writers are delayed for the space that a tree takes, but never
// by an estimate alone for good.
func TestDelayCountsSpace(t *testing.T) {
	d := openDatabase(t, vfs.NewMem())
	for _, key := range []string{"a", "b", "c"} {
		for i := range 100 {
			d.mustPut(key + string(rune('0'+i%10)))
		}
		d.seal()
		if err := d.jobs.WaitFlushed(d.tree, 0); err != nil {
			t.Fatal(err)
		}
	}
	d.jobs.Pause()
	k := d.tree
	set := func(live uint64) time.Duration {
		d.jobs.mu.Lock()
		k.quiet.live = live
		d.jobs.paused = 0
		d.jobs.mu.Unlock()
		d.jobs.updateDelay(k)
		delay := d.jobs.Status().DelayPerKiB
		d.jobs.mu.Lock()
		d.jobs.paused = 1
		d.jobs.mu.Unlock()
		return delay
	}
	state := d.tree.Acquire()
	size := state.Version.Size()
	state.Unref()
	if delay := set(size); delay != 0 {
		t.Errorf("all is live: %v", delay)
	}
	limits := *d.jobs.limits.Load()
	limits.WriteBuffer = 1 // no slack, and no least tree
	d.jobs.SetLimits(limits)
	if delay := set(size * 100 / 185); delay < 5*time.Microsecond || delay > 20*time.Microsecond {
		t.Errorf("1.85 times the live bytes: %v", delay)
	}
	if delay := set(1); delay < 100*time.Microsecond || delay > 250*time.Microsecond {
		t.Errorf("nothing is live: %v", delay)
	}
}

// TestLogsAreGivenBack: some time after the last flush, also of a tree that is one run, the logs
// that were kept to be the next ones take no space any more.
func TestLogsAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openFormat(t, vfs.NewMem(), base.Native, nil)
		kept := func() (total int64) { // bytes of all logs but the current one
			t.Helper()
			for _, num := range d.logs() {
				if num == d.wal.Num() {
					continue
				}
				info, err := d.fs.Stat("db/" + base.Native.FileName(base.FileLog, num))
				switch {
				case errors.Is(err, fs.ErrNotExist): // given back since
				case err != nil:
					t.Error(err)
				default:
					total += info.Size()
				}
			}
			return total
		}
		for i := range 400 {
			d.mustPut(fmt.Sprintf("%06d", i))
		}
		d.seal()
		hang.Within(t, "the flushes", func() {
			if err := d.jobs.WaitFlushed(d.tree, 0); err != nil {
				t.Error(err)
			}
			d.jobs.mu.Lock()
			for d.jobs.flushing || d.jobs.trees.running > 0 {
				d.jobs.cond.Wait()
			}
			d.jobs.mu.Unlock()
		})
		if n := kept(); n < 64<<10 {
			t.Fatalf("logs of %d bytes: nothing is kept", n)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := kept(); n > 0 {
			t.Errorf("logs of %d bytes are not given back", n)
		}
		d.mustPut("k") // the next rotation makes a new log
		d.seal()
		d.waitFlushed()
	})
}

// keepMemory gives a spare the memory of a memtable.
func keepMemory(t *testing.T, spare *arena.Spare) {
	memory, err := arena.NewExtent(64<<10, 64<<10)
	if err != nil {
		t.Fatal(err)
	}
	if !spare.Give(memory, nil, 0) {
		memory.Free()
		t.Skip("freed memory is unmapped in this build")
	}
}

// TestSpareIsGivenBack: memory is kept for the next memtable while there are writes, and given back
// soon after the last one; logs are kept longer.
func TestSpareIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openFormat(t, vfs.NewMem(), base.Native, nil)
		spare := arena.NewSpare(64 << 10)
		defer spare.Close()
		d.jobs.opts.Spare = spare
		keepMemory(t, spare)
		for i := range 400 {
			d.mustPut(fmt.Sprintf("%06d", i))
		}
		d.seal()
		d.waitFlushed()
		synctest.Wait()
		for range 10 {
			time.Sleep(arena.IdleWriter * 4 / 5)
			if spare.Bytes() == 0 {
				t.Fatal("it is given back while there are writes")
			}
			d.mustPut("k")
		}
		time.Sleep(2 * arena.IdleWriter)
		synctest.Wait()
		if n := spare.Bytes(); n != 0 {
			t.Errorf("%d bytes are kept", n)
		}
	})
}

// TestSpareIsGivenBackToReaders: the memory for the next memtable is given back soon after the last
// write where blocks are read, and not so soon where none are.
func TestSpareIsGivenBackToReaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := openFormat(t, vfs.NewMem(), base.Native, nil)
		spare := arena.NewSpare(64 << 10)
		defer spare.Close()
		d.jobs.opts.Spare = spare
		for _, reads := range []bool{false, true} {
			keepMemory(t, spare)
			for i := range 2 * arena.IdleLookups {
				d.mustPut(fmt.Sprintf("%06d", i))
			}
			d.seal()
			d.waitFlushed()
			synctest.Wait()
			for i := range 2 * arena.IdleLookups {
				if !reads {
					break
				}
				if _, err := d.tree.Get(fmt.Appendf(nil, "%06d", i), nil, nil, 0); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(3 * arena.IdleLook)
			synctest.Wait()
			if n := spare.Bytes(); n != 0 == reads {
				t.Errorf("reads %v: %d bytes are kept", reads, n)
			}
			spare.Trim()
		}
	})
}
