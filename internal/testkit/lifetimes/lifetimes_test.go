package lifetimes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit"
	"github.com/loamdb/loam/lsm"
)

func caches(t *testing.T, f func(t *testing.T, shared bool, seed uint64)) {
	seed := uint64(testkit.Seed(t))
	testkit.EachFormat(t, func(t *testing.T, share int) {
		for _, shared := range []bool{false, true} {
			t.Run(map[bool]string{false: "own cache", true: "shared cache"}[shared],
				func(t *testing.T) {
					for i := range testkit.Scale(1, 2/share, 20) {
						f(t, shared, seed+uint64(i))
					}
				})
		}
	})
}

func TestAfterClose(t *testing.T) {
	caches(t, func(t *testing.T, shared bool, seed uint64) {
		if err := AfterClose(shared, seed); err != nil {
			t.Error(err)
		}
	})
}

func TestOpen(t *testing.T) {
	caches(t, func(t *testing.T, shared bool, seed uint64) {
		if err := Open(shared, seed); err != nil {
			t.Error(err)
		}
	})
}

func TestDuringClose(t *testing.T) {
	caches(t, func(t *testing.T, shared bool, seed uint64) {
		n := 1
		for ; !t.Failed(); n += testkit.Scale(testkit.Brief(9, 5), 4, 1) {
			reached, err := DuringClose(shared, seed, n)
			if err != nil {
				t.Errorf("stopped at call %d: %v", n, err)
			}
			if !reached {
				break
			}
		}
		t.Logf("stopped at %d calls", n-1)
		if n < 20 {
			t.Errorf("Close was stopped at %d calls: it is not stopped where it should be", n-1)
		}
	})
}

// subjects are the exported types with methods. "" says that the functions
// above call them; other types have no lifetime, and the text says why.
var subjects = map[string]string{
	"DB": "", "Keyspace": "", "Snapshot": "", "Txn": "", "Iterator": "", "Batch": "",
	"MultiResult": "", "Cache": "in functions",
	"Resources":   "in functions",
	"Follower":    "", // in follower_test.go
	"Options":     "a value; Set has tests of its own",
	"Compression": "a value",
	"Format":      "a value",
	"BatchIn":     "a value, of a Batch",
	"SavePoint":   "a value, of a Txn",
	"MmapMode":    "a value",
	"Metrics":     "a value",

	"TableWriter": "no object of a database: testkit/ingests",
	"BulkLoader":  "one goroutine's: tests of loads in lsm",
	"PinnedValue": "one goroutine's: tests of GetPinned in lsm",
	"Changes":     "tests of feeds in lsm",
	"Change":      "a value, of a feed",
	"Op":          "a value",

	"FilterDecision": "a value", "RepairReport": "a value", "RepairDrop": "a value",

	"CallbackError": "an error", "ConflictError": "an error", "CorruptionError": "an error",
	"EncryptionError": "an error", "DeadlockError": "an error", "GapError": "an error",
}

// serves opens two databases at once with the keys, and one of them again.
func serves(t *testing.T, keys lsm.KeyProvider, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	o := lsm.Options{FS: vfs.NewMem(), Encryption: keys}
	other := lsm.Options{FS: vfs.NewMem(), Encryption: keys}
	beside, err := lsm.Open("/db", &other)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		db, err := lsm.Open("/db", &o)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Put([]byte("k"), nil, lsm.Sync), db.Close()); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(beside.Rekey(context.Background()), beside.Close()); err != nil {
		t.Error(err)
	}
}

