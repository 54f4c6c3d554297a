package lsm

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestOperationMetrics counts reads and writes from several goroutines; the first of each kind is
// measured.
func TestOperationMetrics(t *testing.T) {
	db := mustOpen(t, "db", &Options{FS: vfs.NewMem()})
	defer db.Close()
	const goroutines, each = 4, 500
	var all sync.WaitGroup
	for g := range goroutines {
		all.Go(func() {
			keys := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
			var result MultiResult
			it := db.Iter(nil)
			for i := range each {
				key := fmt.Appendf(nil, "%d-%d", g, i)
				_, missing := db.Has(key)
				_, err := db.Get(keys[i%3], nil)
				if missing != nil || err != nil && !errors.Is(err, ErrNotFound) {
					t.Error(missing, err)
				}
				if err := db.MultiGet(keys, &result); err != nil {
					t.Error(err)
				}
				it.SeekGE(key)
				it.SeekLT(key)
				b := NewBatch()
				b.Put(key, key)
				b.Delete(keys[0])
				if err := db.Write(b, NoSync); err != nil {
					t.Error(err)
				}
			}
			if err := it.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	m := db.Metrics()
	for _, c := range []struct {
		what string
		OperationMetrics
		want uint64
	}{
		{"gets", m.Gets, 2 * goroutines * each}, {"seeks", m.Seeks, 2 * goroutines * each},
		{"multi_gets", m.MultiGets, goroutines * each},
		{"commits", m.Commits, goroutines * each},
	} {
		if c.Count != c.want || c.Latency.Count == 0 || c.Latency.Count > int64(c.want) {
			t.Errorf("%s: %d, %d of them measured; want %d", c.what, c.Count, c.Latency.Count,
				c.want)
		}
	}
	if m.MultiGetKeys != 3*goroutines*each {
		t.Errorf("%d keys", m.MultiGetKeys)
	}
}
