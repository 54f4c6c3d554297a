package raftlog

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
)

// Store is a Raft log, and the stable storage of a node, in one directory. Open makes one. All
// methods are safe for concurrent use; reads wait for no write.
type Store struct {
	db           *lsm.DB
	maxEntrySize int
	bounds       atomic.Pointer[bounds] // what reads see; nil after Close

	mu     sync.Mutex // serializes StoreLogs and DeleteRange, and guards what is below
	staged uint64     // the commit index that the next StoreLogs stores
	buf    []byte     // the batch of StoreLogs, kept for the next one
}

// bounds are the first and the last index; 0, 0 if there is no entry. A bounds never changes.
type bounds struct{ first, last uint64 }

var (
	_ raft.LogStore          = (*Store)(nil)
	_ raft.StableStore       = (*Store)(nil)
	_ raft.MonotonicLogStore = (*Store)(nil)
)

// Open opens the Raft log in dir, and creates it where there is none. A nil o means the defaults.
//
// It fails with ErrNotARaftLog if the database in dir is none of this package, and otherwise as
// lsm.Open does: with lsm.ErrNotADatabase for a directory of another engine, lsm.ErrLocked while
// another Store has the directory, lsm.ErrNewerFormat if a newer version wrote it,
// lsm.ErrCorruption, or lsm.ErrInvalidArgument for an option.
func Open(dir string, o *Options) (*Store, error) {
	if o == nil {
		o = &Options{}
	}
	d, err := o.database()
	if err != nil {
		return nil, err
	}
	size, err := o.maxEntrySize()
	if err != nil {
		return nil, err
	}
	db, err := lsm.Open(dir, d)
	if err != nil {
		return nil, fmt.Errorf("raftlog: %w", err)
	}
	s := &Store{db: db, maxEntrySize: size}
	if err := s.load(d.ReadOnly); err != nil {
		return nil, errors.Join(fmt.Errorf("raftlog: %s: %w", dir, err), db.Close())
	}
	return s, nil
}

// load checks that the database is a Raft log, marks a new one, and finds the first and the last
// entry.
func (s *Store) load(readOnly bool) error {
	v, err := s.db.Get([]byte(versionKey), nil)
	switch {
	case errors.Is(err, lsm.ErrNotFound):
		if err := s.create(readOnly); err != nil {
			return err
		}
	case err != nil:
		return err
	case len(v) != 1 || v[0] == 0:
		return ErrNotARaftLog
	case v[0] > version:
		return fmt.Errorf("version %d of the Raft log's encoding: %w", v[0], lsm.ErrNewerFormat)
	}
	b, err := s.find(0, math.MaxUint64)
	if err != nil {
		return err
	}
	s.bounds.Store(&b)
	s.staged, err = s.commitIndex(b)
	return err
}

// create marks an empty database as a Raft log, and refuses one that is not empty.
func (s *Store) create(readOnly bool) error {
	it := s.db.Iter(nil)
	empty := !it.First()
	if err := errors.Join(it.Err(), it.Close()); err != nil {
		return err
	}
	if !empty || len(s.db.Keyspaces()) > 1 || readOnly {
		return ErrNotARaftLog
	}
	mark := lsm.NewBatch()
	mark.DeleteRange(keyOf(0), behind(math.MaxUint64)) // which LevelDB's format refuses
	mark.Put([]byte(versionKey), []byte{version})
	err := s.db.Write(mark, lsm.Sync)
	if errors.Is(err, lsm.ErrNeedsNative) {
		return fmt.Errorf("%w: an empty database in LevelDB's format", ErrNotARaftLog)
	}
	return err
}

// find returns the first and the last index of the entries from low to high, both included.
func (s *Store) find(low, high uint64) (b bounds, err error) {
	if low > high {
		return b, nil
	}
	it := s.db.Iter(&lsm.IterOptions{Lower: keyOf(low), Upper: behind(high), KeysOnly: true})
	defer func() { err = errors.Join(err, it.Err(), it.Close()) }()
	if !it.First() {
		return b, nil
	}
	if b.first, err = indexOf(it.Key()); err != nil || !it.Last() {
		return bounds{}, err
	}
	b.last, err = indexOf(it.Key())
	return b, err
}

// Close ends the use of the store; see lsm.DB.Close. All calls fail with ErrClosed afterwards, a
// second Close, too.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bounds.Store(nil)
	return s.db.Close()
}

// Metrics returns the metrics of the database below.
func (s *Store) Metrics() lsm.Metrics { return s.db.Metrics() }

// FirstIndex returns the index of the first entry, or 0 if there is none.
func (s *Store) FirstIndex() (uint64, error) {
	b, err := s.present()
	return b.first, err
}

// LastIndex returns the index of the last entry, or 0 if there is none.
func (s *Store) LastIndex() (uint64, error) {
	b, err := s.present()
	return b.last, err
}

func (s *Store) present() (bounds, error) {
	if b := s.bounds.Load(); b != nil {
		return *b, nil
	}
	return bounds{}, fmt.Errorf("raftlog: %w", ErrClosed)
}

// GetLog fills l with the entry of an index. A missing entry is raft.ErrLogNotFound. Data and
// Extensions are copies of the caller's, nil where they are empty; AppendedAt is in UTC.
func (s *Store) GetLog(index uint64, l *raft.Log) error {
	b, err := s.present()
	if err != nil {
		return err
	}
	if index < b.first || index > b.last || index == 0 {
		return raft.ErrLogNotFound
	}
	var key [keyLen]byte
	v, err := s.db.Get(appendKey(key[:0], index), nil)
	if errors.Is(err, lsm.ErrNotFound) {
		return raft.ErrLogNotFound
	}
	if err != nil {
		return fmt.Errorf("raftlog: entry %d: %w", index, err)
	}
	_, err = decode(l, index, v)
	return err
}

// IsMonotonic is true: raft removes all entries, at the cost of one write, after it installed a
// snapshot.
func (s *Store) IsMonotonic() bool { return true }
