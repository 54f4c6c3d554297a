package lsm

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// tablesOnDisk lists the tables in the directory, as soon as deletions are done.
func tablesOnDisk(t *testing.T, db *DB) (tables []string) {
	t.Helper()
	db.engine.Parts().Shared.Reads.DrainFor(hang.Limit())
	db.engine.Parts().Shared.Files.WaitDeleted()
	tables, err := fstest.Find(db.engine.Parts().Opts.FS, db.engine.Parts().Dir, base.FileTable)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

// TestManifestShortageHeals has the disk refuse the MANIFEST for a while, a short
// write at a time. Nothing becomes read-only, and with space again flushes and
// compactions succeed without another opening. The tables of the failed tries go.
func TestManifestShortageHeals(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EMFILE} {
		for _, kind := range []vfs.OpKind{vfs.OpAppend, vfs.OpCreateLog, vfs.OpRename} {
			t.Run(kind.String()+" "+errno.Error(), func(t *testing.T) {
				mem := vfs.NewMem()
				var full atomic.Bool
				fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
					manifest := fstest.TypeOf(op.Name) == base.FileManifest ||
						kind == vfs.OpRename && fstest.TypeOf(op.Name) == base.FileTemp
					if full.Load() && manifest && (op.Kind == kind || op.Kind == vfs.OpAppend &&
						kind != vfs.OpAppend) {
						return vfs.Outcome{Err: errno, Short: int(op.N / 2)}
					}
					return vfs.Outcome{}
				})
				db := mustOpen(t, "db", small(Options{FS: fsys}))
				hang.Within(t, "a full disk", func() {
					mustPut(t, db, 1)
					full.Store(true)
					for i := range 3 {
						if err := db.Flush(); !errors.Is(err, errno) {
							t.Fatalf("flush: %v", err)
						}
						mustPut(t, db, 2+i)
					}
					if m := db.Metrics(); m.ReadOnly != nil ||
						!errors.Is(m.BackgroundError, errno) {
						t.Errorf("Metrics: read-only %v, background error %v", m.ReadOnly,
							m.BackgroundError)
					}
					if n := len(tablesOnDisk(t, db)); n > 1 {
						t.Errorf("%d tables wait for the MANIFEST, want at most that of the "+
							"first try", n)
					}
					full.Store(false)
					if err := db.Resume(); err != nil {
						t.Error(err)
					}
					for err := errors.New("not yet"); err != nil; err = db.Flush() {
						mustPut(t, db, 9)
					}
					if err := db.CompactRange(nil, nil); err != nil {
						t.Error(err)
					}
					if m := db.Metrics(); m.BackgroundError != nil {
						t.Errorf("still: %v", m.BackgroundError)
					}
					live := 0
					for _, l := range db.Metrics().Levels {
						live += l.Files
					}
					if on := tablesOnDisk(t, db); len(on) != live {
						t.Errorf("tables %v are on disk", on)
					}
					mustClose(t, db)
				})
				db = mustOpen(t, "db", &Options{FS: mem})
				for _, i := range []int{1, 2, 3, 4, 9} {
					wantValue(t, db, i)
				}
				mustClose(t, db)
			})
		}
	}
}

// TestManifestFailureIsFinal: any other failure than a shortage, and any of a sync,
// makes the database read-only.
func TestManifestFailureIsFinal(t *testing.T) {
	for kind, errno := range map[vfs.OpKind]syscall.Errno{vfs.OpAppend: syscall.EIO,
		vfs.OpSync: syscall.ENOSPC} {
		var broken atomic.Bool
		fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			if broken.Load() && op.Kind == kind && fstest.TypeOf(op.Name) == base.FileManifest {
				return vfs.Outcome{Err: errno}
			}
			return vfs.Outcome{}
		})
		db := mustOpen(t, "db", small(Options{FS: fsys}))
		mustPut(t, db, 1)
		broken.Store(true)
		if err := db.Flush(); !errors.Is(err, errno) || !errors.Is(err, ErrReadOnly) {
			t.Errorf("%v: %v", kind, err)
		}
		broken.Store(false)
		if err := db.Put(key(2), nil, NoSync); !errors.Is(err, ErrReadOnly) {
			t.Errorf("%v: later: %v", kind, err)
		}
		wantValue(t, db, 1)
		// it may tell of the failure again
		if err := db.Close(); err != nil && !errors.Is(err, errno) {
			t.Errorf("%v: %v", kind, err)
		}
	}
}

// TestTablesAreOpenedBeforeTheirEdit: the background opens a new table for its own
// sake only while no other job can know it. Later a compaction may have retired the
// table, and its reader would stay open for ever.
func TestTablesAreOpenedBeforeTheirEdit(t *testing.T) {
	var mu sync.Mutex
	var trace []string
	made := "" // the last table; others may be opened by readers at any time
	fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case op.Kind == vfs.OpCreate && fstest.TypeOf(op.Name) == base.FileTable:
			made = op.Name
		case op.Kind == vfs.OpOpen && op.Name == made:
			trace = append(trace, "open")
		case op.Kind == vfs.OpAppend && fstest.TypeOf(op.Name) == base.FileManifest:
			trace = append(trace, "edit")
		}
		return vfs.Outcome{}
	})
	db := mustOpen(t, "db", small(Options{FS: fsys, DisableCompaction: true}))
	putKeys(t, db, 100)
	mustFlush(t, db)
	for i := range 100 {
		if err := db.Delete(key(i), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	trace, made = nil, ""
	mu.Unlock()
	mustFlush(t, db)
	mu.Lock()
	got := strings.Join(trace, " ")
	mu.Unlock()
	mustClose(t, db)
	if !strings.HasPrefix(got, "open edit") {
		t.Errorf("a flush of deletions makes %q, want the table opened before its edit", got)
	}
}
