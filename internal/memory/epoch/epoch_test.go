package epoch

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// An object retired inside a guard is not freed before the guard exits, and is
// freed soon after.
func TestRetireWaitsForGuard(t *testing.T) {
	d := New(nil)
	g := d.Enter()
	var freed atomic.Bool
	d.Retire(func() { freed.Store(true) })
	if d.DrainFor(20*time.Millisecond) || freed.Load() {
		t.Fatal("freed while a guard entered before was inside")
	}
	g.Exit()
	d.Drain()
	if !freed.Load() {
		t.Fatal("not freed after Drain")
	}
}

// A guard holds back nothing of another domain, however long it stays entered.
func TestDomainsAreApart(t *testing.T) {
	a, b := New(nil), New(nil)
	g := a.Enter()
	defer g.Exit()
	a.Retire(func() {})
	ran := false
	b.Retire(func() { ran = true })
	if !b.DrainFor(10*time.Second) || !ran {
		t.Fatal("a guard of one domain holds back another domain")
	}
}

// A guard entered after Retire does not hold it back, even when there is
// always some guard inside.
func TestLaterGuardsDoNotHoldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(nil)
		g := d.Enter()
		done := make(chan struct{})
		d.Retire(func() { close(done) })
		for range 100 {
			next := d.Enter()
			g.Exit()
			g = next
			time.Sleep(time.Minute)
			synctest.Wait()
			select {
			case <-done:
				g.Exit()
				return
			default:
			}
		}
		t.Fatal("starved by guards entered later")
	})
}

func TestOrderNestingAndPanics(t *testing.T) {
	var got []int
	var panics atomic.Int32
	d := New(func(v any, stack []byte) {
		if v == "boom" && bytes.Contains(stack, []byte("TestOrderNestingAndPanics")) {
			panics.Add(1)
		}
	})
	outer := d.Enter()
	inner := d.Enter()
	for i := range 5 {
		d.Retire(func() {
			got = append(got, i)
			if i == 2 {
				panic("boom")
			}
		})
	}
	inner.Exit()
	outer.Exit()
	d.Drain()
	if len(got) != 5 || got[0] != 0 || got[4] != 4 {
		t.Fatalf("ran %v, want 0..4 in order", got)
	}
	if panics.Load() != 1 {
		t.Fatalf("panic handler ran %d times, want 1", panics.Load())
	}
	var again atomic.Bool
	d.Retire(func() { d.Retire(func() { again.Store(true) }) })
	d.Drain()
	d.Drain()
	if !again.Load() {
		t.Fatal("a function retired by a retired function did not run")
	}
}

// The goroutine is gone when nothing waits: otherwise the bubble fails.
func TestNoIdleGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(nil)
		for range 100 {
			d.Retire(func() {})
		}
		d.Drain()
	})
}

// Readers follow a pointer that writers keep replacing; a retired object is
// poisoned, which no reader inside a guard may see.
func TestTorture(t *testing.T) {
	type object struct{ value int } // deliberately not atomic: -race checks it
	d := New(nil)
	var current atomic.Pointer[object]
	current.Store(&object{value: 1})
	var stop atomic.Bool
	var wg sync.WaitGroup
	var bad, reads atomic.Int64
	for range 6 {
		wg.Go(func() {
			for !stop.Load() {
				g := d.Enter()
				o := current.Load()
				if reads.Add(1)%64 == 0 {
					runtime.Gosched()
				}
				if o.value < 1 {
					bad.Add(1)
				}
				g.Exit()
			}
		})
	}
	for range 2 {
		wg.Go(func() {
			defer stop.Store(true)
			for i := 1; i < 20_000; i++ {
				old := current.Swap(&object{value: i})
				d.Retire(func() { old.value = -1 })
				if i%16 == 0 {
					d.Drain()
				}
			}
		})
	}
	wg.Wait()
	d.Drain()
	if bad.Load() != 0 {
		t.Fatalf("%d of %d reads saw a freed object", bad.Load(), reads.Load())
	}
	for i := range d.stripes {
		if in := &d.stripes[i].inside; (in[0].Load()+in[1].Load())&insideMask != 0 {
			t.Fatalf("stripe %d has readers left", i)
		}
	}
}

func BenchmarkGuard(b *testing.B) {
	d := New(nil)
	for b.Loop() {
		d.Enter().Exit()
	}
}

func BenchmarkGuardParallel(b *testing.B) {
	d := New(nil)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			d.Enter().Exit()
		}
	})
}

// TestCounted counts guards of EnterCounted only, beyond what a stripe's word holds.
func TestCounted(t *testing.T) {
	d := New(nil)
	d.Enter().Exit()
	g, _ := d.EnterCounted()
	if n := d.Counted(); n != 1 {
		t.Errorf("%d guards", n)
	}
	g.inside.Add((maxCounted - 2) << insideBits)
	for range 2 { // the first one takes the stripe to its end
		inner, _ := d.EnterCounted()
		inner.Exit()
	}
	if n := d.Counted(); n != maxCounted+1 {
		t.Errorf("%d guards, want %d", n, int64(maxCounted)+1)
	}
	freed := false
	d.Retire(func() { freed = true })
	g.Exit()
	if !d.DrainFor(time.Minute) || !freed {
		t.Error("a guard that was counted keeps memory")
	}
}

// TestGoexit: a retired function that ends its goroutine is told, and the functions behind it run.
func TestGoexit(t *testing.T) {
	var got []int
	told := make(chan any, 1)
	d := New(func(v any, _ []byte) { told <- v })
	g := d.Enter()
	for i := range 4 {
		d.Retire(func() {
			got = append(got, i)
			if i == 1 {
				runtime.Goexit()
			}
		})
	}
	g.Exit()
	d.Drain()
	d.Retire(func() { got = append(got, 4) })
	d.Drain()
	if !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
		t.Errorf("ran %v", got)
	}
	if v := <-told; v != base.ErrGoexit {
		t.Errorf("told is %v", v)
	}
}
