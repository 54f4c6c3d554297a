// Package rangedel holds range tombstones, each of which deletes the keys from its start up
// to, not including, its limit that are older than it.
//
// Tombstones are kept as fragments: where some overlap, they are cut at each other's ends, so
// that two fragments share no key and all tombstones over a fragment cover it whole:
//
//	a-----------m #9                   a---d #9
//	    d---------------z #5     ->        d-------m #9 #5
//	                                               m-------z #5
//
// A lookup is one binary search, and what holds for a key holds for all keys between two ends
// of fragments (Span).
//
// A List is immutable and safe for concurrent use. Growing is what a memtable has.
package rangedel

import (
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/base/prefix"
)

// Fragment is the tombstones over the keys from Start up to, not including, Limit. Neither is
// nil. Seqs are their sequence numbers, newest first; there is one at least.
type Fragment struct {
	Start, Limit []byte
	Seqs         []base.SeqNum
}

// Newest is the sequence number of the fragment's newest tombstone that a reader at sequence
// number at sees, 0 if it sees none.
func (f *Fragment) Newest(at base.SeqNum) base.SeqNum {
	for _, s := range f.Seqs {
		if s <= at {
			return s
		}
	}
	return 0
}

// List is a set of range tombstones: fragments in ascending order. A nil List is empty.
type List struct {
	cmp   *base.Comparer
	frags []Fragment
	count int // tombstones: the sum of the fragments' len(Seqs)
	depth int // the longest of these
	bytes int64
	// limits[i] abbreviates the limit of fragment i after prefix, which all starts and limits
	// share; nil when the comparer has no abbreviations.
	limits []uint64
	heads  []head
	prefix prefix.Prefix
	reach  reach
}

// head is what most lookups need of a fragment besides its limit: a Fragment is three cache
// misses, one after the other.
type head struct {
	start  uint64 // the abbreviation
	newest base.SeqNum
}

// fragmentBytes is about what a Fragment takes besides its keys.
const fragmentBytes = 160

// New makes a List of fragments, which it takes over. They ascend; those that touch and have
// the same tombstones are joined. ok is false if they are not as the package wants them.
func New(cmp *base.Comparer, frags []Fragment) (l *List, ok bool) {
	for i := range frags {
		f := &frags[i]
		if len(f.Seqs) == 0 || f.Start == nil || f.Limit == nil || cmp.Cmp(f.Start, f.Limit) >= 0 ||
			i > 0 && cmp.Cmp(frags[i-1].Limit, f.Start) > 0 {
			return nil, false
		}
		for j := 1; j < len(f.Seqs); j++ {
			if f.Seqs[j-1] <= f.Seqs[j] {
				return nil, false
			}
		}
	}
	b := builder{cmp: cmp}
	for _, f := range frags {
		b.add(f.Start, f.Limit, f.Seqs)
	}
	return b.finish(), true
}

// builder makes a List of fragments in ascending order.
type builder struct {
	cmp   *base.Comparer
	frags []Fragment
}

// add appends a fragment, or joins it to the last one if it goes on with the same tombstones.
func (b *builder) add(start, limit []byte, seqs []base.SeqNum) {
	if len(seqs) == 0 {
		return
	}
	if n := len(b.frags); n > 0 {
		last := &b.frags[n-1]
		invariants.Check(b.cmp.Cmp(last.Limit, start) <= 0, "rangedel: fragments overlap")
		if slices.Equal(last.Seqs, seqs) && b.cmp.Cmp(last.Limit, start) == 0 {
			last.Limit = limit
			return
		}
	}
	invariants.Check(b.cmp.Cmp(start, limit) < 0, "rangedel: empty fragment")
	b.frags = append(b.frags, Fragment{start, limit, seqs})
}

// finish returns the List, nil if there are no fragments.
func (b *builder) finish() *List {
	if len(b.frags) == 0 {
		return nil
	}
	l := &List{cmp: b.cmp, frags: b.frags}
	if b.cmp.HasAbbrev() {
		l.limits, l.heads = make([]uint64, len(l.frags)), make([]head, len(l.frags))
		l.prefix = prefix.Of(b.cmp, l.frags[0].Start, l.frags[len(l.frags)-1].Limit)
	}
	for i := range l.frags {
		f := &l.frags[i]
		if l.limits != nil {
			l.limits[i] = l.prefix.Abbrev(b.cmp, f.Limit)
			l.heads[i] = head{l.prefix.Abbrev(b.cmp, f.Start), f.Seqs[0]}
		}
		l.count += len(f.Seqs)
		l.depth = max(l.depth, len(f.Seqs))
		l.bytes += fragmentBytes + int64(len(f.Start)+len(f.Limit)+8*len(f.Seqs))
	}
	l.reach = reachOf(b.cmp, l.frags)
	return l
}

// Fragments are the fragments, in ascending order. The caller does not change them.
func (l *List) Fragments() []Fragment {
	if l == nil {
		return nil
	}
	return l.frags
}

// Count is how many tombstones there are, each counted once in every fragment.
func (l *List) Count() int {
	if l == nil {
		return 0
	}
	return l.count
}

