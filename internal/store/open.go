package store

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/events"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/owner"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/memory/epoch"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/store/wal"
	"github.com/loamdb/loam/internal/store/work"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// Options says how a database is opened. Every field is resolved: there are no
// defaults here.
type Options struct {
	FS             vfs.FS
	Keys           *seal.Keys  // nil: the database is not encrypted
	Format         base.Format // of a new database
	ErrorIfMissing bool
	ErrorIfExists  bool
	NoCreateDirs   bool // creates the directory, not its parents
	ReadOnly       bool
	Upgrade        bool // a database in LevelDB's format becomes a native one
	// Follow, unless nil, reads a directory that another process may be writing, see follower.go.
	// ReadOnly is set too.
	Follow Follower
	// Feeds are told of commits; nil: there are none.
	Feeds Feeds
	// Txns are the transactions; nil: there are none, and no values that expire.
	Txns Txns
	// Inspector answers other processes; nil: none is answered.
	Inspector Inspector

	Comparer  *base.Comparer                   // of the default keyspace
	Comparers func(name string) *base.Comparer // of all keyspaces, nil for an unknown name
	Filter    *base.CompactionFilter           // of the default keyspace; nil: none
	// of the default keyspace; nil: the one that is stored
	Merge  *mergeop.Operator
	Merges func(name string) *mergeop.Operator // of all keyspaces, nil for an unknown name
	// of values in the default keyspace, in seconds; 0: none
	TTL      uint64
	Wall     func() time.Time             // the clock by which values expire; nil: the system's
	Logger   *slog.Logger                 // nil: none
	Listener func(*events.Queue) Listener // makes the listener, whose calls the queue posts

	// the block cache, with a reference for the database
	Cache          func() (*cache.Cache, error)
	Tables         sstable.WriterOptions // for all keyspaces, which set Format and Comparer
	MaxDecoded     int64                 // bytes
	MaxOpenFiles   int
	Mmap           bool
	WALPreallocate int64 // bytes
	WALRetention   wal.Retention
	LargeValue     int64        // bytes from which on values stay in logs; 0: none
	MaxOperands    int          // that a read folds without consequences
	Jobs           work.Options // the limits; Open fills in the parts of the database
	Resources      *Resources   // that are shared; nil: none

	path vfs.FS // FS as it was given: the directory is looked up by its name
	// sideBySide: syncs that need no order are made at the same time. Other file systems than the
	// operating system's, those of tests above all, are called in one order, so that a crash finds
	// the same states each time.
	sideBySide bool
}

// Listener takes events. It waits for nothing: it posts to the queue that it was
// made with.
type Listener interface {
	work.Events
	// ReadOnly takes the failure that made the database read-only.
	ReadOnly(cause error)
}

