package callbacks

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/lsm"
)

// TestMergeOperatorBehindStall: a flush calls a merge operator, a writer leads and waits for that
// flush, and a write of the operator, which would wait for the writer, fails with ErrInUse.
func TestMergeOperatorBehindStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var db *lsm.DB
		var once atomic.Bool
		reached, goOn := make(chan bool), make(chan bool)
		answer := make(chan error, 1)
		operator := last(func() {})
		full := operator.Full
		operator.Full = func(dst, key, existing []byte, operands [][]byte) ([]byte, error) {
			if !once.Swap(true) {
				close(reached)
				<-goOn
				answer <- db.Put([]byte("other"), nil, lsm.NoSync)
			}
			return full(dst, key, existing, operands)
		}
		db, err := lsm.Open(dir, &lsm.Options{
			FS: vfs.NewMem(), MergeOperator: operator, WriteBufferSize: 64 << 10, MaxMemtables: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		key := []byte("k")
		err = errors.Join(db.Put(key, nil, lsm.NoSync), db.Merge(key, []byte("1"), lsm.NoSync))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		errs := make([]error, 2)
		wg.Go(func() { errs[0] = db.Flush() })
		<-reached
		wg.Go(func() {
			for range 100 {
				errs[1] = errors.Join(errs[1], db.Put(key, make([]byte, 8<<10), lsm.NoSync))
			}
		})
		synctest.Wait() // the writer waits for room
		close(goOn)
		if err := <-answer; !errors.Is(err, lsm.ErrInUse) {
			t.Errorf("a write of the operator: %v", err)
		}
		wg.Wait()
		if err := errors.Join(append(errs, db.Close())...); err != nil {
			t.Error(err)
		}
	})
}

// TestComparerWrites: a comparer may call nothing. Where it writes all the same, and the leader of
// the commits or the fragmenting of range tombstones calls it, the calls come to an end, with
// ErrInUse where they would wait for themselves.
func TestComparerWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var db atomic.Pointer[lsm.DB]
		var nested atomic.Bool
		var refused atomic.Int64
		cmp := &lsm.Comparer{Name: "writes", Compare: func(a, b []byte) int {
			if d := db.Load(); d != nil && nested.CompareAndSwap(false, true) {
				_, rerr := d.Get([]byte("c"), nil)
				werr := d.Put([]byte("x"), nil, lsm.NoSync)
				if errors.Is(werr, lsm.ErrInUse) || errors.Is(rerr, lsm.ErrInUse) {
					refused.Add(1)
				}
				nested.Store(false)
			}
			return bytes.Compare(a, b)
		}}
		d, err := lsm.Open(dir, &lsm.Options{FS: vfs.NewMem(), Comparer: cmp})
		if err != nil {
			t.Fatal(err)
		}
		key := []byte("b")
		err = errors.Join(d.Put(key, nil, lsm.NoSync), d.Put([]byte("c"), nil, lsm.NoSync))
		if err != nil {
			t.Fatal(err)
		}
		db.Store(d)
		for range 3 {
			if err := d.DeleteRange([]byte("d"), []byte("e"), lsm.NoSync); err != nil {
				t.Error(err)
			}
			if _, err := d.Get(key, nil); err != nil {
				t.Error(err)
			}
			err := d.UpdateWith(context.Background(), &lsm.TxnOptions{
				Isolation: lsm.Serializable,
			}, func(tx *lsm.Txn) error {
				_, err := tx.Get(key, nil)
				return errors.Join(err, tx.Put(key, nil))
			})
			if err != nil && !errors.Is(err, lsm.ErrConflict) {
				t.Error(err)
			}
		}
		db.Store(nil)
		if refused.Load() == 0 {
			t.Error("no call was refused")
		}
		if err := errors.Join(d.Flush(), d.Close()); err != nil {
			t.Error(err)
		}
	})
}
