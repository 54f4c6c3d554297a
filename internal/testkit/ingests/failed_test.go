package ingests

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestFailedRuns: a load whose runs cannot be written fails with the cause, whichever run it is,
// and leaves nothing.
func TestFailedRuns(t *testing.T) {
	full := errors.New("no more files")
	for _, from := range []int{1, 2, 150, 197, 198, 199, 200, 201, 202} {
		mem := vfs.NewMem()
		o := options(lsm.FormatNative)
		var on atomic.Bool
		var n atomic.Int64
		o.FS = vfs.NewFault(mem, func(op vfs.Op) (out vfs.Outcome) {
			if on.Load() && op.Kind == vfs.OpCreate && n.Add(1) >= int64(from) {
				out.Err = full
			}
			return out
		})
		db := open(t, "db", o)
		put(t, db, "a=1")
		on.Store(true)
		l, err := db.BulkLoader(nil)
		must(t, err)
		for i := 0; i < 60000 && err == nil; i++ {
			err = l.Put(fmt.Appendf(nil, "k%08d", i*7919%60000), make([]byte, 400))
		}
		if err == nil {
			err = l.Finish(ctx)
		}
		if !errors.Is(err, full) {
			t.Errorf("from file %d on: %v", from, err)
		}
		on.Store(false)
		must(t, l.Close(), db.BulkLoad(ctx, func(yield func(k, v []byte) bool) {
			yield([]byte("b"), []byte("2"))
		}, nil))
		is(t, "afterwards", db, "a=1 b=2")
		must(t, db.Close())
	}
}

// readWhole reads the keys of TestBeside until over: all of them are there, of one write, or none.
func readWhole(t *testing.T, db *lsm.DB, over chan struct{}, closed func(error) bool) {
	for {
		select {
		case <-over:
			return
		default:
		}
		it := db.Iter(&lsm.IterOptions{Lower: []byte("k"), Upper: []byte("l")})
		n, first := 0, ""
		for ok := it.First(); ok; ok = it.Next() {
			if n++; n == 1 {
				first = string(it.Value())
			} else if string(it.Value()) != first {
				t.Errorf("%s is %s beside %s", it.Key(), it.Value(), first)
			}
		}
		if n != 0 && n != keys && it.Err() == nil {
			t.Errorf("%d keys", n)
		}
		if closed(errors.Join(it.Err(), it.Close())) {
			return
		}
	}
}
