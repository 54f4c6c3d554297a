package rangedel

import (
	"container/heap"
	"slices"
	"sort"

	"github.com/loamdb/loam/internal/base"
)

// Tombstone is one range tombstone.
type Tombstone struct {
	Start, Limit []byte
	Seq          base.SeqNum
}

// Clone is a tombstone with keys of its own, neither of which is nil.
func (t Tombstone) Clone() Tombstone {
	keys := make([]byte, 0, len(t.Start)+len(t.Limit))
	keys = append(append(keys, t.Start...), t.Limit...)
	n := len(t.Start)
	return Tombstone{keys[:n:n], keys[n:], t.Seq}
}

// byStart sorts tombstones. That they stay in place while they are compared takes less time, and
// code, than slices.SortFunc.
type byStart struct {
	cmp *base.Comparer
	ts  []Tombstone
}

func (s *byStart) Len() int           { return len(s.ts) }
func (s *byStart) Swap(i, j int)      { s.ts[i], s.ts[j] = s.ts[j], s.ts[i] }
func (s *byStart) Less(i, j int) bool { return s.cmp.Cmp(s.ts[i].Start, s.ts[j].Start) < 0 }

// Of makes a List of tombstones in any order, each of which covers something; one that is there
// twice counts once. It takes over their keys, and sorts ts. ok is false if their fragments had
// more than limit tombstones together.
func Of(cmp *base.Comparer, ts []Tombstone, limit int) (l *List, ok bool) {
	sort.Sort(&byStart{cmp, ts})
	b := builder{cmp: cmp, frags: make([]Fragment, 0, len(ts))}
	seqs := make([]base.SeqNum, 0, len(ts)) // room for those of fragments
	var open []Tombstone                    // start at or before at
	for at := []byte(nil); ; {
		open = slices.DeleteFunc(open, func(t Tombstone) bool { return cmp.Cmp(t.Limit, at) <= 0 })
		if len(open) == 0 {
			if len(ts) == 0 {
				return b.finish(), true
			}
			at = ts[0].Start
		}
		for len(ts) > 0 && cmp.Cmp(ts[0].Start, at) <= 0 {
			open, ts = append(open, ts[0]), ts[1:]
		}
		end := open[0].Limit
		for _, t := range open[1:] {
			if cmp.Cmp(t.Limit, end) < 0 {
				end = t.Limit
			}
		}
		if len(ts) > 0 && cmp.Cmp(ts[0].Start, end) < 0 {
			end = ts[0].Start
		}
		if limit -= len(open); limit < 0 {
			return nil, false
		}
		n := len(seqs)
		for _, t := range open {
			seqs = append(seqs, t.Seq)
		}
		slices.Sort(seqs[n:])
		slices.Reverse(seqs[n:])
		seqs = seqs[:n+len(slices.Compact(seqs[n:]))] // a number in two logs counts once
		b.add(at, end, seqs[n:len(seqs):len(seqs)])
		at = end
	}
}

// NewestOf makes a List of tombstones in any order, whose keys it copies: of those over a key
// it keeps the newest one. That is all that counts where no reader sees some of them only,
// as with those of one batch. Tombstones that cover nothing are left out.
func NewestOf(cmp *base.Comparer, ts []Tombstone) *List {
	ts = slices.DeleteFunc(slices.Clone(ts), func(t Tombstone) bool {
		return cmp.Cmp(t.Start, t.Limit) >= 0
	})
	sort.Sort(&byStart{cmp, ts})
	b := builder{cmp: cmp}
	var open newestFirst // start at or before at; those that end there may still be among them
	for at := []byte(nil); ; {
		for len(open) > 0 && cmp.Cmp(open[0].Limit, at) <= 0 {
			heap.Pop(&open)
		}
		if len(open) == 0 {
			if len(ts) == 0 {
				return b.finish()
			}
			at = copyKey(ts[0].Start)
		}
		for len(ts) > 0 && cmp.Cmp(ts[0].Start, at) <= 0 {
			heap.Push(&open, ts[0])
			ts = ts[1:]
		}
		limit := open[0].Limit
		if len(ts) > 0 && cmp.Cmp(ts[0].Start, limit) < 0 {
			limit = ts[0].Start
		}
		limit = copyKey(limit)
		b.add(at, limit, []base.SeqNum{open[0].Seq})
		at = limit
	}
}

// copyKey copies a key; the copy is not nil.
func copyKey(key []byte) []byte { return append(make([]byte, 0, len(key)), key...) }

// newestFirst is a heap.
type newestFirst []Tombstone

