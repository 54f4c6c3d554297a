package strangers

import (
	"runtime"
	"testing"

	"github.com/loamdb/loam/internal/testkit"
)

// TestTakenFile: whichever file another program removes, replaces or cuts at whichever call of an
// operation that makes a copy, the operation fails, or the copy is whole.
func TestTakenFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows removes and renames no file that is open")
	}
	r, err := NewRunner(testkit.MemoryDir(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range TakenOperations() {
		t.Run(name, func(t *testing.T) {
			stride := testkit.Scale(61, 61, 5)
			switch name {
			case "backup", "ingest", "table": // make few files
				stride = testkit.Scale(7, 7, 1)
			}
			if err := r.Taken(name, stride, i); err != nil {
				t.Error(err)
			}
		})
	}
	trials, acted := r.Acted()
	t.Logf("%d trials, a file was taken in %d", trials, acted)
	if acted < trials/4 {
		t.Errorf("a file was taken in %d of %d trials", acted, trials)
	}
}
