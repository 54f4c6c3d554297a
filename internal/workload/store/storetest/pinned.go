package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/workload/store"
)

type modelPinned struct{ v []byte }

func (p *modelPinned) Bytes() []byte { return p.v }
func (p *modelPinned) Release()      { p.v = nil }
func (p *modelPinned) Close()        { p.v = nil }

func (s *modelStore) NewPinned() store.Pinned { return new(modelPinned) }

// GetPinned copies.
func (s *modelStore) GetPinned(key []byte, v store.Pinned) (bool, error) {
	p, ok := v.(*modelPinned)
	if !ok {
		return false, errors.New("value of another store")
	}
	value, found, err := s.Get(key, nil)
	p.v = value
	return found, err
}

// pins reads values where they lie, in memory and out of tables, and keeps one meanwhile.
func pins(t *testing.T, d store.Driver) {
	db := opener(t, d, store.Needs{})()
	defer func() { check(t, db.Close()) }()
	p, ok := db.(store.Pinning)
	if !ok {
		t.Skip("no reads without a copy")
	}
	value := func(i int) []byte { return bytes.Repeat(fmt.Appendf(nil, "%d.", i), 3*i) }
	key := func(i int) []byte { return fmt.Appendf(nil, "k%03d", i) }
	const n = 200
	for i := range n {
		check(t, db.Put(key(i), value(i), false))
	}
	v, kept := p.NewPinned(), p.NewPinned()
	defer v.Close()
	defer kept.Close()
	for range 3 {
		for i := range n {
			found, err := p.GetPinned(key(i), v)
			if check(t, err); !found || !bytes.Equal(v.Bytes(), value(i)) {
				t.Fatalf("%s is %.40q, %v", key(i), v.Bytes(), found)
			}
			if i == n/2 {
				kept.Release()
				if found, err := p.GetPinned(key(i), kept); err != nil || !found {
					t.Fatalf("%v, %v", found, err)
				}
			}
			v.Release()
		}
		if found, err := p.GetPinned([]byte("none"), v); err != nil || found {
			t.Fatalf("a missing key: %v, %v", found, err)
		}
		check(t, db.Put(key(n), value(n), false))
		check(t, db.Flush())
		if !bytes.Equal(kept.Bytes(), value(n/2)) {
			t.Fatalf("a value that is kept has become %.40q", kept.Bytes())
		}
	}
	kept.Release()
}