func (h newestFirst) Len() int           { return len(h) }
func (h newestFirst) Less(i, j int) bool { return h[i].Seq > h[j].Seq }
func (h newestFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *newestFirst) Push(x any)        { *h = append(*h, x.(Tombstone)) }
func (h *newestFirst) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	return t
}

// Merge joins the tombstones of lists, any of which may be nil.
func Merge(cmp *base.Comparer, lists ...*List) *List {
	lists = slices.DeleteFunc(slices.Clone(lists), func(l *List) bool { return l == nil })
	for len(lists) > 1 { // pairs: n fragments of k lists take n log k steps
		n := 0
		for i := 0; i < len(lists); i += 2 {
			if i+1 < len(lists) {
				lists[n] = merge(cmp, lists[i].frags, lists[i+1].frags)
			} else {
				lists[n] = lists[i]
			}
			n++
		}
		lists = lists[:n]
	}
	if len(lists) == 0 {
		return nil
	}
	return lists[0]
}

// merge cuts the fragments of a and b at each other's ends.
func merge(cmp *base.Comparer, a, b []Fragment) *List {
	out := builder{cmp: cmp, frags: make([]Fragment, 0, len(a)+len(b))}
	var startA, startB []byte // where what is left of a[0] and b[0] begins
	begin := func() {
		if startA == nil && len(a) > 0 {
			startA = a[0].Start
		}
		if startB == nil && len(b) > 0 {
			startB = b[0].Start
		}
	}
	for begin(); len(a) > 0 && len(b) > 0; begin() {
		switch c := cmp.Cmp(startA, startB); {
		case c < 0:
			startA, a = out.upTo(startA, startB, a)
		case c > 0:
			startB, b = out.upTo(startB, startA, b)
		default:
			limit := a[0].Limit
			if cmp.Cmp(b[0].Limit, limit) < 0 {
				limit = b[0].Limit
			}
			out.add(startA, limit, union(a[0].Seqs, b[0].Seqs))
			startA, a = rest(cmp, limit, a)
			startB, b = rest(cmp, limit, b)
		}
	}
	for ; len(a) > 0; a, startA = a[1:], nil {
		begin()
		out.add(startA, a[0].Limit, a[0].Seqs)
	}
	for ; len(b) > 0; b, startB = b[1:], nil {
		begin()
		out.add(startB, b[0].Limit, b[0].Seqs)
	}
	return out.finish()
}

// upTo appends what there is of frags[0] from start up to limit, and returns where the rest
// begins, nil if frags[0] is used up, and the fragments left.
func (b *builder) upTo(start, limit []byte, frags []Fragment) ([]byte, []Fragment) {
	f := &frags[0]
	if b.cmp.Cmp(f.Limit, limit) < 0 {
		limit = f.Limit
	}
	b.add(start, limit, f.Seqs)
	return rest(b.cmp, limit, frags)
}

// rest returns the start of the remaining part of frags[0] after at, nil if there is none, and the
// remaining fragments.
func rest(cmp *base.Comparer, at []byte, frags []Fragment) ([]byte, []Fragment) {
	if cmp.Cmp(frags[0].Limit, at) <= 0 {
		return nil, frags[1:]
	}
	return at, frags
}

// union merges sequence numbers, newest first.
func union(a, b []base.SeqNum) []base.SeqNum {
	out := make([]base.SeqNum, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] > b[0]:
			out, a = append(out, a[0]), a[1:]
		case a[0] < b[0]:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// Clip is what of the List lies between two keys; a nil bound is open.
func (l *List) Clip(lower, upper []byte) *List {
	if l == nil || lower == nil && upper == nil {
		return l
	}
	b := builder{cmp: l.cmp}
	i := 0
	if lower != nil {
		i = l.after(lower, false)
	}
	for ; i < len(l.frags); i++ {
		f := l.frags[i]
		if upper != nil && l.cmp.Cmp(f.Start, upper) >= 0 {
			break
		}
		if lower != nil && l.cmp.Cmp(f.Start, lower) < 0 {
			f.Start = copyKey(lower)
		}
		if upper != nil && l.cmp.Cmp(f.Limit, upper) > 0 {
			f.Limit = copyKey(upper)
		}
		if l.cmp.Cmp(f.Start, f.Limit) < 0 {
			b.add(f.Start, f.Limit, f.Seqs)
		}
	}
	return b.finish()
}

// Filter keeps those tombstones of each fragment that keep returns, newest first. keep does
// not change the fragment.
func (l *List) Filter(keep func(f *Fragment) []base.SeqNum) *List {
	if l == nil {
		return nil
	}
	b := builder{cmp: l.cmp, frags: make([]Fragment, 0, len(l.frags))}
	for i := range l.frags {
		f := &l.frags[i]
		b.add(f.Start, f.Limit, keep(f))
	}
	return b.finish()
}
