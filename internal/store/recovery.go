package store

import (
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/store/replay"
	"github.com/loamdb/loam/internal/store/wal"
	"github.com/loamdb/loam/internal/tree/compact"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// Recovery says what Open found in the logs of the last run.
type Recovery struct {
	wal.Report
	LastSeq base.SeqNum // of the last write found

	ends map[uint64]int64 // see wal.Replay.Ends
}

// replayer reads the logs back into memtables.
type replayer struct {
	wal.Replay
	db      *DB
	tables  replay.Tables
	spaces  map[base.KeyspaceID]*replayed
	written uint64 // entries that were written into tables

	log    uint64             // of the batch that is applied
	end    uint64             // above the numbers of all logs; 0 until they are replayed
	handle []byte             // scratch
	first  *memtable.MemTable // of the default keyspace of a new database; nil: not made
}

// replayed is what was read back of one keyspace.
type replayed struct {
	replay.Space
	k *Keyspace
}

// logs reads the logs that the manifest needs into memtables. On disk it writes tables
// only, which become part of the database with a new MANIFEST.
func (r *replayer) logs() error {
	db := r.db
	r.Replay = wal.Replay{
		FS: db.opts.FS, Dir: db.dir, Format: db.manifest.Found(), Last: db.manifest.LastSeq(),
		Apply: r.apply, Keep: db.opts.maxCarried(len(db.manifest.IDs())),
		Synced: db.manifest.Durable(),
	}
	r.tables.Find = func(id base.KeyspaceID) (*replay.Space, error) {
		if k := r.spaces[id]; k != nil {
			return &k.Space, nil
		}
		return nil, nil
	}
	native := db.manifest.Found() == base.Native
	if native && !db.opts.ReadOnly && db.largeValue() > 0 {
		r.tables.Refer = r.refer
	}
	if native {
		newest := db.manifest.MaxKeyspace()
		r.Keyspaces = func(id base.KeyspaceID) bool { return id <= newest }
	}
	r.spaces = map[base.KeyspaceID]*replayed{}
	for _, m := range db.manifest.Keyspaces() {
		k := &replayed{k: db.spaces.find(m.ID)}
		k.New = k.k.Tree.NewMemTable
		if native {
			k.FirstLog = m.FirstLog
		}
		if !db.opts.ReadOnly {
			k.Full = func() error {
				if len(k.Tables) < db.opts.Jobs.MaxMemTables {
					return nil
				}
				return r.writeOldest(k)
			}
		}
		r.spaces[m.ID] = k
	}
	nums, err := r.Needed(db.manifest.ParseOwnName, db.manifest.LogNum(), db.manifest.PrevLogNum())
	if err != nil {
		return err
	}
	if err := r.Run(nums, db.manifest.LogNum()); err != nil {
		return err
	}
	if n := len(nums); n > 0 {
		r.end = nums[n-1] + 1
	}
	db.recovery = Recovery{r.Report, r.Last, r.Ends}
	if len(r.Report.Dropped) > 0 {
		db.health.logger.Warn("part of the log was dropped", "dir", db.dir, "dropped",
			r.Report.Dropped)
	}
	return nil
}

// free gives up the references on the memtables.
func (r *replayer) free() {
	for _, k := range r.spaces {
		k.Free()
	}
	if r.first != nil {
		r.first.Unref()
	}
}

// apply inserts one batch of log num. When a keyspace has as many memtables as an open database may
// have, the oldest is written into a table first; a read-only database keeps them all.
func (r *replayer) apply(num uint64, batch []byte) error {
	n, seq := batchrepr.Count(batch), batchrepr.Seq(batch)
	if r.Keyspaces == nil {
		home := &r.spaces[base.DefaultKeyspace].Space
		return r.tables.AddWhole(home, num, batch, seq, seq+base.SeqNum(n)-1)
	}
	r.log = num
	return r.tables.Add(num, batch, seq)
}

// refer makes a reference of a large value: its log stays, and the value is not copied. What may be
// carried into the new log stays whole, and so do the values of logs that should not stay, or are
// not durable: after a sync that failed, reads may have bytes that are not on disk.
func (r *replayer) refer(end int, value []byte) []byte {
	if int64(len(value)) < r.db.largeValue() || r.Keep >= end || !r.db.opts.mayRefer(r.Size) ||
		!r.Durable() {
		return nil
	}
	r.handle = base.AppendValueHandle(r.handle[:0], base.ValueHandle{Log: r.log,
		Offset: record.SpanAt(r.At, int64(end-len(value))), Len: uint32(len(value)),
		Sum: base.CRC(value)})
	return r.handle
}

// writeOldest writes the oldest memtable into tables, which the next version has.
func (r *replayer) writeOldest(k *replayed) error {
	s, next := k.Tables[0], r.end
	if len(k.Tables) > 1 {
		next = k.Tables[1].FirstLog
	}
	err := r.db.jobs.WriteMemTable(&k.k.work, s, next, func(result compact.Result) error {
		r.written += result.EntriesIn + uint64(s.Mem.Len()-s.Mem.Points())
		return r.db.manifest.Stage(&manifest.Edit{Keyspace: k.k.ID(), Added: result.Added})
	})
	if err == nil {
		k.DropOldest(1)
	}
	return err
}

// maxCarried is how many bytes of batches recovery copies into the new log, instead of
// writing a table in each keyspace: a small database that is opened again and again, or killed,
// does not gather tables. A table of a keyspace takes longer than carryEach more bytes.
func (o *Options) maxCarried(keyspaces int) int {
	if o.ReadOnly {
		return 0
	}
	return int(min(carryOne+carryEach*int64(keyspaces-1), o.Jobs.WriteBuffer/4))
}

const (
	carryOne  = 64 << 10
	carryEach = 16 << 10
)

// leastReferred is the size of the smallest log that a recovery refers to, so that a database that
// is opened again and again does not gather small ones; less if memtables are small.
const leastReferred = 1 << 20

// mayRefer reports whether tables of a recovery may refer to values in a log of so many bytes.
// After a kill much of a short one was allocated ahead, and would take more space than the values.
func (o *Options) mayRefer(size int64) bool {
	return size >= min(leastReferred, o.Jobs.WriteBuffer/4) &&
		(size < o.WALPreallocate/2 || size >= 2*o.WALPreallocate)
}

// carries reports whether all that was replayed goes into the new log.
func (r *replayer) carries() bool {
	for _, k := range r.spaces {
		if len(k.Tables) > 1 {
			return false
		}
	}
	return len(r.Kept) > 0 && r.written == 0 && r.tables.Skipped == 0 && !r.covered()
}

// covered reports whether the MANIFEST's last sequence number, which never falls, covers entries
// that were replayed. LevelDB writes such a MANIFEST: each of its edits has the last number of the
// moment. goleveldb passes over the batches of a log that the number covers, so these entries go
// into tables.
func (r *replayer) covered() bool {
	return !r.db.Native() && batchrepr.Seq(r.Kept[0]) <= r.db.manifest.LastSeq()
}

// finish writes the remaining memtables into tables, unless they are small, and starts a new log:
// nothing is ever appended to an old one. When all of this is durable, a new MANIFEST makes it the
// state of the database in one step, and files that the MANIFEST does not name are deleted. A
// failure or a crash before that step leaves the old state, and new files that no MANIFEST names.
func (r *replayer) finish() error {
	db := r.db
	carried := uint64(0)
	if !r.carries() {
		r.Kept = nil
	}
	for _, k := range base.InOrder(r.spaces) {
		for len(k.Tables) > 0 {
			if r.Kept != nil {
				carried += uint64(k.Tables[0].Mem.Len())
				break
			}
			if err := r.writeOldest(k); err != nil {
				return err
			}
		}
	}
	// Only with all entries in tables or in the new log may the logs become obsolete.
	if r.written+r.tables.Skipped+carried != db.recovery.Entries {
		return fmt.Errorf("%d entries were replayed, %d of them needed no table, %d came into "+
			"tables and %d into the new log; the logs are kept",
			db.recovery.Entries, r.tables.Skipped, r.written, carried)
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
func (r *replayer) adopt(log uint64) {
	for id, k := range r.spaces {
		if r.Kept != nil && len(k.Tables) > 0 {
			k.k.Tree.StartWith(k.Tables[0].Mem, log, nil, r.db.manifest.Current(id))
			continue
		}
		if id == base.DefaultKeyspace && r.first != nil {
			k.k.Tree.StartWith(r.first, log, nil, r.db.manifest.Current(id))
			continue
		}
		k.k.Tree.Start(log, k.NewestFirst(), r.db.manifest.Current(id))
	}
	if !r.db.opts.ReadOnly {
		for _, k := range r.spaces {
			r.db.jobs.OpenRangeDels(&k.k.work)
		}
	}
}

// commit starts a log and the MANIFEST, which makes the names of both durable, and the batches in
// the log. In a new database the log stays without contents until then: a log with some and without
// a MANIFEST looks like a damaged database.
func (r *replayer) commit() error {
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
	if fresh {
		beside = append(beside, r.expectWrites)
	}
	if err := db.manifest.StartManifest(beside...); err != nil || !fresh {
		return err
	}
	return r.rotate()
}

// expectWrites takes the memory that the first write needs: a new database is written to at once,
// and meanwhile the disk is waited for. If the system refuses it, the first write tries again.
func (r *replayer) expectWrites() error {
	r.db.pipeline.Expect()
	mem, err := r.db.home.Tree.NewMemTable(nil, 0, 1)
	if err != nil {
		mem.Unref()
		return nil
	}
	mem.Touch()
	r.first = mem
	return nil
}

// rotate begins the new log.
func (r *replayer) rotate() (err error) {
	if r.Kept != nil {
		_, err = r.db.wal.RotateWith(r.Kept, r.Last)
	} else {
		_, err = r.db.wal.Rotate(r.Last)
	}
	return err
}
