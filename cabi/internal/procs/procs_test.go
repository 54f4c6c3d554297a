package procs

import (
	"os"
	"runtime"
	"testing"

	"github.com/loamdb/loam/lsm"
)

// TestMakeRoom has processors for workers and callers, until a number is chosen.
func TestMakeRoom(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "")
	var o lsm.Options
	MakeRoom(&o)
	if o.MaxBackgroundJobs < 2 {
		t.Error(o.MaxBackgroundJobs, "jobs")
	}
	o.MaxBackgroundJobs = processors + 5
	MakeRoom(&o)
	if got := runtime.GOMAXPROCS(0); got != processors+7 {
		t.Error(got, "processors")
	}
	o.MaxBackgroundJobs = 1
	MakeRoom(&o)
	if got := runtime.GOMAXPROCS(0); got != processors+7 {
		t.Error(got, "processors, for a small database")
	}
	if err := os.Setenv("GOMAXPROCS", "3"); err != nil {
		t.Fatal(err)
	}
	o.MaxBackgroundJobs = processors + 9
	MakeRoom(&o)
	if got := runtime.GOMAXPROCS(0); got != processors+7 {
		t.Error(got, "processors, against the environment")
	}
	if err := os.Unsetenv("GOMAXPROCS"); err != nil {
		t.Fatal(err)
	}
	defer func() { procs.fixed = false }()
	Set(2, 0, 0)
	MakeRoom(&o)
	if got := runtime.GOMAXPROCS(0); got != 2 {
		t.Error(got, "processors, against loam_runtime_set")
	}
}

// TestMoreProcessorsThanJobs is a machine with more processors than a database may have jobs.
func TestMoreProcessorsThanJobs(t *testing.T) {
	defer func(before int) { processors = before }(processors)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	processors = 300
	var o lsm.Options
	MakeRoom(&o)
	db, err := lsm.Open(t.TempDir(), &o)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}
