package machine

import (
	"runtime"
	"sync/atomic"
	"time"
)

// looked is the processor time of all calls of Look, in nanoseconds.
var looked struct{ user, system atomic.Int64 }

// Look runs a function that looks at the process beside a benchmark, so that its processor time is
// not taken for the engine's: see Looked.
func Look(look func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	user, system := threadTime()
	look()
	userNow, systemNow := threadTime()
	looked.user.Add(int64(userNow - user))
	looked.system.Add(int64(systemNow - system))
}

// Looked is the processor time of all calls of Look so far; 0 where the system does not tell
// threads apart.
func Looked() (user, system time.Duration) {
	return time.Duration(looked.user.Load()), time.Duration(looked.system.Load())
}
