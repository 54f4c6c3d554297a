package strangers

import (
	"runtime"
	"testing"

	"github.com/loamdb/loam/internal/testkit"
)

// TestStrangers: whatever another program does beside a long operation, the database is unharmed as
// long as its own directory is, and nothing hangs or panics.
func TestStrangers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows removes and renames no file that is open")
	}
	r, err := NewRunner(testkit.MemoryDir(t))
	if err != nil {
		t.Fatal(err)
	}
	seed := testkit.Seed(t)
	for _, name := range Operations() {
		t.Run(name, func(t *testing.T) {
			if err := r.Each(name, seed, testkit.Scale(1, 1, 8)); err != nil {
				t.Error(err)
			}
		})
	}
	trials, acted := r.Acted()
	t.Logf("%d trials, the stranger acted in %d", trials, acted)
	if acted < trials/2 {
		t.Errorf("the stranger acted in %d of %d trials", acted, trials)
	}
}
