// Package optimistic has the transactions of package replica and of its clients: they read from one
// state, remember what they read, and become one change with conditions.
package optimistic

import (
	"context"
	"errors"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/internal/wire"
)

// Txn is a transaction. It is used by one goroutine at a time.
type Txn struct {
	from    kv.Reader
	read    map[string]wire.Condition
	written map[string][]byte // nil: deleted
	order   []string          // of the first write of each key
}

// Begin begins a transaction that reads a state.
func Begin(from kv.Reader) Txn {
	return Txn{from: from, read: map[string]wire.Condition{}, written: map[string][]byte{}}
}

// Get returns the value of key; a missing key is lsm.ErrNotFound.
func (t *Txn) Get(ctx context.Context, key []byte) ([]byte, error) {
	if v, ok := t.written[string(key)]; ok {
		if v == nil {
			return nil, lsm.ErrNotFound
		}
		return append([]byte{}, v...), nil
	}
	v, err := t.from.Get(ctx, key)
	if err == nil || errors.Is(err, lsm.ErrNotFound) {
		t.read[string(key)] = wire.ConditionOf(key, v)
	}
	return v, err
}

// Put sets key to value.
func (t *Txn) Put(key, value []byte) { t.set(key, append([]byte{}, value...)) }

// Delete removes key.
func (t *Txn) Delete(key []byte) { t.set(key, nil) }

func (t *Txn) set(key, value []byte) {
	if _, again := t.written[string(key)]; !again {
		t.order = append(t.order, string(key))
	}
	t.written[string(key)] = value
}

// Change returns the writes of the transaction, on condition that its reads still hold.
func (t *Txn) Change(once []byte) *wire.Change {
	c := &wire.Change{Once: once}
	for _, r := range t.read {
		c.Conditions = append(c.Conditions, r)
	}
	b := kv.NewBatch()
	for _, k := range t.order {
		if v := t.written[k]; v != nil {
			b.Put([]byte(k), v)
		} else {
			b.Delete([]byte(k))
		}
	}
	c.Batch = b.Bytes()
	return c
}
