package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
)

// Set stores the value of a key on stable storage.
func (s *Store) Set(key, value []byte) error {
	if err := s.db.Put(stableKey(key), value, lsm.Sync); err != nil {
		return fmt.Errorf("raftlog: key %q: %w", key, err)
	}
	return nil
}

// Get returns a copy of the value of a key. A missing key is ErrNotFound, as it is.
func (s *Store) Get(key []byte) ([]byte, error) {
	v, err := s.db.Get(stableKey(key), []byte{})
	switch {
	case errors.Is(err, lsm.ErrNotFound):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("raftlog: key %q: %w", key, err)
	}
	return v, nil
}

// SetUint64 stores a number.
func (s *Store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.BigEndian.AppendUint64(nil, value))
}

// GetUint64 returns a number. A missing key is ErrNotFound, and a value that SetUint64 did not
// store lsm.ErrInvalidArgument.
func (s *Store) GetUint64(key []byte) (uint64, error) {
	v, err := s.Get(key)
	if err != nil {
		return 0, err
	}
	if len(v) != 8 {
		return 0, fmt.Errorf("raftlog: the value of key %q has %d bytes and is no number: %w", key,
			len(v), lsm.ErrInvalidArgument)
	}
	return binary.BigEndian.Uint64(v), nil
}

func stableKey(key []byte) []byte { return append([]byte{stableByte}, key...) }

// StageCommitIndex notes a commit index that the next StoreLogs stores with its entries. It writes
// nothing.
func (s *Store) StageCommitIndex(index uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.present(); err != nil {
		return err
	}
	s.staged = index
	return nil
}

// GetCommitIndex returns the commit index that was stored with the last entry, at most the index of
// that entry; 0 if there is none.
func (s *Store) GetCommitIndex() (uint64, error) {
	b, err := s.present()
	if err != nil {
		return 0, err
	}
	return s.commitIndex(b)
}

func (s *Store) commitIndex(b bounds) (uint64, error) {
	if b.last == 0 {
		return 0, nil
	}
	v, err := s.db.Get(keyOf(b.last), nil)
	if err != nil {
		return 0, fmt.Errorf("raftlog: entry %d: %w", b.last, err)
	}
	commit, err := decode(new(raft.Log), b.last, v)
	return min(commit, b.last), err
}
