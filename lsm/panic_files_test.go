package lsm

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// countedFS counts the files of an FS that are open.
type countedFS struct {
	vfs.FS
	open atomic.Int64
}

type countedWriteFile struct {
	vfs.WriteFile
	open *atomic.Int64
}

func (f countedWriteFile) Close() error { f.open.Add(-1); return f.WriteFile.Close() }

type countedReadFile struct {
	vfs.ReadFile
	open *atomic.Int64
}

func (f countedReadFile) Close() error { f.open.Add(-1); return f.ReadFile.Close() }

func (c *countedFS) Create(name string) (vfs.WriteFile, error) {
	f, err := c.FS.Create(name)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return countedWriteFile{f, &c.open}, nil
}

func (c *countedFS) Open(name string) (vfs.ReadFile, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return countedReadFile{f, &c.open}, nil
}

// TestPanicsCloseFiles has the comparer panic at its calls in Repair and Upgrade, while tables are
// written and, in the third round, values are read from logs: no file stays open, a failed Repair
// leaves no file, and the next call succeeds.
func TestPanicsCloseFiles(t *testing.T) {
	for _, c := range []struct {
		format Format
		large  int64
	}{{FormatLevelDB, 0}, {FormatNative, 0}, {FormatNative, 100}} {
		format := c.format
		left := -1 // calls until the panic; negative: none
		cmp := &Comparer{Name: "moody", Compare: func(a, b []byte) int {
			if left--; left == 0 {
				panic("no order today")
			}
			return bytes.Compare(a, b)
		}}
		options := func(fsys vfs.FS) *Options {
			return &Options{FS: fsys, Format: format, Comparer: cmp, WriteBufferSize: 64 << 10,
				MaxFileSize: 64 << 10, LargeValue: c.large}
		}
		mem := vfs.NewMem()
		large := options(mem)
		large.WriteBufferSize = 1 << 20 // the second round stays in the log
		db, err := Open("/db", large)
		must(t, err)
		for range 2 {
			must(t, db.Flush())
			for i := range 400 {
				must(t, db.Put(fmt.Appendf(nil, "%06d", i*7919%400),
					bytes.Repeat([]byte{byte(i)}, 150), NoSync))
			}
		}
		killed := mem.Clone()
		must(t, db.Close())
		for name, call := range map[string]func(o *Options) error{
			"Repair":  func(o *Options) error { _, err := Repair("/db", o); return err },
			"Upgrade": func(o *Options) error { return Upgrade("/db", o) },
		} {
			panics := 0
			for at := 1; ; at += at/seed.Scale(1, 2, 4) + 1 {
				mem := killed.Clone()
				if name == "Repair" {
					must(t, mem.Rename("/db/CURRENT", "/elsewhere"))
				}
				before, err := mem.List("/db")
				must(t, err)
				fsys := &countedFS{FS: mem}
				left = at
				err = call(options(fsys))
				hit := left <= 0
				left = -1
				if n := fsys.open.Load(); n != 0 {
					t.Fatalf("%v %s, panic at call %d: %d files are open; %v", format, name, at, n,
						err)
				}
				if hit && err != nil {
					panics++
					if after, err := mem.List("/db"); name == "Repair" &&
						(err != nil || fmt.Sprint(before) != fmt.Sprint(after)) {
						t.Fatalf("%v, panic at call %d: left are %v, there were %v; %v", format, at,
							after, before, err)
					}
					if !strings.Contains(err.Error(), "no order today") {
						t.Fatal(err)
					}
					must(t, call(options(mem)))
				}
				if !hit {
					must(t, err)
					break
				}
			}
			if panics < 5 && !(name == "Upgrade" && format == FormatNative) {
				t.Errorf("%v %s: %d panics", format, name, panics)
			}
		}
	}
}

// TestPanicsInOpen has the file system panic at each of its calls in Open, of a database with
// values in obsolete logs: Open returns an error, and the next one finds everything.
func TestPanicsInOpen(t *testing.T) {
	mem := vfs.NewMem()
	o := &Options{FS: mem, LargeValue: 1 << 10, WriteBufferSize: 64 << 10}
	db := mustOpen(t, "db", o)
	const n = 40
	large := bytes.Repeat([]byte("value "), 1000)
	for i := range n {
		must(t, db.Put(key(i), large, NoSync))
	}
	mustFlush(t, db)
	mustClose(t, db)
	for at, reached := int64(1), true; reached; at++ {
		disk := mem.Clone()
		var call atomic.Int64
		o.FS = vfs.NewFault(disk, func(op vfs.Op) vfs.Outcome {
			if call.Add(1) == at {
				panic(fmt.Sprintf("planted at call %d, %v", at, op))
			}
			return vfs.Outcome{}
		})
		db, err := Open("db", o)
		reached = call.Load() >= at
		switch {
		case err == nil:
			_ = db.Close()
		case !reached:
			t.Fatal(err)
		}
		o.FS = disk
		db = mustOpen(t, "db", o)
		for i := range n {
			wantIs(t, db, string(key(i)), string(large))
		}
		mustClose(t, db)
	}
}

// halfFS panics in the middle of an append to a MANIFEST, once it is armed.
type halfFS struct {
	vfs.FS
	armed atomic.Bool
}

type halfLog struct {
	vfs.Log
	of *halfFS
}

func (f *halfFS) CreateLog(name string, ahead int64) (vfs.Log, error) {
	l, err := f.FS.CreateLog(name, ahead)
	if err != nil || !strings.HasSuffix(name, ".manifest") {
		return l, err
	}
	return halfLog{l, f}, nil
}

func (l halfLog) Append(p []byte) error {
	if !l.of.armed.Swap(false) {
		return l.Log.Append(p)
	}
	if err := l.Log.Append(p[:len(p)/2]); err != nil {
		return err
	}
	panic("in the middle of an append")
}

// TestPanicsWithinEdits: a panic cuts off the append of an edit. Close writes no other edit behind
// it, and the next opening takes it for torn.
func TestPanicsWithinEdits(t *testing.T) {
	for name, call := range map[string]func(db *DB) error{
		"flush":  func(db *DB) error { return db.Flush() },
		"create": func(db *DB) error { _, err := db.Keyspace("new", nil); return err },
		"drop":   func(db *DB) error { return db.DropKeyspace("other") },
	} {
		fsys := &halfFS{FS: vfs.NewMem()}
		o := &Options{FS: fsys, Format: FormatNative}
		db := mustOpen(t, "db", o)
		_, err := db.Keyspace("other", nil)
		must(t, err)
		mustPut(t, db, 0)
		mustFlush(t, db)
		mustPut(t, db, 1)
		fsys.armed.Store(true)
		var p *base.Panic
		if err := call(db); !errors.As(err, &p) || !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
		if err := db.Put(key(2), value(2), Sync); !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: a write afterwards returns %v", name, err)
		}
		mustClose(t, db)
		db = mustOpen(t, "db", o)
		wantValues(t, db, 2)
		mustClose(t, db)
	}
}
