package lsm

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// handles counts the logs of a file system that are open.
type handles struct {
	mu   sync.Mutex
	open map[string]int
}

// opensLog reports whether a call opens the next log: a new one, or an obsolete one again.
func opensLog(k vfs.OpKind) bool { return k == vfs.OpCreateLog || k == vfs.OpReuseLog }

func (h *handles) after(op vfs.Op, failed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case fstest.TypeOf(op.Name) != base.FileLog:
	case opensLog(op.Kind) && !failed:
		h.open[op.Name]++
	case op.Kind == vfs.OpClose:
		h.open[op.Name]--
	}
}

func (h *handles) count() (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.open {
		n += c
	}
	return n
}

// logShortage is a way in which a log, or the next log, can meet a shortage.
type logShortage struct {
	name string
	err  error
	want error
	hits func(op vfs.Op, fresh bool) bool // fresh: of a log without a record
	cut  int                              // percentage of an append that is written
}

var logShortages = []logShortage{
	{"append", syscall.ENOSPC, ErrNoSpace, func(op vfs.Op, fresh bool) bool {
		return op.Kind == vfs.OpAppend && !fresh
	}, 0},
	{"half an append", syscall.EDQUOT, ErrNoSpace, func(op vfs.Op, fresh bool) bool {
		return op.Kind == vfs.OpAppend && !fresh
	}, 50},
	{"half an append, and no space for the cut", syscall.ENOSPC, ErrNoSpace,
		func(op vfs.Op, fresh bool) bool {
			return op.Kind == vfs.OpAppend && !fresh || op.Kind == vfs.OpTruncate
		}, 50},
	{"nearly all of an append", syscall.EFBIG, ErrNoSpace, func(op vfs.Op, fresh bool) bool {
		return op.Kind == vfs.OpAppend && !fresh
	}, 99},
	{"no descriptor", syscall.EMFILE, ErrTooManyFiles, func(op vfs.Op, _ bool) bool {
		return opensLog(op.Kind)
	}, 0},
	{"no space for a file", syscall.ENOSPC, ErrNoSpace, func(op vfs.Op, _ bool) bool {
		return opensLog(op.Kind)
	}, 0},
	{"marker", syscall.ENOSPC, ErrNoSpace, func(op vfs.Op, fresh bool) bool {
		return op.Kind == vfs.OpAppend && fresh
	}, 0},
	{"half a marker", syscall.ENOSPC, ErrNoSpace, func(op vfs.Op, fresh bool) bool {
		return op.Kind == vfs.OpAppend && fresh
	}, 50},
	{"no descriptor for the directory", syscall.ENFILE, ErrTooManyFiles,
		func(op vfs.Op, _ bool) bool { return op.Kind == vfs.OpSyncDir }, 0},
}

// shortFS is a file system in memory whose logs can meet a shortage.
func shortFS(mem *vfs.Mem, short *atomic.Bool, h *handles, s logShortage) vfs.FS {
	var mu sync.Mutex
	written := map[string]bool{}
	return vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		mu.Lock()
		fresh := fstest.TypeOf(op.Name) == base.FileLog && !written[op.Name]
		if op.Kind == vfs.OpAppend && !short.Load() {
			written[op.Name] = true
		}
		mu.Unlock()
		isLog := op.Kind == vfs.OpSyncDir || fstest.TypeOf(op.Name) == base.FileLog
		fails := short.Load() && isLog && s.hits(op, fresh)
		h.after(op, fails)
		if fails {
			return vfs.Outcome{Err: s.err, Short: int(op.N) * s.cut / 100}
		}
		return vfs.Outcome{}
	})
}

