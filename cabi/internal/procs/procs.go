// Package procs sets what Go's runtime has of the machine. It is safe for concurrent use.
package procs

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/loamdb/loam/lsm"
)

// processors is the setting Go started with: the environment's, else what the
// machine or container has.
var processors = runtime.GOMAXPROCS(0)

// mostJobs is the largest max_background_jobs.
const mostJobs = 256

var procs struct {
	sync.Mutex
	fixed bool // by Set
}

// Set is loam_runtime_set.
func Set(maxprocs, gogc int, memlimit int64) {
	procs.Lock()
	defer procs.Unlock()
	if maxprocs > 0 {
		runtime.GOMAXPROCS(min(maxprocs, 1024))
		procs.fixed = true
	}
	if gogc != 0 {
		debug.SetGCPercent(max(gogc, -1))
	}
	switch {
	case memlimit > 0:
		debug.SetMemoryLimit(memlimit)
	case memlimit < 0:
		debug.SetMemoryLimit(math.MaxInt64)
	}
}

// MakeRoom gives the scheduler a processor for every background worker of a database that is being
// opened and two for callers, unless somebody chose a number: a C thread that comes back into Go
// while workers hold all processors waits for one to be preempted.
func MakeRoom(o *lsm.Options) {
	if o.MaxBackgroundJobs == 0 {
		o.MaxBackgroundJobs = min(max(2, processors), mostJobs)
	}
	procs.Lock()
	defer procs.Unlock()
	want := max(processors, min(o.MaxBackgroundJobs, mostJobs)+2)
	if !procs.fixed && os.Getenv("GOMAXPROCS") == "" && runtime.GOMAXPROCS(0) < want {
		runtime.GOMAXPROCS(want)
	}
}
