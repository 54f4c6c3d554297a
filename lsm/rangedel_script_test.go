package lsm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/script"
)

// ranges is a database with range deletes that a script works with.
type ranges struct {
	t     *testing.T
	fs    *vfs.Mem
	full  atomic.Bool  // no table can be made
	bad   atomic.Value // the name of a table that cannot be read
	db    *DB
	snaps map[string]*Snapshot
	iters map[string]*Iterator
}

// TestRangeDeleteScripts runs testdata/rangedel: what other engines had wrong about range
// tombstones. Keys are words; % is the empty one. The commands:
//
//	put a=1 b=2   a write each; large repeats the values, so that compactions make a table
//	              of each key
//	del, delrange a=c, merge a=1
//	batch         one write: a line of the input each, as above
//	get a b       with at=NAME as a snapshot sees them
//	scan          prints everything, and wants the same backwards and by Get; at=NAME,
//	              lower=, upper=
//	snapshot, iter, release   begin and end a snapshot or an iterator of that name
//	move i seekge=b next prev seeklt=c first last   prints where an iterator is after each
//	flush, compact from=a to=c, reopen, kill
//	tables        prints the bounds of the tables of each level
//	disk-full     tables cannot be made from now on, so that memtables stay; disk-free ends that
//	bad           the table of key=k at level=n cannot be read from now on; good ends that
func TestRangeDeleteScripts(t *testing.T) {
	script.RunDir(t, "testdata/rangedel", func(t *testing.T) func(*script.Command) string {
		s := &ranges{t: t, fs: vfs.NewMem(), snaps: map[string]*Snapshot{},
			iters: map[string]*Iterator{}}
		s.bad.Store("")
		s.open()
		t.Cleanup(func() {
			for _, it := range s.iters {
				_ = it.Close()
			}
			_ = s.db.Close()
		})
		return s.run
	})
}

func (s *ranges) open() {
	fsys := vfs.NewFault(s.fs, func(op vfs.Op) vfs.Outcome {
		table := fstest.TypeOf(op.Name) == base.FileTable
		if table && op.Kind == vfs.OpCreate && s.full.Load() {
			return vfs.Outcome{Err: syscall.ENOSPC}
		}
		if bad := s.bad.Load().(string); table && op.Kind == vfs.OpRead && bad != "" &&
			strings.HasSuffix(op.Name, bad) {
			return vfs.Outcome{Err: syscall.EIO}
		}
		return vfs.Outcome{}
	})
	s.db = mustOpen(s.t, "db", &Options{FS: fsys, Format: FormatNative, Compression: NoCompression,
		MaxFileSize:       64 << 10,
		MaxSubcompactions: 2, CacheSize: -1, Mmap: MmapOff, DisableCompaction: true,
		MergeOperator: MergeOperatorNamed("append")})
}

func word(s string) []byte {
	if s == "%" {
		return []byte{}
	}
	return []byte(s)
}

func (s *ranges) run(c *script.Command) string {
	var err error
	switch c.Name {
	case "put", "del", "delrange", "merge":
		n := 1
		if c.Has("large") {
			n = largeValue
		}
		for _, a := range c.Args() {
			if a.Key != "large" && err == nil {
				b := NewBatch()
				s.add(c, b, c.Name, a.Key, strings.Join(a.Values, ""), n)
				err = s.db.Write(b, NoSync)
			}
		}
	case "batch":
		b := NewBatch()
		for _, line := range c.Lines() {
			f := strings.Fields(line)
			key, value, _ := strings.Cut(f[1], "=")
			s.add(c, b, f[0], key, value, 1)
		}
		err = s.db.Write(b, NoSync)
	case "get":
		return s.get(c)
	case "scan":
		return s.scan(c)
	case "snapshot":
		s.snaps[c.Args()[0].Key] = s.db.Snapshot()
	case "iter":
		s.iters[c.Args()[0].Key] =
			s.reader(c).Iter(&IterOptions{Lower: c.Bytes("lower"), Upper: c.Bytes("upper")})
	case "release":
		name := c.Args()[0].Key
		if snap := s.snaps[name]; snap != nil {
			err = snap.Close()
		} else {
			err = s.iters[name].Close()
		}
	case "move":
		return s.move(c)
	case "flush":
		err = s.db.Flush()
	case "compact":
		err = s.db.CompactRange(c.Bytes("from"), c.Bytes("to"))
	case "reopen", "kill":
		left := s.fs.CrashClone(vfs.KeepAll())
		mustClose(s.t, s.db)
		if c.Name == "kill" {
			s.fs = left
		}
		s.open()
	case "tables":
		return s.tables()
	case "disk-full", "disk-free":
		if s.full.Store(c.Name == "disk-full"); c.Name == "disk-free" {
			err = s.db.Resume()
		}
	case "bad", "good":
		s.bad.Store("")
		if c.Name == "bad" {
			s.bad.Store(s.tableOf(c, c.Int("level", 0), c.Arg("key", "")))
		}
	default:
		return c.Unknown()
	}
	return described(err)
}

