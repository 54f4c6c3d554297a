package runner

import (
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// held is what stays open beside benchmarks, until Release or until the database is closed.
type held struct {
	snapshot  store.Snapshot // nil: none
	iterators []heldIterator
}

// heldIterator is an iterator and the key where it was put; nil: after the last one.
type heldIterator struct {
	store.Iterator
	key []byte
}

// close closes the snapshot and the iterators that are held, and forgets them.
func (h *held) close() error {
	var errs []error
	for _, it := range h.iterators {
		errs = append(errs, it.Err(), it.Close())
	}
	if h.snapshot != nil {
		errs = append(errs, h.snapshot.Close())
	}
	*h = held{}
	return errors.Join(errs...)
}

// hold takes what spec names, in addition to iterators that are held, instead of another snapshot.
func (t *thread) hold(spec *workload.Spec) {
	h := &t.r.held
	if spec.Subject == workload.HeldSnapshot {
		s, err := t.db.Snapshot()
		if err == nil && h.snapshot != nil {
			err = h.snapshot.Close()
		}
		if err != nil {
			t.fail(err)
			return
		}
		h.snapshot = s
		t.tick()
		return
	}
	pick := t.picker(spec.Order)
	for i := range spec.Length {
		it, err := t.db.NewIterator()
		if err != nil {
			t.fail(fmt.Errorf("iterator %d of %d: %w", i+1, spec.Length, err))
			return
		}
		one := heldIterator{Iterator: it}
		if it.SeekGE(t.keys.Present(pick.next(&t.rand))) {
			one.key = append([]byte{}, it.Key()...)
		}
		h.iterators = append(h.iterators, one)
		if !t.tick() {
			return
		}
	}
}

// release closes what is held. found counts the iterators that are where they were put.
func (t *thread) release() {
	h := &t.r.held
	for _, it := range h.iterators {
		t.asked++
		if it.Valid() == (it.key != nil) && (it.key == nil || string(it.Key()) == string(it.key)) {
			t.found++
		}
	}
	if err := h.close(); err != nil {
		t.fail(err)
		return
	}
	t.tick()
}
