package lsm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// TestTxnConflictAtEndOfRangeDelete: a table that ends with a range delete and the next one, which
// begins at the limit of that, are two tables that have the limit between their bounds. A commit,
// and a lock, of the limit look into the second one. Ingests and compactions make such tables.
func TestTxnConflictAtEndOfRangeDelete(t *testing.T) {
	conflicts := func(t *testing.T, at []byte, txns ...*Txn) {
		t.Helper()
		for _, tx := range txns {
			err := tx.Put(at, []byte("mine")) // takes the lock, if it takes any
			if err == nil {
				err = tx.Commit(NoSync)
			}
			if !errors.Is(err, ErrConflict) {
				t.Errorf("%q, written by the transaction and another one: %v", at, err)
			}
			must(t, tx.Close())
		}
	}
	begin := func(db *DB, lock bool) *Txn {
		tx := db.Begin(&TxnOptions{Lock: lock})
		_, err := tx.Get([]byte("read"), nil) // its snapshot stays here
		if !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		return tx
	}
	t.Run("ingested", func(t *testing.T) {
		fsys, at := vfs.NewMem(), []byte("k8")
		db := mustOpen(t, "db", &Options{FS: fsys, Format: FormatNative})
		defer mustClose(t, db)
		txns := []*Txn{begin(db, false), begin(db, true)}
		w, err := NewTableWriter("before", &Options{FS: fsys, Format: FormatNative})
		must(t, err)
		mustAll(t, w.Put([]byte("k6"), nil), w.DeleteRange([]byte("k7"), at), w.Finish(), w.Close())
		behind := writeTable(t, "behind", &Options{FS: fsys, Format: FormatNative}, "k8", "theirs")
		must(t, db.Ingest(context.Background(), nil, "before", behind))
		conflicts(t, at, txns...)
	})
	t.Run("compacted", func(t *testing.T) {
		const keys = 60
		db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Format: FormatNative,
			MaxFileSize: 64 << 10})
		defer mustClose(t, db)
		key := func(i int) []byte { return fmt.Appendf(nil, "%04d", i) }
		for i := range keys {
			must(t, db.Put(append(key(i), 'x'), nil, NoSync)) // what the range deletes hide
		}
		must(t, db.Flush())
		var txns []*Txn
		random := rand.NewChaCha8([32]byte{})
		for i := range 2 * keys {
			txns = append(txns, begin(db, i%2 == 1))
		}
		for i := range keys {
			value := make([]byte, 10<<10)
			_, _ = random.Read(value) // so that tables are cut
			mustAll(t, db.Put(key(i), value, NoSync),
				db.DeleteRange(append(key(i), 'a'), key(i+1), NoSync))
		}
		must(t, db.CompactRange(nil, nil))
		for i := range keys {
			conflicts(t, key(i), txns[2*i:2*i+2]...)
		}
	})
}
