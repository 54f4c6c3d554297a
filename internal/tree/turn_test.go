package tree

import (
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
)

// TestTurn turns round at a key that has operands: it does not come again.
func TestTurn(t *testing.T) {
	op, _ := mergeop.Named("append")
	for _, n := range []int{1, 2, 3} {
		m := newMerging(t, base.Bytewise, op)
		m.write(t, base.KindMerge, "a", "1")
		for range n {
			m.write(t, base.KindMerge, "b", "1")
		}
		m.write(t, base.KindMerge, "c", "1")
		m.write(t, base.KindRangeDelete, "aa", "ab")
		for _, lower := range []string{"", "a", "b"} {
			for _, upper := range []string{"", "c", "x"} {
				var it Iterator
				o := &IterOptions{}
				if lower != "" {
					o.Lower = []byte(lower)
				}
				if upper != "" {
					o.Upper = []byte(upper)
				}
				m.tree.Init(&it, o)
				it.First()
				if it.Prev() {
					t.Errorf("n %d lower %q upper %q: Prev is at %q", n, lower, upper, it.Key())
				}
				it.Last()
				if it.Next() {
					t.Errorf("n %d lower %q upper %q: Next is at %q", n, lower, upper, it.Key())
				}
				it.SeekGE([]byte("b"))
				if it.Prev() != (lower != "b") {
					t.Errorf("n %d lower %q upper %q: Prev from b is at %q", n, lower, upper,
						it.Key())
				}
				it.Close()
			}
		}
		m.tree.Close()
	}
}
