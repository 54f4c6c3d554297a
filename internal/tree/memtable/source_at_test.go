package memtable

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// TestManyVersions: a key that was written again and again costs an iterator no more than others,
// whatever versions it sees, and its neighbours are found.
func TestManyVersions(t *testing.T) {
	var asked atomic.Int64 // the background compares, too
	cmp := &base.Comparer{Name: "counted", EqualIsBytewise: true, Compare: func(a, b []byte) int {
		asked.Add(1)
		return bytes.Compare(a, b)
	}}
	m := New(Options{Comparer: cmp, Size: 8 << 20, Ordered: true})
	defer m.Unref()
	versions := 100 * fanout
	last := base.SeqNum(0)
	written := map[string][]base.SeqNum{}
	put := func(key string, kind base.Kind) {
		t.Helper()
		last++
		if err := m.Add(last, kind, []byte(key), nil); err != nil {
			t.Fatal(err)
		}
		written[key] = append(written[key], last)
	}
	// Keys of one version, of some, and two of many: one after the other, and at the same time.
	names := []string{"a", "a1", "b", "b1", "b2", "c", "c1"}
	for i := range versions {
		put("a1", base.KindSet)
		if i%(versions/5) == 0 {
			for _, k := range names {
				put(k, base.KindSet)
			}
		}
	}
	for i := range versions {
		put("b1", base.KindDelete)
		put("c1", base.KindSet)
		if i == versions/2 {
			put("b2", base.KindSet)
		}
	}
	m.order.bg.Wait()
	for _, seq := range []base.SeqNum{0, 1, 3, 8, last / 5, last / 3, last / 2, last - 5, last} {
		var want []string
		for _, k := range names {
			at, found := slices.BinarySearch(written[k], seq)
			if found {
				at++
			}
			if at > 0 {
				want = append(want, fmt.Sprint(k, written[k][at-1]))
			}
		}
		got := func(n int, move func(e *base.Chunk) bool, back bool) (got []string) {
			var e base.Chunk
			for before := asked.Load(); len(got) <= n && move(&e); {
				for i := range e.Len() {
					if back {
						i = e.Len() - 1 - i
					}
					got = append(got, fmt.Sprint(string(e.Key(i)), e.Trailers[i].Seq()))
				}
				if cost := asked.Load() - before; cost > int64(60*len(names)) {
					t.Errorf("at %d, back %v: %d comparisons", seq, back, cost)
				}
			}
			return got
		}
		s := m.NewSourceAt(seq)
		first := true
		move := func(begin func(*base.Chunk) (int, error),
			next func(*base.Chunk) (bool, error)) func(e *base.Chunk) bool {
			return func(e *base.Chunk) bool {
				if first {
					first = false
					i, err := begin(e)
					return i >= 0 && err == nil
				}
				ok, err := next(e)
				return ok && err == nil
			}
		}
		if got := got(len(want), move(s.First, s.Next), false); !slices.Equal(got, want) {
			t.Errorf("at %d: %v, want %v", seq, got, want)
		}
		first = true
		slices.Reverse(want)
		if got := got(len(want), move(s.Last, s.Prev), true); !slices.Equal(got, want) {
			t.Errorf("at %d, backward: %v, want %v", seq, got, want)
		}
		s.Close()
	}
}
