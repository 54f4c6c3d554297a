package lsm

import (
	"errors"
	"fmt"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/cache"
	"github.com/loamdb/loam/internal/commit"
	"github.com/loamdb/loam/internal/epoch"
	"github.com/loamdb/loam/internal/events"
	"github.com/loamdb/loam/internal/files"
	"github.com/loamdb/loam/internal/jobs"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/record"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/vfs"
	"github.com/loamdb/loam/internal/wal"
)

// Open opens the database in dir, and creates it when there is none unless
// o.ErrorIfMissing. A nil o means the defaults. The directory is locked until
// Close: within this process and against others, LevelDB and goleveldb among
// them. Any LevelDB directory opens; RecoveryReport says what an unclean end
// cost.
//
// It fails with ErrInvalidArgument (an option), ErrLocked, ErrDoesNotExist, ErrExists,
// ErrNotADatabase, ErrComparerMismatch, ErrCorruption (Repair may help), ErrClosed
// (the shared cache), a shortage (ErrNoSpace, ErrNoMemory, ErrTooManyFiles) or an
// error of the file system. A failed Open gives back what it took and leaves the
// directory as it was.
func Open(dir string, o *Options) (*DB, error) {
	opts, err := o.resolve()
	if err != nil {
		return nil, err
	}
	place, err := openDir(dir, opts)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	opts.FS = files.RoomyFS{FS: place.FS}
	db := &DB{dir: place.Path, dirLock: place, opts: opts}
	h := &db.health
	h.readOnly, h.notifier = opts.ReadOnly, notifier{dir: db.dir, events: events.New(h.panickedAt), logger: opts.Logger, listener: opts.Events}
	if o != nil && o.Logger != nil {
		h.logger = h.events.Logger(o.Logger)
	}
	db.shared = tree.Shared{
		Seqs: &tree.Sequences{}, Reads: epoch.New(db.retiredPanic), Holders: tree.NewHolders(db.freeFiles), Fail: h.fail,
	}
	found := &manifest.Found{}
	if err := db.open(found); err != nil {
		db.abandon(found)
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	db.jobs.Wake()
	return db, nil
}

// open reads the manifest and replays the logs. It notes in found where the
// directory stood before anything is written.
func (db *DB) open(found *manifest.Found) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = base.NewPanic(r)
		}
	}()
	if err := db.loadManifest(); err != nil {
		return err
	}
	if err := db.openCache(); err != nil {
		return err
	}
	db.assemble()
	if !db.opts.ReadOnly {
		if err := found.Note(db.manifest); err != nil {
			return err
		}
		if db.manifest.Upgrading() {
			if err := db.manifest.BeginUpgrade(); err != nil {
				return err
			}
		}
	}
	r := &replay{db: db}
	defer r.free()
	if err := r.logs(); err != nil {
		return err
	}
	db.shared.Seqs.Publish(r.Last)
	env := commit.Env{
		Append:  db.wal.Append,
		Sync:    db.wal.Sync,
		Apply:   db.tree.Apply,
		Publish: db.shared.Seqs.Publish,
		Room: func(_ [][]byte, bytes int64, entries int, mode commit.Mode) error {
			return db.jobs.MakeRoom(db.tree, bytes, entries, mode)
		},
		Failed: func(err error) { db.health.fail(err) },
	}
	if db.isNative() {
		env.Apply, env.Room = db.applyAll, db.makeRoomAll
	}
	db.pipeline = commit.New(env, r.Last)
	db.health.connect(db.pipeline, db.jobs)
	if db.opts.ReadOnly {
		r.adopt(0)
		return nil
	}
	return r.finish()
}

// openDir opens and locks the directory, and creates it if the options say so.
func openDir(dir string, o *Options) (d *vfs.Dir, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = base.NewPanic(r)
		}
	}()
	err = files.MakeRoom(func() error {
		d, err = vfs.OpenDir(o.FS, dir, vfs.DirOptions{Create: !o.ErrorIfMissing, NoParents: o.NoCreateDirs, ReadOnly: o.ReadOnly})
		return err
	})
	return d, err
}

// loadManifest reads the manifest, or makes an empty one for a new database. It writes
// nothing to disk.
func (db *DB) loadManifest() error {
	o := manifest.Options{
		FS: db.opts.FS, Dir: db.dir, Format: db.opts.Format.dir(), Comparer: db.opts.Comparer, Comparers: db.opts.comparerOf,
		Durable: func() record.LogEnd { return db.wal.Durable() },
		Upgrade: db.opts.upgrade, Obsolete: func(m *manifest.FileMeta) { db.shared.Files.Obsolete(m) },
	}
	set, err := manifest.Load(o, db.opts.ReadOnly)
	switch {
	case errors.Is(err, ErrDoesNotExist):
		if db.opts.ErrorIfMissing || db.opts.ReadOnly {
			return err
		}
		set, err = manifest.New(o)
	case err == nil && db.opts.ErrorIfExists:
		set.Close()
		return ErrExists
	}
	if db.manifest = set; err != nil {
		return err
	}
	db.opts.Format = FormatLevelDB
	if db.isNative() {
		db.opts.Format = FormatNative
	}
	return nil
}

// isNative reports whether the database is in the native format, which has keyspaces.
func (db *DB) isNative() bool { return db.manifest.Format() == base.Native }

