package work

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/memory/epoch"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/store/files"
	"github.com/loamdb/loam/internal/store/wal"
	"github.com/loamdb/loam/internal/store/write"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/picker"
)

// database is what a Scheduler works for, with one tree. The test is the commit
// leader.
type database struct {
	t      *testing.T
	fs     vfs.FS
	shared tree.Shared
	wal    *wal.Set
	tree   *Keyspace
	others []*Keyspace
	jobs   *Scheduler
	last   base.SeqNum

	failure atomic.Pointer[error]
	closing atomic.Bool
	stalls  atomic.Int64 // BeginStall less EndStall

	lead sync.Mutex // held by who is the commit leader

	mu      sync.Mutex
	events  []string
	reasons map[string]int // of compactions
}

func openDatabase(t *testing.T, fsys vfs.FS) *database { return openFiltered(t, fsys, nil) }

// openFiltered is openDatabase with a compaction filter.
func openFiltered(t *testing.T, fsys vfs.FS, filter *base.CompactionFilter) *database {
	t.Helper()
	return openFormat(t, fsys, base.LevelDB, filter)
}

func openFormat(t *testing.T, fsys vfs.FS, format base.Format,
	filter *base.CompactionFilter) *database {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(fsys.MkdirAll("db"))
	d := &database{t: t, fs: fsys}
	fail := func(err error) error { d.failure.CompareAndSwap(nil, &err); return err }
	d.shared = tree.Shared{Seqs: &tree.Sequences{}, Reads: epoch.New(nil), Folds: &tree.Folds{},
		Ops: tree.NewOperations(), Late: new(atomic.Pointer[tree.Tree]), Fail: fail}
	c := cache.New(1 << 20)
	d.shared.Files = files.New(files.Options{FS: fsys, Dir: "db", Format: format, Cache: c,
		Comparer: base.Bytewise, Reads: d.shared.Reads})
	d.shared.Holders = tree.NewHolders(func() {
		d.shared.Reads.Retire(func() { check(d.shared.Files.Close()); c.Unref() })
	})
	set, err := manifest.New(manifest.Options{FS: fsys, Dir: "db", Format: format,
		Comparer: base.Bytewise, Obsolete: d.shared.Files.Obsolete})
	check(err)
	check(set.StartManifest())
	d.wal = wal.New(wal.Options{
		FS: fsys, Dir: "db", Format: format, NewFileNum: set.NewFileNum, Fail: fail,
		Panicked: func(r any) error { return fail(base.NewPanic(r)) },
		Rename:   d.shared.Files.Rename, Delete: d.shared.Files.DeleteFile,
	})
	log, err := d.wal.Rotate(0)
	check(err)
	d.tree = &Keyspace{Tree: tree.New(tree.Options{Comparer: base.Bytewise,
		MemTableSize: 64 << 10, Filter: filter,
		ManyDeletes: func() { d.jobs.ManyDeletes(d.tree) },
		Tables: sstable.WriterOptions{
			Format: format, Comparer: base.Bytewise, BlockSize: 4 << 10, RestartInterval: 16,
		}}, d.shared)}
	d.tree.Start(log, nil, set.Current(base.DefaultKeyspace))
	d.jobs = New(Options{
		Env: Env{
			Writable: d.writable, Failure: d.failed, Fail: fail,
			BeginStall: func() {
				d.stalls.Add(1)
			}, EndStall: func() { d.stalls.Add(-1) }, Events: d,
			Exclusive: func(f func() error) error {
				d.lead.Lock()
				defer d.lead.Unlock()
				return f()
			},
			All: func(yield func(*Keyspace) bool) {
				for _, k := range append([]*Keyspace{d.tree}, d.others...) {
					if !yield(k) {
						return
					}
				}
			},
			Several: func() bool { return false },
			Warn:    func(what string, err error) { d.told("%s: %v", what, err) },
		},
		Files: d.shared.Files, Manifest: set, WAL: d.wal, Cache: c, Seqs: d.shared.Seqs,
		Folds: d.shared.Folds, Limits: Limits{MaxJobs: 2, MaxSubcompactions: 1, MaxMemTables: 3,
			L0Trigger: 4, L0Stop: 8, FileSize: 1 << 20, WriteBuffer: 64 << 10},
	})
	d.shared.Seqs.Released = d.jobs.SnapshotReleased
	d.jobs.Add(d.tree)
	d.jobs.Wake()
	t.Cleanup(func() {
		d.closing.Store(true)
		d.jobs.BeginClose()
		d.tree.Close()
		d.jobs.Close()
		check(d.wal.Close(true))
		d.shared.Reads.DrainFor(time.Minute)
		d.shared.Files.Leave()
		check(set.Close())
		d.shared.Holders.Release()
		d.shared.Reads.DrainFor(time.Minute)
		if n := d.stalls.Load(); n != 0 {
			t.Errorf("%d stalls have not ended", n)
		}
	})
	return d
}

