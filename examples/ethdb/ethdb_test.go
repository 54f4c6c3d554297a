package ethdb

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/ethdb/dbtest"
	"github.com/loamdb/loam/lsm"
)

// store makes databases for a test.
func store(t testing.TB) func() ethdb.KeyValueStore {
	root, n := t.TempDir(), 0
	return func() ethdb.KeyValueStore {
		n++
		db, err := Open(filepath.Join(root, fmt.Sprint(n)), nil)
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
}

// TestSuite is go-ethereum's suite for stores.
func TestSuite(t *testing.T) { dbtest.TestDatabaseSuite(t, store(t)) }

// BenchmarkSuite is go-ethereum's benchmark of stores.
func BenchmarkSuite(b *testing.B) { dbtest.BenchDatabaseSuite(b, store(b)) }

// TestReopened finds what was written, and not what a range delete took, after closing.
func TestReopened(t *testing.T) {
	dir := t.TempDir()
	for life := range 3 {
		db, err := Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			_, err := db.Get(fmt.Appendf(nil, "k%02d", i))
			if gone := life == 0 || i >= 20 && i < 80; gone != errors.Is(err, lsm.ErrNotFound) {
				t.Fatalf("life %d, key %d: %v", life, i, err)
			}
			if err := db.Put(fmt.Appendf(nil, "k%02d", i), []byte("v")); err != nil {
				t.Fatal(err)
			}
		}
		b := db.NewBatch()
		if err := errors.Join(b.DeleteRange([]byte("k20"), []byte("k80")), b.Write(),
			db.Compact(nil, nil), db.SyncKeyValue()); err != nil {
			t.Fatal(err)
		}
		it := db.NewIterator([]byte("k"), []byte("1"))
		n := 0
		for it.Next() {
			n++
		}
		if err := it.Error(); n != 30 || err != nil || it.Key() != nil {
			t.Errorf("%d keys, %v, at %q", n, err, it.Key())
		}
		it.Release()
		it.Release()
		if stat, err := db.Stat(); err != nil || !bytes.Contains([]byte(stat), []byte("Level")) {
			t.Errorf("stat %q, %v", stat, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
