package ingests

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
	loads "github.com/loamdb/loam/internal/feature/ingest"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/lsm"
)

// TestFailedLoadFreesMemory: a load that cannot write its runs, or merge 200 of them, gives all of
// its memory back.
func TestFailedLoadFreesMemory(t *testing.T) {
	full := errors.New("no more files")
	for _, from := range []int64{1, 2, 5, 201} {
		o := options(lsm.FormatNative)
		var on atomic.Bool
		var n atomic.Int64
		o.FS = vfs.NewFault(vfs.NewMem(), func(op vfs.Op) (out vfs.Outcome) {
			if on.Load() && op.Kind == vfs.OpCreate && n.Add(1) >= from {
				out.Err = full
			}
			return out
		})
		db := open(t, "db", o)
		on.Store(true)
		before := offheap.InUse()
		l, err := loads.NewBulkLoader(db.Inside().Default(), 64<<10)
		must(t, err)
		for i := 0; err == nil; i++ {
			err = l.Put(fmt.Appendf(nil, "k%08d", i), make([]byte, 400))
		}
		if !errors.Is(err, full) {
			t.Errorf("from file %d on: %v", from, err)
		}
		must(t, l.Close())
		if now := offheap.InUse(); now > before {
			t.Errorf("from file %d on: %d bytes of memory are left", from, now-before)
		}
		on.Store(false)
		must(t, db.Close())
	}
}

// TestPanicClosesFiles: a comparer that panics in the middle of a load leaves no file open.
func TestPanicClosesFiles(t *testing.T) {
	for _, after := range []int64{0, 50, 1000, 5000, 20000, 40000} {
		var files handles
		var left atomic.Int64
		left.Store(1 << 40)
		o := options(lsm.FormatNative)
		o.FS = vfs.NewFault(vfs.NewMem(), files.count)
		o.Comparer = &lsm.Comparer{Name: "panics", Compare: func(a, b []byte) int {
			if left.Add(-1) < 0 {
				panic("out of order")
			}
			return bytes.Compare(a, b)
		}, EqualIsBytewise: true}
		db := open(t, "db", o)
		l, err := loads.NewBulkLoader(db.Inside().Default(), 256<<10)
		must(t, err)
		for i := range 5000 {
			must(t, l.Put(fmt.Appendf(nil, "k%08d", i*7919%5000), make([]byte, 200)))
		}
		left.Store(after)
		var panicked *base.Panic
		if err := l.Finish(ctx); !errors.As(err, &panicked) {
			t.Errorf("after %d comparisons: %v", after, err)
		}
		left.Store(1 << 40)
		if now := files.open(); len(now) > 0 {
			t.Errorf("after %d comparisons: open are %v", after, now)
		}
		_ = db.Close() // it is read-only
	}
}

// handles are the files of tables that are open, by name.
type handles struct {
	mu sync.Mutex
	by map[string]int
}

func (h *handles) count(op vfs.Op) vfs.Outcome {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.by == nil {
		h.by = map[string]int{}
	}
	if fstest.TypeOf(op.Name) != base.FileTable {
		return vfs.Outcome{}
	}
	switch op.Kind {
	case vfs.OpCreate, vfs.OpOpen:
		h.by[op.Name]++
	case vfs.OpClose:
		h.by[op.Name]--
	}
	return vfs.Outcome{}
}

func (h *handles) open() (names []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, n := range h.by {
		for range n {
			names = append(names, name)
		}
	}
	return names
}
