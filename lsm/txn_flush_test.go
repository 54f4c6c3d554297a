package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestTxnChecksBesideFlushes commits transactions that have read or deleted ranges, beside writes
// elsewhere and flushes: the commit leader looks through memtables that a flush takes away, and
// the comparer lets the flush go first. None of the commits is a conflict.
func TestTxnChecksBesideFlushes(t *testing.T) {
	// With one processor a yield would last until each of the others has used up 10 ms.
	procs := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(procs)
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative,
		WriteBufferSize: 64 << 10, Comparer: &Comparer{
			Name: "test.Yields", EqualIsBytewise: true,
			Compare: func(a, b []byte) int {
				if len(a) > 0 && len(b) > 0 && (a[0] == 'r' && b[0] == 'z' || a[0] == 'z' &&
					b[0] == 'r') {
					runtime.Gosched()
				}
				return bytes.Compare(a, b)
			},
		}})
	defer mustClose(t, db)
	const ranges = 400
	commits := seed.Scale(10, 30, 30)
	for i := range ranges {
		mustAll(t, db.Put(fmt.Appendf(nil, "r%06d", i), nil, NoSync))
	}
	var committers, others sync.WaitGroup
	for n := range 3 {
		committers.Go(func() {
			for i := range commits {
				tx := db.Begin(&TxnOptions{Isolation: Serializable})
				if n == 0 {
					if err := tx.DeleteRange([]byte("s"), []byte("t")); err != nil {
						t.Error(err)
					}
				} else {
					it := tx.Iter(nil)
					for j := 0; j < ranges; j += 4 {
						it.SeekGE(fmt.Appendf(nil, "r%06d", j))
					}
					it.Close()
				}
				if err := tx.Put(fmt.Appendf(nil, "w%d-%d", n, i), nil); err != nil {
					t.Error(err)
				}
				if err := tx.Commit(NoSync); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	beside := func(f func(i int) error) {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if err := f(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 2 {
		beside(func(i int) error {
			return db.Put(fmt.Appendf(nil, "z%d", i%5000), make([]byte, 10), NoSync)
		})
	}
	beside(func(int) error { return db.Flush() })
	committers.Wait()
	close(done)
	others.Wait()
}

// TestRangeDeletesOfNothingConflict: a range that was deleted since a transaction began is a
// conflict with its writes there, also if the range held nothing, and after the tables with it were
// flushed and compacted.
func TestRangeDeletesOfNothingConflict(t *testing.T) {
	for _, ingested := range []bool{false, true} {
		for _, settle := range []func(*DB) error{
			func(db *DB) error { return nil },
			(*DB).Flush,
			func(db *DB) error { return db.CompactRange(nil, nil) },
			func(db *DB) error { return db.CompactRange([]byte("b"), []byte("d")) },
		} {
			o := &Options{FS: vfs.NewMem(), Format: FormatNative}
			db := mustOpen(t, "db", o)
			tx := db.Begin(nil)
			if ingested {
				w, err := NewTableWriter("table", o)
				mustAll(t, err)
				mustAll(t, w.DeleteRange([]byte("b"), []byte("c")), w.Finish(),
					db.Ingest(context.Background(), nil, "table"))
			} else {
				mustAll(t, db.DeleteRange([]byte("b"), []byte("c"), NoSync))
			}
			mustAll(t, settle(db), tx.Put([]byte("b"), nil))
			if err := tx.Commit(NoSync); !errors.Is(err, ErrConflict) {
				t.Errorf("ingested %v: %v, want a conflict", ingested, err)
			}
			mustAll(t, db.CompactRange(nil, nil))
			for i, l := range db.Metrics().Levels {
				if l.Files > 0 {
					t.Errorf("ingested %v: %d tables stay in level %d", ingested, l.Files, i)
				}
			}
			mustAll(t, db.Close())
		}
	}
}
