package store

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree"
)

// A follower is a database that is open for reading, whose states come from another process's logs
// and MANIFEST: Options.Follow reads these. It stands as a native one, which a directory in
// LevelDB's format may become.

// loadFollowed is loadManifest beside a writer.
func (db *DB) loadFollowed(o manifest.Options) error {
	o.Obsolete = func(m *manifest.FileMeta) { db.shared.Files.Gone(m) }
	o.ObsoleteLog = func(f base.ValueFile) { db.shared.Files.ForgetLog(f) }
	state, format, err := db.follower.Begin(db.opts.FS, db.dir)
	if err != nil {
		return err
	}
	if db.manifest, err = manifest.LoadFollowed(o, state, format); err != nil {
		return err
	}
	db.opts.Format, db.shared.Seqs.Demand = base.Native, tree.NewDemand()
	db.shared.Seqs.Clock.Init(db.opts.Wall, db.manifest.Clock())
	return nil
}

// openFollower reads the first state.
func (db *DB) openFollower() error {
	db.connect(0)
	report, err := db.follower.Open(Followed{
		Host: db, Path: db.opts.path, Manifest: db.manifest,
		Tree: func(id base.KeyspaceID) *tree.Tree { return db.spaces.find(id).Tree },
		Make: db.makeFollowed, Drop: db.dropFollowed, Moved: db.wakeFeeds,
		Merge: db.operatorFollowed,
	})
	if err == nil {
		db.recovery = Recovery{Report: report, LastSeq: db.shared.Seqs.Visible()}
	}
	return err
}

// makeFollowed makes a keyspace that the writer has created. add requires db.spaces.mu.
func (db *DB) makeFollowed(m manifest.Keyspace) (t *tree.Tree, add func()) {
	k := db.newKeyspace(m)
	return k.Tree, func() { db.add(k) }
}

// dropFollowed takes a keyspace away that the writer has dropped.
//
// REQUIRES: db.spaces.mu held.
func (db *DB) dropFollowed(id base.KeyspaceID) {
	if k := db.keyspaceByID(id); k != nil {
		db.shared.Seqs.Refuse(k.Tree)
		db.jobs.Forget(&k.work)
		_ = db.detach(k) // nobody writes, so that it cannot fail
	}
}
