// Package records makes records of log/slog of the messages of hashicorp/raft.
package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Logger returns a logger of raft whose messages go to another one, with the ID of the node; nil
// discards them.
func Logger(to *slog.Logger, id string) hclog.Logger {
	if to == nil {
		return hclog.NewNullLogger()
	}
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Output: io.Discard})
	l.RegisterSink(&records{to: to.With("node", id), now: time.Now, told: map[string]time.Time{}})
	return l
}

// records makes records of the messages of raft. A warning or an error that repeats is told once in
// repeatAfter: raft has several a second while a node is away.
type records struct {
	to  *slog.Logger
	now func() time.Time

	mu   sync.Mutex
	told map[string]time.Time // by message and its first value
}

const (
	repeatAfter = 30 * time.Second
	// maxTold bounds records.told.
	maxTold = 256
)

var levels = map[hclog.Level]slog.Level{hclog.Info: slog.LevelInfo, hclog.Warn: slog.LevelWarn,
	hclog.Error: slog.LevelError}

// Accept takes a message with names and values, in turn.
func (r *records) Accept(_ string, level hclog.Level, what string, args ...any) {
	to, ok := levels[level]
	if !ok {
		to = slog.LevelDebug
	}
	if !r.to.Enabled(context.Background(), to) {
		return
	}
	for i, a := range args {
		if err, ok := a.(error); ok && errors.Is(err, net.ErrClosed) {
			return // this node closed the connection
		}
		if f, ok := a.(hclog.Format); ok && len(f) > 0 {
			args[i] = fmt.Sprintf(fmt.Sprint(f[0]), f[1:]...)
		}
	}
	if to < slog.LevelWarn || r.first(what, args) {
		r.to.Log(context.Background(), to, "raft: "+what, args...)
	}
}

// first reports whether a message was not told within repeatAfter.
func (r *records) first(what string, args []any) bool {
	if len(args) > 1 {
		what = fmt.Sprint(what, " ", args[1])
	}
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.told[what]; ok && now.Sub(at) < repeatAfter {
		return false
	}
	if len(r.told) >= maxTold {
		clear(r.told)
	}
	r.told[what] = now
	return true
}
