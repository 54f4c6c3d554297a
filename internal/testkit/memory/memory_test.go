package memory

import (
	"testing"

	"github.com/loamdb/loam/internal/testkit"
)

// TestMemoryFaults fails every allocation of six workloads, or of all.
func TestMemoryFaults(t *testing.T) { testkit.EachFormat(t, testMemoryFaults) }

func testMemoryFaults(t *testing.T, share int) {
	names := Workloads()
	names = names[:testkit.Scale(3, 6, len(names))]
	trials, err := Faults(testkit.Seed(t), names, testkit.Scale(7, share, 1))
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d trials", trials)
	if trials < testkit.Scale(20, 200/share, 600) {
		t.Errorf("only %d trials", trials)
	}
}
