package lsm

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/script"
)

// story is a database in memory that a script opens, writes, kills and damages.
type story struct {
	t     *testing.T
	fs    *vfs.Mem
	full  atomic.Bool // no table can be made
	db    *DB
	snaps map[string]*Snapshot
	iters map[string]*Iterator
}

// TestScripts runs testdata/recovery and testdata/flush. The commands:
//
//	open         read-only; prints what the recovery replayed, dropped and set aside
//	put a=1 b=2  a write each; with sync, a synced one. batch is one write; an argument
//	             without a value is a deletion. large repeats the values: then recovery
//	             makes a table.
//	scan         prints everything; at=NAME as a snapshot sees it
//	snapshot, iter, release   begin and end a snapshot or an iterator of that name
//	flush, compact, close
//	disk-full    tables cannot be made from now on; disk-free ends that
//	kill         ends the process: what is not closed is lost, and what is not synced,
//	             too, if power=cut
//	flip         changes a byte of the file, or of log=2, the second oldest, at=-3
//	             from its end; cut takes bytes=9 off its end; remove deletes it
//	files        prints how many files the directory has
//	levels       prints how many tables each level has
//
// Deletions and the making of the next log go on beside: files and levels wait for them. Numbers of
// files depend on that; in reports logs have the numbers 1, 2, 3 from the oldest on.
func TestScripts(t *testing.T) {
	for _, dir := range []string{"testdata/recovery", "testdata/flush"} {
		script.RunDir(t, dir, func(t *testing.T) func(*script.Command) string {
			s := &story{t: t, fs: vfs.NewMem(), snaps: map[string]*Snapshot{},
				iters: map[string]*Iterator{}}
			t.Cleanup(func() {
				if s.db != nil {
					_ = s.db.Close()
				}
			})
			return s.run
		})
	}
}

// settle, in a bubble, returns when the background has nothing to do but what an idle database
// does.
func settle() {
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

func (s *story) run(c *script.Command) string {
	var err error
	switch c.Name {
	case "open":
		return s.open(c)
	case "put", "batch":
		err = s.write(c)
	case "scan":
		return s.scan(c)
	case "snapshot":
		s.snaps[s.name(c)] = s.db.Snapshot()
	case "iter":
		it := s.db.Iter(nil)
		it.First()
		s.iters[s.name(c)] = it
	case "release":
		if snap := s.snaps[s.name(c)]; snap != nil {
			err = snap.Close()
		} else {
			err = s.iters[s.name(c)].Close()
		}
	case "flush":
		err = s.db.Flush()
	case "compact":
		err = s.db.CompactRange(nil, nil)
	case "close":
		err, s.db = s.db.Close(), nil
	case "disk-full", "disk-free":
		s.full.Store(c.Name == "disk-full")
	case "kill":
		s.kill(c)
	case "flip", "cut", "remove":
		s.damage(c)
	case "files":
		settle()
		return s.files()
	case "levels":
		settle()
		return s.levels()
	default:
		return c.Unknown()
	}
	return described(err)
}

// described is an error behind the names of the sentinels that it is.
func described(err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, ErrNoSpace) {
		return "ErrNoSpace" // with the number of the file in its text
	}
	out := ""
	for _, s := range []struct {
		name string
		err  error
	}{{"ErrCorruption", ErrCorruption}, {"ErrReadOnly", ErrReadOnly}, {"ErrDoesNotExist",
		ErrDoesNotExist}} {
		if errors.Is(err, s.err) {
			out += s.name + ": "
		}
	}
	return out + err.Error()
}

func (s *story) name(c *script.Command) string {
	if len(c.Args()) == 0 {
		c.Fail("what?")
	}
	return c.Args()[0].Key
}

func (s *story) open(c *script.Command) string {
	fsys := vfs.NewFault(s.fs, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpCreate && fstest.TypeOf(op.Name) == base.FileTable && s.full.Load() {
			return vfs.Outcome{Err: syscall.ENOSPC}
		}
		return vfs.Outcome{}
	})
	var ordinals []string // pairs for the replacer
	for i, log := range s.names(base.FileLog) {
		ordinals = append(ordinals, log, fmt.Sprintf("log %d", i+1))
	}
	text := strings.NewReplacer(ordinals...).Replace
	db, err := Open("db", &Options{FS: fsys, Format: FormatLevelDB, WALPreallocate: -1,
		DisableCompaction: true, ReadOnly: c.Has("read-only")})
	if err != nil {
		return text(described(err))
	}
	s.db = db
	r := db.RecoveryReport()
	var b strings.Builder
	fmt.Fprintf(&b, "%d logs, %d entries, last %d", r.Logs, r.Entries, r.LastSeq)
	if r.WasClean != (len(r.Dropped) == 0) {
		s.t.Errorf("line %d: clean %v, dropped %v", c.Line, r.WasClean, r.Dropped)
	}
	if r.TornBytes > 0 {
		fmt.Fprintf(&b, ", torn: %d bytes", r.TornBytes)
	}
	for _, d := range r.Dropped {
		fmt.Fprintf(&b, "\n%s, %d bytes at %d: %s", d.File, d.Bytes, d.Offset, d.Reason)
	}
	for _, name := range r.SetAside {
		fmt.Fprintf(&b, "\nset aside: %s", name)
	}
	return text(b.String())
}

