// Package alike damages small databases and asks everything that reads one what it thinks of
// them: the answers must agree.
//
// The rules:
//
//  1. What Open, a read-only Open, a follower, Export, a checkpoint and a dump show is the same, or
//     all of them fail. Open counts as one that fails when a scan of its keyspaces does.
//  2. Verify and a backup, with its own Verify, fail where a scan does.
//  3. What is shown is the state behind a batch of the history. If it is not the last one, the
//     recovery report names the loss, unless the loss is undetectable.
//  4. A repair changes something where any other one fails. What is shown after it was written at
//     some time.
//
// Legitimate differences:
//
//   - Verify, backups and repairs read tables whole, with checksums of files. A scan reads data
//     blocks. So they may fail, or repair, where a scan shows the right state, if a table is
//     damaged.
//   - Open reports the end of a log in LevelDB's format that it dropped. A follower has no such
//     report, and fails.
//   - A repair may find damage in a log that no other one needs, or in a MANIFEST behind the last
//     whole edit.
package alike

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand"
	"path"
	"slices"
	"strings"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
	"github.com/loamdb/loam/lsm/dump"
)

const dir = "/d/db"

var ctx = context.Background()

// Shape is a kind of database to damage.
type Shape struct {
	Format lsm.Format
	Closed bool // else it was killed
}

// Shapes are all there are.
var Shapes = []Shape{{lsm.FormatNative, false}, {lsm.FormatNative, true},
	{lsm.FormatLevelDB, false}, {lsm.FormatLevelDB, true}}

func (s Shape) String() string {
	how := "killed"
	if s.Closed {
		how = "closed"
	}
	return fmt.Sprintf("%v, %s", s.Format, how)
}

// subject is a healthy database with its history.
type subject struct {
	shape  Shape
	fs     *vfs.Mem
	files  map[string][]byte // by name within dir
	states []string          // behind each batch, as text; the first one is empty
	newest string            // see newestLog
	wrote  map[string]bool   // what any batch has put: keyspace, key and value
}

// spaces are the keyspaces that a history writes.
func (s Shape) spaces() []string {
	if s.Format == lsm.FormatLevelDB {
		return []string{"default"}
	}
	return []string{"default", "other"}
}

func options(fs lsm.FS, f lsm.Format) *lsm.Options {
	return &lsm.Options{FS: fs, Format: f, WALPreallocate: -1, WriteBufferSize: 64 << 10,
		BlockSize: 256, Compression: lsm.NoCompression, DisableCompaction: true}
}

// newSubject writes a database of about 4 KiB. None, some or all batches are synced.
func newSubject(shape Shape, seed int64) (*subject, error) {
	rnd := rand.New(rand.NewSource(seed))
	mem := vfs.NewMem()
	s := &subject{shape: shape, states: []string{""}, wrote: map[string]bool{}}
	db, err := lsm.Open(dir, options(mem, shape.Format))
	if err != nil {
		return nil, err
	}
	now := map[string]string{}
	spaces := map[string]*lsm.Keyspace{}
	flush := map[string]func() error{"default": db.Flush}
	for _, name := range shape.spaces()[1:] {
		k, err := db.Keyspace(name, nil)
		if err != nil {
			return nil, err
		}
		spaces[name], flush[name] = k, k.Flush
	}
	batches, flushed := 10+rnd.Intn(8), 0
	syncs := []int{0, 1, 4}[rnd.Intn(3)] // of four batches
	for i := range batches {
		b := lsm.NewBatch()
		for range 1 + rnd.Intn(3) {
			space := shape.spaces()[rnd.Intn(len(shape.spaces()))]
			into := b
			key := fmt.Sprintf("k%d", rnd.Intn(12))
			put := func(f func(k, v []byte), d func(k []byte)) {
				if rnd.Intn(5) == 0 {
					d([]byte(key))
					delete(now, space+"/"+key)
					return
				}
				v := fmt.Sprintf("v%d-%s", i, strings.Repeat("x", rnd.Intn(24)))
				f([]byte(key), []byte(v))
				now[space+"/"+key] = v
				s.wrote[space+"/"+key+"="+v] = true
			}
			if k := spaces[space]; k != nil {
				put(into.In(k).Put, into.In(k).Delete)
			} else {
				put(into.Put, into.Delete)
			}
		}
		sync := lsm.NoSync
		if rnd.Intn(4) < syncs {
			sync = lsm.Sync
		}
		if err := db.Write(b, sync); err != nil {
			return nil, err
		}
		s.states = append(s.states, text(now))
		if rnd.Intn(4) == 0 && flushed < 3 {
			flushed++
			names := shape.spaces()
			if err := flush[names[rnd.Intn(len(names))]](); err != nil {
				return nil, err
			}
		}
	}
	if shape.Closed {
		err = db.Close()
		s.fs = mem
	} else {
		s.fs = mem.CrashClone(vfs.KeepAll())
		err = db.Close()
	}
	if err == nil {
		s.files, err = fstest.Tree(s.fs, dir)
	}
	if err == nil {
		s.newest, err = s.newestLog()
	}
	return s, err
}

