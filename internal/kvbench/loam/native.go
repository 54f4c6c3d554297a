package loam

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/workload/store"
	"github.com/loamdb/loam/lsm"
)

// native is a database in the native format, with what LevelDB's format cannot hold.
type native struct {
	database
	spaces []*lsm.Keyspace // of OpenKeyspaces
}

// OpenKeyspaces comes before the writers.
func (d *native) OpenKeyspaces(n int) error {
	d.spaces = nil
	for i := range n {
		k, err := d.db.Keyspace(fmt.Sprint("keyspace", i), nil)
		if err != nil {
			return err
		}
		d.spaces = append(d.spaces, k)
	}
	return nil
}

func (d *native) PutIn(b store.Batch, keyspace int, key, value []byte) {
	b.(*lsm.Batch).In(d.spaces[keyspace]).Put(key, value)
}

func (d *native) DeleteRange(start, limit []byte, sync bool) error {
	return d.db.DeleteRange(start, limit, mode(sync))
}

func (d *native) Add(key []byte, n uint64, sync bool) error {
	var operand [8]byte
	binary.LittleEndian.PutUint64(operand[:], n)
	return d.db.Merge(key, operand[:], mode(sync))
}

// Begin has no use for old: a Txn is not used again.
func (d *database) Begin(store.Txn) (store.Txn, error) {
	return transaction{d.db.Begin(&d.txn)}, nil
}

type transaction struct{ tx *lsm.Txn }

// conflict marks errors after which a transaction is to be begun again.
func conflict(err error) error {
	if errors.Is(err, lsm.ErrConflict) || errors.Is(err, lsm.ErrDeadlock) ||
		errors.Is(err, lsm.ErrLockTimeout) {
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	}
	return err
}

func (t transaction) GetForUpdate(key, dst []byte) ([]byte, bool, error) {
	value, err := t.tx.GetForUpdate(key, dst)
	value, found, err := answer(value, dst, err)
	return value, found, conflict(err)
}

func (t transaction) Put(key, value []byte) error { return conflict(t.tx.Put(key, value)) }
func (t transaction) Delete(key []byte) error     { return conflict(t.tx.Delete(key)) }
func (t transaction) Commit(sync bool) error      { return conflict(t.tx.Commit(mode(sync))) }
func (t transaction) Rollback() error             { return t.tx.Rollback() }
