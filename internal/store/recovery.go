package store

import (
	"fmt"
	"maps"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/store/wal"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/compact"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// Recovery says what Open found in the logs of the last run.
type Recovery struct {
	wal.Report
	LastSeq base.SeqNum // of the last write found
}

// replay collects the memtables that the logs are read back into.
type replay struct {
	wal.Replay
	db      *DB
	spaces  map[base.KeyspaceID]*replayed
	written uint64 // entries that were written into tables
	skipped uint64 // entries that are in tables already, or of keyspaces that were dropped
}

// replayed is what was read back of one keyspace.
type replayed struct {
	tree     *tree.Tree
	firstLog uint64         // entries of older logs are in tables
	tables   []*tree.Sealed // oldest first, each with a reference
}

// logs reads the logs that the manifest needs into memtables. On disk it writes tables
// only, which become part of the database with a new MANIFEST.
func (r *replay) logs() error {
	db := r.db
	r.Replay = wal.Replay{
		FS: db.opts.FS, Dir: db.dir, Format: db.manifest.Found(), Last: db.manifest.LastSeq(),
		Apply: r.apply, Keep: db.opts.maxCarried(), Synced: db.manifest.Durable(),
	}
	r.spaces = map[base.KeyspaceID]*replayed{base.DefaultKeyspace: {tree: db.home.Tree}}
	if db.manifest.Found() == base.Native {
		newest := db.manifest.MaxKeyspace()
		r.Keyspaces = func(id base.KeyspaceID) bool { return id <= newest }
		for _, k := range db.manifest.Keyspaces() {
			r.spaces[k.ID] = &replayed{tree: db.treeOf(k.ID), firstLog: k.FirstLog}
		}
	}
	nums, err := r.Needed(db.manifest.Knows, db.manifest.LogNum(), db.manifest.PrevLogNum())
	if err != nil {
		return err
	}
	if err := r.Run(nums, db.manifest.LogNum()); err != nil {
		return err
	}
	db.recovery = Recovery{r.Report, r.Last}
	if len(r.Report.Dropped) > 0 {
		db.health.logger.Warn("part of the log was dropped", "dir", db.dir, "dropped",
			r.Report.Dropped)
	}
	return nil
}

// free gives up the references on the memtables.
func (r *replay) free() {
	for _, k := range r.spaces {
		for _, s := range k.tables {
			s.Mem.Unref()
		}
		k.tables = nil
	}
}

// apply inserts one batch into the newest memtable, starting another when that
// is full.
func (r *replay) apply(num uint64, batch []byte) error {
	n, seq := batchrepr.Count(batch), batchrepr.Seq(batch)
	if r.Keyspaces != nil {
		return r.applyEntries(num, batch, seq)
	}
	mem, err := r.memTableFor(r.spaces[base.DefaultKeyspace], int64(len(batch)), int(n), num)
	if err != nil {
		return err
	}
	if err := mem.Mem.Apply(batch, seq); err != nil {
		return err
	}
	mem.Last = max(r.Last, seq+base.SeqNum(n)-1)
	return nil
}

// applyEntries inserts a batch of a database with keyspaces, without entries that
// the keyspace has in tables already and those of keyspaces that were dropped.
func (r *replay) applyEntries(num uint64, batch []byte, seq base.SeqNum) error {
	for it := batchrepr.Read(batch); ; seq++ {
		id, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		k := r.spaces[id]
		if k == nil || num < k.firstLog {
			r.skipped++
			continue
		}
		mem, err := r.memTableFor(k, int64(len(key)+len(value)), 1, num)
		if err == nil {
			err = mem.Mem.Add(seq, kind, key, value)
		}
		if err != nil {
			return err
		}
		mem.Last = max(r.Last, seq)
	}
}

// memTableFor returns a memtable with room for a batch of so many bytes and entries of
// log num. When there are as many memtables as an open database may have, the oldest is
// written into a table first; a read-only database keeps them all.
func (r *replay) memTableFor(k *replayed, bytes int64, entries int,
	num uint64) (*tree.Sealed, error) {
	var prev *memtable.MemTable
	if n := len(k.tables); n > 0 {
		newest := k.tables[n-1]
		if newest.Mem.Room(bytes, entries) == nil {
			return newest, nil
		}
		prev = newest.Mem
		if n >= r.db.opts.Jobs.MaxMemTables && !r.db.opts.ReadOnly {
			if err := r.writeOldest(k); err != nil {
				return nil, err
			}
		}
	}
	mem, err := k.tree.NewMemTable(prev, bytes, entries)
	s := &tree.Sealed{Mem: mem, FirstLog: num}
	k.tables = append(k.tables, s)
	return s, err
}

// writeOldest writes the oldest memtable into tables, which the next version has.
func (r *replay) writeOldest(k *replayed) error {
	s := k.tables[0]
	err := r.db.jobs.WriteMemTable(k.tree, s, func(result compact.Result) error {
		r.written += result.EntriesIn + uint64(s.Mem.Len()-s.Mem.Points())
		return r.db.manifest.Stage(&manifest.Edit{Keyspace: k.tree.ID(), Added: result.Added})
	})
	if err != nil {
		return err
	}
	k.tables = k.tables[1:]
	s.Mem.Unref()
	return nil
}

// maxCarried is how many bytes of batches recovery copies into the new log, instead of
// writing a table: a small database that is opened again and again, or killed, does
// not gather tables.
func (o *Options) maxCarried() int {
	if o.ReadOnly {
		return 0
	}
	return int(min(64<<10, o.Jobs.WriteBuffer/4))
}

// carries reports whether all that was replayed goes into the new log.
func (r *replay) carries() bool {
	for _, k := range r.spaces {
		if len(k.tables) > 1 {
			return false
		}
	}
	return len(r.Kept) > 0 && r.written == 0 && r.skipped == 0 && !r.covered()
}

// covered reports whether the MANIFEST's last sequence number, which never falls, covers entries
// that were replayed. LevelDB writes such a MANIFEST: each of its edits has the last number of the
// moment. goleveldb passes over the batches of a log that the number covers, so these entries go
// into tables.
func (r *replay) covered() bool {
	return !r.db.Native() && batchrepr.Seq(r.Kept[0]) <= r.db.manifest.LastSeq()
}

// finish writes the remaining memtables into tables, unless they are small, and starts a new log:
// nothing is ever appended to an old one. When all of this is durable, a new MANIFEST makes it the
// state of the database in one step, and files that the MANIFEST does not name are deleted. A
// failure or a crash before that step leaves the old state, and new files that no MANIFEST names.
func (r *replay) finish() error {
	db := r.db
	carried := uint64(0)
	if !r.carries() {
		r.Kept = nil
	}
	for _, id := range slices.Sorted(maps.Keys(r.spaces)) {
		for k := r.spaces[id]; len(k.tables) > 0; {
			if r.Kept != nil {
				carried += uint64(k.tables[0].Mem.Len())
				break
			}
			if err := r.writeOldest(k); err != nil {
				return err
			}
		}
	}
	// Only with all entries in tables or in the new log may the logs become obsolete.
	if r.written+r.skipped+carried != db.recovery.Entries {
		return fmt.Errorf("%d entries were replayed, %d of them needed no table, %d came into "+
			"tables and %d into the new log; the logs are kept",
			db.recovery.Entries, r.skipped, r.written, carried)
	}
	err := r.SetAside()
	db.recovery.SetAside = r.Report.SetAside
	if err != nil {
		return err
	}
	// It must not cover the batches in the new log, see covered.
	last := r.Last
	if r.Kept != nil {
		last = batchrepr.Seq(r.Kept[0]) - 1
	}
	db.manifest.SetLastSeq(last)
	if err := r.commit(); err != nil {
		return err
	}
	if err := db.manifest.RenameTables(); err != nil {
		db.health.Warn("tables keep the names of LevelDB until the next opening", err)
	}
	r.adopt(db.wal.Num())
	var obsolete []string
	err = db.manifest.DeleteObsolete(db.wal.Num(), func(name string) {
		obsolete = append(obsolete, name)
	})
	if err != nil {
		db.health.Warn("files of an earlier run stay until the next opening", err)
	}
	obsolete = db.wal.KeepObsolete(obsolete)
	for _, name := range obsolete {
		db.shared.Files.DeleteFile(name)
	}
	if len(obsolete) > manyObsolete {
		db.shared.Files.WaitDeleted()
	}
	return nil
}

// manyObsolete is how many files of earlier runs are deleted in the background. More mean
// that processes were killed before they came to it.
const manyObsolete = 6

// adopt makes the first read states: memtables whose entries go to log, or were carried
// into it, and for a read-only database the replayed ones.
func (r *replay) adopt(log uint64) {
	for id, k := range r.spaces {
		if r.Kept != nil && len(k.tables) > 0 {
			k.tree.StartWith(k.tables[0].Mem, log, nil, r.db.manifest.Current(id))
			continue
		}
		sealed := slices.Clone(k.tables)
		slices.Reverse(sealed)
		k.tree.Start(log, sealed, r.db.manifest.Current(id))
	}
	if !r.db.opts.ReadOnly {
		for _, k := range r.spaces {
			r.db.jobs.OpenRangeDels(k.tree)
		}
	}
}

// commit starts a log and the MANIFEST, which makes the names of both durable, and the batches in
// the log. In a new database the log stays without contents until then: a log with some and without
// a MANIFEST looks like a damaged database.
func (r *replay) commit() error {
	db := r.db
	fresh := db.manifest.ManifestNum() == 0
	log, err := db.wal.Create()
	if err == nil && !fresh {
		err = r.rotate()
	}
	if err != nil {
		return err
	}
	edit := &manifest.Edit{}
	edit.SetLogNum(log)
	edit.SetPrevLogNum(0)
	if err := db.manifest.Stage(edit); err != nil {
		return err
	}
	var beside []func() error
	if r.Kept != nil && !fresh {
		beside = append(beside, db.wal.SyncFirst) // the MANIFEST makes the older logs obsolete
	}
	if err := db.manifest.StartManifest(beside...); err != nil || !fresh {
		return err
	}
	return r.rotate()
}

// rotate begins the new log.
func (r *replay) rotate() (err error) {
	if r.Kept != nil {
		_, err = r.db.wal.RotateWith(r.Kept)
	} else {
		_, err = r.db.wal.Rotate(r.Last)
	}
	return err
}
