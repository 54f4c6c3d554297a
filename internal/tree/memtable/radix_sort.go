package memtable

import (
	"cmp"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/prefix"
	"github.com/loamdb/loam/internal/memory/radix"
)

// sorter sorts the entries of a part of the arena.
type sorter struct {
	cmp    *base.Comparer
	mem    *memory
	ab     []uint64 // columns of the sortedArray while entries are collected
	offs   []uint32
	same   []byte
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
	s := &sorter{cmp: c, mem: mem, ab: r.ab[:0], offs: r.offs[:0], same: r.same[:0], rising: true,
		yield: yield}
	if !s.collect(from, to) {
		if err := s.sort(); err != nil {
			return nil, err
		}
	}
	r.ab, r.offs, r.same = s.ab, s.offs, s.same
	r.prefix, r.keyLen = s.prefix, s.keyLen
	done = true
	return r, nil
}

// sort orders the collected entries, as pairs.
func (s *sorter) sort() error {
	n := len(s.offs)
	buf, err := allocateWhole(2 * n * int(unsafe.Sizeof(radix.Pair{})))
	if err != nil {
		return err
	}
	defer releaseWhole(buf)
	all := unsafe.Slice((*radix.Pair)(unsafe.Pointer(unsafe.SliceData(buf))), 2*n)
	pairs := all[:n:n]
	s.spare = all[n:]
	for i, off := range s.offs {
		pairs[i] = radix.Pair{Ab: s.ab[i], Off: off}
	}
	radix.Sort(pairs, s.spare, s.yield)
	clear(s.same)
	s.exact = s.keyLen.Exact(s.cmp, len(s.prefix))
	s.sortTies(pairs, s.same, len(s.prefix), 0)
	for i, p := range pairs {
		s.ab[i], s.offs[i] = p.Ab, p.Off
	}
	return nil
}

// collect fills the columns from the arena and reports whether they are sorted already.
func (s *sorter) collect(from, to uint64) (sorted bool) {
	sorted = true
	var lastKey []byte
	var last base.Trailer
	for at := from; at < to; {
		off := uint32(at)
		e := s.mem.entry(off)
		at = uint64(e.end)
		key := s.mem.arena[e.key:e.value:e.value]
		k := len(s.offs)
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
		same := byte(0)
		if k > 0 && sorted && s.ab[k-1] >= ab {
			c := -1
			if s.ab[k-1] == ab {
				c = s.cmp.Cmp(key, lastKey)
			}
			sorted = c > 0 || c == 0 && s.mem.trailer(s.offs[k-1]) > last
			if c == 0 {
				same = 1
			}
		}
		lastKey = key
		s.ab, s.offs, s.same = append(s.ab, ab), append(s.offs, off), append(s.same, same)
		if s.yield && k%radix.YieldEvery == 0 {
			runtime.Gosched()
		}
	}
	return sorted
}

// shorten cuts the shared prefix to n bytes.
func (s *sorter) shorten(n int) {
	w := s.prefix.Widen(prefix.Flip(s.cmp), n)
	w.ApplyAll(s.ab)
	s.prefix = s.prefix[:n]
}

// maxTieDepth bounds how often a group is abbreviated anew, after a longer prefix.
const maxTieDepth = 8

// sortTies orders each group of entries with equal abbreviations after skip bytes, and
// notes in same which entries have the user key of the one before. Before it, groups
// are in the order of the arena.
func (s *sorter) sortTies(a []radix.Pair, same []byte, skip, depth int) {
	for i := 0; i < len(a); {
		j := i + 1
		for j < len(a) && a[j].Ab == a[i].Ab {
			j++
		}
		if j-i > 1 {
			s.sortGroup(a[i:j], same[i:j], skip, depth)
		}
		i = j
	}
}

func (s *sorter) sortGroup(a []radix.Pair, same []byte, skip, depth int) {
	if s.exact {
		s.newestFirst(a, same)
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
		s.newestFirst(a, same)
	case len(a) > radix.Few && depth < maxTieDepth && s.cmp.HasAbbrev() && len(shared) >= skip+8:
		ab := a[0].Ab
		for i := range a {
			a[i].Ab = shared.Abbrev(s.cmp, s.mem.key(a[i].Off))
		}
		radix.Sort(a, s.spare, s.yield)
		s.sortTies(a, same, len(shared), depth+1)
		for i := range a {
			a[i].Ab = ab
		}
	default:
		slices.SortFunc(a, s.compare)
		for i := 1; i < len(a); i++ {
			if s.cmp.Cmp(s.mem.key(a[i-1].Off), s.mem.key(a[i].Off)) == 0 {
				same[i] = 1
			}
		}
	}
}

// newestFirst orders versions of one key. Usually they were written oldest first.
func (s *sorter) newestFirst(a []radix.Pair, same []byte) {
	for i := 1; i < len(same); i++ {
		same[i] = 1
	}
	slices.Reverse(a)
	if s.rising {
		return
	}
	byTrailer := func(x, y radix.Pair) int {
		return cmp.Compare(s.mem.trailer(y.Off), s.mem.trailer(x.Off))
	}
	if !slices.IsSortedFunc(a, byTrailer) {
		slices.SortFunc(a, byTrailer)
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
