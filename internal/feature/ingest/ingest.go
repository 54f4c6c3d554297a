package ingest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/fileid"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/tree/compact"
	"github.com/loamdb/loam/internal/tree/picker"
)

// Options says how tables are ingested.
type Options struct {
	// Move removes the files when their entries are durable in the database.
	Move bool
	// Excise deletes what the keyspace has from Start up to, not including, Limit, in the same
	// step. All keys of the tables must be in that range.
	Excise       bool
	Start, Limit []byte
}

// table is a file on its way into the database.
type table struct {
	path   string // where it came from; "": a BulkLoader's
	name   string // in the directory of the database
	meta   *manifest.FileMeta
	copied bool
}

// job is one ingest.
type job struct {
	k      *store.Keyspace
	db     store.Host
	place  store.Place
	fs     *fileid.Made
	tables []*table // in the order of their keys, once they are verified
	erase  *table   // has the range tombstone of Options.Excise; nil: none
	plain  bool     // LevelDB's format: sequence numbers stay 0
	stop   func() error
	given  bool // the tables are the Scheduler's, whether they are live or not
	stats  Stats
}

func newJob(k *store.Keyspace, stop func() error) *job {
	place := k.Host().Place()
	return &job{
		k: k, db: k.Host(), place: place, fs: fileid.Track(place.FS), plain: !place.Native(),
		stop: stop,
	}
}

// Ingest takes tables into a keyspace; see lsm.DB.Ingest.
func Ingest(ctx context.Context, k *store.Keyspace, paths []string, o Options) error {
	return store.Long(ctx, k.Host(), func(stop func() error) (err error) {
		j := newJob(k, stop)
		defer func() { note(k.Host(), &j.stats, err) }()
		defer j.cleanUp()
		if err := errors.Join(stop(), k.Writable()); err != nil {
			return err
		}
		if o.Excise && j.plain {
			return base.NeedsNative("an ingest that excises a range")
		}
		if o.Excise && k.Comparer().Cmp(o.Start, o.Limit) >= 0 {
			return base.Invalidf("the range to excise ends at or before its start")
		}
		if err := j.take(paths); err != nil {
			return err
		}
		if err := j.arrange(&o); err != nil {
			return err
		}
		err = j.install()
		if err == nil && o.Move {
			j.removeSources()
		}
		return err
	})
}

// take links, or copies, all files into the directory and verifies them there.
func (j *job) take(paths []string) error {
	paths = slices.Clone(paths)
	for i, path := range paths {
		if path == "" {
			return base.Invalidf("a table needs the name of a file")
		}
		path, err := vfs.Absolute(j.fs, path) // at once: the working directory may change
		if err != nil {
			return err
		}
		if _, err := fileid.Outside(j.fs, path, j.place.Dir, "the database"); err != nil {
			return err // a file of the database itself
		}
		if slices.Contains(paths[:i], path) {
			return base.Invalidf("%s is named twice", path)
		}
		paths[i] = path
		j.tables = append(j.tables, &table{path: path})
	}
	errs := make([]error, len(paths))
	_ = store.Share(len(paths), runtime.GOMAXPROCS(0), func(numbers iter.Seq[int]) error {
		for i := range numbers {
			errs[i] = base.ErrGoexit // unless takeOne returns
			// The comparer or the file system may panic.
			errs[i] = base.Protect(func() error { return j.takeOne(j.tables[i]) })
			if errs[i] != nil {
				return errs[i]
			}
		}
		return nil
	})
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("%s: %w", paths[i], err)
		}
	}
	return nil
}

func (j *job) takeOne(t *table) error {
	if err := j.stop(); err != nil {
		return err
	}
	num, name := j.db.NewTable()
	t.meta = &manifest.FileMeta{Num: num}
	to := filepath.Join(j.place.Dir, name)
	err := vfs.Link(j.fs, t.path, to)
	if errors.Is(err, vfs.ErrCannotLink) {
		err = j.copy(t, to)
	}
	if !errors.Is(err, fs.ErrExist) { // else it is another program's, and stays
		t.name = name
	}
	if err != nil {
		return err
	}
	synced, err := j.verify(t, to)
	j.fs.Sized(to, int64(t.meta.Size))
	if err == nil && !t.copied && !synced { // such a file system cannot sync what it only reads
		if err = j.fs.Remove(to); err == nil {
			err = j.copy(t, to)
		}
		if err == nil {
			_, err = j.verify(t, to)
		}
	}
	return err
}

// copy copies a file into the directory, durably but for its name.
func (j *job) copy(t *table, to string) error {
	t.copied = true
	return vfs.Copy(j.fs, t.path, j.fs, to, vfs.WholeFile, func([]byte) error { return j.stop() })
}

