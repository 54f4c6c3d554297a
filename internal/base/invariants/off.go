//go:build !invariants

package invariants

// Enabled says whether this build checks invariants.
const Enabled = false

// Check panics in invariants builds when cond is false. The arguments are
// evaluated in every build: guard costly ones with Enabled.
func Check(cond bool, format string, args ...any) {}

// CloseOnce catches a second Close in invariants builds. The zero value is
// ready.
type CloseOnce struct{}

// Close panics in invariants builds when it was called before.
func (c *CloseOnce) Close() {}
