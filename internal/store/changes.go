package store

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/feed"
)

// feedEnv is the database as feeds of changes see it.
func (db *DB) feedEnv() feed.Env {
	env := feed.Env{
		FS: db.Opts.FS, Dir: db.Dir, Format: func() base.Format { return db.Opts.Format },
		Visible: db.Shared.Seqs.Visible, Oldest: db.WAL.Oldest, Cuts: db.WAL.Cuts,
		Durable: db.durable, Synced: db.WAL.DurableOf, Keyspace: func(id base.KeyspaceID) string {
			if k := db.KeyspaceByID(id); k != nil {
				return k.Tree.Name()
			}
			return ""
		},
		Ended: db.Health.Writable,
	}
	if db.Opts.Follow {
		db.followedEnv(&env)
	}
	return env
}

// publish makes everything up to seq visible, and wakes feeds that wait for it.
func (db *DB) publish(seq base.SeqNum) {
	db.Shared.Seqs.Publish(seq)
	if db.Feeds.Waiting() {
		db.Feeds.Wake()
	}
}

// sync makes the logs durable, and wakes feeds that wait for that.
func (db *DB) sync() error {
	err := db.WAL.Sync()
	if db.Feeds.Waiting() {
		db.Feeds.Wake()
	}
	return err
}

// durable reports whether a record that ends there in a log survives a power cut: it is in tables,
// or in a part of the logs that was synced.
func (db *DB) durable(log uint64, end int64) bool {
	synced := db.WAL.Durable()
	return log < db.Manifest.LogNum() || log < synced.Num || log == synced.Num && end <= synced.End
}
