package store

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/feed"
	"github.com/loamdb/loam/internal/feature/follow"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree"
)

// A follower is a database that is open for reading, whose states come from another process's logs
// and MANIFEST: package follow reads these. It stands as a native one, which a directory in
// LevelDB's format may become.

// loadFollowed is loadManifest beside a writer.
func (db *DB) loadFollowed(o manifest.Options) (err error) {
	o.Obsolete = func(m *manifest.FileMeta) { db.Shared.Files.Gone(m) }
	db.edits = follow.NewEdits(db.Opts.FS, db.Dir)
	if _, err := db.edits.Poll(); err != nil {
		return err
	}
	if db.Manifest, err = manifest.LoadFollowed(o, db.edits.State(),
		db.edits.Format()); err != nil {
		return err
	}
	db.Opts.Format, db.Shared.Seqs.Demand = base.Native, tree.NewDemand()
	db.Shared.Seqs.Clock.Init(db.Opts.Wall, db.Manifest.Clock())
	return nil
}

// openFollower reads the first state.
func (db *DB) openFollower() (err error) {
	db.connect(0)
	db.Follower, err = follow.Open(follow.Options{
		FS: db.Opts.FS, Path: db.Opts.path, Dir: db.Dir,
		Edits: db.edits, Manifest: db.Manifest, Files: db.Shared.Files, Seqs: db.Shared.Seqs,
		Tree: db.treeOf, Make: db.makeFollowed, Drop: db.dropFollowed, Warn: db.Health.Warn,
		Moved: db.caughtUp, Merge: func(t *tree.Tree, name string) {
			if op := db.mergeOperator(t.ID(), name); op != nil && op != t.Merge() {
				t.SetMerge(op)
			}
		},
	})
	if err == nil {
		db.Recovery = Recovery{db.Follower.Report, db.Shared.Seqs.Visible()}
	}
	return err
}

// followedEnv makes env that of a follower: a feed shows what was made visible by a catch-up,
// counts as a read of the present, and waits for the next catch-up.
func (db *DB) followedEnv(env *feed.Env) {
	seqs := db.Shared.Seqs
	env.Follower = true
	env.Format = func() base.Format { return db.Follower.Format() }
	env.Visible = func() base.SeqNum {
		seqs.Present()
		return seqs.Visible()
	}
	env.Oldest = func() uint64 { return 0 } // of the logs that are there
	// What a reader has in its buffer behind the visible state may have been cut off since.
	env.Cuts = func() uint64 { return uint64(seqs.Visible()) }
	env.Durable = func(uint64, int64) bool { return false }
	env.Synced = func(log uint64) int64 { return db.Follower.Synced(log) }
	env.Ended = func() error { return db.Follower.Lost() }
}

// caughtUp wakes the feeds that wait for a catch-up.
func (db *DB) caughtUp() {
	if db.Feeds.Waiting() {
		db.Feeds.Wake()
	}
}

// makeFollowed makes a keyspace that the writer has created.
func (db *DB) makeFollowed(k manifest.Keyspace) (t *tree.Tree, add func()) {
	made := db.newKeyspace(k)
	return made.Tree, func() {
		db.spaces.mu.Lock()
		defer db.spaces.mu.Unlock()
		db.spaces.add(made)
	}
}

// dropFollowed takes a keyspace away that the writer has dropped.
func (db *DB) dropFollowed(id base.KeyspaceID) {
	db.spaces.mu.Lock()
	defer db.spaces.mu.Unlock()
	k := db.KeyspaceByID(id)
	if k == nil {
		return
	}
	k.endReads()
	db.Jobs.Forget(k.Tree)
	_ = db.forgetLocked(k) // nobody writes, so that it cannot fail
}