func text(m map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(&b, "%s=%s\n", k, m[k])
	}
	return b.String()
}

// Damage is a change of a file.
type Damage struct {
	File string
	At   int
	Kind Kind
}

// Kind is what happens to a file from Damage.At on.
type Kind int

const (
	Flipped Kind = iota // one byte is another one
	Cut                 // the file ends there
	Zeroed              // 32 bytes are 0
	Emptied             // the file is zeros, whole
	Removed             // the file is not there
)

func (d Damage) String() string {
	return fmt.Sprintf("%s %s at %d", d.File,
		[...]string{"flipped", "cut", "zeroed", "all zeros",
			"removed"}[d.Kind], d.At)
}

// apply returns the damaged contents; nil if they are the same.
func (d Damage) apply(b []byte) []byte {
	out := bytes.Clone(b)
	switch d.Kind {
	case Flipped:
		if d.At < len(b) {
			out[d.At] ^= byte(1 + d.At*37%255)
		}
	case Cut:
		out = out[:d.At]
	case Zeroed:
		clear(out[d.At:min(d.At+32, len(out))])
	case Emptied:
		clear(out)
	case Removed:
		return []byte{}
	}
	if bytes.Equal(out, b) {
		return nil
	}
	return out
}

// damaged is the file system with a damage; nil if it changes nothing.
func (s *subject) damaged(d Damage) (*vfs.Mem, error) {
	b := d.apply(s.files[d.File])
	if b == nil {
		return nil, nil
	}
	fs, name := s.fs.Clone(), path.Join(dir, d.File)
	if err := fs.Remove(name); err != nil {
		return nil, err
	}
	if d.Kind == Removed {
		return fs, fs.SyncDir(path.Dir(name))
	}
	f, err := fs.Create(name)
	if err != nil {
		return nil, err
	}
	_, err = f.Write(b)
	return fs, errors.Join(err, f.Sync(), f.Close(), fs.SyncDir(path.Dir(name)))
}

// answer is the result of reading the database in one way.
type answer struct {
	err   error  // it fails
	state string // all entries, without an error
	told  bool   // the report names a loss
}

func (a answer) String() string {
	if a.err != nil {
		return fmt.Sprintf("fails: %v", a.err)
	}
	return fmt.Sprintf("shows %d bytes, told: %v", len(a.state), a.told)
}

// reader is what a DB, a Keyspace and a Follower have in common.
type reader interface {
	Iter(o *lsm.IterOptions) *lsm.Iterator
}

func scan(name string, r reader, to map[string]string) error {
	it := r.Iter(nil)
	for ok := it.First(); ok; ok = it.Next() {
		to[name+"/"+string(it.Key())] = string(it.Value())
	}
	return it.Close()
}

