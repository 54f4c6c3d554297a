package memory

import (
	"math"
	"testing"

	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/testkit"
)

// TestMemoryFaults fails every allocation of seven workloads, or of all.
func TestMemoryFaults(t *testing.T) { testkit.EachFormat(t, testMemoryFaults) }

func testMemoryFaults(t *testing.T, share int) {
	names := Workloads()
	names = names[:testkit.Scale(3, 7, len(names))]
	trials, err := Faults(testkit.Seed(t), names, testkit.Scale(13, 18*share, 1))
	if err != nil {
		t.Error(err)
	}
	t.Logf("%d trials", trials)
	if trials < testkit.Scale(10, 10/share, 600) {
		t.Errorf("only %d trials", trials)
	}
}

// TestIngestMemoryFaults fails allocations of tables that are written outside, of their ingests,
// and of bulk loads.
func TestIngestMemoryFaults(t *testing.T) {
	testkit.EachFormat(t, func(t *testing.T, share int) {
		trials, err := Faults(testkit.Seed(t), []string{ingestName}, testkit.Scale(13, 18*share, 1))
		if err != nil {
			t.Error(err)
		}
		t.Logf("%d trials", trials)
		if trials < testkit.Scale(10, 6/share, 150) {
			t.Errorf("only %d trials", trials)
		}
	})
}

// TestFailedTrial wants the memory of a trial that fails given back: the next one's is counted from
// the memory in use at its beginning.
func TestFailedTrial(t *testing.T) {
	before := offheap.InUse()
	w := &workload{name: "lost", maxValue: 300, run: func(t *trial) error {
		return steps(t.open, t.writes(3), func() error {
			t.okay[2] = false // acknowledged, in truth
			return nil
		})
	}}
	if _, err := (&trial{w: w, at: math.MaxInt64}).run(1); err == nil {
		t.Error("a batch that should not be there was not noticed")
	}
	if err := given(before); err != nil {
		t.Error(err)
	}
}