// functions has a test for each exported function and for the cache.
var functions = map[string]func(t *testing.T){
	"Open": func(t *testing.T) {
		fsys := vfs.NewMem()
		closed := lsm.NewCache(1 << 20)
		closed.Close()
		closed.Close()
		for _, o := range []*lsm.Options{{FS: fsys, Cache: closed},
			{FS: fsys, Cache: new(lsm.Cache)}, {FS: fsys, Comparer: &lsm.Comparer{}}} {
			for range 2 {
				db, err := lsm.Open("/db", o)
				if db != nil || !errors.Is(err, lsm.ErrClosed) &&
					!errors.Is(err, lsm.ErrInvalidArgument) {
					t.Errorf("open with %+v: %v", o, err)
				}
			}
		}
		dir := t.TempDir()
		db, err := lsm.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := lsm.Open(dir, nil); again != nil || !errors.Is(err, lsm.ErrLocked) {
			t.Errorf("open twice: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	},
	"Destroy": func(t *testing.T) {
		whileOpen(t, func(dir string, o *lsm.Options) error { return lsm.Destroy(dir, o) })
	},
	"Repair": func(t *testing.T) {
		whileOpen(t, func(dir string, o *lsm.Options) error {
			_, err := lsm.Repair(dir, o)
			return err
		})
	},
	"Upgrade": func(t *testing.T) { whileOpen(t, lsm.Upgrade) },
	"Export": func(t *testing.T) {
		n := 0
		whileOpen(t, func(dir string, o *lsm.Options) error {
			n++
			return lsm.Export(context.Background(), dir, fmt.Sprint(dir, n), lsm.FormatNative, o,
				nil)
		})
	},
	"SavePointOf": func(t *testing.T) {
		db, err := lsm.Open(t.TempDir(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		tx := db.Begin(nil)
		defer tx.Rollback()
		if s := tx.SavePoint(); lsm.SavePointOf(s.Number()) != s {
			t.Errorf("%v is another one by its number", s)
		}
		for _, n := range []uint64{0, 1 << 40} {
			if err := tx.RollbackTo(lsm.SavePointOf(n)); !errors.Is(err, lsm.ErrInvalidArgument) {
				t.Errorf("back to %d: %v", n, err)
			}
		}
	},
	"OpenFollower": func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "db")
		for _, o := range []*lsm.Options{nil, {}} {
			if f, err := lsm.OpenFollower(dir, o); f != nil ||
				!errors.Is(err, lsm.ErrDoesNotExist) {
				t.Errorf("without a database: %v", err)
			}
		}
		db, err := lsm.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // beside its writer, beside another, and when the writer has closed it
			f, e1 := lsm.OpenFollower(dir, nil)
			again, e2 := lsm.OpenFollower(dir, &lsm.Options{})
			if err := errors.Join(e1, e2); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(f.Close(), again.CatchUp(context.Background()),
				again.Close()); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err != nil && !errors.Is(err, lsm.ErrClosed) {
				t.Error(err)
			}
		}
		closed := lsm.NewCache(1 << 20)
		closed.Close()
		if f, err := lsm.OpenFollower(dir, &lsm.Options{Cache: closed}); f != nil ||
			!errors.Is(err, lsm.ErrClosed) {
			t.Errorf("with a closed cache: %v", err)
		}
	},
	"CompressionByLevel": func(t *testing.T) {
		open := func(c lsm.Compression) error {
			db, err := lsm.Open("/db", &lsm.Options{FS: vfs.NewMem(), Compression: c})
			if err != nil {
				return err
			}
			err = errors.Join(db.Put([]byte("k"), nil, lsm.NoSync), db.CompactRange(nil, nil))
			return errors.Join(err, db.Close())
		}
		levels := []lsm.Compression{lsm.NoCompression, lsm.SnappyCompression, lsm.ZstdCompression}
		list := lsm.CompressionByLevel(levels...)
		levels[0] = lsm.Compression(200) // the list is the caller's
		if err := errors.Join(open(list), open(lsm.CompressionByLevel(lsm.ZstdCompression))); err !=
			nil {
			t.Error(err)
		}
		for _, bad := range [][]lsm.Compression{levels, make([]lsm.Compression, 8), {list}} {
			if err := open(lsm.CompressionByLevel(bad...)); !errors.Is(err,
				lsm.ErrInvalidArgument) {
				t.Errorf("%v: %v", bad, err)
			}
		}
	},
	"NewBatch": func(t *testing.T) {
		if b := lsm.NewBatch(); b.Count() != 0 {
			t.Error("not empty")
		}
	},
	"BatchFromBytes": func(t *testing.T) {
		for _, bytes := range [][]byte{nil, {}, make([]byte, 11), append(make([]byte, 12), 9)} {
			if b, err := lsm.BatchFromBytes(bytes); b != nil ||
				!errors.Is(err, lsm.ErrInvalidArgument) {
				t.Errorf("%v: %v", bytes, err)
			}
		}
	},
	"NewCache": func(t *testing.T) {
		for _, size := range []int64{-1 << 63, -1, 0, 1, 1 << 20} {
			c := lsm.NewCache(size)
			db, err := lsm.Open("/db", &lsm.Options{FS: vfs.NewMem(), Cache: c})
			if err != nil {
				t.Fatal(err)
			}
			c.Close()
			c.Close()
			if err := errors.Join(db.Put([]byte("k"), nil, lsm.NoSync), db.Flush()); err != nil {
				t.Error(err)
			}
			if found, err := db.Has([]byte("k")); !found || err != nil {
				t.Errorf("cache of %d bytes: %v", size, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
		new(lsm.Cache).Close()
	},
	"NewResources": func(t *testing.T) {
		for _, o := range []lsm.ResourcesOptions{{},
			{Memory: -1, BackgroundJobs: -1, IOBytesPerSecond: -1, OpenFiles: -1},
			{Memory: 1, BackgroundJobs: 1, OpenFiles: 1}} {
			r := lsm.NewResources(o)
			db, err := lsm.Open("/db", &lsm.Options{FS: vfs.NewMem(), Resources: r})
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			r.Close()
			if again, err := lsm.Open("/db", &lsm.Options{FS: vfs.NewMem(), Resources: r}); again !=
				nil || !errors.Is(err, lsm.ErrClosed) {
				t.Errorf("open with closed resources: %v", err)
			}
			if err := errors.Join(db.Put([]byte("k"), nil, lsm.NoSync), db.Flush(),
				r.Set("background_jobs", "2")); err != nil {
				t.Error(err)
			}
			if found, err := db.Has([]byte("k")); !found || err != nil {
				t.Errorf("resources of %+v: %v", o, err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			r.Metrics()
			_ = r.Set("memory", "8MiB") // of a cache that may be gone
		}
		none := new(lsm.Resources)
		if _, err := lsm.Open("/db", &lsm.Options{FS: vfs.NewMem(), Resources: none}); !errors.Is(
			err, lsm.ErrClosed) {
			t.Errorf("resources that NewResources did not make: %v", err)
		}
		if err := none.Set("memory", "1GiB"); !errors.Is(err, lsm.ErrClosed) ||
			none.Metrics() != (lsm.ResourcesMetrics{}) {
			t.Errorf("they are set: %v", err)
		}
		none.Close()
	},
	"FilterChange": func(t *testing.T) {
		for _, value := range [][]byte{nil, {}, {1}} {
			if v, ok := lsm.FilterChange(value).Changes(); !ok || len(v) != len(value) {
				t.Errorf("a change to %q gives %q, %v", value, v, ok)
			}
		}
	},
	"NewKeyProvider": func(t *testing.T) {
		keys, err := lsm.NewKeyProvider(bytes.Repeat([]byte{1}, 32))
		serves(t, keys, err)
		if _, err := lsm.NewKeyProvider(nil); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("no key: %v", err)
		}
	},
	"NewPassphraseProvider": func(t *testing.T) {
		keys, err := lsm.NewPassphraseProvider("correct horse")
		serves(t, keys, err)
		if _, err := lsm.NewPassphraseProvider(""); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("no passphrase: %v", err)
		}
	},
	"NewKeyFileProvider": func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(file, bytes.Repeat([]byte("a1"), 32), 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := lsm.NewKeyFileProvider(file)
		if err := os.Remove(file); err != nil { // it was read
			t.Fatal(err)
		}
		serves(t, keys, err)
		if _, err := lsm.NewKeyFileProvider(file); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("no file: %v", err)
		}
	},
	// One filter serves a database after another one's end, and two at once.
	"PrefixFilter": func(t *testing.T) {
		f := lsm.PrefixFilter([]byte("a"))
		for _, o := range []*lsm.Options{{FS: vfs.NewMem(), CompactionFilter: f},
			{FS: vfs.NewMem(), CompactionFilter: f}} {
			db, err := lsm.Open("/db", o)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(db.Put([]byte("a"), nil, lsm.NoSync),
				db.CompactRange(nil, nil)); err != nil {
				t.Error(err)
			}
			if _, err := db.Get([]byte("a"), nil); !errors.Is(err, lsm.ErrNotFound) {
				t.Errorf("Get: %v", err)
			}
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}
		if _, err := lsm.PrefixFilter().Filter(1, nil, nil); err != nil {
			t.Error(err)
		}
	},
	"MergeOperatorNamed": func(t *testing.T) {
		if o := lsm.MergeOperatorNamed("max"); o == nil || o.Name != "max" ||
			lsm.MergeOperatorNamed("sum") != nil {
			t.Error("operators are not found by their names alone")
		}
	},
	"OSFS": func(t *testing.T) {
		for range 2 {
			if _, err := lsm.OSFS().List(t.TempDir()); err != nil {
				t.Error(err)
			}
		}
	},
	"NewTableWriter": func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "table")
		for _, o := range []*lsm.Options{nil, {}} {
			w, err := lsm.NewTableWriter(name, o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := lsm.NewTableWriter(name, o); !errors.Is(err, lsm.ErrExists) {
				t.Errorf("over another one: %v", err)
			}
			if err := errors.Join(w.Put(nil, nil), w.Close(), w.Close()); err != nil {
				t.Error(err)
			}
			for what, err := range map[string]error{
				"Put": w.Put([]byte("k"), nil), "Delete": w.Delete([]byte("k")),
				"PutTTL": w.PutTTL([]byte("k"), nil, 1), "DeleteRange": w.DeleteRange([]byte("a"),
					[]byte("b")), "Finish": w.Finish(),
			} {
				if !errors.Is(err, lsm.ErrClosed) {
					t.Errorf("%s after Close: %v", what, err)
				}
			}
			if n := w.EstimatedSize(); n != 0 {
				t.Errorf("a closed table has %d bytes", n)
			}
		}
		w, err := lsm.NewTableWriter(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("an empty table: %v", err)
		}
		if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a file is left: %v", err)
		}
		if _, err := lsm.NewTableWriter("", nil); err == nil {
			t.Error("a table without a name")
		}
	},
	"OptionDocs": func(t *testing.T) {
		if len(lsm.OptionDocs()) == 0 {
			t.Error("none")
		}
	},
}

// whileOpen wants f refused while the database is open, and right afterwards and
// twice, with nil options too.
func whileOpen(t *testing.T, f func(dir string, o *lsm.Options) error) {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := lsm.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Put([]byte("k"), []byte("v"), lsm.Sync); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*lsm.Options{nil, {}} {
		if err := f(dir, o); !errors.Is(err, lsm.ErrLocked) {
			t.Errorf("on an open database: %v", err)
		}
	}
	if v, err := db.Get([]byte("k"), nil); string(v) != "v" || err != nil {
		t.Errorf("afterwards: %q, %v", v, err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := f(dir, nil); err != nil && !errors.Is(err, lsm.ErrDoesNotExist) &&
			!errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	}
}

func TestFunctions(t *testing.T) {
	for name, f := range functions {
		t.Run(name, f)
	}
}

// TestNothingIsForgotten reads the source of package lsm: every exported
// function and every type with exported methods is in the tables above.
func TestNothingIsForgotten(t *testing.T) {
	dir := filepath.Join("..", "..", "..", "lsm")
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, e := range names {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() {
				continue
			}
			seen++
			if fn.Recv == nil {
				if functions[fn.Name.Name] == nil {
					t.Errorf("lsm.%s has no test in the table functions", fn.Name.Name)
				}
				continue
			}
			x := fn.Recv.List[0].Type
			if star, ok := x.(*ast.StarExpr); ok {
				x = star.X
			}
			if id, ok := x.(*ast.Ident); ok && id.IsExported() {
				if _, known := subjects[id.Name]; !known {
					t.Errorf("lsm.%s has methods and is not in the table subjects", id.Name)
				}
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d exported functions found", seen)
	}
}

// A method with an argument of an unknown type is an error, not left out.
func TestUnknownArgument(t *testing.T) {
	w := &world{}
	_, err := w.calls(new(novel), rand.New(rand.NewPCG(1, 1)))
	if err == nil || !strings.Contains(err.Error(), "novel.Method") ||
		!strings.Contains(err.Error(), "complex128") {
		t.Errorf("a method with a new kind of argument: %v", err)
	}
	err = w.closed(new(mute), rand.New(rand.NewPCG(1, 1)))
	if err == nil || !strings.Contains(err.Error(), "mute.Silent") {
		t.Errorf("a method that tells of no failure: %v", err)
	}
}

type novel struct{}

func (*novel) Method(complex128) error { return nil }

type mute struct{}

func (*mute) Silent() int { return 1 }

// The judge sees what it should.
func TestJudge(t *testing.T) {
	boom := call{"X.Boom", reflect.ValueOf(func() error { panic("boom") }), nil}
	if wrong := judge(boom, run(boom), lsm.ErrClosed); !strings.Contains(wrong, "boom") {
		t.Errorf("a panic: %q", wrong)
	}
	fine := call{"X.Fine", reflect.ValueOf(func() error {
		return fmt.Errorf("so: %w", lsm.ErrClosed)
	}), nil}
	if wrong := judge(fine, run(fine), lsm.ErrClosed); wrong != "" {
		t.Error(wrong)
	}
	if wrong := judge(fine, run(fine), nil); wrong == "" {
		t.Error("an error where none is allowed")
	}
	well := call{"X.Well", reflect.ValueOf(func() error { return nil }), nil}
	if wrong := judge(well, run(well), lsm.ErrClosed); wrong == "" {
		t.Error("no error where one must be")
	}
}