func (d *database) failed() error {
	if p := d.failure.Load(); p != nil {
		return *p
	}
	return nil
}

func (d *database) writable() error {
	if d.closing.Load() {
		return base.ErrClosed
	}
	return d.failed()
}

func (d *database) told(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.events = append(d.events, fmt.Sprintf(format, args...))
}

func (d *database) FlushBegin() { d.told("flush begins") }
func (d *database) FlushEnd(_ int64, added []manifest.AddedFile, _ time.Duration, err error) {
	d.told("flush ends: %d tables, %v", len(added), err)
}

// CompactionBegin ends the work of compactions that have no end.
func (d *database) CompactionBegin(p *picker.Plan) {
	d.told("compaction of %d begins", p.NumFiles())
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reasons == nil {
		d.reasons = map[string]int{}
	}
	if d.reasons[p.Reason]++; d.reasons[p.Reason] > maxCompactions {
		err := fmt.Errorf("%d compactions: %s", d.reasons[p.Reason], p.Reason)
		d.failure.CompareAndSwap(nil, &err)
	}
}

// maxCompactions of one reason are more than any test needs.
const maxCompactions = 1000

func (d *database) CompactionEnd(_ *picker.Plan, added []manifest.AddedFile, _ time.Duration,
	err error) {
	d.told("compaction ends: %d tables, %v", len(added), err)
}
func (d *database) WriteStall(cause string, _ time.Duration) { d.told("stall: %s", cause) }
func (d *database) JobFailed(job string, err error)          { d.told("%s failed: %v", job, err) }
func (d *database) MergeFailed(err error)                    { d.told("merge failed: %v", err) }

// put writes an entry as a commit leader does.
func (d *database) put(key string, mode write.Mode) error {
	return d.write(base.KindSet, key, make([]byte, 1000), mode)
}

// write writes an entry of any kind.
func (d *database) write(kind base.Kind, key string, value []byte, mode write.Mode) error {
	d.lead.Lock()
	defer d.lead.Unlock()
	b := batchrepr.AppendEntry(batchrepr.Init(nil), base.DefaultKeyspace, kind, []byte(key), value)
	group := [][]byte{b}
	to, err := d.jobs.MakeRoom(group, int64(len(b)), 1, mode)
	if err != nil {
		return err
	}
	batchrepr.SetSeq(b, d.last+1)
	if err := errors.Join(d.wal.Append(group), to.Apply(b, d.last+1)); err != nil {
		return err
	}
	d.last++
	d.shared.Seqs.Publish(d.last)
	return nil
}

func (d *database) mustPut(key string) {
	d.t.Helper()
	if err := d.put(key, 0); err != nil {
		d.t.Fatal(err)
	}
}

func (d *database) mustDelete(key string) {
	d.t.Helper()
	if err := d.write(base.KindDelete, key, nil, 0); err != nil {
		d.t.Fatal(err)
	}
}

func (d *database) seal() {
	d.t.Helper()
	d.lead.Lock()
	defer d.lead.Unlock()
	if err := d.jobs.Seal(d.tree); err != nil {
		d.t.Fatal(err)
	}
}

// logs lists the logs in the directory, when deletions are done.
func (d *database) logs() (logs []uint64) {
	d.t.Helper()
	d.shared.Reads.DrainFor(time.Minute)
	d.shared.Files.WaitDeleted()
	names, err := d.fs.List("db")
	if err != nil {
		d.t.Fatal(err)
	}
	for _, name := range names {
		for _, format := range []base.Format{base.LevelDB, base.Native} {
			if kind, num := format.ParseFileName(name); kind == base.FileLog {
				logs = append(logs, num)
			}
		}
	}
	slices.Sort(logs)
	return logs
}

// gated is a file system that waits for open at the creation of each table.
func gated(open <-chan struct{}) vfs.FS {
	return vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, ".ldb") {
			<-open
		}
		return vfs.Outcome{}
	})
}

