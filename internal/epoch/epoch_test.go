package epoch

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// An object retired inside a guard is not freed before the guard exits, and is
// freed soon after.
func TestRetireWaitsForGuard(t *testing.T) {
	g := Enter()
	var freed atomic.Bool
	Retire(func() { freed.Store(true) })
	time.Sleep(20 * time.Millisecond)
	if freed.Load() {
		t.Fatal("freed while a guard entered before was inside")
	}
	g.Exit()
	Drain()
	if !freed.Load() {
		t.Fatal("not freed after Drain")
	}
}

// A guard entered after Retire does not hold it back, even when there is
// always some guard inside.
func TestLaterGuardsDoNotHoldBack(t *testing.T) {
	g := Enter()
	done := make(chan struct{})
	Retire(func() { close(done) })
	for i := 0; ; i++ {
		next := Enter()
		g.Exit()
		g = next
		select {
		case <-done:
			g.Exit()
			return
		default:
		}
		if i > 1000 {
			time.Sleep(time.Millisecond)
		}
		if i > 20000 {
			t.Fatal("starved by guards entered later")
		}
	}
}

func TestOrderNestingAndPanics(t *testing.T) {
	var got []int
	var panics atomic.Int32
	SetPanicHandler(func(v any, stack []byte) {
		if v == "boom" && len(stack) > 0 {
			panics.Add(1)
		}
	})
	defer SetPanicHandler(nil)
	outer := Enter()
	inner := Enter()
	for i := range 5 {
		Retire(func() {
			got = append(got, i)
			if i == 2 {
				panic("boom")
			}
		})
	}
	inner.Exit()
	outer.Exit()
	Drain()
	if len(got) != 5 || got[0] != 0 || got[4] != 4 {
		t.Fatalf("ran %v, want 0..4 in order", got)
	}
	if panics.Load() != 1 {
		t.Fatalf("panic handler ran %d times, want 1", panics.Load())
	}
	var again atomic.Bool
	Retire(func() { Retire(func() { again.Store(true) }) })
	Drain()
	Drain()
	if !again.Load() {
		t.Fatal("a function retired by a retired function did not run")
	}
}

// The goroutine is gone when nothing waits.
func TestNoIdleGoroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 100 {
		Retire(func() {})
	}
	Drain()
	for i := 0; runtime.NumGoroutine() > before; i++ {
		if i > 1000 {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		time.Sleep(time.Millisecond)
	}
}

// Readers follow a pointer that writers keep replacing; a retired object is
// poisoned, which no reader inside a guard may see.
func TestTorture(t *testing.T) {
	type object struct{ value int } // deliberately not atomic: -race checks it
	var current atomic.Pointer[object]
	current.Store(&object{value: 1})
	var stop atomic.Bool
	var wg sync.WaitGroup
	var bad, reads atomic.Int64
	for range 6 {
		wg.Go(func() {
			for !stop.Load() {
				g := Enter()
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
			for i := 1; !stop.Load(); i++ {
				old := current.Swap(&object{value: i})
				Retire(func() { old.value = -1 })
				if i%16 == 0 {
					Drain()
				}
			}
		})
	}
	time.Sleep(400 * time.Millisecond)
	stop.Store(true)
	wg.Wait()
	Drain()
	if bad.Load() != 0 {
		t.Fatalf("%d of %d reads saw a freed object", bad.Load(), reads.Load())
	}
	for i := range stripes {
		if n := stripes[i].inside[0].Load() + stripes[i].inside[1].Load(); n != 0 {
			t.Fatalf("stripe %d left at %d", i, n)
		}
	}
}

func BenchmarkGuard(b *testing.B) {
	for b.Loop() {
		Enter().Exit()
	}
}

func BenchmarkGuardParallel(b *testing.B) {
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			Enter().Exit()
		}
	})
}
