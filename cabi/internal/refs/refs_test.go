package refs

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestEnd has the end come once, with the last user, and what was held released after it.
func TestEnd(t *testing.T) {
	var ends, held atomic.Int32
	s := New(func() { ends.Add(1) })
	other := New(func() {
		if ends.Load() != 1 {
			t.Error("what was held ended first")
		}
		held.Add(1)
	})
	s.Hold(other.Retain())
	other.Release()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 1000 {
				if s.Retain() == nil {
					t.Error("the end came beside a user")
				}
				s.Release()
			}
		})
	}
	wg.Wait()
	if ends.Load() != 0 || held.Load() != 0 {
		t.Error("the end came before the last user went")
	}
	s.Release()
	if ends.Load() != 1 || held.Load() != 1 {
		t.Errorf("%d ends, %d of what was held", ends.Load(), held.Load())
	}
	if s.Retain() != nil || other.Retain() != nil {
		t.Error("a user came after the end")
	}
}

// TestNone uses what ends nothing.
func TestNone(t *testing.T) {
	var none *Shared
	if none.Retain() != nil {
		t.Error("a user of nothing")
	}
	none.Release()
	s := New(func() {})
	s.Hold(none)
	s.Release()
}
