//go:build planted

package planted

import "os"

// Enabled reports whether bugs can be switched on in this build.
const Enabled = true

var on = os.Getenv(Env)

// Bug reports whether the named bug is switched on.
func Bug(name string) bool { return name == on }
