package lsm

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
)

// TestBarrierBesideClose: an empty batch with Sync that comes while the database
// closes is done before, or fails with ErrClosed; the log is not synced after it
// was closed.
func TestBarrierBesideClose(t *testing.T) {
	for range 100 {
		var mu sync.Mutex
		closed := map[string]bool{}
		var late atomic.Int64
		fsys := vfs.NewFault(vfs.NewMem(), func(op vfs.Op) vfs.Outcome {
			if fstest.TypeOf(op.Name) != base.FileLog {
				return vfs.Outcome{}
			}
			mu.Lock()
			defer mu.Unlock()
			switch op.Kind {
			case vfs.OpClose:
				closed[op.Name] = true
			case vfs.OpSync:
				if closed[op.Name] {
					late.Add(1)
				}
			}
			return vfs.Outcome{}
		})
		db := mustOpen(t, "db", small(Options{FS: fsys}))
		mustPut(t, db, 1)
		var wg sync.WaitGroup
		begun := make(chan struct{}, 4)
		for range 4 {
			wg.Go(func() {
				b := NewBatch()
				for i := 0; ; i++ {
					if err := db.Write(b, Sync); err != nil {
						if !errors.Is(err, ErrClosed) {
							t.Errorf("a barrier beside Close: %v", err)
						}
						return
					}
					if i == 0 {
						begun <- struct{}{}
					}
				}
			})
		}
		for range 4 {
			<-begun
		}
		mustClose(t, db)
		wg.Wait()
		if n := late.Load(); n > 0 {
			t.Fatalf("%d syncs of a closed log", n)
		}
	}
}
