package memtable

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestCallersThread orders a memtable on the thread of its writers and readers, some of whose
// comparisons ask for an early end: what was ordered stays, and the next call goes on.
func TestCallersThread(t *testing.T) {
	const n = 5000
	var compared, asks int
	every := n // comparisons
	ask := false
	c := base.Comparer{Name: "serial", Compare: func(a, b []byte) int {
		if compared++; compared%every == 0 {
			ask = true
			asks++
		}
		return bytes.Compare(a, b)
	}}
	c.Interrupted = func() bool { was := ask; ask = false; return was }
	rng := rand.New(rand.NewPCG(1, 2))
	m := New(Options{Comparer: &c, Size: 1 << 20, Ordered: true})
	defer m.Unref()
	add := func(from, to int) {
		for i := from; i < to; i++ {
			if err := m.Add(base.SeqNum(i+1), base.KindSet, fmt.Appendf(nil, "%04d", rng.IntN(n)),
				nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range n {
		add(i, i+1)
		if err := m.Order(); err != nil && !errors.Is(err, base.ErrInterrupted) {
			t.Fatal(err)
		}
	}
	if asks == 0 || compared > 14*n || m.order.on.Load() || m.order.working.Load() {
		t.Fatalf("%d comparisons, %d asked for an end; in the background: %v", compared, asks,
			m.order.on.Load())
	}
	checkTree(t, m)

	// As a recovery leaves it: much is to be ordered.
	every = 3 * serialEntries * 13
	add(n, 2*n)
	ends, before := 0, m.order.sorted
	for {
		compared = 0
		err := m.Order()
		if err == nil {
			break
		}
		if !errors.Is(err, base.ErrInterrupted) || m.order.sorted == before ||
			compared > every+serialEntries*20 {
			t.Fatalf("%v after %d comparisons, %d entries in order", err, compared, m.order.sorted)
		}
		ends, before = ends+1, m.order.sorted
	}
	if ends < 5 || m.order.sorted != 2*n {
		t.Fatalf("%d calls ended early, %d entries are in order", ends, m.order.sorted)
	}
	every = 10 * n
	checkTree(t, m)

	// A read that is to end early does so.
	add(2*n, 3*n)
	every, compared = serialEntries, 0
	func() {
		defer func() {
			if r := recover(); r != base.ErrInterrupted {
				t.Errorf("the read ends with %v", r)
			}
		}()
		m.Get(base.MakeLookup(&c, []byte("0000"), base.MaxSeqNum))
	}()
	every = 100 * n
	if _, _, found := m.Get(base.MakeLookup(&c, []byte("none"), base.MaxSeqNum)); found ||
		m.order.sorted != 3*n {
		t.Errorf("found %v, %d entries in order", found, m.order.sorted)
	}
}

// TestAscendingComparisons counts what keys in order cost where there are no abbreviations.
func TestAscendingComparisons(t *testing.T) {
	const n = 5000
	compared := 0
	c := base.Comparer{Name: "serial", Compare: func(a, b []byte) int {
		compared++
		return bytes.Compare(a, b)
	}}
	c.Interrupted = func() bool { return false }
	m := New(Options{Comparer: &c, Size: 1 << 20})
	defer m.Unref()
	for i := range n {
		if err := errors.Join(m.Add(base.SeqNum(i+1), base.KindSet, fmt.Appendf(nil, "%04d", i),
			nil), m.Order()); err != nil {
			t.Fatal(err)
		}
	}
	if compared > 3*n {
		t.Errorf("%d comparisons for %d keys in order", compared, n)
	}
	checkTree(t, m)
}