// TestLogShortageHeals: a write that the log has no room or descriptor for fails
// with a typed error and is not visible; when there is room again, writes go on,
// and neither files nor descriptors are left over.
func TestLogShortageHeals(t *testing.T) {
	for _, s := range logShortages {
		t.Run(s.name, func(t *testing.T) {
			var short atomic.Bool
			h := &handles{open: map[string]int{}}
			mem := vfs.NewMem()
			fsys := shortFS(mem, &short, h, s)
			db := mustOpen(t, "db",
				small(Options{FS: fsys, MaxMemtables: 8, DisableCompaction: true}))
			acked, failed := map[int]bool{}, 0
			put := func(i int) error {
				err := db.Put(key(i), make([]byte, 1000), WriteMode(i&1))
				if err == nil {
					acked[i] = true
				}
				return err
			}
			check := func() {
				t.Helper()
				for i := range 2000 {
					has, err := db.Has(key(i))
					if err != nil || has != acked[i] {
						t.Fatalf("key %d: acknowledged %v, present %v, %v", i, acked[i], has, err)
					}
				}
			}
			i := 0
			for round := range 3 {
				for range 100 {
					if err := put(i); err != nil {
						t.Fatalf("round %d: %v", round, err)
					}
					i++
				}
				short.Store(true)
				for refused := 0; refused < 5; i++ {
					if i > 2000 {
						t.Fatal("no write was refused")
					}
					err := put(i)
					if err == nil {
						continue
					}
					refused++
					failed++
					if !errors.Is(err, s.want) || !errors.Is(err, s.err) ||
						errors.Is(err, ErrReadOnly) {
						t.Fatalf("a write gave %v", err)
					}
				}
				check()
				if err := db.Flush(); err != nil &&
					(!errors.Is(err, s.want) || errors.Is(err, ErrReadOnly)) {
					t.Fatalf("flush: %v", err)
				}
				short.Store(false)
			}
			if err := db.Resume(); err != nil {
				t.Fatal(err)
			}
			if err := put(i); err != nil {
				t.Fatal(err)
			}
			check()
			mustFlush(t, db)
			if err := db.Put([]byte("a"), []byte("z"), Sync); err != nil {
				t.Fatal(err)
			}
			killed := mem.CrashClone(vfs.KeepAll())
			mustClose(t, db)
			if n := h.count(); n != 0 {
				t.Errorf("%d descriptors of logs are open: %v", n, h.open)
			}
			if logs, err := fstest.Find(mem, "db", base.FileLog); err != nil || len(logs) != 1 {
				t.Errorf("after %d refused writes: %v, %v", failed, logs, err)
			}
			for _, fsys := range []vfs.FS{killed, mem} {
				db = mustOpen(t, "db", small(Options{FS: fsys}))
				if r := db.RecoveryReport(); !r.WasClean {
					t.Errorf("recovery: %+v", r)
				}
				check()
				mustClose(t, db)
			}
		})
	}
}

// TestLogThatCannotBeCut: when the rest of a failed append stays in the log,
// nothing can follow it. The database is read-only, with both causes, until it
// is opened again.
func TestLogThatCannotBeCut(t *testing.T) {
	var short atomic.Bool
	mem := vfs.NewMem()
	fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		switch {
		case !short.Load():
		case op.Kind == vfs.OpAppend:
			return vfs.Outcome{Err: syscall.ENOSPC, Short: int(op.N) / 2}
		case op.Kind == vfs.OpTruncate:
			return vfs.Outcome{Err: syscall.EIO}
		}
		return vfs.Outcome{}
	})
	db := mustOpen(t, "db", &Options{FS: fsys})
	mustPut(t, db, 1)
	short.Store(true)
	err := db.Put(key(2), value(2), NoSync)
	short.Store(false)
	for range 2 {
		for _, want := range []error{ErrReadOnly, ErrNoSpace, syscall.EIO} {
			if !errors.Is(err, want) {
				t.Errorf("%v is not %v", err, want)
			}
		}
		err = db.Put(key(3), value(3), NoSync)
	}
	if err := db.Resume(); !errors.Is(err, ErrReadOnly) {
		t.Errorf("resume: %v", err)
	}
	wantValue(t, db, 1)
	wantMissing(t, db, 2)
	if err := db.Close(); !errors.Is(err, ErrReadOnly) { // the first write is not durable
		t.Errorf("close: %v", err)
	}
	db = mustOpen(t, "db", &Options{FS: mem})
	wantValue(t, db, 1)
	wantMissing(t, db, 2)
	mustPut(t, db, 3)
	mustClose(t, db)
}

// TestLogThatCannotBeCutYet: while the disk has no space for the cut either, as btrfs needs some,
// writes and flushes fail for the shortage, and syncs, crashes and Close lose nothing. Writes go on
// when there is space again.
func TestLogThatCannotBeCutYet(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		var short atomic.Bool
		mem := vfs.NewMem()
		o.FS = vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
			if short.Load() && (op.Kind == vfs.OpAppend || op.Kind == vfs.OpTruncate) {
				out = vfs.Outcome{Err: syscall.ENOSPC, Short: int(op.N) / 2}
			}
			return out
		})
		opens := func(mem *vfs.Mem, n int) {
			t.Helper()
			db := mustOpen(t, "db", &Options{FS: mem})
			wantCount(t, db, "reopened", n)
			wantValues(t, db, n)
			mustPut(t, db, n)
			mustClose(t, db)
		}
		db := mustOpen(t, "db", &o)
		mustPut(t, db, 0)
		short.Store(true)
		for i := range 3 {
			for mode := range WriteMode(2) {
				if err := db.Put(key(1), value(1), mode); !errors.Is(err, ErrNoSpace) ||
					errors.Is(err, ErrReadOnly) {
					t.Fatalf("write %d: %v", i, err)
				}
			}
			if err := db.Flush(); !errors.Is(err, ErrNoSpace) || errors.Is(err, ErrReadOnly) {
				t.Fatalf("flush: %v", err)
			}
		}
		must(t, db.Write(NewBatch(), Sync)) // of what is in the log
		wantCount(t, db, "torn", 1)
		for _, how := range []vfs.CrashOptions{vfs.KeepAll(), {}} {
			opens(mem.CrashClone(how), 1)
		}
		short.Store(false)
		mustPut(t, db, 1)
		if err := db.Put(key(2), value(2), Sync); err != nil {
			t.Fatal(err)
		}
		opens(mem.CrashClone(vfs.CrashOptions{}), 3)
		short.Store(true)
		if err := db.Put(key(3), value(3), NoSync); !errors.Is(err, ErrNoSpace) {
			t.Fatal(err)
		}
		_ = db.Close() // the disk is full
		short.Store(false)
		opens(mem, 3)
	})
}