// AddTo passes the tombstones on to add, which is that of a table's writer, until it fails.
func (l *List) AddTo(add func(key []byte, t base.Trailer, c base.Codec, value []byte) error) error {
	for _, f := range l.Fragments() {
		for _, s := range f.Seqs {
			t := base.MakeTrailer(s, base.KindRangeDelete)
			if err := add(f.Start, t, base.CodecRaw, f.Limit); err != nil {
				return err
			}
		}
	}
	return nil
}

// Depth is how many tombstones lie over one another at most.
func (l *List) Depth() int {
	if l == nil {
		return 0
	}
	return l.depth
}

// Bytes is about how much memory the List takes.
func (l *List) Bytes() int64 {
	if l == nil {
		return 0
	}
	return l.bytes
}

// Ends are the first key that is covered and the first one after all that are. Both are nil
// if none is.
func (l *List) Ends() (start, limit []byte) {
	if l == nil {
		return nil, nil
	}
	return l.frags[0].Start, l.frags[len(l.frags)-1].Limit
}

// after is the index of the first fragment that ends after key, with at that of the first
// one that ends at key or after it.
func (l *List) after(key []byte, at bool) int {
	if l.limits == nil {
		return l.search(key, at, 0, len(l.frags))
	}
	if !l.prefix.In(key) {
		if l.prefix.Before(l.cmp, key) {
			return 0
		}
		return len(l.frags)
	}
	return l.afterAbbrev(key, l.prefix.Abbrev(l.cmp, key), at)
}

// afterAbbrev is after for a key with the prefix, whose abbreviation is x.
func (l *List) afterAbbrev(key []byte, x uint64, at bool) int {
	i := prefix.Search(l.limits, x)
	if i == len(l.limits) || l.limits[i] != x {
		return i
	}
	return l.search(key, at, i, prefix.TiesEnd(l.limits, i))
}

// search is after among the fragments from i up to j.
func (l *List) search(key []byte, at bool, i, j int) int {
	for i < j {
		h := int(uint(i+j) >> 1)
		if c := l.cmp.Cmp(l.frags[h].Limit, key); c < 0 || c == 0 && !at {
			i = h + 1
		} else {
			j = h
		}
	}
	return i
}

// Newest is the sequence number of the newest tombstone over key that a reader at sequence
// number at sees, 0 if there is none. An entry of the key that is older is deleted.
func (l *List) Newest(key []byte, at base.SeqNum) base.SeqNum {
	switch {
	case l == nil:
		return 0
	case l.limits == nil:
		i := l.after(key, false)
		if i == len(l.frags) || l.cmp.Cmp(l.frags[i].Start, key) > 0 {
			return 0
		}
		return l.frags[i].Newest(at)
	case !l.prefix.In(key): // before all fragments, or behind
		return 0
	}
	x := l.prefix.Abbrev(l.cmp, key)
	i := l.afterAbbrev(key, x, false)
	if i == len(l.heads) {
		return 0
	}
	h := &l.heads[i]
	if h.start > x || h.start == x && l.cmp.Cmp(l.frags[i].Start, key) > 0 {
		return 0
	}
	if h.newest <= at {
		return h.newest
	}
	return l.frags[i].Newest(at)
}

// Covers reports whether tombstones cover all keys from start to end; with open, end itself
// does not matter.
func (l *List) Covers(start, end []byte, open bool) bool {
	if l == nil {
		return false
	}
	i := l.after(start, false)
	for at := start; i < len(l.frags) && l.cmp.Cmp(l.frags[i].Start, at) <= 0; i++ {
		at = l.frags[i].Limit
		if c := l.cmp.Cmp(end, at); c < 0 || c == 0 && open {
			return true
		}
	}
	return false
}

// Within are the fragments over keys from start to end, both included. The caller does not change
// them.
func (l *List) Within(start, end []byte) []Fragment {
	if l == nil {
		return nil
	}
	i, j := l.after(start, false), l.after(end, false)
	if j < len(l.frags) && l.cmp.Cmp(l.frags[j].Start, end) <= 0 {
		j++
	}
	return l.frags[i:j]
}

// Span is a range of keys for which the same holds: Seq is the newest visible tombstone over
// all of them, 0 if there is none. A nil end is open.
type Span struct {
	Start, Limit []byte
	Seq          base.SeqNum
}

// SpanAt is the span with key, for a reader at sequence number at.
func (l *List) SpanAt(key []byte, at base.SeqNum) Span {
	if l == nil {
		return Span{}
	}
	i := l.after(key, false)
	return l.span(i, i < len(l.frags) && l.cmp.Cmp(l.frags[i].Start, key) <= 0, at)
}

// SpanBefore is the span with the keys just before key; nil is behind all keys.
func (l *List) SpanBefore(key []byte, at base.SeqNum) Span {
	if l == nil {
		return Span{}
	}
	if key == nil {
		return l.span(len(l.frags), false, at)
	}
	i := l.after(key, true)
	return l.span(i, i < len(l.frags) && l.cmp.Cmp(l.frags[i].Start, key) < 0, at)
}

// span is that of fragment i, or of the gap before it.
func (l *List) span(i int, inside bool, at base.SeqNum) (s Span) {
	if inside {
		f := &l.frags[i]
		return Span{f.Start, f.Limit, f.Newest(at)}
	}
	if i > 0 {
		s.Start = l.frags[i-1].Limit
	}
	if i < len(l.frags) {
		s.Limit = l.frags[i].Start
	}
	return s
}
