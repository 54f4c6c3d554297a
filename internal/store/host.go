package store

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/store/wal"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree"
)

// Host is the door of an open database: what features see of it. A *DB is a Host.
type Host interface {
	// Place says where the database lies and how it was opened.
	Place() Place
	// Health says whether the database takes writes, and takes failures.
	Health() *Health
	// Files are the table files.
	Files() *files.Set
	// Logs are the write-ahead logs.
	Logs() Logs
	// Sequences are the visible sequence number, the snapshots and the clock.
	Sequences() *tree.Sequences
	// Keyspaces finds, lists and creates keyspaces.
	Keyspaces() Keyspaces
	// NewTable gives a file of a table a number that no other one has, and its name.
	NewTable() (num uint64, name string)
	// NoteIngest counts an ingest or a load.
	NoteIngest(s IngestStats)
	// CloseSnapshot closes a snapshot of the database.
	CloseSnapshot(s *tree.Snapshot)
	// Resolve makes the batch to commit of that of a transaction, see DB.Resolve.
	Resolve(batch []byte, v Values) ([]byte, error)
	// Commit writes a batch, if the condition, which may be nil, holds at the last moment.
	Commit(batch []byte, mode write.Mode, c write.Condition) error
	// WhileOpen runs f, whose end Close waits for; see DB.WhileOpen.
	WhileOpen(f func(ended func() error) error) error
}

// Place says where a database lies and how it was opened. It does not change.
type Place struct {
	FS     vfs.FS
	Dir    string // absolute
	Format base.Format
	// Comparer is that of the default keyspace, Comparers knows those of all, by name.
	Comparer  *base.Comparer
	Comparers func(name string) *base.Comparer
	// Merges knows the merge operators of all keyspaces, by name.
	Merges   func(name string) *mergeop.Operator
	ReadOnly bool
	Follows  bool // another process writes the directory
	// Of memtables, of tables that are written, and of blocks that are unpacked, in bytes.
	WriteBuffer, FileSize, MaxDecoded int64
}

// Place is for Host.
func (db *DB) Place() Place {
	o := &db.opts
	return Place{
		FS: o.FS, Dir: db.dir, Format: o.Format, Comparer: o.Comparer, Comparers: o.Comparers,
		Merges: o.Merges, ReadOnly: o.ReadOnly, Follows: o.Follow != nil,
		WriteBuffer: o.Jobs.WriteBuffer, FileSize: o.Jobs.FileSize, MaxDecoded: o.MaxDecoded,
	}
}

// Native reports whether the database is in the native format, which has keyspaces.
func (p Place) Native() bool { return p.Format == base.Native }

// maxTaken is how many names of new tables may be taken by files of other programs.
const maxTaken = 100

