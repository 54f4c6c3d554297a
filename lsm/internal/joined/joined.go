// Package joined is an open database with its features. Package lsm has one in each DB, and the
// packages beside it, lsm/backup and lsm/dump, get it from there.
package joined

import (
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/feature/backup"
	"github.com/loamdb/loam/internal/feature/feed"
	"github.com/loamdb/loam/internal/feature/follow"
	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/internal/feature/txn"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/tree"
)

// Database is an open database with its features.
type Database struct {
	*store.DB
	Feeds    feed.Hub
	Txns     txn.Manager
	Copies   backup.Copies
	Loading  atomic.Bool      // a dump is being loaded
	Follower *follow.Follower // nil: the database follows no other process
}

// Open opens the database in dir. With follows it is one that another process may be writing, and
// catches up at intervals unless every is 0. i, unless nil, makes a socket, which answers from
// Inspect on.
func Open(dir string, o store.Options, follows bool, every time.Duration, i *inspect.Server) (
	*Database, error) {
	d := &Database{}
	o.Feeds, o.Txns = &d.Feeds, &d.Txns
	if i != nil {
		o.Inspector = i
	}
	var followed feed.Follower
	if follows {
		d.Follower = follow.New()
		o.Follow, followed = d.Follower, d.Follower
	}
	db, err := store.Open(dir, o)
	if err != nil {
		return nil, err
	}
	d.DB = db
	d.Txns.Init(db)
	d.Feeds.Init(feed.Of(db, followed))
	if follows && every > 0 {
		d.Follower.Run(every)
	}
	return d, nil
}

// Inside leads from an object of package lsm to the engine's. A type of package lsm that embeds it
// has its method, which is no part of the API: no other module can name the type of its result.
type Inside[T any] struct{ inside *T }

// Of returns an Inside that leads to t.
func Of[T any](t *T) Inside[T] { return Inside[T]{t} }

// Inside returns the engine's object.
func (i Inside[T]) Inside() *T { return i.inside }

// Snapshot leads from a snapshot of package lsm to the engine's.
type Snapshot = Inside[tree.Snapshot]
