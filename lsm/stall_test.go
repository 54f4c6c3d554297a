package lsm

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// stallOptions are option sets at the edges of what Open accepts, every pair of
// l0_compaction and l0_stop that go together among them.
func stallOptions(rng *rand.Rand) (sets []Options) {
	for _, trigger := range []int{1, 2, 4, 16} {
		for _, stop := range []int{2, 5, 7, 8, 12, 17, 24, 31} {
			if stop <= trigger {
				continue
			}
			sets = append(sets, Options{
				L0Compaction: trigger, L0Stop: stop,
				WriteBufferSize:   64 << 10,
				MaxMemtables:      2 + rng.IntN(3),
				MaxBackgroundJobs: 1 + rng.IntN(3),
				MaxSubcompactions: 1 + rng.IntN(3),
				MaxFileSize:       64 << 10 << rng.IntN(6),
				CacheSize:         []int64{-1, 1 << 20}[rng.IntN(2)],
				Compression:       NoCompression,
				DisableCompaction: rng.IntN(8) == 0,
			})
		}
	}
	return sets
}

// TestNoWriterWaitsForNothing writes past the stop of level 0 under option sets of
// all kinds. No writer waits without work under way that ends its wait.
func TestNoWriterWaitsForNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(27, uint64(seed.Of(t))))
	sets := stallOptions(rng)
	for i, o := range sets {
		if i%seed.Scale(16, 4, 1) != 0 {
			continue
		}
		o.FS = vfs.NewMem()
		what := fmt.Sprintf("l0_compaction %d, l0_stop %d, %d jobs, file size %d", o.L0Compaction,
			o.L0Stop, o.MaxBackgroundJobs, o.MaxFileSize)
		hang.Within(t, what, func() {
			db := mustOpen(t, "db", &o)
			value := make([]byte, 12<<10)
			for i := range 5 * (o.L0Stop + 30*o.L0Compaction) {
				if err := db.Put(key(rng.IntN(1000)), value, NoSync); err != nil {
					t.Errorf("%s: put %d: %v", what, i, err)
					break
				}
			}
			if n := db.engine.Parts().Jobs.Status().Forced; n > 0 {
				t.Errorf("%s: %d waits for level 0 had nothing under way", what, n)
			}
			mustClose(t, db)
		})
	}
}

// TestFlushAfterSpaceReturned has space return while a flush is under way that
// found none: what Flush says is of a flush that began later.
func TestFlushAfterSpaceReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, gate := make(chan struct{}), make(chan struct{})
		var full atomic.Bool
		fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			if op.Kind == vfs.OpCreate && fstest.TypeOf(op.Name) == base.FileTable &&
				full.CompareAndSwap(true, false) {
				close(began)
				<-gate
				return vfs.Outcome{Err: syscall.ENOSPC}
			}
			return vfs.Outcome{}
		})
		db := mustOpen(t, "db", small(Options{FS: fsys}))
		full.Store(true)
		mustPut(t, db, 1)
		if err := db.engine.Parts().Pipeline.Exclusive(func() error {
			return db.engine.Parts().Jobs.Seal(db.engine.Parts().Home)
		}); err != nil {
			t.Fatal(err)
		}
		<-began
		mustPut(t, db, 2)
		done := make(chan error, 1)
		go func() { done <- db.Flush() }()
		synctest.Wait() // Flush has sealed the memtable, and waits
		close(gate)
		hang.Within(t, "Flush", func() {
			if err := <-done; err != nil {
				t.Error(err)
			}
			mustClose(t, db)
		})
	})
}
