// Package textlog turns what is logged into lines of text for C.
package textlog

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/loamdb/loam/cabi/internal/report"
	"github.com/loamdb/loam/lsm"
)

// Handler is a slog.Handler that hands out lines of text. It is safe for concurrent use if write
// is.
type Handler struct {
	write   func(level slog.Level, line []byte) *lsm.CallbackError
	failure *atomic.Pointer[lsm.CallbackError] // the first
	attrs   string                             // already formatted, each with a space in front
	group   string                             // "" or with a dot behind
}

// New returns a handler that calls write with lines, which are UTF-8 and end with their only NUL.
// After a failure there are no more calls.
func New(write func(level slog.Level, line []byte) *lsm.CallbackError) *Handler {
	return &Handler{write: write, failure: new(atomic.Pointer[lsm.CallbackError])}
}

// Failure is the first failure of write, nil if there was none.
func (h *Handler) Failure() *lsm.CallbackError { return h.failure.Load() }

// Enabled reports whether write has not failed.
func (h *Handler) Enabled(context.Context, slog.Level) bool { return h.Failure() == nil }

// Handle writes a line.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	if h.Failure() != nil {
		return nil
	}
	var b strings.Builder
	b.WriteString(r.Message)
	b.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		b.WriteString(h.text(a))
		return true
	})
	if err := h.write(r.Level, append([]byte(report.Printable(b.String())), 0)); err != nil {
		h.failure.CompareAndSwap(nil, err)
	}
	return nil
}

func (h *Handler) text(a slog.Attr) string {
	return fmt.Sprintf(" %s%s=%v", h.group, a.Key, a.Value.Resolve())
}

// WithAttrs returns a handler that adds attributes to each line.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	for _, a := range attrs {
		with.attrs += h.text(a)
	}
	return &with
}

// WithGroup returns a handler whose further attributes are in a group.
func (h *Handler) WithGroup(name string) slog.Handler {
	with := *h
	with.group += name + "."
	return &with
}