// read reads all keyspaces of a database.
func read(db *lsm.DB) (string, error) {
	m := map[string]string{}
	for _, name := range db.Keyspaces() {
		var r reader = db
		if name != "default" {
			k, err := db.Keyspace(name, nil)
			if err != nil {
				return "", err
			}
			r = k
		}
		if err := scan(name, r, m); err != nil {
			return "", err
		}
	}
	return text(m), nil
}

// asked has the answers to one damage.
type asked struct {
	open, readOnly, follower, export, checkpoint, dump, verify, backup, repair answer
	// the database that a repair left
	after answer
}

func (s *subject) opened(fs *vfs.Mem, readOnly bool, use func(db *lsm.DB) error) (a answer) {
	o := options(fs, s.shape.Format)
	o.ReadOnly, o.ErrorIfMissing = readOnly, true
	db, err := lsm.Open(dir, o)
	if err != nil {
		return answer{err: err}
	}
	a.state, a.err = read(db)
	a.told = !db.RecoveryReport().WasClean
	if use != nil {
		if err := use(db); err != nil {
			a.err = errors.Join(a.err, fmt.Errorf("use: %w", err))
		}
	}
	if err := db.Close(); err != nil && a.err == nil && readOnly {
		a.err = fmt.Errorf("closing: %w", err)
	}
	return a
}

func (s *subject) at(fs *vfs.Mem, where string) answer {
	o := options(fs, s.shape.Format)
	o.ErrorIfMissing = true
	db, err := lsm.Open(where, o)
	if err != nil {
		return answer{err: err}
	}
	a := answer{told: !db.RecoveryReport().WasClean}
	a.state, a.err = read(db)
	a.err = errors.Join(a.err, db.Close())
	return a
}

// ask asks all of them about a damaged database. Besides new copies, fs stays as it is.
func (s *subject) ask(fs *vfs.Mem) (q asked) {
	q.readOnly = s.opened(fs, true, nil)
	q.follower = s.follow(fs)
	if err := lsm.Export(ctx, dir, "/d/exported", s.shape.Format, options(fs, s.shape.Format),
		nil); err != nil {
		q.export.err = err
	} else {
		q.export = s.at(fs, "/d/exported")
	}
	repaired := fs.Clone()
	report, err := lsm.Repair(dir, options(repaired, s.shape.Format))
	q.repair.err = err
	if err == nil {
		q.repair.told = report.Changed() || len(report.Dropped) > 0
		q.after = s.opened(repaired, false, nil)
	}
	worked := fs.Clone()
	opened := false
	q.open = s.opened(worked, false, func(db *lsm.DB) error {
		opened = true
		q.verify.err = db.Verify(ctx, nil)
		_, q.dump.err = dump.Write(ctx, db, &bytes.Buffer{}, nil)
		if err := db.Checkpoint(ctx, "/d/checkpoint"); err != nil {
			q.checkpoint.err = err
		} else {
			q.checkpoint = s.at(worked, "/d/checkpoint")
		}
		q.backup = s.backup(worked, db)
		return nil
	})
	if !opened {
		q.verify.err, q.dump.err, q.checkpoint.err, q.backup.err =
			q.open.err, q.open.err, q.open.err, q.open.err
	}
	return q
}

func (s *subject) follow(fs *vfs.Mem) (a answer) {
	f, err := lsm.OpenFollower(dir, options(fs, s.shape.Format))
	if err != nil {
		return answer{err: err}
	}
	if a.err = f.CatchUp(ctx); a.err == nil {
		m := map[string]string{}
		for _, name := range f.Keyspaces() {
			var r reader = f
			if name != "default" {
				if r, a.err = f.Keyspace(name, nil); a.err != nil {
					break
				}
			}
			if a.err = scan(name, r, m); a.err != nil {
				break
			}
		}
		a.state = text(m)
	}
	_ = f.Close()
	return a
}

