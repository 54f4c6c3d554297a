package logsize_test

import (
	"context"
	"errors"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/replica/internal/logsize"
)

// node notes the snapshots that it is to make.
type node struct {
	raft.ReloadableConfig
	snapshots chan uint64 // how many entries stay
}

func (n *node) ReloadConfig(c raft.ReloadableConfig) error {
	n.ReloadableConfig = c
	return nil
}

type config struct{ *node }

func (c config) ReloadableConfig() raft.ReloadableConfig { return c.node.ReloadableConfig }

func (n *node) Snapshot() raft.SnapshotFuture {
	n.snapshots <- n.TrailingLogs
	return failing{}
}

type failing struct{ raft.SnapshotFuture }

func (failing) Error() error { return errors.New("failed") }

// TestKeep: a log of the limit, and of the size of the database, is cut to that size.
func TestKeep(t *testing.T) {
	l := logsize.New(1000)
	n := config{&node{snapshots: make(chan uint64)}}
	size, failed := uint64(500), make(chan error)
	asked := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() {
		defer close(over)
		l.Keep(ctx, n, 9, func() uint64 {
			now := size
			asked <- struct{}{}
			return now
		}, func(err error) { failed <- err })
	}()
	put := func(entries, bytes int) {
		for range entries {
			l.Stored([]*raft.Log{{Data: make([]byte, bytes)}})
		}
	}
	for _, x := range []struct {
		entries, bytes int
		size, stay     uint64
	}{{4, 250, 500, 4}, {1, 4000, 0, 1}, {20, 50, 0, 9}, {1, 1000, 2000, 0}, {1, 1000, 2000, 2}} {
		size = x.size
		for i := range x.entries {
			if put(1, x.bytes); i == x.entries-1 {
				<-asked
			}
		}
		if x.stay == 0 {
			continue // the database is larger
		}
		if stay := <-n.snapshots; stay != x.stay {
			t.Errorf("%+v: %d entries stay", x, stay)
		}
		if err := <-failed; err == nil {
			t.Error("no error")
		}
	}
	cancel()
	<-over
}
