package lsm

import (
	"context"
	"errors"
	"log/slog"
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

// plugged is a logger and a listener that call f with each event.
type plugged struct{ f func(what string) }

func (p plugged) Enabled(context.Context, slog.Level) bool { return true }
func (p plugged) Handle(_ context.Context, r slog.Record) error {
	p.f("log: " + r.Message)
	return nil
}
func (p plugged) WithAttrs([]slog.Attr) slog.Handler { return p }
func (p plugged) WithGroup(string) slog.Handler      { return p }

func (p plugged) listener() *EventListener {
	return &EventListener{
		FlushBegin:      func() { p.f("FlushBegin") },
		FlushEnd:        func(FlushInfo) { p.f("FlushEnd") },
		CompactionBegin: func(CompactionInfo) { p.f("CompactionBegin") },
		CompactionEnd:   func(CompactionInfo) { p.f("CompactionEnd") },
		WriteStall:      func(StallInfo) { p.f("WriteStall") },
		BackgroundError: func(error) { p.f("BackgroundError") },
		ReadOnly:        func(error) { p.f("ReadOnly") },
	}
}

// stall makes a writer wait for a memtable and then lets it go on. It returns the
// error of the last write.
func stall(t *testing.T, db *DB, gate *gatedFS) (err error) {
	t.Helper()
	gate.shut()
	done := make(chan error, 1)
	for waits := false; !waits && err == nil; {
		go func() { done <- db.Put([]byte("big"), make([]byte, 16<<10), NoSync) }()
		for ended := false; !ended && !waits; {
			select {
			case err = <-done:
				ended = true
			default:
				waits = db.engine.Parts().Jobs.Status().WaitsFor != ""
			}
		}
	}
	gate.open()
	if err == nil {
		err = <-done
	}
	return err
}

// gatedFS holds back the creation of tables while its gate is shut, and fails
// appends to logs.
type gatedFS struct {
	FS
	gate sync.RWMutex
	fail atomic.Bool
}

func (g *gatedFS) shut() { g.gate.Lock() }
func (g *gatedFS) open() { g.gate.Unlock() }

func newGatedFS() *gatedFS {
	g := &gatedFS{}
	g.FS = vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		switch {
		case op.Kind == vfs.OpCreate && fstest.TypeOf(op.Name) == base.FileTable:
			g.gate.RLock()
			g.gate.RUnlock()
		case op.Kind == vfs.OpAppend && fstest.TypeOf(op.Name) == base.FileLog && g.fail.Load():
			return vfs.Outcome{Err: syscall.EIO}
		}
		return vfs.Outcome{}
	})
	return g
}

func plug(f func(string)) (*gatedFS, *Options) {
	fsys := newGatedFS()
	p := plugged{f}
	return fsys, &Options{
		FS: fsys, Logger: slog.New(p), Events: p.listener(),
		WriteBufferSize: 64 << 10, MaxMemtables: 2, L0Compaction: 2,
	}
}

// TestListenerMayClose closes the database from within each call that tells of a
// failure and of a stall.
func TestListenerMayClose(t *testing.T) {
	for _, from := range []string{"ReadOnly", "WriteStall", "FlushEnd",
		"log: database is now read-only"} {
		t.Run(from, func(t *testing.T) {
			var db atomic.Pointer[DB]
			closed := make(chan error, 100)
			fsys, o := plug(func(what string) {
				if what == from {
					closed <- db.Load().Close()
				}
			})
			hang.Within(t, "closing from "+from, func() {
				db.Store(mustOpen(t, "db", o))
				stall(t, db.Load(), fsys) // its error depends on when Close comes
				fsys.fail.Store(true)
				db.Load().Put(key(1), nil, NoSync)
				if err := <-closed; err != nil && !strings.Contains(err.Error(), "input/output") {
					t.Error(err)
				}
				if err := db.Load().Put(key(1), nil, NoSync); !errors.Is(err, ErrClosed) &&
					!errors.Is(err, ErrReadOnly) {
					t.Errorf("after Close: %v", err)
				}
			})
		})
	}
}

