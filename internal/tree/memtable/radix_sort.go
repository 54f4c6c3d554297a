package memtable

import (
	"cmp"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/prefix"
	"github.com/loamdb/loam/internal/memory/radix"
)

// sorter sorts the entries of a part of the arena.
type sorter struct {
	cmp    *base.Comparer
	mem    *memory
	pairs  []radix.Pair
	spare  []radix.Pair
	prefix prefix.Prefix
	keyLen prefix.Length
	rising bool // trailers rise along the arena
	exact  bool // equal abbreviations mean equal keys
	yield  bool // see sortRange
}

// sortRange sorts the entries in [from, to) of the arena, at most n. yield says that no caller
// waits: then it lets other goroutines run every radix.YieldEvery entries. Beside a writer that
// uses its full time slice, every yield costs 10 ms.
func sortRange(c *base.Comparer, mem *memory, from, to uint64, n int, held *atomic.Int64,
	yield bool) (*sortedArray, error) {
	r, err := newSortedArray(n, held)
	if err != nil {
		return nil, err
	}
	done := false
	defer func() { // also when the comparer panics
		if !done {
			r.free()
		}
	}()
	s := &sorter{cmp: c, mem: mem, pairs: r.pairs[:0], rising: true, yield: yield}
	sorted := s.collect(from, to)
	r.pairs, r.prefix, r.keyLen = s.pairs, s.prefix, s.keyLen
	if !sorted {
		if err := s.sort(r); err != nil {
			return nil, err
		}
	}
	done = true
	return r, nil
}

// sort orders the collected entries, which are in r. They may change places with memory as large
// as theirs, which is freed.
func (s *sorter) sort(r *sortedArray) error {
	other, err := newSortedArray(len(r.pairs), r.held)
	if err != nil {
		return err
	}
	defer func() { other.free() }()
	sorted := radix.SortInto(r.pairs, other.pairs, s.yield)
	if &sorted[0] != &r.pairs[0] {
		r.mem, other.mem = other.mem, r.mem
		r.pairs, other.pairs = other.pairs, r.pairs
	}
	s.spare = other.pairs
	s.exact = s.keyLen.Exact(s.cmp, len(s.prefix))
	s.sortTies(r.pairs, len(s.prefix), 0)
	return nil
}

// collect fills pairs from the arena and reports whether they are sorted already.
func (s *sorter) collect(from, to uint64) (sorted bool) {
	sorted = true
	var lastKey []byte
	var last base.Trailer
	for at := from; at < to; {
		off := uint32(at)
		e := s.mem.entry(off)
		at = uint64(e.end)
		key := s.mem.arena[e.key:e.value:e.value]
		k := len(s.pairs)
		if k == 0 {
			s.prefix = prefix.OfOne(s.cmp, key)
			s.keyLen = prefix.LengthOf(key)
		} else if n := len(s.prefix.With(key)); n < len(s.prefix) {
			s.shorten(n)
		}
		s.keyLen = s.keyLen.With(key)
		s.rising = s.rising && e.trailer > last
		last = e.trailer
		ab := s.prefix.Abbrev(s.cmp, key)
		same := false
		if k > 0 && sorted && s.pairs[k-1].Ab >= ab {
			c := -1
			if s.pairs[k-1].Ab == ab {
				c = s.cmp.Cmp(key, lastKey)
			}
			same = c == 0
			sorted = c > 0 || same && s.mem.trailer(s.pairs[k-1].Off) > last
		}
		lastKey = key
		s.pairs = append(s.pairs, radix.Pair{Ab: ab, Off: off, Same: same})
		if s.yield && k%radix.YieldEvery == 0 {
			runtime.Gosched()
		}
	}
	return sorted
}

// shorten cuts the shared prefix to n bytes.
func (s *sorter) shorten(n int) {
	w := s.prefix.Widen(prefix.Flip(s.cmp), n)
	for i := range s.pairs {
		s.pairs[i].Ab = w.Apply(s.pairs[i].Ab)
	}
	s.prefix = s.prefix[:n]
}

// maxTieDepth bounds how often a group is abbreviated anew, after a longer prefix.
const maxTieDepth = 8

// sortTies orders each group of entries with equal abbreviations after skip bytes, and
// notes which entries have the user key of the one before. Before it, groups
// are in the order of the arena.
func (s *sorter) sortTies(a []radix.Pair, skip, depth int) {
	for i := 0; i < len(a); {
		a[i].Same = false
		j := i + 1
		for j < len(a) && a[j].Ab == a[i].Ab {
			a[j].Same = false
			j++
		}
		if j-i > 1 {
			s.sortGroup(a[i:j], skip, depth)
		}
		i = j
	}
}

func (s *sorter) sortGroup(a []radix.Pair, skip, depth int) {
	if s.exact {
		s.newestFirst(a)
		return
	}
	first := s.mem.key(a[0].Off)
	shared, one := prefix.Prefix(first), true
	for _, p := range a[1:] {
		key := s.mem.key(p.Off)
		shared = shared.With(key)
		one = one && len(shared) == len(first) && len(shared) == len(key)
	}
	switch {
	case one:
		s.newestFirst(a)
	case len(a) > radix.Few && depth < maxTieDepth && s.cmp.HasAbbrev() && len(shared) >= skip+8:
		ab := a[0].Ab
		for i := range a {
			a[i].Ab = shared.Abbrev(s.cmp, s.mem.key(a[i].Off))
		}
		radix.Sort(a, s.spare, s.yield)
		s.sortTies(a, len(shared), depth+1)
		for i := range a {
			a[i].Ab = ab
		}
	default:
		slices.SortFunc(a, s.compare)
		for i := 1; i < len(a); i++ {
			a[i].Same = s.cmp.Cmp(s.mem.key(a[i-1].Off), s.mem.key(a[i].Off)) == 0
		}
	}
}

// newestFirst orders versions of one key. Usually they were written oldest first.
func (s *sorter) newestFirst(a []radix.Pair) {
	slices.Reverse(a)
	byTrailer := func(x, y radix.Pair) int {
		return cmp.Compare(s.mem.trailer(y.Off), s.mem.trailer(x.Off))
	}
	if !s.rising && !slices.IsSortedFunc(a, byTrailer) {
		slices.SortFunc(a, byTrailer)
	}
	for i := 1; i < len(a); i++ {
		a[i].Same = true
	}
}

func (s *sorter) compare(x, y radix.Pair) int { return s.mem.compare(s.cmp, x.Off, y.Off) }

// compare orders two entries.
func (m *memory) compare(c *base.Comparer, x, y uint32) int {
	if r := c.Cmp(m.key(x), m.key(y)); r != 0 {
		return r
	}
	return cmp.Compare(m.trailer(y), m.trailer(x))
}
