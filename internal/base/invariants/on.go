//go:build invariants

package invariants

import (
	"fmt"
	"sync/atomic"
)

// Enabled says whether this build checks invariants.
const Enabled = true

// Check panics in invariants builds when cond is false. The arguments are
// evaluated in every build: guard costly ones with Enabled.
func Check(cond bool, format string, args ...any) {
	if !cond {
		panic(fmt.Sprintf("invariant: "+format, args...))
	}
}

// CloseOnce catches a second Close in invariants builds. The zero value is
// ready.
type CloseOnce struct{ closed atomic.Bool }

// Close panics in invariants builds when it was called before.
func (c *CloseOnce) Close() {
	if c.closed.Swap(true) {
		panic("invariant: closed twice")
	}
}