// TestPanicInListenerIsTold panics in the listener and in the logger. The database
// becomes read-only, and every later error, Metrics and the ReadOnly event say why,
// with the stack.
func TestPanicInListenerIsTold(t *testing.T) {
	for _, from := range []string{"WriteStall", "FlushBegin", "CompactionEnd",
		"log: flush failed; it will be retried"} {
		t.Run(from, func(t *testing.T) {
			told := make(chan error, 1)
			_, o := plug(nil)
			fsys := o.FS.(*gatedFS)
			p := plugged{func(what string) {
				if what == from {
					panic("the user's " + from)
				}
			}}
			o.Logger, o.Events = slog.New(p), p.listener()
			o.Events.ReadOnly = func(err error) { told <- err }
			hang.Within(t, from, func() {
				db := mustOpen(t, "db", o)
				mustPut(t, db, 1)
				if strings.HasPrefix(from, "log") {
					db.engine.Health().JobFailed("flush", syscall.ENOSPC)
				}
				for i := 0; db.engine.Health().Writable() == nil; i++ {
					stall(t, db, fsys)
				}
				event := <-told
				for what, err := range map[string]error{
					"the event": event, "Put": db.Put(key(2), nil, NoSync),
					"Metrics": db.Metrics().ReadOnly, "Flush": db.Flush(), "Resume": db.Resume(),
				} {
					if err == nil || !strings.Contains(err.Error(), "the user's "+from) ||
						!strings.Contains(err.Error(), "events_test.go") {
						t.Errorf("%s says %.100v", what, err)
					}
				}
				wantValue(t, db, 1)
				mustClose(t, db)
				db = mustOpen(t, "db", &Options{FS: fsys})
				wantValue(t, db, 1)
				mustClose(t, db)
			})
		})
	}
}

// TestBlockedListenerStopsNobody blocks the listener and the logger: writes,
// flushes and Close go on.
func TestBlockedListenerStopsNobody(t *testing.T) {
	for _, from := range []string{"WriteStall", "FlushBegin",
		"log: flush failed; it will be retried"} {
		t.Run(from, func(t *testing.T) {
			gate := make(chan struct{})
			defer close(gate)
			fsys, o := plug(func(what string) {
				if what == from {
					<-gate
				}
			})
			hang.Within(t, from, func() {
				db := mustOpen(t, "db", o)
				db.engine.Health().JobFailed("flush", syscall.ENOSPC)
				for i := range 5 {
					if err := stall(t, db, fsys); err != nil {
						t.Fatal(err)
					}
					mustPut(t, db, i)
				}
				if err := db.Flush(); err != nil {
					t.Error(err)
				}
				mustClose(t, db)
			})
		})
	}
}

// TestPanicInComparerDuringCommit is told like any other: the commit pipeline does
// not keep it to itself.
func TestPanicInComparerDuringCommit(t *testing.T) {
	told := make(chan error, 1)
	var broken atomic.Bool
	cmp := *BytewiseComparer
	cmp.Name = "panics"
	cmp.EqualIsBytewise = false
	cmp.Compare = func(a, b []byte) int {
		if broken.Load() {
			panic("comparer broke")
		}
		return BytewiseComparer.Compare(a, b)
	}
	db := mustOpen(t, "db",
		small(Options{FS: vfs.NewMem(), Comparer: &cmp,
			Events: &EventListener{ReadOnly: func(err error) { told <- err }}}))
	hang.Within(t, "a panic under the lead", func() {
		err := db.engine.Parts().Pipeline.Exclusive(func() error { panic("comparer broke") })
		for what, err := range map[string]error{"the caller": err, "the event": <-told,
			"Metrics": db.Metrics().ReadOnly, "Put": db.Put(key(1), nil, NoSync)} {
			if err == nil || !strings.Contains(err.Error(), "comparer broke") {
				t.Errorf("%s says %.100v", what, err)
			}
		}
		mustClose(t, db)
	})
}

// TestPanicInOpenHasAStack panics in the file system of an Open.
func TestPanicInOpenHasAStack(t *testing.T) {
	fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpRename {
			panic("file system broke")
		}
		return vfs.Outcome{}
	})
	_, err := Open("db", &Options{FS: fsys})
	if err == nil || !strings.Contains(err.Error(), "file system broke") ||
		!strings.Contains(err.Error(), "events_test.go") {
		t.Errorf("Open says %.200v", err)
	}
}
