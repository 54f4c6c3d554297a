package repair

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/owner"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/seal"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
)

// Options configures a repair. All but the sizes must be set.
type Options struct {
	FS       vfs.FS
	Dir      string
	Comparer *base.Comparer
	Tables   sstable.WriterOptions
	// Comparers finds the comparers of keyspaces by name, nil for unknown ones; nil
	// knows Comparer alone.
	Comparers func(name string) *base.Comparer
	// FileSize is when a new table ends, in bytes; 0 means 64 MiB.
	FileSize uint64
	// WriteBuffer is how much of a log is sorted at once, in bytes; 0 means 32 MiB.
	WriteBuffer int64
	// MaxDecoded bounds a decompressed block, in bytes; 0 means 64 MiB.
	MaxDecoded int64
}

// maxNum bounds the numbers of files that are taken over: beyond it, counting
// on could leave the range that a MANIFEST can hold.
const maxNum = 1 << 60

type repair struct {
	o      Options
	report Report

	format  base.Format
	names   []string         // of the directory, sorted
	current string           // MANIFEST that CURRENT names, "" when CURRENT is unusable
	known   salvagedManifest // what MANIFESTs say
	spaces  map[base.KeyspaceID]*keyspace
	twins   map[base.KeyspaceID]bool // that dropTwins dropped
	live    map[uint64]liveTable     // tables of the MANIFEST by number
	// ingested has, by their numbers, the ingested tables that other tables record; told are the
	// names of keyspaces by the MANIFEST and by the tables that it does not list.
	ingested map[uint64]sstable.Ingested
	told     map[base.KeyspaceID]manifest.KeyspaceNames
	several  bool            // there are keyspaces besides the default one
	maxSpace base.KeyspaceID // the largest number of one
	named    base.KeyspaceID // the largest number of one that an edit of a MANIFEST names
	next     uint64          // next file number
	maxSeq   base.SeqNum     // largest in anything read
	made     []uint64        // tables created by this run
	madeLog  uint64          // log created by this run, or 0
	aside    map[string]bool // to be set aside once CURRENT is in place
	lostMade bool
	obsolete []*logFile // by their names

	outOfPlace bool // Open leaves logs out, or refuses them

	values  *files.Set               // reads values in logs; nil: it has not been needed
	large   []byte                   // the last one read
	headers map[base.ValueFile]error // see headerDamage
}

// Run repairs a directory. With an error the report has the results up to it. Errors:
// base.ErrDoesNotExist when there is no database at all;
// base.ErrNotADatabase when it is another engine's; base.ErrComparerMismatch.
func Run(o Options) (_ *Report, err error) {
	if o.FS == nil || o.Comparer == nil || o.Tables.Comparer == nil {
		return nil, base.Invalidf("repair needs a file system, a comparer and table options")
	}
	if o.FileSize == 0 {
		o.FileSize = 64 << 20
	}
	if o.WriteBuffer <= 0 {
		o.WriteBuffer = 32 << 20
	}
	if o.MaxDecoded <= 0 {
		o.MaxDecoded = block.DefaultMaxDecoded
	}
	r := &repair{o: o, aside: make(map[string]bool),
		ingested: make(map[uint64]sstable.Ingested),
		told:     make(map[base.KeyspaceID]manifest.KeyspaceNames),
		twins:    make(map[base.KeyspaceID]bool),
		headers:  make(map[base.ValueFile]error)}
	defer func() { // also when the comparer panics
		if r.values != nil {
			err = errors.Join(err, r.values.Close())
		}
	}()
	return &r.report, r.run()
}

