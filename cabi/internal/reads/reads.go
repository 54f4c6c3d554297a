// Package reads looks keys up as C asks for it: with flags, one or many at once.
package reads

import (
	"errors"
	"sync"

	"github.com/loamdb/loam/lsm"
)

// The flags of a read, as C has them.
const (
	NoFill     uint64 = 1
	MemoryOnly uint64 = 4
)

// Get appends the value of a key, in a snapshot unless that is nil, to dst.
func Get(k *lsm.Keyspace, s *lsm.Snapshot, key, dst []byte, flags uint64) ([]byte, error) {
	switch {
	case s != nil && flags&MemoryOnly != 0:
		return s.TryGet(key, dst)
	case s != nil && flags&NoFill != 0:
		return s.GetNoFill(key, dst)
	case s != nil:
		return s.Get(key, dst)
	case flags&MemoryOnly != 0:
		return k.TryGet(key, dst)
	case flags&NoFill != 0:
		return k.GetNoFill(key, dst)
	}
	return k.Get(key, dst)
}

// Pin is Get of a value that stays where it is. Where it cannot, or flags are given, v is without a
// value, and the value is a copy, not nil.
func Pin(k *lsm.Keyspace, s *lsm.Snapshot, key []byte, flags uint64,
	v *lsm.PinnedValue) (copied []byte, err error) {
	switch {
	case flags != 0:
		return Get(k, s, key, []byte{}, flags)
	case s != nil:
		err = s.GetPinned(key, v)
	default:
		err = k.GetPinned(key, v)
	}
	if err == nil && v.Copied() {
		copied = v.Bytes()
		v.Release()
	}
	return copied, err
}

// Has reports whether a key has a value.
func Has(k *lsm.Keyspace, s *lsm.Snapshot, key []byte, flags uint64) (bool, error) {
	switch {
	case flags != 0:
		_, err := Get(k, s, key, nil, flags)
		if errors.Is(err, lsm.ErrNotFound) {
			return false, nil
		}
		return err == nil, err
	case s != nil:
		return s.Has(key)
	}
	return k.Has(key)
}

// Many is a lookup of many keys, whose memory is used again.
type Many struct {
	Keys [][]byte // to be looked up; appended to by the caller

	result lsm.MultiResult
	apart  bool // values are in buf and ends instead of result
	buf    []byte
	ends   []int // where each value ends in buf; negative: there is none
}

var pool = sync.Pool{New: func() any { return new(Many) }}

// NewMany returns a lookup without keys. Free gives it back.
func NewMany() *Many { return pool.Get().(*Many) }

// Free ends the use of the lookup and its values. It forgets the keys.
func (m *Many) Free() {
	clear(m.Keys)
	m.Keys, m.apart = m.Keys[:0], false
	pool.Put(m)
}

// Look looks the keys up in a keyspace, in a snapshot unless that is nil.
func (m *Many) Look(k *lsm.Keyspace, s *lsm.Snapshot, flags uint64) error {
	switch {
	case flags != 0:
		return m.each(k, s, flags)
	case s != nil:
		return s.MultiGet(m.Keys, &m.result)
	}
	return k.MultiGet(m.Keys, &m.result)
}

// LookTxn looks the keys up in a transaction.
func (m *Many) LookTxn(tx *lsm.Txn) error { return tx.MultiGet(m.Keys, &m.result) }

// each looks up the keys one by one, for the flags that MultiGet has not.
func (m *Many) each(k *lsm.Keyspace, s *lsm.Snapshot, flags uint64) error {
	if s == nil {
		s = k.Snapshot()
		defer s.Close()
	}
	m.apart, m.buf, m.ends = true, m.buf[:0], m.ends[:0]
	for _, key := range m.Keys {
		v, err := Get(k, s, key, m.buf, flags)
		switch {
		case errors.Is(err, lsm.ErrNotFound):
			m.ends = append(m.ends, -1-len(m.buf))
			continue
		case err != nil:
			return err
		}
		m.buf = v
		m.ends = append(m.ends, len(v))
	}
	return nil
}

// Value returns the value of key i; found is false when it has none.
func (m *Many) Value(i int) (value []byte, found bool) {
	if !m.apart {
		return m.result.Value(i)
	}
	start, end := 0, m.ends[i]
	if end < 0 {
		return nil, false
	}
	if i > 0 {
		start = m.ends[i-1]
		if start < 0 {
			start = -1 - start
		}
	}
	return m.buf[start:end:end], true
}

// Size is how many bytes the values have, each with a zero byte behind it.
func (m *Many) Size() int {
	total := 0
	for i := range m.Keys {
		v, found := m.Value(i)
		if found {
			total += len(v) + 1
		}
	}
	return total
}
