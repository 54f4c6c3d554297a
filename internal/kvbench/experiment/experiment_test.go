package experiment

import (
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/kvbench/runner"
	"github.com/loamdb/loam/internal/workload"
)

// TestExperimentTables: the data of experiments refers to what exists.
func TestExperimentTables(t *testing.T) {
	for i, e := range List {
		if Find(e.Name) != &List[i] || e.Doc == "" || e.Num == 0 {
			t.Errorf("%s: twice, or without text or size", e.Name)
		}
	}
	for _, e := range List {
		for _, v := range e.Variants {
			if len(v.Steps) != len(e.Variants[0].Steps) && !e.Grid {
				t.Errorf("%s: %s has other steps", e.Name, v.Name)
			}
			for _, s := range v.Steps {
				if _, ok := workload.Find(s.Bench); !ok {
					t.Errorf("%s: no benchmark %s", e.Name, s.Bench)
				}
			}
		}
	}
	for i, s := range leveldbSteps {
		if s.Bench != workload.DefaultSteps[i] {
			t.Errorf("step %d is %s, LevelDB's is %s", i, s.Bench, workload.DefaultSteps[i])
		}
	}
}

// TestLargeValues: the databases of all sizes have as many bytes, which do not compress, and enough
// reads; the variants of a size differ in one option, and the second one needs it.
func TestLargeValues(t *testing.T) {
	e := Find("largevalues")
	if len(e.Variants) != 10 {
		t.Fatalf("%d variants", len(e.Variants))
	}
	for i, v := range e.Variants {
		p := runner.Params{Num: e.Num, Reads: -1, CompressionRatio: 0.5}
		v.Adjust(&p)
		n := p.Num * int64(p.Keys.Len()+p.ValueSize)
		if n > 128e6 || n < 120e6 || p.Reads < 20_000 || p.CompressionRatio != 1 {
			t.Errorf("%s: %d entries of %d bytes, %d reads", v.Name, p.Num, p.ValueSize, p.Reads)
		}
		p = runner.Params{Num: 1, Reads: 7}
		if v.Adjust(&p); p.Num != 1 || p.Reads != 7 {
			t.Errorf("%s: %d entries of 1, %d reads of 7", v.Name, p.Num, p.Reads)
		}
		on := v.Settings[len(v.Settings)-1]
		off := strings.HasSuffix(v.Name, ", large_value off")
		if off != (i%2 == 1) || on.Name != LargeValue || (on.Value == "0") != off ||
			(v.Needs == LargeValue) != off {
			t.Errorf("%s: %v needs %q", v.Name, on, v.Needs)
		}
	}
}
