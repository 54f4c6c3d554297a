package txn

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/store/write"
)

// snapshotValues are those that a transaction has changed: its commit checks their keys.
type snapshotValues struct{ tx *Txn }

// Deadline does not look for the key where neither values of the snapshot nor merged ones expire.
func (v snapshotValues) Deadline(k *store.Keyspace, key []byte) (uint64, error) {
	if !k.Reads().Expires() && k.TTL() == 0 {
		return 0, nil
	}
	return k.Reads().Deadline(key, v.tx.snap)
}

func (v snapshotValues) Value(k *store.Keyspace, key []byte) ([]byte, error) {
	return k.Reads().Get(key, nil, v.tx.snap, 0)
}

// notedValues are noted for the check of the commit when they are read.
type notedValues struct{ snapshotValues }

func (v notedValues) Deadline(k *store.Keyspace, key []byte) (uint64, error) {
	if r := v.tx.beginUpdate(k, key, nil); r.err != nil {
		return 0, r.err
	}
	return v.snapshotValues.Deadline(k, key)
}

// NewDraft is for store.Txns.
func (m *Manager) NewDraft() store.Draft { return NewBatch() }

// AddIn is for store.Draft.
func (b *Batch) AddIn(id base.KeyspaceID, c *base.Comparer, kind base.Kind, key, value []byte) {
	b.Space(id, c, true).Add(kind, key, value)
}

// NewestIn is for store.Draft.
func (b *Batch) NewestIn(id base.KeyspaceID,
	key []byte) (value []byte, kind base.Kind, found bool) {
	if s := b.Space(id, nil, false); s != nil {
		return s.Newest(key)
	}
	return nil, 0, false
}

// Reset is for store.Draft.
func (b *Batch) Reset() { b.RollBack(Mark{size: batchrepr.HeaderLen}) }

// WriteIf is for store.Txns.
func (m *Manager) WriteIf(
	mode write.Mode, build func(store.Values) ([]byte, error),
) error {
	for {
		if err := m.tryToWrite(mode, build); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

func (m *Manager) tryToWrite(
	mode write.Mode, build func(store.Values) ([]byte, error),
) error {
	var tx Txn
	m.Begin(&tx, Options{})
	defer tx.Rollback()
	repr, err := build(notedValues{snapshotValues{&tx}})
	if err != nil {
		return err
	}
	tx.mu.Lock()
	tx.batch, tx.blind = &Batch{repr: repr, kept: true}, true
	tx.mu.Unlock()
	return tx.Commit(mode)
}

// PutTTL is Write of a value that lives for so many seconds after the commit.
func (tx *Txn) PutTTL(k Keyspace, key, value []byte, seconds uint64) error {
	value = base.AppendDeadline(append(make([]byte, 0, len(value)+base.DeadlineLen), value...),
		base.Relative|min(seconds, base.MaxDeadline))
	return tx.write(k, base.KindSetExpiring, key, value)
}
