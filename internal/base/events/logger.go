package events

import (
	"context"
	"log/slog"
)

// Logger returns a logger whose records are delivered by q to the handler of l.
func (q *Queue) Logger(l *slog.Logger) *slog.Logger {
	return slog.New(&handler{queue: q, inner: func() slog.Handler { return l.Handler() }})
}

// handler queues records. All methods of the inner handler are called by the
// queue.
type handler struct {
	queue *Queue
	inner func() slog.Handler
}

// Enabled says yes to what the engine logs at all; the inner handler is asked at
// delivery.
func (h *handler) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (h *handler) Handle(_ context.Context, r slog.Record) error {
	r = r.Clone()
	h.queue.Post(func() {
		ctx := context.Background()
		if inner := h.inner(); inner.Enabled(ctx, r.Level) {
			_ = inner.Handle(ctx, r) // slog has no other use for it either
		}
	})
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.queue, func() slog.Handler { return h.inner().WithAttrs(attrs) }}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.queue, func() slog.Handler { return h.inner().WithGroup(name) }}
}
