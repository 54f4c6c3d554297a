package repair

import (
	"path"
	"strings"
	"testing"
)

// TestIrregularTableOnce: a directory that has the name of a table is reported once where no
// MANIFEST says which tables there are.
func TestIrregularTableOnce(t *testing.T) {
	m := build(t, 1).m
	names, err := m.List(dir)
	check(t, err)
	for _, n := range names {
		if strings.HasPrefix(n, "MANIFEST") {
			check(t, m.Remove(path.Join(dir, n)))
		}
	}
	const name = "000900.ldb"
	check(t, m.MkdirAll(path.Join(dir, name)))
	report, err := Run(repairOptions(m))
	check(t, err)
	times := 0
	for _, d := range report.Dropped {
		if d.File == name {
			times++
		}
	}
	if times != 1 {
		t.Errorf("reported %d times: %v", times, report.Dropped)
	}
}
