package records

import (
	"context"
	"log/slog"
	"runtime/debug"
)

// Call calls a function of the program. A panic of it goes to a logger, if that is not nil.
func Call(l *slog.Logger, name string, f func()) {
	defer func() {
		if v := recover(); v != nil && l != nil {
			l.Error("a function of the program panicked", "function", name, "panic", v,
				"stack", string(debug.Stack()))
		}
	}()
	f()
}

// Safe returns a logger whose handler may panic: a message is lost then, and nothing else. nil
// stays nil.
func Safe(l *slog.Logger) *slog.Logger {
	if l == nil {
		return nil
	}
	if _, ok := l.Handler().(safe); ok {
		return l
	}
	return slog.New(safe{l.Handler()})
}

// safe is a handler around that of a program, which is called on goroutines of the node and of
// Raft.
type safe struct{ of slog.Handler }

func (s safe) Enabled(ctx context.Context, level slog.Level) (enabled bool) {
	defer func() { _ = recover() }() // such a message is lost
	return s.of.Enabled(ctx, level)
}

func (s safe) Handle(ctx context.Context, r slog.Record) error {
	defer func() { _ = recover() }()
	return s.of.Handle(ctx, r)
}

func (s safe) WithAttrs(attrs []slog.Attr) (with slog.Handler) {
	with = s // after a panic
	defer func() { _ = recover() }()
	return safe{s.of.WithAttrs(attrs)}
}

func (s safe) WithGroup(name string) (with slog.Handler) {
	with = s // after a panic
	defer func() { _ = recover() }()
	return safe{s.of.WithGroup(name)}
}
