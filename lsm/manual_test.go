package lsm

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/hang"
)

// slowReads holds back the reads of tables while its gate is shut, and counts them.
type slowReads struct {
	FS
	gate  fstest.Gate
	bytes atomic.Int64 // read
}

func newSlowReads() *slowReads {
	s := &slowReads{}
	s.FS = vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
		if op.Kind == vfs.OpRead && fstest.TypeOf(op.Name) == base.FileTable {
			s.gate.Pass()
			s.bytes.Add(op.N)
		}
		return vfs.Outcome{}
	})
	return s
}

const filled = 20_000

// fill writes keys in random order into several levels.
func fill(t *testing.T, db *DB) {
	t.Helper()
	value := make([]byte, 500)
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(filled) {
		if err := db.Put(key(i), value, NoSync); err != nil {
			t.Fatal(err)
		}
	}
	mustFlush(t, db)
}

func manualOptions(fsys FS) *Options {
	return &Options{FS: fsys, WriteBufferSize: 256 << 10, MaxFileSize: 64 << 10,
		Compression: NoCompression, MaxBackgroundJobs: 1, L0Stop: 6, CacheSize: -1}
}

// TestManualCompactionGoesInSteps compacts a database of many files: all of it is
// in one level then, every entry is there, and no step was larger than its bound
// makes necessary.
func TestManualCompactionGoesInSteps(t *testing.T) {
	var mu sync.Mutex
	steps, most := 0, 0
	o := manualOptions(vfs.NewMem())
	o.DisableCompaction = true
	o.Events = &EventListener{CompactionBegin: func(c CompactionInfo) {
		mu.Lock()
		defer mu.Unlock()
		if c.Reason == "manual" {
			steps, most = steps+1, max(most, len(c.Inputs))
		}
	}}
	db := mustOpen(t, "db", o)
	fill(t, db)
	for range 2 { // again, over the result and half of it anew
		for i := 0; i < filled; i += 2 {
			if err := db.Put(key(i), value(i), NoSync); err != nil {
				t.Fatal(err)
			}
		}
		mustCompact(t, db)
		levels := 0
		for _, l := range db.Metrics().Levels {
			if l.Files > 0 {
				levels++
			}
		}
		if levels != 1 {
			t.Errorf("%d levels have tables: %v", levels, db.Metrics().Levels)
		}
	}
	n := 0
	var err error
	for range db.All(nil, nil, &err) {
		n++
	}
	if n != filled || err != nil {
		t.Errorf("%d entries, %v", n, err)
	}
	for i := 0; i < filled; i += 2 {
		wantValue(t, db, i)
	}
	mustClose(t, db)
	if steps < 6 {
		t.Errorf("%d steps", steps)
	}
	t.Logf("%d steps, %d files at most", steps, most)
}

// occupyLevels gives every level but 0 a run, so that level 0 cannot be merged without
// level 1, and pauses compaction. It is called in a bubble.
func occupyLevels(t *testing.T, db *DB) {
	t.Helper()
	mustCompact(t, db)
	for range 20 * 5 * 4 {
		for i := 0; i < filled; i += 50 {
			if err := db.Put(key(i), make([]byte, 500), NoSync); err != nil {
				t.Fatal(err)
			}
		}
		mustFlush(t, db)
		synctest.Wait() // no background work runs
		db.PauseCompaction()
		occupied := true
		for i, l := range db.Metrics().Levels {
			occupied = occupied && (i > 0) == (l.Files > 0)
		}
		if occupied {
			return
		}
		db.ResumeCompaction()
	}
	t.Fatalf("levels are free: %+v", db.Metrics().Levels)
}

// TestManualCompactionYields has a writer wait for level 0 while a step of a manual
// compaction, on a slow disk, is in the way: the step ends, level 0 is merged, the
// writer goes on, and then the manual compaction does.
func TestManualCompactionYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := newSlowReads()
		o := manualOptions(fsys)
		var mu sync.Mutex
		var order []string
		o.Events = &EventListener{CompactionEnd: func(c CompactionInfo) {
			mu.Lock()
			defer mu.Unlock()
			what := c.Reason
			if c.Err != nil {
				what += " stopped"
			}
			if n := len(order); n == 0 || order[n-1] != what {
				order = append(order, what)
			}
		}}
		db := mustOpen(t, "db", o)
		fill(t, db)
		occupyLevels(t, db)
		fsys.gate.Shut()
		manual := make(chan error, 1)
		go func() { manual <- db.CompactRange(nil, nil) }()
		fsys.gate.Came() // no other compaction can have begun
		db.ResumeCompaction()
		wrote := make(chan error, 1)
		hang.Within(t, "a write beside a manual compaction", func() {
			var stalled atomic.Bool
			go func() {
				var err error
				for i := 0; err == nil && !stalled.Load(); i++ {
					err = db.Put(key(i*7919%filled), make([]byte, 4000), NoSync)
				}
				wrote <- err
			}()
			time.Sleep(20 * time.Second) // it is slowed down first
			if cause := db.engine.Parts().Jobs.Status().WaitsFor; cause != "level0" {
				t.Errorf("the writer waits for %q", cause)
			}
			stalled.Store(true)
			fsys.gate.Open()
			if err := <-wrote; err != nil {
				t.Error(err)
			}
			if err := <-manual; err != nil {
				t.Error(err)
			}
			mustClose(t, db)
		})
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(order, ", "); !strings.Contains(got, "manual stopped, level 0") {
			t.Errorf("the manual compaction did not yield: %s", got)
		}
	})
}

