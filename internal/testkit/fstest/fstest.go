// Package fstest is what tests do with file systems: fail calls by count, record
// them, read whole files.
package fstest

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/vfs"
)

// ReadFile reads a whole file.
func ReadFile(fsys vfs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return b, nil
}

// FailAt fails calls by count; its Hook goes into vfs.NewFault. It is safe for
// concurrent use.
type FailAt struct {
	// At is the index, from 0, of the first call that fails, among those that
	// Match; a negative one never does.
	At int64
	// Forever: all later calls that Match fail too.
	Forever bool
	// Match picks the calls that count; nil: all.
	Match func(vfs.Op) bool
	// Outcome is what a failing call gets.
	Outcome vfs.Outcome

	seen, failed atomic.Int64
}

// Hook decides about one call.
func (a *FailAt) Hook(op vfs.Op) vfs.Outcome {
	if a.Match != nil && !a.Match(op) {
		return vfs.Outcome{}
	}
	i := a.seen.Add(1) - 1
	if a.At < 0 || i < a.At || i > a.At && !a.Forever {
		return vfs.Outcome{}
	}
	a.failed.Add(1)
	return a.Outcome
}

// Seen is how many calls matched.
func (a *FailAt) Seen() int64 { return a.seen.Load() }

// Failed is how many calls failed.
func (a *FailAt) Failed() int64 { return a.failed.Load() }

// Trace records calls. It is safe for concurrent use.
type Trace struct {
	mu  sync.Mutex
	ops []vfs.Op
}

// Hook returns a hook that records each call and then asks next; nil lets all
// pass.
func (t *Trace) Hook(next func(vfs.Op) vfs.Outcome) func(vfs.Op) vfs.Outcome {
	return func(op vfs.Op) vfs.Outcome {
		t.mu.Lock()
		t.ops = append(t.ops, op)
		t.mu.Unlock()
		if next == nil {
			return vfs.Outcome{}
		}
		return next(op)
	}
}

// Ops returns what was recorded.
func (t *Trace) Ops() []vfs.Op {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]vfs.Op(nil), t.ops...)
}
