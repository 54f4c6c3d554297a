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
	"unsafe"

	"github.com/loamdb/loam/lsm"
)

// Function and argument pointers of C are kept as integers: they are opaque
// to Go and may be any value.

// comparer makes a comparer that asks C.
func comparer(name string, fn, arg C.uintptr_t, bytewise bool) *lsm.Comparer {
	return &lsm.Comparer{
		Name:            name,
		EqualIsBytewise: bytewise,
		// A pointer to bytes: of an unsafe.Pointer cgo would check everything
		// around the key for Go pointers.
		Compare: func(a, b []byte) int {
			return int(C.loamgo_compare(fn, arg,
				(*C.uchar)(unsafe.SliceData(a)), C.size_t(len(a)),
				(*C.uchar)(unsafe.SliceData(b)), C.size_t(len(b))))
		},
	}
}

// cLogger is a slog.Handler that hands lines of text to C.
type cLogger struct {
	fn, arg C.uintptr_t
	attrs   string // already formatted, each with a space in front
	group   string // "" or with a dot behind
}

func (l *cLogger) Enabled(context.Context, slog.Level) bool { return true }

func (l *cLogger) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(l.attrs)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s%s=%v", l.group, a.Key, a.Value.Resolve())
		return true
	})
	b.WriteByte(0)
	line := []byte(b.String())
	C.loamgo_log(l.fn, l.arg, C.int(r.Level), (*C.char)(unsafe.Pointer(&line[0])))
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
	return slog.New(&cLogger{fn: fn, arg: arg})
}
