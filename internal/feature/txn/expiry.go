package txn

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/store/write"
)

// Values is how the values are read that merges change where values expire. The commit checks
// that they have not changed since.
type Values interface {
	// Deadline is when the value of a key expires; see tree.Tree.Deadline.
	Deadline(k Keyspace, key []byte) (uint64, error)
	// Value is a copy of the value of a key.
	Value(k Keyspace, key []byte) ([]byte, error)
}

// snapshotValues are those that a transaction has changed: its commit checks their keys.
type snapshotValues struct{ tx *Txn }

func (v snapshotValues) Deadline(k Keyspace, key []byte) (uint64, error) {
	return k.At(v.tx.snap).Deadline(key, v.tx.snap)
}

func (v snapshotValues) Value(k Keyspace, key []byte) ([]byte, error) {
	return k.At(v.tx.snap).Get(key, nil, v.tx.snap, 0)
}

// notedValues are noted for the check of the commit when they are read.
type notedValues struct{ snapshotValues }

func (v notedValues) Deadline(k Keyspace, key []byte) (uint64, error) {
	if r := v.tx.beginUpdate(k, key, nil); r.err != nil {
		return 0, r.err
	}
	return v.snapshotValues.Deadline(k, key)
}

// WriteIf commits the batch that build makes from its reads: both are repeated until nothing
// that was read has changed in between.
func (m *Manager) WriteIf(mode write.Mode, build func(Values) ([]byte, error)) error {
	for {
		if err := m.tryToWrite(mode, build); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

func (m *Manager) tryToWrite(mode write.Mode, build func(Values) ([]byte, error)) error {
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