// TestFlushWaitsForItsMemtable has an older memtable's flush fail and then succeed
// before the caller of WaitFlushed looks: it goes on waiting then. That it returns
// nil means that its own memtable is in tables.
func TestFlushWaitsForItsMemtable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := openDatabase(t, gated(gate))
		d.mustPut("k")
		d.seal()
		var opened atomic.Bool
		done := make(chan error, 1)
		go func() {
			err := d.jobs.WaitFlushed(d.tree, 0)
			if err == nil && !opened.Load() {
				err = errors.New("nil before the memtable was in tables")
			}
			done <- err
		}()
		for range 50 {
			d.jobs.mu.Lock()
			d.jobs.flush.failed++  // failed, and then
			d.jobs.flush.err = nil // succeeded
			d.jobs.cond.Broadcast()
			d.jobs.mu.Unlock()
			synctest.Wait()
		}
		opened.Store(true)
		close(gate)
		hang.Within(t, "WaitFlushed", func() {
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	})
}

// TestWriterWaitsForMemTables: with as many memtables as there may be, a NoStall
// writer fails and another one waits until a flush has ended.
func TestWriterWaitsForMemTables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := openDatabase(t, gated(gate))
		var err error
		for err == nil {
			err = d.put("k", write.NoStall)
		}
		state := d.tree.Acquire()
		sealed := len(state.Sealed)
		state.Unref()
		if !errors.Is(err, base.ErrBusy) ||
			!strings.Contains(err.Error(), "waiting for memtables") || sealed != 2 {
			t.Fatalf("%v, %d sealed memtables", err, sealed)
		}
		done := make(chan error, 1)
		go func() { done <- d.put("k", 0) }()
		hang.Within(t, "the stall", func() {
			synctest.Wait()
			if cause, n := d.jobs.Status().WaitsFor, d.stalls.Load(); cause != StallMemTables ||
				n != 1 {
				t.Errorf("%d stalls, the writer waits for %q", n, cause)
			}
			close(gate)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		if st := d.jobs.Status(); st.WaitsFor != "" || st.Forced != 0 ||
			d.jobs.Counters().Stalls[StallMemTables].Count != 1 {
			t.Errorf("after the stall: %+v, %+v", st, d.jobs.Counters().Stalls)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if !slices.Contains(d.events, "stall: memtables") || d.events[0] != "flush begins" {
			t.Errorf("events %q", d.events)
		}
	})
}

// TestFailureBeforeRetry: the error of a flush or compaction that began before Retry
// and fails after it is no reason to refuse writes or to pause.
func TestFailureBeforeRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begins, outcome := make(chan struct{}), make(chan error)
		t.Cleanup(func() { close(begins) }) // after the database
		d := openDatabase(t, vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			if op.Kind != vfs.OpCreate || !strings.HasSuffix(op.Name, ".ldb") {
				return vfs.Outcome{}
			}
			begins <- struct{}{}
			return vfs.Outcome{Err: <-outcome}
		}))
		var err error
		for err == nil {
			err = d.put("k", write.NoStall)
		}
		hang.Within(t, "a flush", func() {
			<-begins
			d.jobs.Retry()
			outcome <- syscall.EMFILE
			<-begins // the next try, without a pause
			if err := d.put("k", write.NoStall); !errors.Is(err, base.ErrBusy) {
				t.Errorf("a write after Retry: %v", err)
			}
			outcome <- syscall.EMFILE
			for err = base.ErrBusy; errors.Is(err, base.ErrBusy); err = d.put("k", write.NoStall) {
				time.Sleep(time.Millisecond)
			}
			if !errors.Is(err, syscall.EMFILE) {
				t.Errorf("a write after another failure: %v", err)
			}
		})
		close(outcome)
		go func() {
			for range begins {
			}
		}()
	})
}

// TestAStopDoesNotHideAFailure joins the errors of pieces.
func TestAStopDoesNotHideAFailure(t *testing.T) {
	broken := errors.New("broken")
	if err := joinFailures([]error{nil, errStopped, broken}); !errors.Is(err, broken) ||
		errors.Is(err, errStopped) {
		t.Errorf("got %v", err)
	}
	if err := joinFailures([]error{nil, errStopped}); !errors.Is(err, errStopped) {
		t.Errorf("got %v", err)
	}
	if err := joinFailures([]error{nil, nil}); err != nil {
		t.Errorf("got %v", err)
	}
}
