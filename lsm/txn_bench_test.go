package lsm

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// BenchmarkTxn is transactions of four operations on keys that no other goroutine has, beside the
// same reads and writes without a transaction: four puts, or two keys read for update and put.
func BenchmarkTxn(b *testing.B) {
	db, err := Open(b.TempDir(), &Options{FS: vfs.Default, Format: FormatNative})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	const keys = 1 << 17
	value := make([]byte, 100)
	for i := range keys {
		if err := db.Put(fmt.Appendf(nil, "%016d", i), value, NoSync); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.Flush(); err != nil {
		b.Fatal(err)
	}
	update := func(get func(key, dst []byte) ([]byte, error), put func(key, value []byte),
		keys [][]byte, dst []byte) error {
		for _, k := range keys {
			if _, err := get(k, dst[:0]); err != nil {
				return err
			}
			put(k, value)
		}
		return nil
	}
	run := func(name string, f func(keys [][]byte, batch *Batch, dst []byte) error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var worker atomic.Uint64
			b.RunParallel(func(pb *testing.PB) {
				w := worker.Add(1)
				rng := rand.New(rand.NewPCG(w, 1))
				batch, dst := NewBatch(), make([]byte, 0, 200)
				names := [4][]byte{}
				for pb.Next() {
					for i := range names {
						names[i] = fmt.Appendf(names[i][:0], "%016d",
							rng.Uint64N(keys/16)*16+w%4*4+uint64(i))
					}
					if err := f(names[:], batch, dst); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
	run("batch/4 puts", func(keys [][]byte, batch *Batch, _ []byte) error {
		batch.Clear()
		for _, k := range keys {
			batch.Put(k, value)
		}
		return db.Write(batch, NoSync)
	})
	run("txn/4 puts", func(keys [][]byte, _ *Batch, _ []byte) error {
		tx := db.Begin(nil)
		for _, k := range keys {
			if err := tx.Put(k, value); err != nil {
				return err
			}
		}
		return tx.Commit(NoSync)
	})
	run("batch/2 updates", func(keys [][]byte, batch *Batch, dst []byte) error {
		batch.Clear()
		if err := update(db.Get, batch.Put, keys[:2], dst); err != nil {
			return err
		}
		return db.Write(batch, NoSync)
	})
	for _, locks := range []bool{false, true} {
		run(fmt.Sprintf("txn/2 updates/locks=%v", locks),
			func(keys [][]byte, _ *Batch, dst []byte) error {
				tx := db.Begin(&TxnOptions{Lock: locks})
				put := func(key, value []byte) { _ = tx.Put(key, value) } // Commit fails, too
				if err := update(tx.GetForUpdate, put, keys[:2], dst); err != nil {
					return err
				}
				return tx.Commit(NoSync)
			})
	}
}
