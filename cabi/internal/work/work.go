// Package work runs what takes long on goroutines of its own, for C, which asks now and then how
// far it is.
package work

import (
	"fmt"
	"sync"

	"github.com/loamdb/loam/internal/base"
)

// Job is work that may give an object, which is closed if nobody fetches it. It is safe for
// concurrent use after Init.
type Job[T interface {
	comparable
	Close() error
}] struct {
	Progress func() (done, total uint64) // may be nil
	Cancel   func()                      // makes the work stop; may be nil

	done chan struct{} // closed at the end

	mu        sync.Mutex // guards the rest
	err       error
	object    T
	report    string
	abandoned bool
}

// Init is called before all else, once.
func (j *Job[T]) Init() { j.done = make(chan struct{}) }

// Run does the work, whose results it keeps.
func (j *Job[T]) Run(f func() (object T, report string, err error)) {
	object, report, err := shielded(f)
	j.mu.Lock()
	j.err, j.object, j.report = err, object, report
	close(j.done)
	abandoned := j.abandoned
	j.mu.Unlock()
	if abandoned {
		j.drop()
	}
}

// shielded turns a panic of the work into its error.
func shielded[T any](f func() (T, string, error)) (object T, report string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("internal error: %w", base.NewPanic(r))
		}
	}()
	return f()
}

// Abandon is what happens when the handle goes.
func (j *Job[T]) Abandon() {
	j.mu.Lock()
	j.abandoned = true
	j.mu.Unlock()
	select {
	case <-j.done:
		j.drop()
	default:
	}
}

// drop closes an object that nobody has fetched.
func (j *Job[T]) drop() {
	var none T
	if object := j.Fetch(); object != none {
		_ = object.Close() // there is nobody to tell
	}
}

// Fetch returns the object, to one caller.
func (j *Job[T]) Fetch() T {
	j.mu.Lock()
	defer j.mu.Unlock()
	var none T
	object := j.object
	j.object = none
	return object
}

// Done is closed when the work has ended.
func (j *Job[T]) Done() <-chan struct{} { return j.done }

// Finished reports whether the work has ended, and its error.
func (j *Job[T]) Finished() (bool, error) {
	select {
	case <-j.done:
		j.mu.Lock()
		defer j.mu.Unlock()
		return true, j.err
	default:
		return false, nil
	}
}

// Report is what the work tells besides; "" if it tells nothing.
func (j *Job[T]) Report() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.report
}

// Stop asks the work to end.
func (j *Job[T]) Stop() {
	if j.Cancel != nil {
		j.Cancel()
	}
}
