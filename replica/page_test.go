package replica

import (
	"testing"

	"github.com/loamdb/loam/internal/testkit/guides"
)

// TestPage runs the program of docs/replica.md as a reader does.
func TestPage(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a program")
	}
	guides.RunModule(t, "replica")
}
