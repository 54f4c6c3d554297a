package backup_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/backup"
)

// gate is a file system whose writes of objects wait while it is shut.
type gate struct {
	*vfs.Mem
	fsys vfs.FS
	fail atomic.Pointer[error]
	hook atomic.Pointer[func(op vfs.Op)]
}

func newGate() *gate {
	g := &gate{Mem: vfs.NewMem()}
	g.fsys = vfs.NewFault(g.Mem, func(op vfs.Op) (out vfs.Outcome) {
		if h := g.hook.Load(); h != nil {
			(*h)(op)
		}
		if err := g.fail.Load(); err != nil && op.Kind == vfs.OpWrite {
			out.Err = *err
		}
		return out
	})
	return g
}

// setUp opens a database with some tables, and a folder.
func setUp(t *testing.T) (*gate, *lsm.DB, *backup.Folder) {
	t.Helper()
	g := newGate()
	db := mustOpen(t, "db", small(g.fsys))
	fill(t, db, 0, 3000)
	must(t, db.CompactRange(nil, nil))
	return g, db, mustFolder(t, "backups", g.fsys)
}

// wantNone wants no backup, and nothing left of one.
func wantNone(t *testing.T, g *gate, f *backup.Folder) {
	t.Helper()
	if f != nil {
		if list, err := f.List(); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	}
	for name := range tree(t, g.Mem, "backups") {
		if name != "LOCK" && name != "BACKUPS" {
			t.Errorf("%s is left", name)
		}
	}
}

// TestProgress: figures rise to the total, and are the same at the end.
func TestProgress(t *testing.T) {
	_, db, f := setUp(t)
	var mu sync.Mutex
	var last, of, calls uint64
	over := false
	o := &backup.RunOptions{Progress: func(done, total uint64) {
		mu.Lock()
		defer mu.Unlock()
		if over || done < last || done > total || of != 0 && of != total {
			t.Errorf("%d of %d behind %d of %d, over %v", done, total, last, of, over)
		}
		last, of = done, total
		calls++
	}}
	check := func(what string, err error) {
		t.Helper()
		must(t, err)
		mu.Lock()
		over = true
		mu.Unlock()
		if last != of || of == 0 || calls == 0 {
			t.Errorf("%s: %d of %d, %d calls", what, last, of, calls)
		}
		over, last, of, calls = false, 0, 0, 0
	}
	for range 2 {
		info, err := f.Create(ctx, db, o)
		total := of
		check("Create", err)
		if total != info.Bytes {
			t.Errorf("%d bytes, %+v", total, info)
		}
	}
	check("Verify", f.Verify(ctx, 1, o))
	check("Restore", f.Restore(ctx, 2, "copy", o))
	must(t, f.Close())
	must(t, db.Close())
}

// TestProgressCloses: the progress callback closes the database, or the folder, or blocks while
// another does.
func TestProgressCloses(t *testing.T) {
	for _, what := range []string{"database", "folder", "both", "elsewhere", "twice"} {
		t.Run(what, func(t *testing.T) {
			g, db, f := setUp(t)
			var once sync.Once
			var closed error
			_, err := f.Create(ctx, db, &backup.RunOptions{BytesPerSecond: 50_000,
				Progress: func(done, of uint64) {
					once.Do(func() {
						switch what {
						case "database":
							closed = db.Close()
						case "folder":
							closed = f.Close()
						case "both":
							closed = errors.Join(db.Close(), f.Close())
						case "twice": // another run, in this one's function
							if _, err := f.Create(ctx, db, nil); err != nil {
								t.Error(err)
							}
							closed = errors.Join(f.Close(), db.Close())
						case "elsewhere":
							end := make(chan error)
							go func() { end <- db.Close() }()
							closed = <-end
						}
					})
				}})
			if closed != nil || !errors.Is(err, lsm.ErrClosed) {
				t.Errorf("Close: %v; Create: %v", closed, err)
			}
			if what == "database" || what == "elsewhere" {
				wantNone(t, g, f)
			}
			_, _ = f.Close(), db.Close()
			if what != "twice" {
				wantNone(t, g, nil)
			}
			has(t, "db", g.Mem, 3000)
			if what == "twice" {
				f = mustFolder(t, "backups", g.Mem)
				must(t, f.Verify(ctx, 1, nil))
				must(t, f.Close())
			}
		})
	}
}

// TestProgressPanics: the run ends with an error, no data is lost, and database and folder
// continue.
func TestProgressPanics(t *testing.T) {
	g, db, f := setUp(t)
	o := &backup.RunOptions{BytesPerSecond: 100_000, Progress: func(done, of uint64) {
		panic("boom")
	}}
	_, err := f.Create(ctx, db, o)
	if err == nil || !strings.Contains(err.Error(), "the progress function failed: panic: boom") {
		t.Error(err)
	}
	wantNone(t, g, f)
	must(t, db.Put(key(3000), value(3000), lsm.Sync))
	mustCreate(t, f, db)
	if err := f.Restore(ctx, 1, "copy", o); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Error(err)
	}
	for _, name := range []string{"copy", "copy.incomplete"} {
		if _, err := g.Stat(name); err == nil {
			t.Errorf("%s is left", name)
		}
	}
	must(t, f.Verify(ctx, 1, nil))
	must(t, f.Close())
	must(t, db.Close())
}