// largeValue is how often put repeats a large value: recovery does not carry it into the
// new log.
const largeValue = 100_000

func (s *story) write(c *script.Command) error {
	mode := NoSync
	if c.Has("sync") {
		mode = Sync
	}
	b := NewBatch()
	for _, a := range c.Args() {
		if a.Key == "sync" || a.Key == "large" {
			continue
		}
		if a.Values == nil {
			b.Delete([]byte(a.Key))
		} else {
			n := 1
			if c.Has("large") {
				n = largeValue
			}
			b.Put([]byte(a.Key), []byte(strings.Repeat(a.Values[0], n)))
		}
		if c.Name == "put" {
			if err := s.db.Write(b, mode); err != nil {
				return err
			}
			b.Clear()
		}
	}
	if c.Name == "put" {
		return nil
	}
	return s.db.Write(b, mode)
}

func (s *story) scan(c *script.Command) string {
	var err error
	all := s.db.All(nil, nil, &err)
	if name := c.Arg("at", ""); name != "" {
		all = s.snaps[name].All(nil, nil, &err)
	}
	var out []string
	for k, v := range all {
		if len(v) >= largeValue {
			v = fmt.Appendf(nil, "%d bytes", len(v))
		}
		out = append(out, fmt.Sprintf("%s=%s", k, v))
	}
	if err != nil {
		out = append(out, described(err))
	}
	return strings.Join(out, " ")
}

// kill goes on with the directory as the process leaves it.
func (s *story) kill(c *script.Command) {
	o := vfs.KeepAll()
	if c.Arg("power", "") == "cut" {
		o = vfs.DropAll()
	}
	left := s.fs.CrashClone(o)
	_ = s.db.Close() // in a directory that nobody looks at any more
	s.fs, s.db = left, nil
}

func (s *story) damage(c *script.Command) {
	name := ""
	if n := c.Int("log", 0); n > 0 {
		name = "db/" + s.names(base.FileLog)[n-1]
	} else {
		name = "db/" + s.name(c)
	}
	b, err := fstest.ReadFile(s.fs, name)
	if err == nil {
		err = s.fs.Remove(name)
	}
	switch c.Name {
	case "flip":
		b[len(b)+c.Int("at", 0)] ^= 1
	case "cut":
		b = b[:len(b)-c.Int("bytes", 0)]
	}
	if c.Name != "remove" && err == nil {
		var w vfs.WriteFile
		if w, err = s.fs.Create(name); err == nil {
			_, err = w.Write(b)
			err = errors.Join(err, w.Close())
		}
	}
	if err != nil {
		c.Fail("%v", err)
	}
}

// names lists the files of a type, oldest first.
func (s *story) names(kind base.FileType) (names []string) {
	all, err := s.fs.List("db")
	if err != nil && !errors.Is(err, ErrDoesNotExist) && s.db != nil {
		s.t.Fatal(err)
	}
	for _, name := range all {
		if k, _ := base.LevelDB.ParseFileName(name); k == kind && name != "LOCK" {
			names = append(names, name)
		}
	}
	return names
}

func (s *story) files() string {
	out := fmt.Sprintf("%d logs, %d tables, %d MANIFEST", len(s.names(base.FileLog)),
		len(s.names(base.FileTable)), len(s.names(base.FileManifest)))
	for _, kind := range []base.FileType{base.FileTemp, base.FileUnknown} {
		for _, name := range s.names(kind) {
			out += ", " + strings.TrimLeft(name, "0123456789.")
		}
	}
	return out
}

func (s *story) levels() string {
	var out []string
	for i, l := range s.db.Metrics().Levels {
		if l.Files > 0 {
			out = append(out, fmt.Sprintf("L%d %d", i, l.Files))
		}
	}
	return strings.Join(out, ", ")
}
