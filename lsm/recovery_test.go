package lsm

import (
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// bytesOf is every file of the directory but LOCK, with its contents.
func bytesOf(t *testing.T, fsys vfs.FS) map[string]string {
	t.Helper()
	all, err := fstest.Tree(fsys, "db")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for name, b := range all {
		if name != base.LockName {
			files[name] = string(b)
		}
	}
	return files
}

// killedWith is the file system of a database that was killed with n entries of
// a thousand bytes in its logs, and a damaged log if that is wanted.
func killedWith(t *testing.T, n int, damage bool) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpCreate && fstest.TypeOf(op.Name) == base.FileTable {
			return vfs.Outcome{Err: syscall.ENOSPC} // so that all stays in the logs
		}
		return vfs.Outcome{}
	})
	db := mustOpen(t, "db", &Options{FS: fsys, WriteBufferSize: 1 << 20, MaxMemtables: 64})
	for i := range n {
		if err := db.Put(key(i), make([]byte, 1000), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	killed := mem.CrashClone(vfs.KeepAll())
	log := logName(db, db.engine.Parts().WAL.Num())
	_ = db.Close() // what is flushed meanwhile is not in the clone
	if damage {
		b, err := fstest.ReadFile(killed, log)
		if err != nil {
			t.Fatal(err)
		}
		b = []byte(strings.TrimRight(string(b), "\x00"))
		b[len(b)/2] ^= 1
		if err := killed.Remove(log); err != nil {
			t.Fatal(err)
		}
		w, err := killed.Create(log)
		if err == nil {
			_, err = w.Write(b)
		}
		if err := errors.Join(err, w.Close(), killed.SyncDir("db")); err != nil {
			t.Fatal(err)
		}
	}
	return killed
}

// TestFailedOpenLeavesNothing: an opening that fails gives back its memory and
// its descriptors, and leaves the directory as it was, however often it is tried.
func TestFailedOpenLeavesNothing(t *testing.T) {
	fails := map[string]func(vfs.Op) bool{
		"first table": func(op vfs.Op) bool {
			return op.Kind == vfs.OpCreate && fstest.TypeOf(op.Name) == base.FileTable
		},
		"writing it": func(op vfs.Op) bool {
			return op.Kind == vfs.OpWrite && fstest.TypeOf(op.Name) == base.FileTable
		},
		"copying": func(op vfs.Op) bool {
			return op.Kind == vfs.OpWrite && strings.HasSuffix(op.Name, ".lost")
		},
		"log": func(op vfs.Op) bool {
			return op.Kind == vfs.OpCreateLog && fstest.TypeOf(op.Name) == base.FileLog
		},
		"marker": func(op vfs.Op) bool {
			return op.Kind == vfs.OpAppend && fstest.TypeOf(op.Name) == base.FileLog
		},
		"new MANIFEST": func(op vfs.Op) bool {
			return op.Kind == vfs.OpCreateLog && fstest.TypeOf(op.Name) == base.FileManifest
		},
		"writing that": func(op vfs.Op) bool {
			return op.Kind == vfs.OpAppend && fstest.TypeOf(op.Name) == base.FileManifest
		},
		"syncing it": func(op vfs.Op) bool {
			return op.Kind == vfs.OpSync && fstest.TypeOf(op.Name) == base.FileManifest
		},
		"CURRENT": func(op vfs.Op) bool { return op.Kind == vfs.OpRename },
	}
	killed := killedWith(t, 4000, true)
	for name, match := range fails {
		t.Run(name, func(t *testing.T) {
			mem := killed.Clone()
			before := bytesOf(t, mem)
			var opened, closed atomic.Int64
			fsys := vfs.NewFault(mem, func(op vfs.Op) vfs.Outcome {
				switch {
				case match(op):
					return vfs.Outcome{Err: syscall.ENOSPC, Short: int(op.N / 2)}
				case op.Kind == vfs.OpClose:
					closed.Add(1)
				case op.Kind == vfs.OpCreate || op.Kind == vfs.OpCreateLog ||
					op.Kind == vfs.OpOpen || op.Kind == vfs.OpLock:
					opened.Add(1)
				}
				return vfs.Outcome{}
			})
			var memory int64
			tries := seed.Scale(3, 3, 20)
			for i := range tries {
				db, err := Open("db", &Options{FS: fsys, WriteBufferSize: 1 << 20, CacheSize: -1,
					WALPreallocate: 8 << 10})
				if err == nil {
					db.Close()
					t.Fatal("it opens")
				}
				if !errors.Is(err, ErrNoSpace) {
					t.Fatal(err)
				}
				if i == 0 {
					memory = offheap.InUse()
				}
			}
			if now := offheap.InUse(); now > memory {
				t.Errorf("%d bytes off the heap are left of %d openings", now-memory, tries-1)
			}
			if opened.Load() != closed.Load() {
				t.Errorf("%d files were opened, %d closed", opened.Load(), closed.Load())
			}
			after := bytesOf(t, mem)
			for name := range after {
				if _, was := before[name]; !was {
					t.Errorf("%s is new", name)
				}
			}
			for name, b := range before {
				if after[name] != b {
					t.Errorf("%s has changed", name)
				}
			}
			db := mustOpen(t, "db", &Options{FS: mem})
			if r := db.RecoveryReport(); len(r.SetAside) == 0 {
				t.Errorf("report: %+v", r)
			}
			for i := range 3000 {
				if has, err := db.Has(key(i)); err != nil || !has {
					t.Fatalf("key %d: %v, %v", i, has, err)
				}
			}
			mustClose(t, db)
		})
	}
}

// TestFailedCreationLeavesNothing: a database that could not be made is not there.
func TestFailedCreationLeavesNothing(t *testing.T) {
	for at := int64(0); ; at++ {
		mem := vfs.NewMem()
		if err := mem.MkdirAll("db"); err != nil {
			t.Fatal(err)
		}
		fault := &fstest.FailAt{At: at, Forever: true, Outcome: vfs.Outcome{Err: syscall.ENOSPC},
			Match: func(op vfs.Op) bool {
				switch op.Kind {
				case vfs.OpCreate, vfs.OpCreateLog, vfs.OpWrite, vfs.OpAppend:
					return true
				}
				return false
			}}
		db, err := Open("db", &Options{FS: vfs.NewFault(mem, fault.Hook)})
		if err == nil {
			if err := db.Close(); err != nil && !errors.Is(err, ErrNoSpace) {
				t.Error(err)
			}
			if at < 4 {
				t.Errorf("opened with call %d failing", at)
			}
			return
		}
		if left := bytesOf(t, mem); len(left) > 0 {
			t.Errorf("call %d fails: %v are left", at, left)
		}
		mustClose(t, mustOpen(t, "db", &Options{FS: mem, ErrorIfExists: true}))
	}
}

// TestRecoveryMemoryIsBounded: recovery holds as many memtables as an open
// database does, not one for each log.
func TestRecoveryMemoryIsBounded(t *testing.T) {
	const buffer = 1 << 20
	killed := killedWith(t, 20000, false)
	before := offheap.InUse()
	var most atomic.Int64
	fsys := vfs.NewFault(killed, func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpRead || op.Kind == vfs.OpCreateLog {
			most.Store(max(most.Load(), offheap.InUse()-before))
		}
		return vfs.Outcome{}
	})
	db := mustOpen(t, "db", &Options{FS: fsys, WriteBufferSize: buffer, MaxMemtables: 3,
		CacheSize: -1})
	// An index and the order of the one being written come on top of the arenas.
	if n := most.Load(); n > 3*3*buffer {
		t.Errorf("%d MiB off the heap for 3 memtables of 1 MiB", n>>20)
	}
	for i := 0; i < 20000; i += 7 {
		if has, err := db.Has(key(i)); err != nil || !has {
			t.Fatalf("key %d: %v, %v", i, has, err)
		}
	}
	mustClose(t, db)
}
