//go:build cgo && !windows

package main

/*
#include "shim.h"
#cgo noescape loamgo_compare
#cgo noescape loamgo_log
*/
import "C"

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/lsm"
)

// Function and argument pointers of C are kept as integers: they are opaque
// to Go and may be any value.

// shared counts the users of something that ends with the last of them. A nil
// one ends nothing.
type shared struct {
	users atomic.Int64
	end   func()
	mu    sync.Mutex
	held  []*shared // released at the end
}

// newShared returns what has one user.
func newShared(end func()) *shared {
	s := &shared{end: end}
	s.users.Store(1)
	return s
}

// retain adds a user. It returns nil when the end has come.
func (s *shared) retain() *shared {
	if s == nil {
		return nil
	}
	for n := s.users.Load(); n > 0; n = s.users.Load() {
		if s.users.CompareAndSwap(n, n+1) {
			return s
		}
	}
	return nil
}

func (s *shared) release() {
	if s != nil && s.users.Add(-1) == 0 {
		s.end()
		for _, h := range s.held {
			h.release()
		}
	}
}

// hold takes over the caller's use of other until the end of s, of which the caller is a user.
func (s *shared) hold(other *shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, other)
}

// destroyed calls a destroy function at the end, nil for none.
func destroyed(fn, arg C.uintptr_t) *shared {
	if fn == 0 {
		return nil
	}
	return newShared(func() { C.loamgo_call_destroy(fn, arg) })
}

// reported takes over what C knows of a failure.
func reported(callback string, p C.intptr_t) *lsm.CallbackError {
	words := C.GoString(C.loamgo_failure_text(p))
	C.loamgo_failure_free(p)
	return &lsm.CallbackError{Callback: callback, Reason: report.Printable(words)}
}

// comparer makes a comparer that asks C. A failure becomes a panic, which the
// engine answers by making the database read-only.
func comparer(name string, fn, arg C.uintptr_t, bytewise bool) *lsm.Comparer {
	return &lsm.Comparer{
		Name:            name,
		EqualIsBytewise: bytewise,
		// A pointer to bytes: of an unsafe.Pointer cgo would check everything
		// around the key for Go pointers.
		Compare: func(a, b []byte) int {
			order := C.loamgo_compare(fn, arg,
				(*C.uchar)(unsafe.SliceData(a)), C.size_t(len(a)),
				(*C.uchar)(unsafe.SliceData(b)), C.size_t(len(b)))
			if order < -1 || order > 1 {
				panic(reported("comparator", order))
			}
			return int(order)
		},
	}
}

// cLogger is a slog.Handler that hands lines of text to C.
type cLogger struct {
	fn, arg C.uintptr_t
	failure *atomic.Pointer[lsm.CallbackError] // the first; no more calls after it
	attrs   string                             // already formatted, each with a space in front
	group   string                             // "" or with a dot behind
}

func (l *cLogger) Enabled(context.Context, slog.Level) bool { return l.failure.Load() == nil }

func (l *cLogger) Handle(_ context.Context, r slog.Record) error {
	if l.failure.Load() != nil {
		return nil
	}
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(l.attrs)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s%s=%v", l.group, a.Key, a.Value.Resolve())
		return true
	})
	line := append([]byte(report.Printable(b.String())), 0)
	if p := C.loamgo_log(l.fn, l.arg, C.int(r.Level), (*C.char)(unsafe.Pointer(&line[0]))); p != 0 {
		l.failure.CompareAndSwap(nil, reported("logger", p))
	}
	return nil
}

func (l *cLogger) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *l
	for _, a := range attrs {
		with.attrs += fmt.Sprintf(" %s%s=%v", l.group, a.Key, a.Value.Resolve())
	}
	return &with
}

func (l *cLogger) WithGroup(name string) slog.Handler {
	with := *l
	with.group += name + "."
	return &with
}

// logger makes a logger that calls C, nil for no function.
func logger(fn, arg C.uintptr_t) *slog.Logger {
	if fn == 0 {
		return nil
	}
	return slog.New(&cLogger{fn: fn, arg: arg, failure: new(atomic.Pointer[lsm.CallbackError])})
}