// NewTable is for Host.
func (db *DB) NewTable() (num uint64, name string) {
	for range maxTaken {
		num = db.manifest.NewFileNum()
		name = db.shared.Files.TableName(num)
		_, err := db.opts.FS.Stat(filepath.Join(db.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			break // after another failure there may be a file
		}
	}
	return num, name
}

// Logs are the write-ahead logs of an open database.
type Logs struct{ db *DB }

// Logs is for Host.
func (db *DB) Logs() Logs { return Logs{db} }

// Oldest is the oldest log that stays.
func (l Logs) Oldest() uint64 { return l.db.wal.Oldest() }

// Cuts changes when a log was cut back, after which a reader's buffer may have what the log has
// not.
func (l Logs) Cuts() uint64 { return l.db.wal.Cuts() }

// Synced is how many bytes of a log are known to be durable.
func (l Logs) Synced(log uint64) int64 { return l.db.wal.DurableOf(log) }

// Durable reports whether a record that ends there in a log survives a power cut: it is in tables,
// or in a part of the logs that was synced.
func (l Logs) Durable(log uint64, end int64) bool {
	synced := l.db.wal.Durable()
	return log < l.db.manifest.LogNum() || log < synced.Num || log == synced.Num &&
		end <= synced.End
}

// Hold keeps obsolete logs among Parts until release.
func (l Logs) Hold() (release func()) {
	if l.db.opts.ReadOnly {
		return func() {}
	}
	return l.db.wal.Hold()
}

// SyncFull makes a log but the last one durable, and tells whether its file does not change any
// more.
func (l Logs) SyncFull(num uint64) bool { return !l.db.opts.ReadOnly && l.db.wal.SyncFull(num) }

// maxCopiedLog is the size in bytes above which the current log is not copied for a checkpoint:
// the next log begins, and the full one is linked. So a checkpoint reads and writes no memtable's
// worth of log.
func (db *DB) maxCopiedLog() int64 { return min(1<<20, db.opts.Jobs.WriteBuffer/8) }

// Parts lists the logs that are not obsolete, or are held, oldest first, and what they have, and
// begins to sync the full ones. It waits for a commit under way.
func (l Logs) Parts() (parts []wal.Part, err error) {
	db := l.db
	if db.opts.ReadOnly {
		return db.logFiles()
	}
	err = db.pipeline.Exclusive(func() error {
		if err := db.health.Writable(); err != nil {
			return err
		}
		if db.wal.Size() > db.maxCopiedLog() {
			// After a shortage the log goes on, and is copied.
			if err := db.rotateLog(); err != nil && !base.IsShortage(err) {
				return err
			}
		}
		db.wal.BeginSync(db.wal.Num())
		parts = db.wal.Parts()
		return nil
	})
	return parts, err
}

// rotateLog begins the next log, whether a memtable is full or not. Commit leader only.
func (db *DB) rotateLog() error {
	_, err := db.wal.Rotate(db.shared.Seqs.Visible())
	return err
}

// logFiles lists the logs of a database that is open for reading, which do not change. Of one
// without damage what follows the last record is left out: it has no meaning, and may be a hole of
// any length.
func (db *DB) logFiles() (parts []wal.Part, err error) {
	r := wal.Replay{FS: db.opts.FS, Dir: db.dir, Format: db.opts.Format}
	nums, err := r.Needed(db.manifest.ParseOwnName, db.manifest.LogNum(), db.manifest.PrevLogNum())
	for _, num := range nums {
		info, serr :=
			db.opts.FS.Stat(filepath.Join(db.dir, db.opts.Format.FileName(base.FileLog, num)))
		if serr != nil {
			return nil, serr
		}
		size := info.Size()
		if end, ok := db.recovery.ends[num]; ok {
			size = min(size, end)
		}
		parts = append(parts, wal.Part{Num: num, Size: size})
	}
	return parts, err
}

// Health is for Host.
func (db *DB) Health() *Health { return &db.health }

// Files is for Host.
func (db *DB) Files() *files.Set { return db.shared.Files }

// Sequences is for Host.
func (db *DB) Sequences() *tree.Sequences { return db.shared.Seqs }

// Commit is for Host.
func (db *DB) Commit(batch []byte, mode write.Mode, c write.Condition) (err error) {
	if c == nil {
		err = db.pipeline.Commit(batch, mode)
	} else {
		err = db.pipeline.CommitIf(batch, mode, c)
	}
	db.committed(mode)
	return err
}

// Feeds are the feeds of changes of a database.
type Feeds interface {
	// Waiting reports whether a feed waits for a commit. Writers ask after each commit.
	Waiting() bool
	// Wake makes the feeds that wait look again.
	Wake()
	// Obsoleted makes feeds give up logs before first, which are being deleted.
	Obsoleted(first uint64)
	// Close ends all feeds. It waits for reads of files under way.
	Close()
}

// noFeeds is the Feeds of a database that nobody asks for changes.
type noFeeds struct{}

func (noFeeds) Waiting() bool    { return false }
func (noFeeds) Wake()            {}
func (noFeeds) Obsoleted(uint64) {}
func (noFeeds) Close()           {}

// Txns are the transactions of a database, which itself needs one where merges meet values that
// expire.
type Txns interface {
	// WriteIf commits the batch that build makes from its reads: both are repeated until nothing
	// that was read has changed in between.
	WriteIf(mode write.Mode, build func(Values) ([]byte, error)) error
	// NewDraft returns an empty Draft.
	NewDraft() Draft
	// Close ends the waits for locks.
	Close()
}

// Inspector answers other processes about a database that is open for writing.
type Inspector interface {
	// Listen makes the socket in the directory, whose lock is held.
	Listen(d *vfs.Dir) error
	// Optional reports whether the database opens although Listen failed.
	Optional() bool
	// Close removes the socket, if there is one, and ends all connections. It waits for nothing.
	Close()
	// Wait returns when the requests under way have ended, and after limit at the latest.
	Wait(limit time.Duration)
}

// Values is how the values are read that merges change where values expire. The commit checks
// that they have not changed since.
type Values interface {
	// Deadline is when the value of a key expires; see tree.Tree.Deadline.
	Deadline(k *Keyspace, key []byte) (uint64, error)
	// Value is a copy of the value of a key.
	Value(k *Keyspace, key []byte) ([]byte, error)
}

// Draft is a batch that finds the last operation on a key.
type Draft interface {
	// AddIn appends an operation on a keyspace, which c orders.
	AddIn(id base.KeyspaceID, c *base.Comparer, kind base.Kind, key, value []byte)
	// NewestIn is the last operation on a key, with the deadline of a value that expires; a range
	// delete over the key is a deletion. The value is valid until the next AddIn.
	NewestIn(id base.KeyspaceID, key []byte) (value []byte, kind base.Kind, found bool)
	// Bytes is the wire form, valid until the next AddIn, and Size its length.
	Bytes() []byte
	Size() int
	// Reset empties the batch. Release gives it up.
	Reset()
	Release()
}

// Follower keeps a database up to date with a directory that another process writes.
type Follower interface {
	// Begin reads the MANIFEST of the directory, and its format.
	Begin(fsys vfs.FS, dir string) (*manifest.State, base.Format, error)
	// Open reads the first state, after Begin, and starts the trees. It returns what a recovery
	// reports.
	Open(f Followed) (wal.Report, error)
	// Still runs f between two states: the visible sequence number and the keyspaces belong
	// together meanwhile. Open has succeeded.
	Still(f func())
	// Close ends the work in the background, and gives back what Begin and Open took. It is called
	// once, also after one of them failed or was not called.
	Close()
}

// Followed is the database of a Follower.
type Followed struct {
	Host Host
	Path vfs.FS // looks the directory up by its name
	// Manifest, of LoadFollowed, does not change but by the Follower.
	Manifest *manifest.Set
	// Tree is the tree, not started, of a keyspace that Manifest has.
	Tree func(base.KeyspaceID) *tree.Tree
	// Make makes the tree of a keyspace that the writer has created; add, within Keyspaces.Keep,
	// makes it known when it has been started.
	Make func(manifest.Keyspace) (t *tree.Tree, add func())
	// Drop, within Keyspaces.Keep, takes away a keyspace that the writer has dropped.
	Drop func(base.KeyspaceID)
	// Merge, within Keyspaces.Keep, names the merge operator of a keyspace's next state. If it is
	// another one than before, there has to be such a state.
	Merge func(t *tree.Tree, name string) (changed bool)
	// Moved is called after each catch-up, and when a part of one has become visible.
	Moved func()
}
