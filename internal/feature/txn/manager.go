package txn

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/locks"
	"github.com/loamdb/loam/internal/memory/epoch"
	"github.com/loamdb/loam/internal/store"
	"github.com/loamdb/loam/internal/store/write"
)

// Manager begins the transactions of a database. It is safe for concurrent use.
type Manager struct {
	db store.Host

	begun, committed epoch.Tally
	conflicts        atomic.Int64
	lastID           atomic.Uint64 // of transactions with locks

	mu     sync.Mutex // held to make locks, and by Close
	locks  atomic.Pointer[locks.Table]
	closed bool
}

// tallyStep is how many transactions are counted in a stripe before the total changes.
const tallyStep = 64

// Init makes the Manager, a zero one, that of a database. Close may be called before.
func (m *Manager) Init(db store.Host) {
	m.db = db
	m.begun.Init(tallyStep)
	m.committed.Init(tallyStep)
}

// lockTable returns the table of locks, which is made for the first one.
func (m *Manager) lockTable() *locks.Table {
	if t := m.locks.Load(); t != nil {
		return t
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.locks.Load()
	if t == nil {
		t = locks.New()
		if m.closed {
			t.Close()
		}
		m.locks.Store(t)
	}
	return t
}

// Close ends the waits for locks. Further calls do nothing.
func (m *Manager) Close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.locks.Load(); t != nil && !m.closed {
		t.Close()
	}
	m.closed = true
}

// Stats counts transactions since the database was opened, but for Locks, which are those held now.
type Stats struct {
	Begun, Committed, Conflicts               int64
	Locks, LockWaits, Deadlocks, LockTimeouts int64
}

// Stats returns the counters.
func (m *Manager) Stats() Stats {
	s := Stats{Begun: m.begun.Sum(), Committed: m.committed.Sum(), Conflicts: m.conflicts.Load()}
	if t := m.locks.Load(); t != nil {
		l := t.Stats()
		s.Locks, s.LockWaits, s.Deadlocks, s.LockTimeouts = l.Held, l.Waits, l.Deadlocks, l.Timeouts
	}
	return s
}

// CompareAndSwap sets key to value if it has the value old, and reports whether it did. A
// nil old is no value; a nil value deletes the key.
func (m *Manager) CompareAndSwap(k Keyspace, key, old, value []byte,
	mode write.Mode) (bool, error) {
	for {
		swapped, err := m.tryToSwap(k, key, old, value, mode)
		if !errors.Is(err, ErrConflict) {
			return swapped, err
		}
	}
}

func (m *Manager) tryToSwap(k Keyspace, key, old, value []byte, mode write.Mode) (bool, error) {
	var tx Txn
	m.Begin(&tx, Options{})
	defer tx.Rollback()
	if err := k.Writable(); err != nil {
		return false, err
	}
	now, err := tx.Get(k, key, nil, 0)
	found := err == nil
	if err != nil && !errors.Is(err, base.ErrNotFound) {
		return false, err
	}
	if found != (old != nil) || !bytes.Equal(now, old) {
		return false, nil
	}
	kind := base.KindSet
	if value == nil {
		kind = base.KindDelete
	}
	if err := tx.Write(k, kind, key, value); err != nil {
		return false, err
	}
	err = tx.Commit(mode)
	return err == nil, err
}
