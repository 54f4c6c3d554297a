package epoch

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"
)

// TestRefsLastOnce: of all callers that give references back, exactly one gets true for the last
// one, whatever the order of Settle and the others.
func TestRefsLastOnce(t *testing.T) {
	for round := range 2000 {
		var r Refs
		r.Init()
		for range round % 100 { // with stripes, and without
			r.Ref()
			r.Unref()
		}
		var last, held atomic.Int64
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for range 4 {
			r.Ref() // counted in this goroutine's stripe, given back in another one's
			wg.Go(func() {
				<-begin
				for range round % 5 {
					r.Ref()
					held.Add(1)
					if r.Unref() {
						last.Add(1)
					}
				}
				if r.Unref() {
					last.Add(1)
				}
			})
		}
		wg.Go(func() {
			<-begin
			if r.Settle() {
				last.Add(1)
			}
		})
		close(begin)
		wg.Wait()
		if n, left := last.Load(), r.n.Load(); n != 1 || left != 0 {
			t.Fatalf("round %d: %d were the last, %d references are left", round, n, left)
		}
	}
}

func TestRefsAreHeld(t *testing.T) {
	var r Refs
	r.Init()
	r.Ref()
	if r.Unref() {
		t.Fatal("last beside the owner")
	}
	r.Ref()
	if r.Settle() {
		t.Fatal("the owner was the last beside another reference")
	}
	r.Ref()
	if r.Unref() || !r.Unref() {
		t.Fatal("not the last one was the last")
	}
}

func TestTally(t *testing.T) {
	var y Tally
	y.Init(100)
	var wg sync.WaitGroup
	var moved atomic.Int64
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if before, after, ok := y.Add(3); ok {
					moved.Add(after - before)
				}
			}
		})
	}
	wg.Wait()
	if n := y.Sum(); n != 24000 {
		t.Errorf("%d of 24000 were added", n)
	}
	if n := moved.Load(); n != y.total.Load() || n < 24000-100*int64(numStripes) ||
		y.cells.Load() == nil {
		t.Errorf("%d were moved, the total is %d", n, y.total.Load())
	}
	if y.Take(10000); y.Sum() != 14000 {
		t.Errorf("%d of 14000 are left", y.Sum())
	}
	if y.Take(20000); y.Sum() != 0 {
		t.Errorf("%d are left of less than was taken", y.Sum())
	}
}

// TestStripesAreSpread: goroutines have stripes of their own as far as hashing can
// give them any, on cache lines of their own.
func TestStripesAreSpread(t *testing.T) {
	if unsafe.Sizeof(stripe{}) != lineLen || unsafe.Sizeof(cell{}) != lineLen {
		t.Errorf("stripes of %d and %d bytes, want %d", unsafe.Sizeof(stripe{}),
			unsafe.Sizeof(cell{}), lineLen)
	}
	for _, n := range []int{1, 2, 16, 64, 1000} {
		if s := stripesFor(n); s&(s-1) != 0 || s < minStripes || s > maxStripes ||
			s < min(4*n, maxStripes) {
			t.Errorf("%d stripes for %d processors", s, n)
		}
	}
	const readers = 64
	var mu sync.Mutex
	var wg sync.WaitGroup
	used := map[int]int{}
	release := make(chan struct{})
	var ready sync.WaitGroup
	ready.Add(readers)
	for range readers {
		wg.Go(func() {
			i := ownStripe(maxStripes)
			mu.Lock()
			used[i]++
			mu.Unlock()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	close(release)
	wg.Wait()
	// Random stripes would be 57; all in one is what must not be.
	if len(used) < readers/2 {
		t.Errorf("%d goroutines have %d stripes of %d", readers, len(used), maxStripes)
	}
	t.Logf("%d goroutines, %d of %d stripes, GOMAXPROCS %d", readers, len(used), maxStripes,
		runtime.GOMAXPROCS(0))
}

func BenchmarkRefs(b *testing.B) {
	var r Refs
	r.Init()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Ref()
			r.Unref()
		}
	})
}
