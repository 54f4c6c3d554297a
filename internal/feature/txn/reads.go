package txn

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
	"sync"

	"github.com/loamdb/loam/internal/base"
)

// Reads is what a transaction has read and must find unchanged when it commits. The zero
// value is empty.
type Reads struct {
	arena  []byte // the keys
	keys   []key
	known  map[string]struct{} // keyspace and key; nil below mapFrom keys
	ranges []*Range
}

type key struct {
	start, end int // in the arena
	id         base.KeyspaceID
	since      base.SeqNum
}

// mapFrom is from how many keys on they are found by a map.
const mapFrom = 16

// AddKey adds a key of a keyspace that must have no entry newer than since. A key that
// is there already stays as it is.
func (r *Reads) AddKey(id base.KeyspaceID, user []byte, since base.SeqNum) {
	if r.known == nil {
		for i := range r.keys {
			if k := &r.keys[i]; k.id == id && bytes.Equal(r.arena[k.start:k.end], user) {
				return
			}
		}
	} else {
		var buf [64]byte
		if _, ok := r.known[string(mapKey(buf[:0], id, user))]; ok {
			return
		}
	}
	if r.keys == nil { // most transactions are small
		r.keys, r.arena = make([]key, 0, 4), make([]byte, 0, max(64, 4*len(user)))
	}
	start := len(r.arena)
	r.arena = append(r.arena, user...)
	r.keys = append(r.keys, key{start, len(r.arena), id, since})
	switch {
	case r.known != nil:
		r.known[string(mapKey(nil, id, user))] = struct{}{}
	case len(r.keys) == mapFrom:
		r.known = make(map[string]struct{}, 2*mapFrom)
		for _, k := range r.keys {
			r.known[string(mapKey(nil, k.id, r.arena[k.start:k.end]))] = struct{}{}
		}
	}
}

func mapKey(dst []byte, id base.KeyspaceID, user []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(id)), user...)
}

// Keys calls f for each key until it returns false.
func (r *Reads) Keys(f func(id base.KeyspaceID, user []byte, since base.SeqNum) bool) {
	for _, k := range r.keys {
		if !f(k.id, r.arena[k.start:k.end:k.end], k.since) {
			return
		}
	}
}

// Range is user keys of a keyspace, from Lower on. A nil Lower is the first key of all.
// The range ends before Upper, with Inclusive behind it; a nil Upper is no end.
type Range struct {
	ID           base.KeyspaceID
	Lower, Upper []byte
	Inclusive    bool
}

// holds reports whether the range is at or behind key, given that it does not begin behind it.
func (r *Range) holds(c *base.Comparer, key []byte) bool {
	if r.Upper == nil {
		return true
	}
	d := c.Cmp(key, r.Upper)
	return d < 0 || d == 0 && r.Inclusive
}

// startsAfter reports whether the range begins behind key.
func (r *Range) startsAfter(c *base.Comparer, key []byte) bool {
	return r.Lower != nil && c.Cmp(r.Lower, key) > 0
}

// endsBefore reports whether the range r ends before o does.
func (r *Range) endsBefore(c *base.Comparer, o *Range) bool {
	if r.Upper == nil || o.Upper == nil {
		return r.Upper != nil
	}
	d := c.Cmp(r.Upper, o.Upper)
	return d < 0 || d == 0 && !r.Inclusive && o.Inclusive
}

// addRange adds the keys from lower up to, not including, upper, which are retained.
func (r *Reads) addRange(id base.KeyspaceID, lower, upper []byte) {
	r.ranges = append(r.ranges, &Range{ID: id, Lower: lower, Upper: upper})
}

// Union is disjoint ranges of one keyspace, ascending.
type Union struct {
	ID     base.KeyspaceID
	Ranges []Range
}

// Union joins the ranges that were read of each keyspace; comparer tells its order, and
// is nil for a keyspace that has none any more.
func (r *Reads) Union(comparer func(base.KeyspaceID) *base.Comparer) (all []Union) {
	for _, o := range r.ranges {
		i := slices.IndexFunc(all, func(u Union) bool { return u.ID == o.ID })
		if i < 0 {
			i, all = len(all), append(all, Union{ID: o.ID})
		}
		all[i].Ranges = append(all[i].Ranges, *o)
	}
	for i := range all {
		if c := comparer(all[i].ID); c != nil {
			all[i].join(c)
		}
	}
	return all
}