// TestLogThatCannotBeCutAtLast: a cut fails for lack of space, and for another reason when it is
// tried again. That is final, as where it fails so at once: Close does not sync the log.
func TestLogThatCannotBeCutAtLast(t *testing.T) {
	var cut atomic.Pointer[error] // the result of Append and Truncate; nil: they work
	mem := vfs.NewMem()
	db := mustOpen(t, "db", &Options{FS: vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
		if err := cut.Load(); err != nil && (op.Kind == vfs.OpAppend || op.Kind == vfs.OpTruncate) {
			out = vfs.Outcome{Err: *err, Short: int(op.N) / 2}
		}
		return out
	})})
	mustPut(t, db, 1)
	for _, fails := range []struct{ err, want error }{{syscall.ENOSPC, ErrNoSpace},
		{syscall.EIO, ErrReadOnly}} {
		cut.Store(&fails.err)
		if err := db.Put(key(2), value(2), NoSync); !errors.Is(err, fails.want) {
			t.Errorf("%v: %v", fails.err, err)
		}
	}
	cut.Store(nil)
	if err := db.Close(); !errors.Is(err, ErrReadOnly) || !errors.Is(err, syscall.EIO) {
		t.Errorf("close: %v", err) // the first write is not durable
	}
	db = mustOpen(t, "db", &Options{FS: mem})
	wantValue(t, db, 1)
	wantMissing(t, db, 2)
	mustClose(t, db)
}

// TestTakenLogNames: names of the next logs that strangers took are passed over.
func TestTakenLogNames(t *testing.T) {
	mem := vfs.NewMem()
	db := mustOpen(t, "db", small(Options{FS: mem}))
	for i := range 20 {
		for n := range 6 {
			name := logName(db, db.engine.Parts().WAL.Num()+uint64(n)+1)
			if l, err := mem.CreateLog(name, 0); err == nil {
				if err := l.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		mustPut(t, db, i)
		mustFlush(t, db)
	}
	wantValues(t, db, 20)
	mustClose(t, db)
}

// TestManifestShortageAtClose: the disk is full when the MANIFEST gets the edit behind that of a
// load, which nothing depends on. Neither the load nor Close fails.
func TestManifestShortageAtClose(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		edits, failed := 0, false
		o.FS = vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpAppend && fstest.TypeOf(op.Name) == base.FileManifest {
				if edits++; edits == 3 { // behind the snapshot and the load's
					failed = true
					return vfs.Outcome{Err: syscall.ENOSPC}
				}
			}
			return vfs.Outcome{}
		})
		db := mustOpen(t, "db", &o)
		must(t, db.BulkLoad(context.Background(), func(yield func(k, v []byte) bool) {
			yield([]byte("a"), []byte("1"))
		}, nil))
		if !failed {
			t.Error("the edit was not written")
		}
		mustClose(t, db)
		db = mustOpen(t, "db", &o)
		wantIs(t, db, "a", "1")
		mustClose(t, db)
	})
}

// TestLogShortageOfIngest: the disk is full when an ingest notes its number in the log, until the
// next log begins, whose space is allocated already. What is synced there survives.
func TestLogShortageOfIngest(t *testing.T) {
	onBothFormats(t, func(t *testing.T, o Options) {
		mem, full := vfs.NewMem(), ""
		o.WriteBufferSize = 64 << 10 // a checkpoint begins another log behind an eighth of it
		o.FS = vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpAppend && op.Name == full {
				return vfs.Outcome{Err: syscall.ENOSPC}
			}
			return vfs.Outcome{}
		})
		db := mustOpen(t, "db", &o)
		must(t, db.Put([]byte("a"), make([]byte, 10<<10), Sync))
		wal := db.engine.Parts().WAL
		full = logName(db, wal.Num())
		before := wal.Num()
		_ = db.BulkLoad(context.Background(), func(yield func(k, v []byte) bool) {
			yield([]byte("z"), []byte("1"))
		}, nil) // it fails in LevelDB's format
		must(t, db.Checkpoint(context.Background(), "copy"))
		if wal.Num() == before {
			t.Fatal("no other log was begun")
		}
		must(t, db.Put([]byte("b"), []byte("2"), Sync))
		o.FS = mem.CrashClone(vfs.DropAll())
		again := mustOpen(t, "db", &o)
		wantIs(t, again, "b", "2")
		if r := again.RecoveryReport(); len(r.Dropped) > 0 {
			t.Errorf("dropped: %v", r.Dropped)
		}
		mustClose(t, again)
		mustClose(t, db)
	})
}
