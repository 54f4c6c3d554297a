package runner

import (
	"errors"
	"slices"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// transaction is what a thread keeps from one transaction to the next.
type transaction struct {
	*thread
	spec   *workload.Txn
	db     store.Transactional
	last   store.Txn   // has ended
	batch  store.Batch // instead of a transaction
	pick   pick
	shift  uint64   // the thread has the keys with number % stride == shift
	stride uint64   // 1: all
	nums   []uint64 // keys of the transaction
	values [][]byte
}

// transact runs transactions, each as often as it takes until it is committed.
func (t *thread) transact(spec *workload.Spec) {
	x := t.transaction(spec)
	for range t.ops {
		x.draw()
		for i, n := range x.nums {
			x.values[i] = t.value(n)
		}
		err := x.once()
		for errors.Is(err, store.ErrConflict) && !t.stop.Load() {
			t.conflicts++
			err = x.once()
		}
		if err != nil {
			t.fail(err)
			return
		}
		if !t.tick() {
			return
		}
	}
}

func (t *thread) transaction(spec *workload.Spec) *transaction {
	x := &transaction{thread: t, spec: &spec.Txn, stride: 1}
	x.nums, x.values = make([]uint64, spec.Txn.Keys), make([][]byte, spec.Txn.Keys)
	if spec.Order == workload.Few {
		x.pick = t.picker(spec.Order)
	} else {
		x.stride, x.shift = uint64(t.of), uint64(t.index)
		x.pick = t.pickerOf(spec.Order, uint64(t.r.Params.Num)/x.stride)
	}
	x.pick.n = max(x.pick.n, uint64(spec.Txn.Keys))
	if spec.Txn.Plain {
		x.batch = t.db.NewBatch()
	} else {
		x.db = t.db.(store.Transactional)
	}
	return x
}

// draw chooses the keys of the next transaction, which differ.
func (x *transaction) draw() {
	for i := range x.nums {
		n := x.pick.next(&x.rand)
		for slices.Contains(x.nums[:i], n*x.stride+x.shift) {
			n = (n + 1) % x.pick.n
		}
		x.nums[i] = n*x.stride + x.shift
	}
}

func (x *transaction) once() error {
	if x.spec.Plain {
		return x.plain()
	}
	tx, err := x.db.Begin(x.last)
	if err != nil {
		return err
	}
	x.last = tx
	found, bytes, err := x.run(tx)
	if err == nil {
		err = tx.Commit(x.durable())
	}
	if err != nil {
		if e := tx.Rollback(); e != nil {
			return e
		}
		return err
	}
	x.count(found, bytes)
	return nil
}

// count notes what a transaction did that was committed.
func (x *transaction) count(found, bytes int64) {
	if x.spec.Update {
		x.asked += int64(x.spec.Keys)
		x.found += found
	}
	x.bytes += bytes
}

func (x *transaction) run(tx store.Txn) (found, bytes int64, err error) {
	for i, n := range x.nums {
		if x.spec.Update {
			value, ok, err := tx.GetForUpdate(x.keys.Present(n), x.buf[:0])
			if err != nil {
				return 0, 0, err
			}
			x.buf = value
			if ok {
				found++
				bytes += int64(len(value))
			}
		}
		key := x.keys.Present(n)
		if err := tx.Put(key, x.values[i]); err != nil {
			return 0, 0, err
		}
		bytes += int64(len(key) + len(x.values[i]))
	}
	return found, bytes, nil
}

// plain does the same without a transaction.
func (x *transaction) plain() error {
	var found, bytes int64
	x.batch.Clear()
	for i, n := range x.nums {
		if x.spec.Update {
			value, ok, err := x.thread.db.Get(x.keys.Present(n), x.buf[:0])
			if err != nil {
				return err
			}
			x.buf = value
			if ok {
				found++
				bytes += int64(len(value))
			}
		}
		key := x.keys.Present(n)
		x.batch.Put(key, x.values[i])
		bytes += int64(len(key) + len(x.values[i]))
	}
	if err := x.thread.db.Write(x.batch, x.durable()); err != nil {
		return err
	}
	x.count(found, bytes)
	return nil
}

// transact replays the transactions of a thread. Other threads have other keys; otherwise the
// expected values would be uncertain.
func (o *oracle) transact(spec *workload.Spec, t *thread) (expect int64) {
	x := t.transaction(spec)
	t.rand = workload.NewRand(t.seed)
	for range t.done {
		x.draw()
		for _, n := range x.nums {
			if spec.Txn.Update {
				expect += o.one(n)
			}
			o.set(n, true)
		}
	}
	return expect
}
