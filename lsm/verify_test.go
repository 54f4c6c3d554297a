package lsm

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// verifyFormats runs a test on a database of several tables in each format.
func verifyFormats(t *testing.T, test func(t *testing.T, fsys *vfs.Mem, db *DB)) {
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		t.Run(format.String(), func(t *testing.T) {
			fsys := vfs.NewMem()
			db := mustOpen(t, "/db",
				small(Options{FS: fsys, Format: format, DisableCompaction: true,
					LevelDBFilter: true}))
			putKeys(t, db, 4000)
			mustFlush(t, db)
			for i := range 500 {
				if err := db.Delete(key(3*i), NoSync); err != nil {
					t.Fatal(err)
				}
			}
			mustFlush(t, db)
			test(t, fsys, db)
			if !db.engine.Health().Closing.Load() {
				mustClose(t, db)
			}
		})
	}
}

// liveTables lists the tables of the default keyspace.
func liveTables(db *DB) (tables []*manifest.FileMeta) {
	v := db.engine.Parts().Manifest.Current(base.DefaultKeyspace)
	defer v.Unref()
	for i := range v.Levels {
		tables = append(tables, v.Levels[i].Files...)
	}
	return tables
}

func TestVerifyHealthy(t *testing.T) {
	verifyFormats(t, func(t *testing.T, _ *vfs.Mem, db *DB) {
		snap := db.Snapshot()
		defer snap.Close()
		putKeys(t, db, 100)
		for range 2 {
			size := uint64(0)
			for _, m := range liveTables(db) {
				size += m.Size
			}
			var last uint64
			err := db.Verify(context.Background(), func(read, of uint64) {
				if read <= last || read > of || of != size {
					t.Errorf("%d of %d bytes after %d; the tables have %d", read, of, last, size)
				}
				last = read
			})
			if err != nil || last != size {
				t.Errorf("%d of %d bytes: %v", last, size, err)
			}
			mustCompact(t, db)
		}
	})
}

// TestVerifyFindsFlippedBytes: a flipped bit is found and named wherever it is in a table,
// but for bytes of LevelDB's footer that say nothing.
func TestVerifyFindsFlippedBytes(t *testing.T) {
	verifyFormats(t, func(t *testing.T, fsys *vfs.Mem, db *DB) {
		tables := liveTables(db)
		if len(tables) < 2 {
			t.Fatalf("%d tables", len(tables))
		}
		for _, m := range tables {
			name := path.Join("/db", m.Name())
			for _, at := range []float64{0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.97, 1 - 1/float64(m.Size)} {
				flip(t, fsys, name, at)
				err := db.Verify(context.Background(), nil)
				var damage *CorruptionError
				off := int64(at * float64(m.Size))
				switch {
				case !errors.As(err, &damage) || !errors.Is(err, ErrCorruption):
					t.Errorf("%s, byte %d of %d: %v", m.Name(), off, m.Size, err)
				case damage.File != m.Name() || off < damage.Offset ||
					off >= damage.Offset+max(damage.Length, 1):
					t.Errorf("%s, byte %d of %d: found at %d, %d bytes: %v", m.Name(), off, m.Size,
						damage.Offset, damage.Length, err)
				}
				flip(t, fsys, name, at)
			}
		}
		if err := db.Verify(context.Background(), nil); err != nil {
			t.Errorf("mended: %v", err)
		}
	})
}

// TestVerifyNamesEveryTable: damage in one table does not hide that in another, or a table
// that is too short, too long or gone.
func TestVerifyNamesEveryTable(t *testing.T) {
	verifyFormats(t, func(t *testing.T, fsys *vfs.Mem, db *DB) {
		putKeys(t, db, 100)
		mustFlush(t, db)
		tables := liveTables(db)
		if len(tables) < 3 {
			t.Fatalf("%d tables", len(tables))
		}
		flip(t, fsys, path.Join("/db", tables[0].Name()), 0.5)
		resize(t, fsys, path.Join("/db", tables[1].Name()), 1)
		if err := fsys.Remove(path.Join("/db", tables[2].Name())); err != nil {
			t.Fatal(err)
		}
		err := db.Verify(context.Background(), nil)
		for _, m := range tables[:3] {
			if err == nil || !strings.Contains(err.Error(), m.Name()) {
				t.Errorf("%s is not named: %v", m.Name(), err)
			}
		}
		resize(t, fsys, path.Join("/db", tables[1].Name()), -2)
		if err := db.Verify(context.Background(), nil); err == nil ||
			!strings.Contains(err.Error(), tables[1].Name()) {
			t.Errorf("too short: %v", err)
		}
	})
}

