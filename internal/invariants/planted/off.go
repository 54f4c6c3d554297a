//go:build !planted

package planted

// Enabled reports whether bugs can be switched on in this build.
const Enabled = false

// Bug reports whether the named bug is switched on: never.
func Bug(string) bool { return false }