func (s *subject) backup(fs *vfs.Mem, db *lsm.DB) (a answer) {
	folder, err := backup.Open("/d/backups", &backup.Options{FS: fs})
	if err != nil {
		return answer{err: err}
	}
	info, err := folder.Create(ctx, db, nil)
	if err == nil {
		err = folder.Verify(ctx, info.ID, nil)
	}
	if err == nil {
		err = folder.Restore(ctx, info.ID, "/d/restored", nil)
	}
	if a.err = errors.Join(err, folder.Close()); a.err == nil {
		a = s.at(fs, "/d/restored")
	}
	return a
}

func isTable(file string) bool {
	return strings.HasSuffix(file, ".loam") || strings.HasSuffix(file, ".ldb")
}

// judge returns what of the answers breaks a rule, "" if nothing does.
func (s *subject) judge(d Damage, q *asked) string {
	table := isTable(d.File)
	scans := map[string]answer{"read-only Open": q.readOnly, "follower": q.follower,
		"Export": q.export, "checkpoint": q.checkpoint}
	if q.backup.err == nil {
		scans["restored backup"] = q.backup
	}
	fails := q.open.err != nil
	for _, name := range slices.Sorted(maps.Keys(scans)) {
		a := scans[name]
		switch {
		case name == "follower" && a.err != nil && q.open.told:
		case (a.err != nil) != fails:
			return fmt.Sprintf("%s %v, but Open %v", name, a, q.open)
		case !fails && a.state != q.open.state:
			return fmt.Sprintf("%s shows another state than Open: %q, %q", name, a.state,
				q.open.state)
		}
	}
	switch {
	case (q.dump.err != nil) != fails:
		return fmt.Sprintf("dump %v, but Open %v", q.dump, q.open)
	case fails && q.verify.err == nil, fails && q.backup.err == nil:
		return fmt.Sprintf("Verify %v, backup %v, but Open %v", q.verify, q.backup, q.open)
	case !fails && !table && (q.verify.err != nil || q.backup.err != nil):
		return fmt.Sprintf("Verify %v, backup %v, but Open %v", q.verify, q.backup, q.open)
	case (q.verify.err != nil) && (q.backup.err == nil) && s.shape.Format == lsm.FormatNative:
		return fmt.Sprintf("Verify %v, but backup %v", q.verify, q.backup)
	case q.repair.err != nil:
		return fmt.Sprintf("repair %v", q.repair)
	case (fails || q.verify.err != nil) && !q.repair.told:
		return fmt.Sprintf("repair sees no damage, but Open %v, Verify %v", q.open, q.verify)
	case q.after.err != nil:
		return fmt.Sprintf("after a repair, Open %v", q.after)
	}
	for line := range strings.Lines(q.after.state) {
		// its name was lost with the MANIFEST
		if rest, ok := strings.CutPrefix(line, "keyspace-1/"); ok {
			line = "other/" + rest
		}
		if !s.wrote[strings.TrimSuffix(line, "\n")] {
			return fmt.Sprintf("a repair invents %q", line)
		}
	}
	if fails {
		return ""
	}
	n := slices.Index(s.states, q.open.state)
	last := len(s.states) - 1
	switch {
	case n < 0:
		return fmt.Sprintf("Open %v: the state of no moment: %q", q.open, q.open.state)
	case q.open.state != s.states[last] && !q.open.told && !s.undetectable(d):
		return fmt.Sprintf("Open silently shows the state behind batch %d of %d", n, last)
	}
	return ""
}

// undetectable reports whether a damage may look like an earlier moment: nothing says how long the
// newest log or MANIFEST was.
func (s *subject) undetectable(d Damage) bool {
	isManifest := path.Ext(d.File) == ".manifest" || strings.HasPrefix(d.File, "MANIFEST")
	return d.Kind != Flipped && (isManifest || d.File == s.newest)
}

// newestLog returns the newest log that has something: the ones after it are empty, or made ahead.
func (s *subject) newestLog() (string, error) {
	names := slices.Sorted(maps.Keys(s.files))
	for _, name := range slices.Backward(names) {
		if path.Ext(name) != ".wal" && path.Ext(name) != ".log" {
			continue
		}
		fs, err := s.damaged(Damage{File: name, Kind: Cut})
		if err != nil {
			return "", err
		}
		if fs == nil {
			continue
		}
		if a := s.opened(fs, true, nil); a.err != nil || a.state != s.states[len(s.states)-1] {
			return name, nil
		}
	}
	return "", nil
}

