package store

import (
	"iter"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
)

// Share deals out the numbers below n to as many goroutines as workers says, until work fails on
// one of them, and waits for all. It returns the first failure; a panic is one, and so is the end
// of a goroutine by a callback.
func Share(n, workers int, work func(numbers iter.Seq[int]) error) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	numbers := func(yield func(int) bool) {
		for failed.Load() == nil {
			if i := int(next.Add(1)) - 1; i >= n || !yield(i) {
				return
			}
		}
	}
	for range min(n, workers) {
		wg.Go(func() {
			base.Always(func() error { return work(numbers) }, func(err error) {
				if err != nil {
					failed.CompareAndSwap(nil, &err)
				}
			})
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}