func (r *repair) run() error {
	if err := r.look(); err != nil {
		return err
	}
	if err := r.readManifests(); err != nil {
		return err
	}
	tables, err := r.checkTables()
	if err != nil {
		return err
	}
	logs, err := r.checkLogs()
	if err != nil {
		return err
	}
	tables = r.homeless(tables)
	if err := r.orderIngested(tables, logs); err != nil {
		return err
	}
	if !r.oldLog(tables, logs) {
		if healthy, err := r.healthy(tables); healthy || err != nil {
			return err
		}
	}
	if r.outOfPlace || r.oldLog(tables, logs) {
		if logs, err = r.misplaced(tables, logs); err != nil {
			return err
		}
	}
	info, err := r.o.FS.Stat(r.path(LostDir))
	switch {
	case err == nil && !info.IsDir():
		return base.Invalidf("%s is not a directory; move it away", r.path(LostDir))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := r.replace(tables, logs); err != nil {
		return err
	}
	return r.setAside()
}

// replace makes the new state and puts it in force. A failed one leaves no files.
func (r *repair) replace(tables []*table, logs []*logFile) (err error) {
	done := false
	defer func() { // also when the comparer panics
		if !done {
			err = errors.Join(err, r.removeMade())
		}
	}()
	st, err := r.rebuild(tables, logs)
	if err == nil {
		err = r.install(st)
	}
	done = err == nil
	return err
}

// Check fails where owner.Check does, and with base.ErrDoesNotExist where no file in dir has a
// database's name. Called before the lock is taken, it leaves no LOCK there.
func Check(fsys vfs.FS, dir string) error {
	if err := owner.Check(fsys, dir); err != nil {
		return err
	}
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	return checkNames(names, dir)
}

func checkNames(names []string, dir string) error {
	for _, name := range names {
		for _, f := range []base.Format{base.LevelDB, base.Native} {
			switch t, _ := f.ParseFileName(name); t {
			case base.FileTable, base.FileLog, base.FileManifest, base.FileCurrent:
				return nil
			}
		}
	}
	return fmt.Errorf("%w: nothing to repair in %s", base.ErrDoesNotExist, dir)
}

// look lists the directory.
func (r *repair) look() error {
	if err := owner.CheckReplaceable(r.o.FS, r.o.Dir); err != nil {
		return err
	}
	names, err := r.o.FS.List(r.o.Dir)
	if err != nil {
		return fmt.Errorf("listing %s: %w", r.o.Dir, err)
	}
	if err := checkNames(names, r.o.Dir); err != nil {
		return err
	}
	r.names = names
	if r.format, err = findFormat(r.o.FS, r.o.Dir, names); err != nil {
		return err
	}
	r.o.Tables.Format = r.format
	if r.format == base.LevelDB && seal.KeysOf(r.o.FS) != nil {
		return base.NeedsNative("encryption") // as Open does; nothing reads a sealed MANIFEST
	}
	return nil
}

// leaveStrays takes names off the list that cannot be the database's, if there is a
// usable MANIFEST: their numbers are out of its reach, or they are no regular files
// and the MANIFEST does not name them. r.next is above the numbers that are left.
func (r *repair) leaveStrays() error {
	st := &r.known.st
	kept := r.names[:0:0]
	r.next = 2
	for _, name := range r.names {
		t, n := r.format.ParseFileName(name)
		if r.known.from != "" && t != base.FileUnknown && t != base.FileCurrent {
			if !r.known.editsMissing && n >= st.Reach() {
				continue
			}
			info, err := r.o.FS.Stat(r.path(name))
			if err != nil {
				return err
			}
			if _, live := r.live[n]; !info.Mode().IsRegular() && !(live && t == base.FileTable) {
				continue
			}
		}
		kept = append(kept, name)
		if t != base.FileUnknown && n < maxNum {
			r.next = max(r.next, n+1)
		}
	}
	r.names = kept
	return nil
}

func (r *repair) newNum() uint64 {
	r.next++
	return r.next - 1
}

func (r *repair) path(name string) string { return filepath.Join(r.o.Dir, name) }

// open opens a regular file. ok is false, and the file dropped, when it is something else.
func (r *repair) open(name string) (f vfs.ReadFile, ok bool, err error) {
	info, err := r.o.FS.Stat(r.path(name))
	if err != nil {
		return nil, false, err
	}
	if !info.Mode().IsRegular() {
		r.report.drop(name, 0, 0, "not a regular file")
		return nil, false, nil
	}
	f, err = r.o.FS.Open(r.path(name))
	return f, err == nil, err
}

// healthy reports whether the directory can be left as it is.
func (r *repair) healthy(tables []*table) (bool, error) {
	if len(r.report.Dropped) > 0 || !r.known.levels || r.current == "" ||
		r.current != r.known.from {
		return false, nil
	}
	for _, t := range tables {
		if t.damage != "" {
			return false, nil
		}
	}
	s, err := manifest.Load(r.manifestOptions(), true)
	if err != nil {
		return false, nil
	}
	inPlace, err := r.replayable(s)
	var c *base.Corruption
	if errors.As(err, &c) {
		r.report.dropCorruption(c.File, c, 0, 0)
		err = nil
	}
	r.outOfPlace = !inPlace || c != nil
	return inPlace && c == nil && err == nil, errors.Join(err, s.Close())
}

// install makes the state the database's. The files that it refers to are durable
// already, but their names are not.
func (r *repair) install(st *manifest.State) error {
	if r.current == "" && slices.Contains(r.names, base.CurrentName) {
		// Whatever it is, the new CURRENT takes its name.
		if err := r.moveAside(base.CurrentName); err != nil {
			return err
		}
	}
	if err := r.makeLog(st.LogNum); err != nil {
		return err
	}
	if err := r.o.FS.SyncDir(r.o.Dir); err != nil {
		return err
	}
	names, err := r.o.FS.List(r.o.Dir)
	if err != nil {
		return err
	}
	o := r.manifestOptions()
	s, err := manifest.FromState(o, st, names)
	if err != nil {
		return err
	}
	r.made, r.madeLog = nil, 0 // from here on CURRENT may name a MANIFEST that lists them
	if err := s.StartManifest(); err != nil {
		return errors.Join(err, s.Close())
	}
	r.report.Manifest = r.format.FileName(base.FileManifest, s.ManifestNum())
	if err := s.Close(); err != nil {
		return err
	}
	if s, err = manifest.Load(o, true); err != nil {
		return fmt.Errorf("after the repair: %w", err)
	}
	return s.Close()
}

// makeLog makes the log that the new MANIFEST begins with, empty. Without it a repair that
// is cut short before setAside would leave a MANIFEST that looks like one of which edits
// are missing, and the next repair would take what this one has left out.
func (r *repair) makeLog(num uint64) error {
	f, err := r.o.FS.Create(r.path(r.format.FileName(base.FileLog, num)))
	if err != nil {
		return err
	}
	r.madeLog = num
	return errors.Join(f.Sync(), f.Close())
}

func (r *repair) manifestOptions() manifest.Options {
	return manifest.Options{FS: r.o.FS, Dir: r.o.Dir, Format: r.format, Comparer: r.o.Comparer,
		Comparers: r.comparer}
}

// setAside moves what the new MANIFEST does not need into LostDir: old
// MANIFESTs, logs, value files, tables that were replaced or are not live.
func (r *repair) setAside() error {
	for _, name := range r.names {
		switch t, _ := r.format.ParseFileName(name); t {
		case base.FileManifest, base.FileLog, base.FileValues:
			r.aside[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.aside)) {
		if err := r.moveAside(name); err != nil {
			return err
		}
	}
	if !r.lostMade {
		return nil
	}
	return errors.Join(r.o.FS.SyncDir(filepath.Join(r.o.Dir, LostDir)), r.o.FS.SyncDir(r.o.Dir))
}

// moveAside moves a file into LostDir, under a name that is free there.
func (r *repair) moveAside(name string) error {
	lost := filepath.Join(r.o.Dir, LostDir)
	if !r.lostMade {
		if err := r.o.FS.MkdirAll(lost); err != nil {
			return err
		}
		// The folder must be durable before it has the only copy of a file.
		if err := r.o.FS.SyncDir(r.o.Dir); err != nil {
			return err
		}
		r.lostMade = true
	}
	taken, err := r.o.FS.List(lost)
	if err != nil {
		return err
	}
	to := name
	for i := 1; slices.Contains(taken, to); i++ {
		to = fmt.Sprintf("%s.%d", name, i)
	}
	if err := r.o.FS.Rename(r.path(name), filepath.Join(lost, to)); err != nil {
		return fmt.Errorf("setting %s aside: %w", name, err)
	}
	r.report.SetAside = append(r.report.SetAside, to)
	return nil
}

// removeMade deletes what a repair that failed has made.
func (r *repair) removeMade() error {
	var errs []error
	for _, n := range r.made {
		errs = append(errs, r.o.FS.Remove(r.path(r.format.FileName(base.FileTable, n))))
	}
	if r.madeLog != 0 {
		errs = append(errs, r.o.FS.Remove(r.path(r.format.FileName(base.FileLog, r.madeLog))))
	}
	return errors.Join(errs...)
}

// isTable tells tables from other names; num is the table's number. In a native
// directory a table has a name of LevelDB's only if the MANIFEST has the table, an upgrade
// left it, and there is none with the native name.
func (r *repair) isTable(name string) (num uint64, ok bool) {
	if t, num := r.format.ParseFileName(name); t != base.FileUnknown {
		return num, t == base.FileTable
	}
	t, num := base.LevelDB.ParseFileName(name)
	if _, live := r.live[num]; t != base.FileTable || !live || num >= r.known.st.LevelDBBelow {
		return num, false
	}
	_, renamed := slices.BinarySearch(r.names, base.NamedLoam.Name(num))
	return num, !renamed
}

// naming is how the table name is named.
func naming(name string) base.TableNaming {
	t, _, _ := base.ParseTableName(name)
	return t
}