func (s *ranges) add(c *script.Command, b *Batch, verb, key, value string, n int) {
	switch verb {
	case "put":
		b.Put(word(key), []byte(strings.Repeat(value, n)))
	case "del":
		b.Delete(word(key))
	case "merge":
		b.Merge(word(key), []byte(value))
	case "delrange":
		b.DeleteRange(word(key), word(value))
	default:
		c.Fail("verb %q", verb)
	}
}

func (s *ranges) reader(c *script.Command) Reader {
	if name := c.Arg("at", ""); name != "" {
		return s.snaps[name]
	}
	return s.db
}

func show(k, v []byte) string {
	name := string(k)
	if name == "" {
		name = "%"
	}
	if len(v) >= largeValue {
		v = v[:len(v)/largeValue]
	}
	return name + "=" + string(v)
}

func (s *ranges) get(c *script.Command) string {
	var out []string
	for _, a := range c.Args() {
		if a.Key == "at" {
			continue
		}
		v, err := s.reader(c).Get(word(a.Key), nil)
		switch {
		case errors.Is(err, ErrNotFound):
			out = append(out, "none")
		case err != nil:
			out = append(out, "error")
		default:
			out = append(out, show(word(a.Key), v))
		}
	}
	return strings.Join(out, " ")
}

func (s *ranges) scan(c *script.Command) string {
	r := s.reader(c)
	it := r.Iter(&IterOptions{Lower: c.Bytes("lower"), Upper: c.Bytes("upper")})
	var out, back []string
	for ok := it.First(); ok; ok = it.Next() {
		out = append(out, show(it.Key(), it.Value()))
		if v, err := r.Get(it.Key(), nil); err != nil || string(v) != string(it.Value()) {
			s.t.Errorf("line %d: Get of %q: %v", c.Line, it.Key(), err)
		}
	}
	err := it.Err()
	for ok := it.Last(); ok; ok = it.Prev() {
		back = append(back, show(it.Key(), it.Value()))
	}
	slices.Reverse(back)
	if err := errors.Join(err, it.Close()); err != nil {
		return strings.Join(append(out, "error"), " ")
	}
	if !slices.Equal(out, back) {
		s.t.Errorf("line %d: backwards %v", c.Line, back)
	}
	return strings.Join(out, " ")
}

func (s *ranges) move(c *script.Command) string {
	it := s.iters[c.Args()[0].Key]
	var out []string
	for _, a := range c.Args()[1:] {
		var ok bool
		switch to := word(strings.Join(a.Values, "")); a.Key {
		case "seekge":
			ok = it.SeekGE(to)
		case "seeklt":
			ok = it.SeekLT(to)
		case "next":
			ok = it.Next()
		case "prev":
			ok = it.Prev()
		case "first":
			ok = it.First()
		case "last":
			ok = it.Last()
		default:
			c.Fail("move %q", a.Key)
		}
		switch {
		case ok:
			out = append(out, show(it.Key(), it.Value()))
		case it.Err() != nil:
			out = append(out, "error")
		default:
			out = append(out, "end")
		}
	}
	return strings.Join(out, " ")
}

func (s *ranges) tables() string {
	v := s.db.space.Tree.Acquire()
	defer v.Unref()
	var out []string
	for n, l := range v.Version.Levels {
		for _, f := range l.Files {
			line := fmt.Sprintf("L%d %s to %s", n, show(f.Smallest.User, nil),
				show(f.Largest.User, nil))
			if f.Facts.RangeDels > 0 {
				line += fmt.Sprintf(", %d range tombstones", f.Facts.RangeDels)
			}
			out = append(out, strings.ReplaceAll(line, "=", ""))
		}
	}
	return strings.Join(out, "\n")
}

// tableOf is the file name of the table of a level that has a key.
func (s *ranges) tableOf(c *script.Command, level int, key string) string {
	v := s.db.space.Tree.Acquire()
	defer v.Unref()
	for _, f := range v.Version.Levels[level].Files {
		if string(f.Smallest.User) <= key && key <= string(f.Largest.User) {
			return s.db.engine.Parts().Manifest.Format().FileName(base.FileTable, f.Num)
		}
	}
	c.Fail("no table has %q at level %d", key, level)
	return ""
}