// Run damages a database of a shape: each step-th byte, by each kind or by one in turn, and each
// file as a whole. It returns how many damages were tried, and the first one that is not seen
// alike.
func Run(shape Shape, seed int64, step int, all bool,
	report func(Damage, string) bool) (tried int, err error) {
	s, err := newSubject(shape, seed)
	if err != nil {
		return 0, err
	}
	if q := s.ask(s.fs.Clone()); s.judge(Damage{}, &q) != "" || q.repair.told ||
		q.open.state != s.states[len(s.states)-1] {
		return 0, fmt.Errorf("%v, seed %d: the healthy database: %s; %+v", shape, seed,
			s.judge(Damage{}, &q), q)
	}
	return tried, s.each(seed, step, all, func(d Damage, fs *vfs.Mem) (bool, error) {
		tried++
		q := s.ask(fs)
		if why := s.judge(d, &q); why != "" {
			return report(d, why), nil
		}
		return true, nil
	})
}

// each calls do with each damaged file system, until it fails or returns false.
func (s *subject) each(seed int64, step int, all bool,
	do func(d Damage, fs *vfs.Mem) (goOn bool, err error)) error {
	turn := 0
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if path.Base(name) == "LOCK" || path.Base(name) == "LOG" {
			continue
		}
		list := []Damage{{name, 0, Cut}, {name, 0, Emptied}, {name, len(s.files[name]) / 2, Cut}}
		if isTable(name) {
			list = append(list, Damage{name, 0, Removed})
		}
		for at := int(seed) % step; at < len(s.files[name]); at += step {
			for k := range Emptied {
				if all || int(k) == turn%int(Emptied) {
					list = append(list, Damage{name, at, k})
				}
			}
			turn++
		}
		for _, d := range list {
			fs, err := s.damaged(d)
			if err != nil {
				return err
			}
			if fs == nil {
				continue
			}
			if goOn, err := do(d, fs); err != nil || !goOn {
				return err
			}
		}
	}
	return nil
}

// Verdict is the strictest result of reading a database in all ways.
type Verdict int

const (
	Sound   Verdict = iota // nothing is wrong
	Told                   // the recovery reports that something ended early
	Damaged                // Open, a scan or Verify fails
)

// Case is a database with its verdict.
type Case struct {
	Damage  Damage
	Files   map[string][]byte // by name within the directory
	Verdict Verdict
}

// Each calls do with databases of a shape, damaged as by Run: each step-th byte, by one kind in
// turn. It returns how many there were of each verdict.
func Each(shape Shape, seed int64, step int, do func(Case) error) (verdicts [3]int, err error) {
	s, err := newSubject(shape, seed)
	if err != nil {
		return verdicts, err
	}
	return verdicts, s.each(seed, step, false, func(d Damage, fs *vfs.Mem) (bool, error) {
		c := Case{Damage: d}
		var err error
		if c.Files, err = fstest.Tree(fs, dir); err != nil {
			return false, err
		}
		var verify error
		a := s.opened(fs, true, func(db *lsm.DB) error {
			verify = db.Verify(ctx, nil)
			return nil
		})
		switch {
		case a.err != nil || verify != nil:
			c.Verdict = Damaged
		case a.told:
			c.Verdict = Told
		}
		verdicts[c.Verdict]++
		return true, do(c)
	})
}

// All is Run with every kind of damage at each step-th byte. The error is about the first damage
// that is not seen alike.
func All(shape Shape, seed int64, step int) (tried int, err error) {
	var bad error
	tried, err = Run(shape, seed, step, true, func(d Damage, why string) bool {
		bad = fmt.Errorf("%v, seed %d, %v: %s", shape, seed, d, why)
		return false
	})
	return tried, errors.Join(err, bad)
}
