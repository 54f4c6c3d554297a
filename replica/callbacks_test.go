package replica

import (
	"context"
	"log/slog"
	"testing"
)

// panicking is a handler of a logger that panics at every message.
type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool  { return true }
func (p panicking) WithAttrs([]slog.Attr) slog.Handler      { return p }
func (panicking) Handle(context.Context, slog.Record) error { panic("no place for logs") }
func (p panicking) WithGroup(string) slog.Handler           { return p }

// TestCallbacksThatPanic: a node whose functions for events and messages panic goes on.
func TestCallbacksThatPanic(t *testing.T) {
	c := newCluster(t, func(cfg *Config) {
		signal := cfg.Events
		cfg.Events = func(e Event) {
			signal(e)
			panic("no use for events")
		}
		cfg.Logger = slog.New(panicking{})
	}, "a", "b", "d")
	id := c.leader()
	must(t, c.nodes[id].Put(context.Background(), []byte("k"), []byte("v")))
	c.stop(id)
	id = c.leader()
	v, err := c.nodes[id].Get(context.Background(), []byte("k"))
	if err != nil || string(v) != "v" {
		t.Errorf("%q, %v", v, err)
	}
}
