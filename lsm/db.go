package lsm

import (
	"github.com/loamdb/loam/internal/feature/inspect"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/lsm/internal/joined"
)

// DB is an open database: the keyspace "default", with the methods of a Keyspace, and what concerns
// the database as a whole. Open makes one. All methods are safe for concurrent use.
type DB struct {
	keyspace // the default one
	reader
	inside // leads to engine
	engine *joined.Database
	live   liveOptions
}

// inside is embedded for the packages beside this one.
type inside = joined.Inside[joined.Database]

// keyspace has the writes of a keyspace and its upkeep. DB and Keyspace embed it beside reader, as
// go/doc lists the methods of an embedded type, but not of a type embedded in that.
type keyspace struct {
	space *store.Keyspace
	root  *DB
}

// reader has the reads of a keyspace, at present or at a snapshot.
type reader struct {
	of *store.Keyspace
	at *tree.Snapshot // nil: the present
}

// Open opens the database in dir, and creates it when there is none unless o.ErrorIfMissing. A nil
// o means the defaults. A new database has the format of o.Format. Any LevelDB directory opens, and
// stays one. RecoveryReport says what an unclean end cost.
//
// The directory is locked until Close: within this process and against others, LevelDB and
// goleveldb among them. LevelDB in this process (plyvel, say) is not kept out, and drops the lock
// against other processes when it closes the LOCK file, see docs/guarantees.md.
//
// Open fails with ErrInvalidArgument (an option, the name ""), ErrLocked, ErrDoesNotExist,
// ErrExists, ErrNotADatabase, ErrNewerFormat, ErrComparerMismatch, ErrNoMergeOperator,
// ErrCorruption (Repair may help), ErrClosed (a shared Cache or Resources), a shortage (ErrNoSpace,
// ErrNoMemory, ErrTooManyFiles) or an error of the file system. A failed Open gives back what it
// took and leaves the directory as it was; one that it made may stay, with LOCK in it.
func Open(dir string, o *Options) (*DB, error) {
	opts, err := o.resolve()
	if err != nil {
		return nil, err
	}
	opts.inspector = inspect.New(opts.Inspect, opts.ReadOnly || opts.follow)
	e, err := joined.Open(dir, opts.engine(), opts.follow, opts.FollowInterval, opts.inspector)
	if err != nil {
		return nil, err
	}
	db := &DB{engine: e, inside: joined.Of(e)}
	db.keyspace, db.reader = keyspace{e.Default(), db}, reader{of: e.Default()}
	db.initLive(o)
	e.Inspect(opts.inspector, func(k *store.Keyspace) any { return (&keyspace{k, db}).Metrics() })
	return db, nil
}

// Close ends the use of the database. It waits up to a second until full memtables are in tables,
// which the next Open need not replay then, and until other background work has stopped; it syncs
// the log and releases the directory.
//
// From the beginning of Close on writes fail with ErrClosed, and later so do all calls on the
// database and moves of its iterators; a second Close fails with ErrClosed at once. Reads under way
// are answered. Iterators must still be closed to free what they hold.
//
// Nothing is lost by ending the process without Close. Other errors are those of the log's last
// sync, which may have cost unsynced writes, and of giving back the directory. After a log failed
// for good, which made the database read-only, its error is that failure, ErrReadOnly, unless every
// write was synced before.
func (db *DB) Close() error { return db.engine.Close() }

// RecoveryReport says what Open found in the logs of the last run.
type RecoveryReport struct {
	Logs    int          // Logs is the number of logs replayed.
	Records uint64       // Records is the number of log records replayed.
	Entries uint64       // Entries is the number of operations in them.
	Dropped []DroppedLog // Dropped is what was not replayed.
	// SetAside is the names of the copies *.lost of damaged logs, within the directory.
	SetAside []string
	LastSeq  uint64 // LastSeq is the sequence number of the last write found.
	WasClean bool   // WasClean reports that nothing was dropped.
	// TornBytes is the bytes dropped as the torn ends of logs, which a crash leaves.
	TornBytes int64
}

// DroppedLog is a part of a log that was not replayed.
type DroppedLog struct {
	File string // File is the name of the log within the directory.
	// Offset is where the part begins, in bytes from the start of the file.
	Offset int64
	Bytes  int64  // Bytes is the length of the part.
	Reason string // Reason says why it was not replayed, in words, lower case.
}

// RecoveryReport returns what this Open found. It does not change, and is answered after Close too.
func (db *DB) RecoveryReport() RecoveryReport {
	found := db.engine.Recovery()
	r := RecoveryReport{
		Logs: found.Logs, Records: found.Records, Entries: found.Entries,
		TornBytes: found.TornBytes, SetAside: found.SetAside, LastSeq: uint64(found.LastSeq),
		WasClean: len(found.Dropped) == 0,
	}
	for _, d := range found.Dropped {
		r.Dropped = append(r.Dropped, DroppedLog(d))
	}
	return r
}
