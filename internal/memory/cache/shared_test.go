package cache

import "testing"

// A full cache that takes blocks calls what OnFill set, which charges the cache.
func TestOnFill(t *testing.T) {
	c := NewShared(1 << 20)
	defer c.Unref()
	calls := 0
	c.OnFill(func() { calls++; c.Charge(1) })
	s := c.NewSlots(4096)
	defer s.Free()
	fill := func(from, n int) {
		for i := range n {
			f := s.Publish(from+i, c.Alloc(1000))
			f.Release()
		}
	}
	fill(0, 500)
	if calls != 0 {
		t.Errorf("%d calls before the cache is full", calls)
	}
	fill(500, 3000)
	if calls < 1500/settleEvery || c.charged.Load() != int64(calls) {
		t.Errorf("%d calls, which charged %d", calls, c.charged.Load())
	}
	c.Charge(-int64(calls))
}

// Crowded compares what tables reserve with a part of a shared cache, and of no other.
func TestCrowded(t *testing.T) {
	for _, c := range []*Cache{NewShared(1 << 20), New(1 << 20), nil} {
		shared := c != nil && c.shared
		if c.Crowded(8) {
			t.Error("an empty cache is crowded")
		}
		if c == nil {
			continue
		}
		c.Reserve(1<<17 + 1)
		if c.Crowded(4) || c.Crowded(8) != shared {
			t.Errorf("shared %v: a quarter %v, an eighth %v", shared, c.Crowded(4), c.Crowded(8))
		}
		c.Reserve(-1<<17 - 1)
		c.Unref()
	}
}