// TestCloseEndsMerges closes a database, or ends a context, while a manual compaction waits for
// the disk: it stops as soon as it goes on. (How soon that is, is for TestStopIsAskedOften of
// package compact.)
func TestCloseEndsMerges(t *testing.T) {
	for _, by := range []string{"Close", "context"} {
		t.Run(by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fsys := newSlowReads()
				o := manualOptions(fsys)
				o.MaxFileSize = 64 << 20 // one step
				var ended, stopped atomic.Int64
				o.Events = &EventListener{CompactionEnd: func(c CompactionInfo) {
					if c.Reason == "manual" {
						ended.Add(1)
					}
					if c.Reason == "manual" && c.Err != nil {
						stopped.Add(1)
					}
				}}
				db := mustOpen(t, "db", o)
				fill(t, db)
				hang.Within(t, by, func() {
					if err := db.Flush(); err != nil {
						t.Error(err)
					}
					db.PauseCompaction()
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					fsys.gate.Shut()
					manual := make(chan error, 1)
					go func() { manual <- db.CompactRangeContext(ctx, nil, nil) }()
					fsys.gate.Came()
					closed := make(chan error, 1)
					if by == "Close" {
						go func() { closed <- db.Close() }()
						synctest.Wait()
						if !db.engine.Parts().Jobs.Status().Closing {
							t.Error("Close has not begun")
						}
					} else {
						cancel()
					}
					fsys.gate.Open()
					want := ErrClosed
					if by == "context" {
						want = context.Canceled
					}
					if err := <-manual; !errors.Is(err, want) {
						t.Errorf("CompactRange says %v, want %v", err, want)
					}
					if by == "context" {
						go func() { closed <- db.Close() }()
					}
					if err := <-closed; err != nil {
						t.Error(err)
					}
					if ended.Load() != 1 || stopped.Load() != 1 {
						t.Errorf("%d manual compactions, %d were stopped", ended.Load(),
							stopped.Load())
					}
				})
			})
		})
	}
}

// TestCompactRangeDropsWhatSnapshotsKept closes the snapshots for which a lone level
// has old versions and deletions: CompactRange drops those.
func TestCompactRangeDropsWhatSnapshotsKept(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem(), Compression: NoCompression}))
	value := make([]byte, 1000)
	const n = 500
	compact := func() uint64 {
		t.Helper()
		mustCompact(t, db)
		return db.Metrics().DiskBytes
	}
	var snaps []*Snapshot
	for range 5 {
		for i := range n {
			if err := db.Put(key(i), value, NoSync); err != nil {
				t.Fatal(err)
			}
		}
		snaps = append(snaps, db.Snapshot())
	}
	if size := compact(); size < 4*n*1000 {
		t.Fatalf("%d bytes are left with five snapshots", size)
	}
	for _, s := range snaps {
		s.Close()
	}
	if size := compact(); size > 2*n*1000 {
		t.Errorf("%d bytes are left of %d", size, n*1000)
	}
	s := db.Snapshot()
	for i := range n {
		if err := db.Delete(key(i), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	compact()
	s.Close()
	if size := compact(); size > 0 {
		t.Errorf("%d bytes are left of nothing", size)
	}
	mustClose(t, db)
}

// TestCloseEndsFlushes closes a database whose disk is too slow for the flush of a
// large memtable. Close gives the flush up, and the log has everything.
func TestCloseEndsFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate fstest.Gate
		var written atomic.Int64
		fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpWrite && fstest.TypeOf(op.Name) == base.FileTable {
				gate.Pass()
				written.Add(op.N)
			}
			return vfs.Outcome{}
		})
		const n = 20_000
		db := mustOpen(t, "db", &Options{FS: fsys, WriteBufferSize: 32 << 20,
			Compression: NoCompression})
		for i := range n { // in no order, or a memtable would be flushed half full before
			if err := db.Put(key(i*7919%n), make([]byte, 1000), NoSync); err != nil {
				t.Fatal(err)
			}
		}
		hang.Within(t, "Close", func() {
			gate.Shut()
			if err := db.engine.Parts().Pipeline.Exclusive(func() error {
				return db.engine.Parts().Jobs.Seal(db.engine.Parts().Home)
			}); err != nil {
				t.Fatal(err)
			}
			gate.Came()
			closed := make(chan error, 1)
			go func() { closed <- db.Close() }()
			time.Sleep(10 * time.Second)
			if !db.engine.Parts().Jobs.Status().LastFlush {
				t.Error("Close does not wait for the flush")
			}
			gate.Open()
			if err := <-closed; err != nil {
				t.Error(err)
			}
		})
		if w := written.Load(); w > 8<<20 {
			t.Errorf("%d bytes of tables were written, with Close waiting", w)
		}
		db = mustOpen(t, "db", &Options{FS: fsys})
		for _, i := range []int{0, n / 2, n - 1} {
			if _, err := db.Get(key(i), nil); err != nil {
				t.Error(err)
			}
		}
		mustClose(t, db)
	})
}
