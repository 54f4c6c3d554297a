package memory

import (
	"testing"

	"github.com/loamdb/loam/internal/testkit"
)

// TestMemoryFaults fails every allocation of five workloads, or of all.
func TestMemoryFaults(t *testing.T) {
	names := Workloads()
	names = names[:testkit.Scale(3, 5, len(names))]
	trials, err := Faults(testkit.Seed(t), names, testkit.Scale(7, 1, 1))
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d trials", trials)
	if trials < testkit.Scale(20, 200, 600) {
		t.Errorf("only %d trials", trials)
	}
}