func (u *Union) join(c *base.Comparer) {
	sort.SliceStable(u.Ranges, func(i, j int) bool {
		a, b := u.Ranges[i].Lower, u.Ranges[j].Lower
		if a == nil || b == nil {
			return a == nil && b != nil
		}
		return c.Cmp(a, b) < 0
	})
	joined := u.Ranges[:1]
	for _, o := range u.Ranges[1:] {
		last := &joined[len(joined)-1]
		switch {
		case o.Lower != nil && !last.holds(c, o.Lower):
			joined = append(joined, o)
		case last.endsBefore(c, &o):
			last.Upper, last.Inclusive = o.Upper, o.Inclusive
		}
	}
	u.Ranges = joined
}

// Holds reports whether key is in one of the ranges.
func (u *Union) Holds(c *base.Comparer, key []byte) bool {
	i := sort.Search(len(u.Ranges), func(i int) bool { return u.Ranges[i].startsAfter(c, key) })
	return i > 0 && u.Ranges[i-1].holds(c, key)
}

// meets reports whether one of the ranges has keys from start up to limit.
func (u *Union) meets(c *base.Comparer, start, limit []byte) bool {
	return slices.ContainsFunc(u.Ranges, func(r Range) bool {
		return (r.Lower == nil || c.Cmp(r.Lower, limit) < 0) && r.holds(c, start)
	})
}

// Scan reports what an iterator reads to Reads: from the key that it seeks, or the
// bound, to where it is. The iterator calls it after each move.
type Scan struct {
	reads *Reads
	mu    *sync.Mutex // of the transaction
	id    base.KeyspaceID
	cmp   *base.Comparer
	now   *Range // since the last positioning; nil before the first
}

// NewScan makes a Scan of a keyspace. mu guards r; the Scan takes it.
func NewScan(r *Reads, mu *sync.Mutex, id base.KeyspaceID, c *base.Comparer) *Scan {
	return &Scan{reads: r, mu: mu, id: id, cmp: c}
}

// Forward reports that the iterator went to the first key from `from` on, nil for the first of all,
// and found at, or no key below upper: then at is nil.
func (s *Scan) Forward(from, at, upper []byte) { s.position(from, at, upper, at != nil) }

// Backward reports that the iterator went to the last key before `before`, nil for the last of all,
// and found at, or no key from lower on.
func (s *Scan) Backward(before, at, lower []byte) {
	if at == nil {
		at = lower
	}
	s.position(at, nil, before, false)
}

// position begins a range, which ends with at unless that is nil.
func (s *Scan) position(from, at, upper []byte, inclusive bool) {
	if inclusive {
		upper = at
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = &Range{ID: s.id, Lower: clone(from), Upper: clone(upper), Inclusive: inclusive}
	if n := len(s.reads.ranges); n > 0 && s.reads.ranges[n-1].covers(s.cmp, s.now) {
		s.now = s.reads.ranges[n-1]
		return
	}
	s.reads.ranges = append(s.reads.ranges, s.now)
}

// covers reports whether r holds all of o.
func (r *Range) covers(c *base.Comparer, o *Range) bool {
	return r.ID == o.ID && (r.Lower == nil || o.Lower != nil && c.Cmp(r.Lower, o.Lower) <= 0) &&
		!r.endsBefore(c, o)
}

// Next reports that the iterator moved on to at, or found no further key below upper.
func (s *Scan) Next(at, upper []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return
	}
	end := Range{Upper: at, Inclusive: true}
	if at == nil {
		end = Range{Upper: upper}
	}
	if s.now.endsBefore(s.cmp, &end) {
		s.now.Inclusive = end.Inclusive
		s.now.Upper = keep(s.now.Upper, end.Upper)
	}
}

// Prev reports that the iterator moved back to at, or found no further key from lower on.
func (s *Scan) Prev(at, lower []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at == nil {
		at = lower
	}
	if s.now != nil && s.now.Lower != nil && (at == nil || s.cmp.Cmp(at, s.now.Lower) < 0) {
		s.now.Lower = keep(s.now.Lower, at)
	}
}

// keep copies b into dst, or makes it nil.
func keep(dst, b []byte) []byte {
	if b == nil || dst == nil {
		return clone(b)
	}
	return append(dst[:0], b...)
}

// clone is a copy of b that is nil only if b is.
func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}
