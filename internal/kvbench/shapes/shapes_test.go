package shapes

import (
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload"
)

// TestShapes: each shape has benchmarks that exist, a name of its own, and at most 64 MB, of which
// large values are the exception in small runs only.
func TestShapes(t *testing.T) {
	for i, s := range List {
		if slices.ContainsFunc(List[:i], func(o Shape) bool { return o.Name == s.Name }) {
			t.Errorf("%s: twice", s.Name)
		}
		for _, name := range s.Steps {
			if _, ok := workload.Find(name); !ok {
				t.Errorf("%s: no benchmark %s", s.Name, name)
			}
		}
		p := runner.Params{Num: Entries, Reads: -1}
		s.Apply(&p)
		n := p.Num * int64(p.Keys.Len()+p.ValueSize)
		if n > 64e6 || n < 20e6/max(s.Divide, 1) || p.Reads < 2000 {
			t.Errorf("%s: %d entries of %d bytes, %d reads", s.Name, p.Num, p.ValueSize, p.Reads)
		}
		p = runner.Params{Num: 1, Reads: 7}
		if s.Apply(&p); p.Num != 1 || p.Reads != 7 {
			t.Errorf("%s: %d entries of 1, %d reads of 7", s.Name, p.Num, p.Reads)
		}
	}
}

// TestSteps: tables hold shapes of the same steps, which are no other's first ones.
func TestSteps(t *testing.T) {
	for _, a := range List {
		for _, b := range List {
			n := min(len(a.Steps), len(b.Steps))
			if slices.Equal(a.Steps[:n], b.Steps[:n]) && len(a.Steps) != len(b.Steps) {
				t.Errorf("%s begins like %s", a.Name, b.Name)
			}
		}
	}
}

// TestHotKeys: a hundredth of the entries are the 1,000 keys of the name, and the series those of
// theirs.
func TestHotKeys(t *testing.T) {
	for name, want := range map[string]int64{"1,000 hot keys": 100_000, "10,000 series": 1e6} {
		i := slices.IndexFunc(List, func(s Shape) bool { return s.Name == name })
		p := runner.Params{Num: Entries, Reads: -1}
		if List[i].Apply(&p); p.Num != want {
			t.Errorf("%s: %d entries", name, p.Num)
		}
	}
}