// resize cuts a file off, or makes it longer.
func resize(t *testing.T, fsys vfs.FS, name string, by int) {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	content := make([]byte, f.Size())
	if _, err := f.ReadAt(content, 0); err != nil {
		t.Fatal(err)
	}
	if by > 0 {
		content = append(content, make([]byte, by)...)
	} else {
		content = content[:len(content)+by]
	}
	w, err := fsys.Create(name + ".new")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(content)
	if err = errors.Join(err, w.Close(), f.Close(), fsys.Rename(name+".new", name)); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyEnds(t *testing.T) {
	verifyFormats(t, func(t *testing.T, _ *vfs.Mem, db *DB) {
		// nolint:staticcheck // that is the test
		if err := db.Verify(nil, nil); !errors.Is(err, ErrInvalidArgument) {
			t.Errorf("without a context: %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		calls := 0
		err := db.Verify(ctx, func(uint64, uint64) { calls++; cancel() })
		if !errors.Is(err, context.Canceled) || calls != 1 {
			t.Errorf("cancelled: %v after %d calls", err, calls)
		}
		err = db.Verify(context.Background(), func(uint64, uint64) { panic("told") })
		if err == nil || !strings.Contains(err.Error(), "panic: told") {
			t.Errorf("a panic of progress: %v", err)
		}
		mustPut(t, db, 1) // which does not make the database read-only
		err = db.Verify(context.Background(), func(uint64, uint64) {
			if calls++; calls == 2 {
				mustClose(t, db)
			}
		})
		if !errors.Is(err, ErrClosed) {
			t.Errorf("closed meanwhile: %v", err)
		}
		if err := db.Verify(context.Background(), nil); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}

// TestVerifyBesideCompactions: tables that compactions replace stay until they were read.
func TestVerifyBesideCompactions(t *testing.T) {
	rounds := seed.Scale(seed.Brief(1, 2), 3, 5)
	for _, format := range []Format{FormatLevelDB, FormatNative} {
		db := mustOpen(t, "/db", small(Options{FS: vfs.NewMem(), Format: format}))
		done := make(chan error, 1)
		go func() {
			var err error
			for round := 0; round < rounds && err == nil; round++ {
				for i := 0; i < 3000 && err == nil; i++ {
					err = db.Put(key(i*7%3000), fmt.Appendf(nil, "round %d %s", round, value(i)),
						NoSync)
				}
				err = errors.Join(err, db.CompactRange(nil, nil))
			}
			done <- err
		}()
		for n := 0; ; n++ {
			if err := db.Verify(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-done:
				if err != nil {
					t.Fatal(err)
				}
			default:
				continue
			}
			break
		}
		mustClose(t, db)
	}
}

// TestVerifyReadsAllKeyspaces: damage in a keyspace beside the default one is found, until the
// keyspace is dropped.
func TestVerifyReadsAllKeyspaces(t *testing.T) {
	fsys := vfs.NewMem()
	db := openSpaces(t, fsys, nil)
	k := mustSpace(t, db, "users")
	putIn(t, db, "a", "b", nil, k)
	if err := errors.Join(db.Flush(), k.Flush()); err != nil {
		t.Fatal(err)
	}
	if err := db.Verify(context.Background(), nil); err != nil {
		t.Error(err)
	}
	v := db.engine.Parts().Manifest.Current(k.space.Tree.ID())
	name := v.Levels[len(v.Levels)-1].Files[0].Name()
	v.Unref()
	flip(t, fsys, path.Join("db", name), 0.5)
	var damage *CorruptionError
	if err := db.Verify(context.Background(), nil); !errors.As(err, &damage) ||
		damage.File != name {
		t.Errorf("%v; want %s named", err, name)
	}
	if err := db.DropKeyspace("users"); err != nil {
		t.Fatal(err)
	}
	if err := db.Verify(context.Background(), nil); err != nil {
		t.Errorf("dropped: %v", err)
	}
	mustClose(t, db)
}
