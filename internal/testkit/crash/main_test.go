package crash

import (
	"os"
	"runtime/debug"
	"testing"
)

// TestMain has the heap collected less often: each state is a database that lives for
// milliseconds, and the collector takes a sixth of the processor otherwise.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	os.Exit(m.Run())
}
