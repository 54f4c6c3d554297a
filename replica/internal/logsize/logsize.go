// Package logsize bounds the bytes of a Raft log: hashicorp/raft counts its entries, of which each
// may have some bytes or 8 MiB.
package logsize

import (
	"context"
	"sync"

	"github.com/hashicorp/raft"
)

// Log counts what a log gets. All methods are safe for concurrent use.
type Log struct {
	limit uint64 // in bytes
	full  chan struct{}

	mu             sync.Mutex
	entries, bytes uint64 // since the last snapshot that Keep had made
}

// New returns a Log that is full with limit bytes.
func New(limit uint64) *Log { return &Log{limit: limit, full: make(chan struct{}, 1)} }

// Stored counts entries that were stored.
func (l *Log) Stored(entries []*raft.Log) {
	l.mu.Lock()
	l.entries += uint64(len(entries))
	for _, e := range entries {
		l.bytes += uint64(len(e.Data))
	}
	full := l.bytes >= l.limit
	l.mu.Unlock()
	if full {
		select {
		case l.full <- struct{}{}:
		default:
		}
	}
}

// since returns what was stored, and begins anew if it has at least so many bytes.
func (l *Log) since(least uint64) (entries, bytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries, bytes = l.entries, l.bytes
	if bytes >= least {
		l.entries, l.bytes = 0, 0
	}
	return entries, bytes
}

// A Node is Raft, as Keep needs it.
type Node interface {
	ReloadableConfig() raft.ReloadableConfig
	ReloadConfig(raft.ReloadableConfig) error
	Snapshot() raft.SnapshotFuture
}

// Keep has a snapshot made when the log is full, and as much of the log removed, until ctx is
// done. Each time at most so many entries stay as have the limit in bytes, and no more than most. A
// log that is smaller than the database is kept: a node that is behind gets its entries sooner than
// a snapshot.
func (l *Log) Keep(ctx context.Context, r Node, most uint64, size func() uint64,
	failed func(error)) {
	for {
		select {
		case <-l.full:
		case <-ctx.Done():
			return
		}
		limit := max(l.limit, size())
		entries, bytes := l.since(limit)
		if bytes < limit {
			continue
		}
		c := r.ReloadableConfig()
		// the mean size of an entry is that of those which are there
		c.TrailingLogs = min(most, max(uint64(float64(entries)*float64(limit)/float64(bytes)), 1))
		err := r.ReloadConfig(c)
		if err == nil {
			err = r.Snapshot().Error()
		}
		if err != nil && ctx.Err() == nil {
			failed(err)
		}
	}
}