// openCache takes a hold on the shared cache, or makes one, and the table files.
func (db *DB) openCache() error {
	if c := db.opts.Cache; c != nil {
		shared, err := c.hold()
		if err != nil {
			return err
		}
		db.cache = shared
	} else {
		db.cache = cache.New(max(db.opts.CacheSize, 0))
	}
	db.shared.Files = files.New(files.Options{
		FS: db.opts.FS, Dir: db.dir, Format: db.manifest.Format(), Cache: db.cache, Comparer: db.opts.Comparer, Reads: db.shared.Reads,
		MaxDecoded: db.opts.MaxDecodedBlock, MaxOpenFiles: db.opts.MaxOpenFiles, Mmap: db.opts.Mmap != MmapOff,
		OnError: func(err error) { db.health.warn("table file", err) },
	})
	return nil
}

// assemble makes the log set, the trees and the scheduler. Neither does anything yet.
func (db *DB) assemble() {
	o, h := db.opts, &db.health
	db.wal = wal.New(wal.Options{
		FS: o.FS, Dir: db.dir, Format: db.manifest.Format(), Preallocate: o.WALPreallocate,
		NewFileNum: db.manifest.NewFileNum, Fail: h.fail, Panicked: h.panicked,
		Rename: db.shared.Files.Rename, Delete: db.shared.Files.DeleteFile,
	})
	db.tree = db.newTree(base.DefaultKeyspace, base.DefaultKeyspaceName, o.Comparer)
	db.jobs = jobs.New(jobs.Options{
		Env: jobs.Env{
			Writable: h.writable, Failure: h.failed,
			Fail:       func(err error) error { cause, _ := h.setFailure(err); return cause },
			BeginStall: func() { db.pipeline.BeginStall() }, EndStall: func() { db.pipeline.EndStall() },
			Events: h,
		},
		Files: db.shared.Files, Manifest: db.manifest, WAL: db.wal, Cache: db.cache, Seqs: db.shared.Seqs,
		ReadOnly: o.ReadOnly, Paused: o.DisableCompaction,
		MaxJobs: o.MaxBackgroundJobs, MaxSubcompactions: o.MaxSubcompactions, MaxMemTables: o.MaxMemtables,
		L0Trigger: o.L0Compaction, L0Stop: o.L0Stop, FileSize: o.MaxFileSize, WriteBuffer: o.WriteBufferSize,
		MaxSpaceAmplification: o.MaxSpaceAmplification,
		Keyspaces:             db.isNative(), MaxLogs: maxLogs * o.WriteBufferSize,
	})
	db.jobs.Add(db.tree)
	db.spaces.init(db)
}

// newTree makes the tree of a keyspace, which does nothing before its Start.
func (db *DB) newTree(id base.KeyspaceID, name string, c *Comparer) *tree.Tree {
	return tree.New(tree.Options{
		ID: id, Name: name, Comparer: c, Tables: db.opts.tables(c), MemTableSize: db.opts.WriteBufferSize,
		RunsSought: func(t *tree.Tree) { db.jobs.WakeFor(t) },
	}, db.shared)
}

// abandon undoes a failed open, what it made in the directory included.
func (db *DB) abandon(found *manifest.Found) {
	db.health.closing.Store(true)
	if db.tree != nil {
		_ = protect(func() error { return db.wal.Close(false) })
		db.tree.Close()
		db.spaces.close()
	}
	_ = protect(func() error { return found.Restore(db.recovery.SetAside) })
	_ = db.release() // the failure of the open is the one to report
	db.health.events.Close(eventPatience)
}

// releaseFor bounds how long release waits for reads that are under way.
const releaseFor = 500 * time.Millisecond

// release gives back everything of a closed database. What open iterators and reads
// under way still need is freed when the last of them ends. The lock comes last,
// because nothing is done in the directory without it.
func (db *DB) release() error {
	var errs []error
	// First deletions that are waiting for reads: they need the lock.
	db.shared.Reads.DrainFor(releaseFor)
	if db.shared.Files != nil {
		db.shared.Files.Leave()
	}
	if db.manifest != nil {
		errs = append(errs, protect(db.manifest.Close))
	}
	db.shared.Holders.Release()
	db.shared.Reads.DrainFor(releaseFor)
	if db.dirLock != nil {
		errs = append(errs, protect(db.dirLock.Close))
	}
	return errors.Join(errs...)
}

// Close waits up to a second until full memtables are in tables, which the next
// Open need not replay then, and for other background work to stop, syncs the log and releases
// the directory. From its beginning on writes, and later all calls on the
// database and moves of its iterators, fail with ErrClosed, and so does a second
// Close, at once; reads under way are answered. Iterators must still be closed
// to free what they hold. Nothing is lost by ending the process without Close.
// Other errors are those of the log's last sync, which may have cost unsynced
// writes, and of giving back the directory.
func (db *DB) Close() error {
	if db.health.closing.Swap(true) {
		return ErrClosed
	}
	db.jobs.BeginClose()
	closing := func() error {
		db.tree.Close()
		db.spaces.close()
		db.pipeline.Poison(ErrClosed)
		return nil
	}
	// With the lead of the pipeline, so that no commit is under way.
	if err := db.pipeline.Exclusive(closing); err != nil && !db.tree.Closed() {
		_ = closing() // Exclusive failed by a panic before closing ended
	}
	db.jobs.Close()
	err := protect(func() error { return db.wal.Close(db.health.failed() == nil) })
	_ = protect(func() error { db.manifest.NoteDurable(); return nil })
	err = errors.Join(err, db.release())
	db.health.events.Close(eventPatience)
	return err
}

// eventPatience is how long Close waits for the listener and the logger to take the last
// events.
const eventPatience = time.Second

// protect makes a panic of step an error, so that the steps after it are taken.
func protect(step func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = base.NewPanic(r)
		}
	}()
	return step()
}