// arrange orders the tables and refuses those that overlap, and makes the table that erases the
// range to excise.
func (j *job) arrange(o *Options) error {
	cmp := j.k.Comparer()
	for _, t := range j.tables {
		if o.Excise && (cmp.Cmp(t.meta.Smallest.User, o.Start) < 0 ||
			!t.meta.EndsBefore(cmp, o.Limit)) {
			return base.Invalidf("%s has keys outside of the range to excise", t.path)
		}
	}
	slices.SortFunc(j.tables, func(a, b *table) int {
		return cmp.CompareInternal(a.meta.Smallest.User, a.meta.Smallest.Trailer,
			b.meta.Smallest.User, b.meta.Smallest.Trailer)
	})
	for i := 1; i < len(j.tables); i++ {
		a, b := j.tables[i-1], j.tables[i]
		if c := cmp.Cmp(a.meta.Largest.User, b.meta.Smallest.User); c > 0 || c == 0 &&
			!a.meta.OpenEnd() {
			return base.Invalidf("the keys of %s and %s overlap", a.path, b.path)
		}
	}
	if !o.Excise {
		return nil
	}
	w, t, err := j.create(nil)
	if err != nil {
		return err
	}
	j.erase = t
	if err := w.Add(o.Start, base.MakeTrailer(0, base.KindRangeDelete), base.CodecRaw,
		o.Limit); err != nil {
		return errors.Join(err, w.Close())
	}
	meta, err := w.Finish()
	if err == nil {
		err = w.Sync()
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	j.describe(t, &meta)
	return j.renumber() // what erases is older than what comes instead
}

// describe sets what the MANIFEST says of a table that was written here.
func (j *job) describe(t *table, meta *sstable.Meta) {
	m := t.meta
	m.Size, m.Smallest, m.Largest, m.Comparer =
		meta.Size, meta.Smallest, meta.Largest, j.k.Comparer()
	m.Naming, _, _ = base.ParseTableName(t.name)
	m.Facts = compact.FactsOf(*meta, meta.Entries, false)
	m.Sample.Store(meta.Sample)
}

// create begins a table of the job's own.
func (j *job) create(spare *sstable.Spare) (sstable.Writer, *table, error) {
	num, name := j.db.NewTable()
	t := &table{name: name, meta: &manifest.FileMeta{Num: num}}
	f, err := j.fs.Create(filepath.Join(j.place.Dir, t.name))
	if errors.Is(err, fs.ErrExist) {
		return nil, nil, err
	}
	if err != nil {
		return nil, t, err
	}
	o := j.k.Tree.Tables()
	o.Keyspace, o.KeyspaceName = j.k.ID(), j.k.Tree.Name()
	// without a number, so that it can get another one
	o.Format, o.FileNum, o.Spare = j.place.Format, 0, spare
	return files.NewTableWriter(f, o), t, nil
}

// all lists the tables of the edit, older ones first.
func (j *job) all() []*table {
	if j.erase == nil {
		return j.tables
	}
	return append([]*table{j.erase}, j.tables...)
}

// tries is how often memtables are flushed beside writers before these have to wait.
const tries = 3

var errAgain = errors.New("a write came between")

// install makes the tables live.
func (j *job) install() error {
	for try := 0; ; try++ {
		if err := j.prepare(try); err != nil {
			return err
		}
		err := j.db.Keyspaces().Keep(func() error {
			if try < tries {
				return j.lead(nil)
			}
			return j.lead(func(l store.Lead) error {
				if err := errors.Join(l.Flush(), j.renumber()); err != nil {
					return err
				}
				return j.db.Files().SyncDir()
			})
		})
		if !errors.Is(err, errAgain) && !errors.Is(err, picker.ErrRenumber) {
			return err
		}
	}
}

// prepare does beside writers what the lead need not do, or has little to do of afterwards.
func (j *job) prepare(try int) error {
	if err := errors.Join(j.stop(), j.k.Writable()); err != nil {
		return err
	}
	if err := j.flushOverlaps(); err != nil {
		return err
	}
	if try > 0 {
		if err := j.renumber(); err != nil {
			return err
		}
	}
	if err := j.db.Files().SyncDir(); err != nil {
		return err
	}
	return j.db.Commit(batchrepr.Init(nil), write.Sync, nil)
}

// lead is step 3 of an ingest. first, unless nil, is called before all else.
func (j *job) lead(first func(store.Lead) error) error {
	return j.k.Assign(2, func(l store.Lead, seq base.SeqNum) (used int, err error) {
		if err := j.k.Writable(); err != nil {
			return 0, err
		}
		if first != nil {
			if err := first(l); err != nil {
				return 0, err
			}
		}
		if over, err := j.overlapsMemTables(); over || err != nil {
			return 0, errors.Join(err, errAgain)
		}
		if j.plain {
			if used, err = j.skip(l, seq); err != nil {
				return used, err
			}
		}
		if err := l.SyncLogs(); err != nil {
			return used, err
		}
		if err := j.intact(); err != nil {
			return used, err
		}
		n, err := j.commit(l, seq)
		return max(used, n), err
	})
}

// skip has the log of a database in LevelDB's format say that number seq is in no log, before the
// tables become live: their entries have number 0, and feeds find a gap there. The MANIFEST's last
// number cannot say so: goleveldb passes over the batches of a log that it covers.
func (j *job) skip(l store.Lead, seq base.SeqNum) (used int, err error) {
	switch {
	case len(j.tables) == 0:
		return 0, nil
	case slices.ContainsFunc(j.tables, func(t *table) bool { return j.overlapsTables(t.meta) }):
		return 0, picker.ErrOverlap
	case j.db.Sequences().NumSnapshots() > 0:
		return 0, picker.ErrSnapshot
	}
	if err := l.SkipTo(seq + 1); err != nil {
		return 0, err // the log was cut back, or the database is read-only
	}
	return 1, nil
}

// intact fails with base.ErrDirectoryChanged if a table is not the file that was verified: another
// program removed or replaced it, or cut the file that was linked.
func (j *job) intact() error {
	for _, t := range j.all() {
		if err := j.fs.Check(j.place.FS, filepath.Join(j.place.Dir, t.name)); err != nil {
			return err
		}
	}
	return nil
}

// commit gives the tables their sequence numbers, from seq on, and makes them live. It uses no
// number where nothing becomes live, so that each number that is in no log is in the MANIFEST; but
// for a failure of the MANIFEST, after which the edit may be in it.
func (j *job) commit(l store.Lead, seq base.SeqNum) (used int, err error) {
	metas := make([]*manifest.FileMeta, 0, len(j.tables)+1)
	erases := j.erase != nil && j.overlapsTables(j.erase.meta)
	if erases {
		metas = append(metas, j.erase.meta)
	}
	for _, t := range j.tables {
		metas = append(metas, t.meta)
	}
	if len(metas) == 0 {
		return 0, nil
	}
	last := seq
	if erases && len(j.tables) > 0 {
		last++ // what erases is older
	}
	for i, m := range metas {
		at := last
		if erases && i == 0 {
			at = seq
		}
		j.number(m, at)
	}
	if !j.plain {
		j.k.Tree.NoteIngested(last)
	}
	j.given = true // also if Install panics: it may have made them live
	kept, err := l.Install(metas, picker.IngestMode{Plain: j.plain, Excise: erases}, last)
	if kept {
		j.given = false
		return 0, err
	}
	if !erases && j.erase != nil {
		j.db.Files().DeleteFile(j.erase.name) // there is nothing to erase
		j.erase = nil
	}
	if !j.plain {
		used = int(last-seq) + 1
	}
	if err != nil {
		return used, err
	}
	for _, t := range j.all() {
		j.stats.Tables++
		j.stats.Bytes += t.meta.Size
		if t.copied {
			j.stats.Copied++
		}
	}
	return used, nil
}

// number gives a table its sequence number, before it is live.
func (j *job) number(m *manifest.FileMeta, at base.SeqNum) {
	if !j.plain {
		m.Newest = at
		m.SetGlobalSeq(at)
	}
	if m.Kinds&base.ExpiringKinds != 0 {
		j.k.Tree.NoteExpiring()
	}
}

// overlapsTables reports whether a live table overlaps m.
func (j *job) overlapsTables(m *manifest.FileMeta) bool {
	state := j.k.Tree.Acquire()
	if state == nil {
		return false
	}
	defer state.Unref()
	return state.Version.Overlapped(j.k.Comparer(), m.Smallest.User, m.Largest.User)
}

// flushOverlaps flushes the memtables if they have entries in the range of a table.
func (j *job) flushOverlaps() error {
	over, err := j.overlapsMemTables()
	switch {
	case err != nil || !over:
		return err
	case j.plain:
		return picker.ErrOverlap
	}
	return j.k.Flush()
}

// overlapsMemTables reports whether a memtable has an entry, or a range tombstone over a key, in
// the range of a table.
func (j *job) overlapsMemTables() (bool, error) {
	state := j.k.Tree.Acquire()
	if state == nil {
		return false, j.k.Tree.Gone()
	}
	defer state.Unref()
	for i := -1; i < len(state.Sealed); i++ {
		m := state.Mem
		if i >= 0 {
			m = state.Sealed[i].Mem
		}
		if over, err := overlaps(m, j.k.Comparer(), j.all()); over || err != nil {
			return over, err
		}
	}
	return false, nil
}

// renumber gives the files new numbers, larger than those of all tables that are there.
func (j *job) renumber() error {
	for _, t := range j.all() {
		num, name := j.db.NewTable()
		if err := j.fs.Rename(filepath.Join(j.place.Dir, t.name),
			filepath.Join(j.place.Dir, name)); err != nil {
			return err
		}
		t.name, t.meta.Num = name, num
	}
	return nil
}

// cleanUp deletes the tables that did not become the database's.
func (j *job) cleanUp() {
	if j.given {
		return
	}
	for _, t := range j.all() {
		if t.name != "" {
			j.db.Files().DeleteFile(t.name)
		}
	}
}

// removeSources removes the files that were ingested. One that cannot be removed stays.
func (j *job) removeSources() {
	for _, t := range j.tables {
		if err := j.fs.Remove(t.path); err != nil {
			j.db.Health().Warn("a table that was ingested cannot be removed where it came from",
				err)
		}
	}
}
