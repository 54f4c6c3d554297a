// Package hang ends tests that would never end: its limit is the only clock that tests go by.
// No test passes because of it, and a test that it ends has failed. It is safe for concurrent use.
package hang

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"
)

// Env is another limit than the usual one: that of tests that are expected to hang.
const Env = "LOAM_HANG_LIMIT"

// Limit is how long a step may take that must come to its end. Within a synctest bubble it is
// over as soon as all goroutines of the bubble wait for each other.
func Limit() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(Env)); err == nil {
		return d
	}
	return 10 * time.Minute
}

// Error says that a step did not end.
var Error = errors.New("it hangs")

// InTime returns what f does, or Error. An f that ends its goroutine, as FailNow does, returned
// nil.
func InTime(f func() error) error {
	done := make(chan struct{})
	var returned error
	go func() {
		defer close(done)
		returned = f()
	}()
	over := time.NewTimer(Limit())
	defer over.Stop()
	select {
	case <-done:
		return returned
	case <-over.C:
		return Error
	}
}

// Within fails the test with the stacks of all goroutines if f does not return.
func Within(t testing.TB, what string, f func()) {
	t.Helper()
	err := InTime(func() error { f(); return nil })
	if err != nil {
		stacks := make([]byte, 1<<20)
		t.Fatalf("%s: %v\n%s", what, err, stacks[:runtime.Stack(stacks, true)])
	}
}

// After is a channel that has an element when the limit is over.
func After() <-chan time.Time { return time.After(Limit()) }

// Until returns when holds does, and reports false if the limit is over before. It is for what
// sends no event: the state of another process or of the operating system.
func Until(holds func() bool) bool {
	for end := time.Now().Add(Limit()); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