// Open opens the database in dir, or creates it; see lsm.Open. A failed Open gives
// back what it took and leaves the directory as it was.
func Open(dir string, o Options) (*DB, error) {
	if o.Follow != nil {
		o.path = o.FS
	}
	_, o.sideBySide = o.FS.(vfs.OS)
	path, err := vfs.Absolute(o.FS, dir) // at once: the working directory may change
	if err != nil {
		return nil, fmt.Errorf("opening a database: %w", err)
	}
	place, err := openDir(path, &o)
	if errors.Is(err, base.ErrLocked) {
		return nil, fmt.Errorf("opening %s: %w; a follower (OpenFollower) can read it meanwhile",
			dir, err)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", dir, err)
	}
	o.FS = files.RoomyFS{FS: place.FS}
	if o.Keys != nil {
		o.FS = seal.Over(o.FS, place.Path, o.Keys)
	}
	db := &DB{dir: place.Path, opts: o, dirLock: place, follower: o.Follow, feeds: o.Feeds,
		txns: o.Txns}
	if o.Feeds == nil {
		db.feeds = noFeeds{}
	}
	if o.Wall != nil {
		db.opts.Wall = db.guardedClock(o.Wall)
	}
	db.health.init(db.dir, &o)
	db.shared = tree.Shared{
		Seqs: &tree.Sequences{}, Folds: &tree.Folds{}, Reads: epoch.New(db.retiredPanic),
		Holders: tree.NewHolders(db.freeFiles), Fail: db.health.Fail, Ops: tree.NewOperations(),
		Late: &db.late,
	}
	if !o.Resources.Bounded() {
		db.shared.Spare = memtable.NewSpare(o.Jobs.WriteBuffer)
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
	defer base.CatchPanic(&err)
	if err := db.loadManifest(); err != nil {
		return err
	}
	if err := db.openKeys(); err != nil {
		return err
	}
	if db.opts.TTL > 0 && !db.Native() {
		return base.NeedsNative("a time to live")
	}
	if err := db.listen(); err != nil {
		return err
	}
	if err := db.openCache(); err != nil {
		return err
	}
	if err := db.joinResources(); err != nil {
		return err
	}
	db.assemble()
	if db.follower != nil {
		return db.openFollower()
	}
	if !db.opts.ReadOnly {
		if err := found.Note(db.manifest); err != nil {
			return err
		}
		if db.manifest.Upgrading() {
			if err := db.beginUpgrade(); err != nil {
				return err
			}
		}
	}
	r := &replayer{db: db}
	defer r.free()
	if err := r.logs(); err != nil {
		return err
	}
	if err := db.checkMergeOperators(r); err != nil {
		return err
	}
	db.shared.Seqs.Publish(r.Last)
	db.connect(r.Last)
	if db.opts.ReadOnly {
		r.adopt(0)
		return nil
	}
	if err := r.finish(); err != nil {
		return err
	}
	db.jobs.OpenValues()
	return nil
}

// beginUpgrade looks at each table first: an upgrade renames them, and there is no way back.
func (db *DB) beginUpgrade() error {
	v := db.manifest.Current(base.DefaultKeyspace) // LevelDB's format has no other
	defer v.Unref()
	for _, m := range v.Tables() {
		if _, err := db.shared.Files.Reader(m); err != nil {
			return err
		}
	}
	return db.manifest.BeginUpgrade()
}

// openKeys asks for the key of new files, after the MANIFEST has told the one in use.
func (db *DB) openKeys() error {
	switch {
	case db.opts.Keys == nil:
		return nil
	case !db.Native():
		return base.NeedsNative("encryption")
	case db.opts.ReadOnly:
		return nil // nothing is written
	}
	return db.opts.Keys.Refresh()
}

// listen makes the socket for inspection, if one is wanted.
func (db *DB) listen() error {
	i := db.opts.Inspector
	if i == nil {
		return nil
	}
	err := i.Listen(db.dirLock)
	if err != nil && i.Optional() {
		db.health.Warn("no process can inspect the database", err)
		return nil
	}
	return err
}

// connect makes the pipeline, behind sequence number last, and what needs it.
func (db *DB) connect(last base.SeqNum) {
	env := write.Env{
		Room: db.jobs.MakeRoom, Append: db.wal.Append, Sync: db.wal.Sync,
		Publish:    db.shared.Seqs.Publish,
		LeaderAsks: func() bool { return db.ownOrder.Load() != nil },
		Guard:      func(step func() error) error { return db.ownOrder.Load().Guard(step) },
		Failed:     func(err error) { db.health.Fail(err) },
	}
	db.pipeline = write.New(env, last)
	db.health.connect(db.pipeline, db.jobs, db.feeds)
}

// openDir opens and locks the directory, and creates it if the options say so.
func openDir(dir string, o *Options) (d *vfs.Dir, err error) {
	defer base.CatchPanic(&err)
	if o.ErrorIfMissing && isEmpty(o.FS, dir) {
		return nil, base.ErrDoesNotExist // no LOCK is left in it
	}
	err = files.MakeRoom(func() error {
		d, err = vfs.OpenDir(o.FS, dir, vfs.DirOptions{Create: !o.ErrorIfMissing,
			NoParents: o.NoCreateDirs, Used: base.CurrentName, ReadOnly: o.ReadOnly,
			NoLock: o.Follow != nil, Check: owner.Check})
		return err
	})
	return d, err
}

// isEmpty reports whether dir is a directory with nothing in it.
func isEmpty(fsys vfs.FS, dir string) bool {
	if _, err := fsys.Stat(filepath.Join(dir, base.CurrentName)); !errors.Is(err, fs.ErrNotExist) {
		return false // a large directory is not listed
	}
	names, err := fsys.List(dir)
	return err == nil && len(names) == 0
}

// loadManifest reads the manifest, or makes an empty one for a new database. It writes
// nothing to disk.
func (db *DB) loadManifest() error {
	o := manifest.Options{
		FS: db.opts.FS, Dir: db.dir, Format: db.opts.Format, Comparer: db.opts.Comparer,
		Comparers: db.opts.Comparers, Durable: func() record.LogEnd {
			return db.wal.Durable()
		}, Clock: db.shared.Seqs.Clock.Stored,
		Upgrade: db.opts.Upgrade, SideBySide: db.opts.sideBySide,
		Obsolete: func(m *manifest.FileMeta) { db.shared.Files.Obsolete(m) },
		ObsoleteLog: func(f base.ValueFile) {
			db.shared.Files.ObsoleteLog(f)
		},
	}
	if db.follower != nil {
		return db.loadFollowed(o)
	}
	set, err := manifest.Load(o, db.opts.ReadOnly)
	switch {
	case errors.Is(err, base.ErrDoesNotExist):
		if db.opts.ErrorIfMissing || db.opts.ReadOnly {
			return err
		}
		set, err = manifest.New(o)
	case db.opts.ErrorIfExists && (err == nil || errors.Is(err, base.ErrComparerMismatch)):
		if set != nil {
			set.Close()
		}
		return base.ErrExists
	}
	if db.manifest = set; err != nil {
		return err
	}
	db.opts.Format = set.Format()
	db.shared.Seqs.Clock.Init(db.opts.Wall, set.Clock())
	return nil
}

// Native reports whether the database is in the native format, which has keyspaces.
func (db *DB) Native() bool { return db.opts.Format == base.Native }

// largeValue is Options.LargeValue. It is 0 in LevelDB's format, whose logs are no value logs, and
// in an encrypted database: a value lies in pieces in its logs.
func (db *DB) largeValue() int64 {
	if !db.Native() || db.opts.Keys != nil {
		return 0
	}
	return db.opts.LargeValue
}

// openCache takes a hold on the block cache, and makes the table files.
func (db *DB) openCache() (err error) {
	if db.cache, err = db.opts.Cache(); err != nil {
		return err
	}
	db.shared.Files = files.New(files.Options{
		FS: db.opts.FS, Dir: db.dir, Format: db.opts.Format, Cache: db.cache,
		Comparer: db.opts.Comparer, Reads: db.shared.Reads, MaxDecoded: db.opts.MaxDecoded,
		MaxOpenFiles: db.opts.MaxOpenFiles, Mmap: db.opts.Mmap, OnError: func(err error) {
			db.health.Warn("table file", err)
		},
		Group: db.opts.Resources.group(), Pace: func(n int64) { db.jobs.PaceCompaction(n) },
	})
	return nil
}

// assemble makes the log set, the trees and the scheduler. Neither does anything yet.
func (db *DB) assemble() {
	o, h := db.opts, &db.health
	db.wal = wal.New(wal.Options{
		FS: o.FS, Dir: db.dir, Format: o.Format, Preallocate: o.WALPreallocate,
		NewFileNum: db.manifest.NewFileNum, Fail: h.Fail, Panicked: h.panicked,
		Rename: db.shared.Files.Rename, Delete: db.shared.Files.DeleteFile,
		Retention: o.WALRetention, Obsoleted: db.feeds.Obsoleted,
		LargeValue: db.largeValue(), Release: db.manifest.ReleaseLog,
	})
	limits := o.Jobs
	limits.Env = work.Env{
		Writable: h.Writable, Failure: h.Failed,
		Fail: func(err error) error { cause, _ := h.setFailure(err); return cause },
		BeginStall: func() {
			db.pipeline.BeginStall()
		}, EndStall: func() { db.pipeline.EndStall() },
		Exclusive: func(f func() error) error { return db.pipeline.Exclusive(f) },
		Warn:      h.Warn,
		Events:    h,
		All: func(yield func(*work.Keyspace) bool) {
			for _, k := range db.spaces.all() {
				if !yield(&k.work) {
					return
				}
			}
		},
		Find: func(id base.KeyspaceID) *work.Keyspace {
			if k := db.spaces.find(id); k != nil {
				return &k.work
			}
			return nil
		},
		Several: db.spaces.several.Load,
	}
	limits.Files, limits.Manifest, limits.WAL, limits.Cache, limits.Seqs, limits.Folds =
		db.shared.Files, db.manifest, db.wal, db.cache, db.shared.Seqs, db.shared.Folds
	limits.Spare, limits.ReadOnly, limits.Keyspaces = db.shared.Spare, o.ReadOnly, db.Native()
	limits.LargeValue = db.largeValue()
	db.jobs = work.New(limits)
	db.shared.Seqs.Released = db.jobs.SnapshotReleased
	var all []*Keyspace
	for _, m := range db.manifest.Keyspaces() { // the default one first
		all = append(all, db.newKeyspace(m))
	}
	db.home = all[0]
	_ = db.home.SetTTL(o.TTL) // open has checked the format
	db.spaces.several.Store(db.manifest.MaxKeyspace() > base.DefaultKeyspace)
	db.add(all...)
}

// newTree makes the tree of a keyspace, which does nothing before its Start.
func (db *DB) newTree(k *Keyspace, m manifest.Keyspace) *tree.Tree {
	tables := db.opts.Tables
	tables.Format, tables.Comparer = db.opts.Format, m.Comparer
	if !m.Comparer.BuiltIn() {
		db.ownOrder.Store(m.Comparer)
	}
	filter := db.opts.Filter
	if m.ID != base.DefaultKeyspace {
		filter = nil // until lsm.KeyspaceOptions name one
	}
	return tree.New(tree.Options{
		ID: m.ID, Name: m.Name, Comparer: m.Comparer, Tables: tables,
		MemTableSize: db.opts.Jobs.WriteBuffer, Account: db.opts.Jobs.Account, Filter: filter,
		MaxUnpacked: db.opts.MaxDecoded, RunsSought: func() { db.jobs.WakeFor(&k.work) },
		Merge: db.mergeOperator(m.ID, m.MergeOperator), MaxOperands: db.opts.MaxOperands,
		LongChains: k.longChains, ManyDeletes: func() { db.jobs.ManyDeletes(&k.work) },
	}, db.shared)
}

// abandon undoes a failed open, what it made in the directory included.
func (db *DB) abandon(found *manifest.Found) {
	db.health.Closing.Store(true)
	if db.opts.Inspector != nil {
		_ = base.Protect(func() error { db.opts.Inspector.Close(); return nil })
	}
	if db.home != nil {
		db.jobs.Close()
		_ = base.Protect(func() error { return db.wal.Close(false) })
		db.spaces.close()
	}
	if db.follower != nil {
		_ = base.Protect(func() error { db.follower.Close(); return nil })
	}
	_ = base.Protect(func() error { return found.Restore(db.recovery.SetAside) })
	_ = db.release(abandonFor) // the failure of the open is the one to report
	db.health.queue.Close(eventPatience)
}

// How long release waits for reads that are under way.
const (
	releaseFor = 500 * time.Millisecond
	abandonFor = time.Minute // there are none: only a busy machine delays what is freed
)

// release gives back everything of a closed database. What open iterators and reads under way still
// need after patience is freed when the last of them ends. The lock comes last, because nothing is
// done in the directory without it.
func (db *DB) release(patience time.Duration) error {
	var errs []error
	db.shared.Spare.Close()
	// First deletions that are waiting for reads: they need the lock.
	db.shared.Reads.DrainFor(patience)
	if db.shared.Files != nil {
		db.shared.Files.Leave()
	}
	if db.manifest != nil {
		errs = append(errs, base.Protect(db.manifest.Close))
	}
	db.shared.Holders.Release()
	db.shared.Reads.DrainFor(patience)
	if db.dirLock != nil {
		errs = append(errs, base.Protect(db.dirLock.Close))
	}
	return errors.Join(errs...)
}

// Close closes the database; see lsm.DB.Close.
func (db *DB) Close() error {
	if err := base.NotWithin(); err != nil {
		return err
	}
	if db.health.Closing.Swap(true) {
		return base.ErrDatabaseClosed
	}
	if db.opts.Inspector != nil {
		db.opts.Inspector.Close()
	}
	if db.txns != nil {
		db.txns.Close()
	}
	var err error
	if db.follower != nil {
		err = base.Protect(func() error { db.follower.Close(); return nil })
	}
	db.jobs.BeginClose()
	db.copies.close() // after stalls have ended, which a copy may wait for
	db.feeds.Close()
	closing := func() error {
		db.spaces.close()
		db.pipeline.Poison(base.ErrDatabaseClosed)
		return nil
	}
	// With the lead of the pipeline, so that no commit is under way.
	if err := db.pipeline.Exclusive(closing); err != nil && !db.home.Tree.Closed() {
		_ = closing() // Exclusive failed by a panic before closing ended
	}
	db.jobs.Close()
	if db.opts.Inspector != nil {
		db.opts.Inspector.Wait(releaseFor) // its answers read
	}
	// The logs are synced although something else failed: batches may be nowhere else.
	err = errors.Join(err, base.Protect(func() error { return db.wal.Close(true) }))
	// a panic alone
	err = errors.Join(err, base.Protect(func() error { db.manifest.NoteDurable(); return nil }))
	err = errors.Join(err, db.release(releaseFor))
	db.health.queue.Close(eventPatience)
	return err
}

// eventPatience is how long Close waits for the listener and the logger to take the last
// events.
const eventPatience = time.Second