// TestEnds: a context, a full disk and a file system that panics end a run, and leave nothing.
func TestEnds(t *testing.T) {
	g, db, f := setUp(t)
	slow := func(cancel func()) *backup.RunOptions {
		return &backup.RunOptions{BytesPerSecond: 20_000, Progress: func(done, of uint64) {
			cancel()
		}}
	}
	c, cancel := context.WithCancel(ctx)
	if _, err := f.Create(c, db, slow(cancel)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	wantNone(t, g, f)
	if _, err := f.Create(c, db, nil); !errors.Is(err, context.Canceled) { // from the beginning
		t.Error(err)
	}
	full := error(syscall.ENOSPC)
	g.fail.Store(&full)
	if _, err := f.Create(ctx, db, nil); !errors.Is(err, lsm.ErrNoSpace) {
		t.Error(err)
	}
	g.fail.Store(nil)
	wantNone(t, g, f)
	boom := func(op vfs.Op) {
		if op.Kind == vfs.OpSync && strings.Contains(op.Name, "data/") {
			panic("boom")
		}
	}
	g.hook.Store(&boom)
	if _, err := f.Create(ctx, db, nil); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Error(err)
	}
	g.hook.Store(nil)
	wantNone(t, g, f)
	mustCreate(t, f, db)
	for range 2 {
		c, cancel = context.WithCancel(ctx)
		if err := f.Verify(c, 1, slow(cancel)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := f.Restore(c, 1, "copy", slow(cancel)); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	m := db.Metrics().Backups
	if m.Count != 5 || m.Failed != 4 {
		t.Errorf("%+v", m)
	}
	// nolint:staticcheck // that is the test
	if _, err := f.Create(nil, db, nil); !errors.Is(err, lsm.ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := f.Create(ctx, nil, nil); !errors.Is(err, lsm.ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := f.Create(ctx, db, &backup.RunOptions{BytesPerSecond: -1}); !errors.Is(err,
		lsm.ErrInvalidArgument) {
		t.Error(err)
	}
	must(t, f.Restore(ctx, 1, "copy", nil))
	must(t, f.Close())
	must(t, db.Close())
	for _, err := range []error{f.Delete(1), f.Keep(1), f.Verify(ctx, 1, nil),
		f.Restore(ctx, 1, "x", nil), second(f.List()), second(f.Create(ctx, db, nil))} {
		if !errors.Is(err, lsm.ErrClosed) {
			t.Error(err)
		}
	}
	f = mustFolder(t, "backups", g.Mem)
	if _, err := f.Create(ctx, db, nil); !errors.Is(err, lsm.ErrClosed) { // the database
		t.Error(err)
	}
	must(t, f.Close())
}

// TestRate: no more than so many bytes per second are read.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, db, f := setUp(t)
		begun := time.Now()
		info, err := f.Create(ctx, db, &backup.RunOptions{BytesPerSecond: 400_000})
		must(t, err)
		if took, least := time.Since(begun).Seconds(), float64(info.Bytes)/400_000; took < least {
			t.Errorf("%d bytes in %.3f s, at least %.3f", info.Bytes, took, least)
		}
		must(t, f.Close())
		must(t, db.Close())
	})
}

// TestDeleteBesideRestore: what is being read stays until it was.
func TestDeleteBesideRestore(t *testing.T) {
	g, db, f := setUp(t)
	mustCreate(t, f, db)
	deleted := make(chan error, 1)
	var once sync.Once
	must(t, f.Restore(ctx, 1, "copy", &backup.RunOptions{BytesPerSecond: 400_000,
		Progress: func(done, of uint64) {
			once.Do(func() { deleted <- f.Delete(1) })
		}}))
	must(t, <-deleted)
	has(t, "copy", g.Mem, 3000)
	for name := range tree(t, g.Mem, "backups") {
		if strings.HasPrefix(name, "data/") {
			t.Errorf("%s is left", name)
		}
	}
	must(t, f.Close())
	must(t, db.Close())
}

// TestSideBySide: backups, deletions, restores and verifications of one folder at once.
func TestSideBySide(t *testing.T) {
	g, db, f := setUp(t)
	mustCreate(t, f, db)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 8 {
				n := 3000 + i*100 + j
				err := db.Put(key(n), value(n), lsm.NoSync)
				if err == nil && j%2 == 0 {
					err = db.Flush()
				}
				var info backup.Info
				if err == nil {
					info, err = f.Create(ctx, db, nil)
				}
				if err == nil {
					err = f.Verify(ctx, info.ID, nil)
				}
				to := fmt.Sprintf("copy%d-%d", i, j)
				if err == nil {
					err = f.Restore(ctx, info.ID, to, nil)
				}
				if err == nil && j%3 != 0 {
					err = f.Delete(info.ID)
				}
				if err == nil {
					err = lsm.Destroy(to, &lsm.Options{FS: g.Mem})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	must(t, f.Keep(2))
	wantBackups(t, f, 2)
	must(t, f.Close())
	must(t, db.Close())
}

// TestPanicInTheLastStep has the file system panic once the catalog of a backup has its name: the
// backup fails, and the folder lists no backup that lacks a file.
func TestPanicInTheLastStep(t *testing.T) {
	mem := vfs.NewMem()
	db := mustOpen(t, "db", small(mem))
	must(t, db.Put(key(0), value(0), lsm.Sync))
	armed, named := false, false
	f := mustFolder(t, "backups", vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpSyncDir && named {
			armed, named = false, false
			panic("in the last step")
		}
		named = armed && op.Kind == vfs.OpRename && path.Dir(op.Name) == "backups"
		return vfs.Outcome{}
	}))
	armed = true
	if _, err := f.Create(ctx, db, nil); err == nil {
		t.Error("a backup whose last step panics succeeds")
	}
	wantBackups(t, f, 0)
	must(t, f.Close())
	must(t, db.Close())
	f = mustFolder(t, "backups", mem)
	wantBackups(t, f, 0)
	must(t, f.Close())
}
