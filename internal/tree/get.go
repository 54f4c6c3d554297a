package tree

import (
	"errors"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/epoch"
)

// unwanted holds buffers for values that Has and Newer do not want.
var unwanted = sync.Pool{New: func() any { return new([]byte) }}

const maxUnwanted = 64 << 10 // bytes of a buffer that is kept

// freeUnwanted gives a buffer back, which value may have outgrown.
func freeUnwanted(buf *[]byte, value []byte) {
	if cap(value) <= maxUnwanted {
		*buf = value
	}
	unwanted.Put(buf)
}

// Has reports whether key has a value in snap, or at present if that is nil.
func (t *Tree) Has(key []byte, snap *Snapshot) (bool, error) {
	buf := unwanted.Get().(*[]byte)
	v, err := t.Get(key, (*buf)[:0], snap, sstable.NoValue)
	freeUnwanted(buf, v)
	if errors.Is(err, base.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// hold keeps the read state of a Get alive: by a guard as long as the read looks
// at memory only, by a reference from its first I/O on. So a slow disk keeps
// nothing but that state from being freed.
type hold struct {
	tree   *Tree
	guard  epoch.Guard
	state  *ReadState
	hasRef bool  // in place of the guard
	over   bool  // released
	begun  int64 // hist.Now of a Get that is measured; 0: it is not
	at     moment
}

// addRef changes from the guard to a reference.
func (h *hold) addRef() {
	if !h.hasRef {
		h.state.ref()
		h.hasRef = true
		h.guard.Exit()
	}
}

// end gives the read state back.
func (h *hold) end() {
	switch {
	case h.over:
	case h.hasRef:
		h.state.Unref()
	default:
		h.guard.Exit()
	}
	h.over = true
}

// release ends the read; a panic in it becomes its error.
func (h *hold) release(err *error) {
	h.end()
	if h.begun != 0 {
		h.tree.shared.Ops.GetTimes.Since(h.begun)
	}
	if r := recover(); r != nil {
		*err = h.tree.shared.Fail(base.NewPanic(r))
	}
}

// Get appends the value of key in snap, or at present if that is nil, to dst and
// returns the result. A missing key is base.ErrNotFound, and dst as it was. With
// sstable.MemoryOnly it does no I/O, and fails with base.ErrWouldBlock when
// memtables and cached blocks do not hold the answer.
func (t *Tree) Get(key, dst []byte, snap *Snapshot,
	flags sstable.ReadFlags) (value []byte, err error) {
	if err := t.present(snap, flags); err != nil {
		return dst, err
	}
	guard, nth := t.shared.Reads.EnterCounted()
	h := hold{tree: t, guard: guard, at: t.at(snap)}
	if nth%getsPerSample == 1 {
		h.begun = hist.Now()
	}
	defer h.release(&err)
	var seq base.SeqNum
	h.state, seq, err = t.stateFor(h.guard, snap)
	if err != nil {
		return dst, err
	}
	var w walk
	w.begin(t, key, seq, flags)
	value, trailer, found, err := h.next(&w, dst, nil)
	if err != nil || !found {
		if err == nil {
			err = base.ErrNotFound
		}
		return dst, err
	}
	switch trailer.Kind() {
	case base.KindSet:
		return value, nil
	case base.KindDelete:
		return dst, base.ErrNotFound
	case base.KindSetExpiring:
		return h.at.live(value, len(dst))
	case base.KindExpiringHandle:
		if value, err = h.at.live(value, len(dst)); err != nil {
			return value, err
		}
		fallthrough
	case base.KindValueHandle:
		return h.large(value, len(dst), flags)
	}
	return t.getResolved(&h, key, dst, seq, flags&^sstable.NoValue) // operators look at values
}
