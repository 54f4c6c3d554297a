package runner

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/kvbench/machine"
)

// TestLooksAreNotUsage: the processor time of a look at the process is not in its usage.
func TestLooksAreNotUsage(t *testing.T) {
	const much = 40 * time.Millisecond
	cpu := func(who int) time.Duration {
		var u unix.Rusage
		if err := unix.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	whole, before := cpu(unix.RUSAGE_SELF), readUsage()
	machine.Look(func() {
		for begun := cpu(unix.RUSAGE_THREAD); cpu(unix.RUSAGE_THREAD)-begun < much; {
		}
	})
	after := readUsage()
	whole = cpu(unix.RUSAGE_SELF) - whole
	used := after.user + after.system - before.user - before.system
	if used > whole-much {
		t.Errorf("%v of the process's %v count, although a look took %v", used, whole, much)
	}
}
