package resources

import (
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestSharesComeBack opens and closes many databases: of two that are open then, the one that has
// less than its share of the memory seals no memtable while the other one has much more.
func TestSharesComeBack(t *testing.T) {
	// memtables: 96 MiB; a quarter of a share of two is 12 MiB
	res := lsm.NewResources(lsm.ResourcesOptions{Memory: 256 << 20})
	defer res.Close()
	open := func() *lsm.DB {
		t.Helper()
		db, err := lsm.Open("/db", &lsm.Options{FS: vfs.NewMem(), Resources: res})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	for range 60 {
		if err := open().Close(); err != nil {
			t.Fatal(err)
		}
	}
	large, little := open(), open()
	put := func(db *lsm.DB, bytes int64) {
		t.Helper()
		for i := 0; i%64 > 0 || db.Metrics().MemtableBytes < bytes; i++ {
			key := i * 7919 % 100_003 // memtables of ascending keys are flushed half full
			if err := db.Put(fmt.Appendf(nil, "key%08d", key), make([]byte, 1000),
				lsm.NoSync); err != nil {
				t.Fatal(err)
			}
		}
	}
	put(large, 42<<20)
	if n := large.Metrics().Flush.Count; n != 0 {
		t.Fatalf("%d flushes of less than half of what memtables may have", n)
	}
	put(little, 9<<20)
	if err := little.Put([]byte("end"), nil, lsm.NoSync); err != nil {
		t.Fatal(err)
	}
	if m := little.Metrics(); m.Flush.Count != 0 || m.Memtables != 1 {
		t.Errorf("a database that has %d bytes sealed a memtable", m.MemtableBytes)
	}
	for _, db := range []*lsm.DB{large, little} {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}
