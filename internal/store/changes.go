package store

import "github.com/loamdb/loam/internal/base"

// publish makes everything up to seq visible, and wakes feeds that wait for it.
func (db *DB) publish(seq base.SeqNum) {
	db.shared.Seqs.Publish(seq)
	db.wakeFeeds()
}

// sync makes the logs durable, and wakes feeds that wait for that.
func (db *DB) sync() error {
	err := db.wal.Sync()
	db.wakeFeeds()
	return err
}

// wakeFeeds makes the feeds look again that wait for a commit, a sync or a catch-up.
func (db *DB) wakeFeeds() {
	if db.feeds.Waiting() {
		db.feeds.Wake()
	}
}
