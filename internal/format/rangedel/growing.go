package rangedel

import (
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
)

// Growing is the range tombstones of a memtable. A write adds them to a chain; the first reader
// afterwards cuts what waits there into fragments, so that many range deletes in a row cost one
// sort. Lists of about the same size are merged: there are as many as the logarithm of the
// number of tombstones, and each tombstone is merged as often. If no reader comes, a goroutine does
// it beside the writer, now and then.
//
// One goroutine at a time may call Add, any number of them the rest. The zero value is empty.
//
// Locks: fragmentMu, which is held while tombstones are fragmented, before mu, which is held
// while state is replaced.
type Growing struct {
	// state is nil without tombstones: then nothing of this costs a reader more than the load
	// of the pointer.
	state   atomic.Pointer[growingState]
	full    atomic.Bool
	working atomic.Bool // the goroutine exists

	fragmentMu, mu sync.Mutex
}

// growingState is constant.
type growingState struct {
	lists   []*List
	waiting *waiting // newest first; not in lists yet
	n       int      // that wait
	bytes   int64    // that lists and what waits take
}

// waiting is a tombstone, or if list is not nil those of a batch with several.
type waiting struct {
	Tombstone
	list *List
	next *waiting
}

// Bounds of the tombstones in a memtable. Tombstones that overlap each other are cut into
// many; merging them must not take more than maxMerge. When maxWaiting wait, they are fragmented
// beside the writer, and when mostWaiting do, by it, so that no reader finds more.
const (
	maxRangeDels = 1 << 16
	maxMerge     = 1 << 18
	maxLists     = 64
	maxWaiting   = 1 << 10
	mostWaiting  = 1 << 12
)

// Add adds the tombstones of a batch, copied. Readers see a batch whole or not at all, so that of
// those over a key the newest one is enough.
func (d *Growing) Add(cmp *base.Comparer, batch []Tombstone) {
	w := &waiting{}
	if len(batch) > 1 {
		w.list = NewestOf(cmp, batch)
	} else if one := batch[0]; cmp.Cmp(one.Start, one.Limit) < 0 {
		w.Tombstone = one.Clone()
	}
	if w.Limit == nil && w.list == nil {
		return // they delete nothing
	}
	d.mu.Lock()
	s := &growingState{waiting: w, n: 1, bytes: w.bytes()}
	if old := d.state.Load(); old != nil {
		s.lists, w.next = old.lists, old.waiting
		s.n, s.bytes = s.n+old.n, s.bytes+old.bytes
	}
	d.state.Store(s)
	d.mu.Unlock()
	switch {
	case s.n < maxWaiting:
	case s.n >= mostWaiting || !cmp.BuiltIn(): // a comparer of the user's is called by the caller
		d.fragment(cmp)
	case d.working.CompareAndSwap(false, true):
		go func() {
			d.fragment(cmp)
			d.working.Store(false)
		}()
	}
}

// Any reports whether Lists are any.
func (d *Growing) Any() bool { return d.state.Load() != nil }

// Full reports whether there are as many tombstones as there should be, or such that overlap
// each other too much.
func (d *Growing) Full() bool { return d.full.Load() }

// Bytes is about how much memory the tombstones take.
func (d *Growing) Bytes() int64 {
	if s := d.state.Load(); s != nil {
		return s.bytes
	}
	return 0
}

// Lists are all tombstones of which Add has returned.
func (d *Growing) Lists(cmp *base.Comparer) []*List {
	s := d.state.Load()
	switch {
	case s == nil:
		return nil
	case s.waiting != nil:
		return d.fragment(cmp)
	}
	return s.lists
}

// fragment puts what waits into lists, which it returns.
func (d *Growing) fragment(cmp *base.Comparer) []*List {
	if !d.fragmentMu.TryLock() {
		// The goroutine may be in the comparer that fragments, and have the lock.
		if !cmp.BuiltIn() && base.NotWithinComparer() != nil {
			return d.fragmented(cmp, d.state.Load())
		}
		d.fragmentMu.Lock()
	}
	defer d.fragmentMu.Unlock() // the comparer may panic
	s := d.state.Load()
	if s.waiting == nil {
		return s.lists
	}
	lists := d.fragmented(cmp, s)
	d.mu.Lock()
	defer d.mu.Unlock()
	next := &growingState{lists: lists}
	for _, l := range lists {
		next.bytes += l.Bytes()
	}
	now := d.state.Load()
	for end, w := &next.waiting, now.waiting; w != s.waiting; w = w.next { // written meanwhile
		c := &waiting{Tombstone: w.Tombstone, list: w.list}
		*end, end = c, &c.next
		next.n, next.bytes = next.n+1, next.bytes+c.bytes()
	}
	d.state.Store(next)
	return lists
}

// fragmented is the lists of s with what waits.
func (d *Growing) fragmented(cmp *base.Comparer, s *growingState) []*List {
	lists := append([]*List(nil), s.lists...)
	single, more := make([]Tombstone, 0, s.n), make([]*List, 0, 1)
	for w := s.waiting; w != nil; w = w.next {
		if w.list != nil {
			more = append(more, w.list)
		} else {
			single = append(single, w.Tombstone)
		}
	}
	if l, ok := Of(cmp, single, maxMerge/8); ok {
		more = append(more, l)
	} else {
		for i := range single {
			more = append(more, NewestOf(cmp, single[i:i+1]))
		}
	}
	full := false
	for _, l := range more {
		if l == nil {
			continue
		}
		lists = append(lists, l)
		for n := len(lists); n > 1 && 2*lists[n-1].Count() >= lists[n-2].Count(); n-- {
			if mergeCost(lists[n-2], lists[n-1]) > maxMerge {
				full = true
				break
			}
			lists = append(lists[:n-2], Merge(cmp, lists[n-2], lists[n-1]))
		}
	}
	total := 0
	for _, l := range lists {
		total += l.Count()
	}
	if full || total > maxRangeDels || len(lists) > maxLists {
		d.full.Store(true)
	}
	return lists
}

// mergeCost bounds the tombstones that a merge of two Lists may make.
func mergeCost(a, b *List) int {
	return (len(a.Fragments()) + len(b.Fragments())) * (a.Depth() + b.Depth())
}

// bytes is about what w takes.
func (w *waiting) bytes() int64 {
	return 112 + int64(len(w.Start)+len(w.Limit)) + w.list.Bytes()
}
