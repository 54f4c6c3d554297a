package memtable

import (
	"cmp"
	"math/bits"
	"runtime"
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/prefix"
)

// pair is an entry with the abbreviation of its key.
type pair struct {
	ab  uint64
	off uint32
}

// sorter sorts the entries of a part of the arena.
type sorter struct {
	cmp    *base.Comparer
	mem    *memory
	ab     []uint64 // columns of the sortedArray while entries are collected
	offs   []uint32
	same   []byte
	spare  []pair
	prefix prefix.Prefix
	keyLen prefix.Length
	rising bool // trailers rise along the arena
	exact  bool // equal abbreviations mean equal keys
	yield  bool // see yieldEvery
}

// yieldEvery entries, a sort in the background lets other goroutines run. A sort that
// a caller waits for does not: beside a writer that uses its full time slice, every
// yield costs 10 ms.
const yieldEvery = 2048

// sortRange sorts the entries in [from, to) of the arena, at most n. yield says that
// no caller waits.
func sortRange(c *base.Comparer, mem *memory, from, to uint64, n int, held *atomic.Int64, yield bool) (*sortedArray, error) {
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
	s := &sorter{cmp: c, mem: mem, ab: r.ab[:0], offs: r.offs[:0], same: r.same[:0], rising: true, yield: yield}
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

// sort orders the collected entries, as pairs, which are faster to move than columns.
func (s *sorter) sort() error {
	n := len(s.offs)
	buf, err := allocateWhole(2 * n * int(unsafe.Sizeof(pair{})))
	if err != nil {
		return err
	}
	defer releaseWhole(buf)
	all := unsafe.Slice((*pair)(unsafe.Pointer(unsafe.SliceData(buf))), 2*n)
	pairs := all[:n:n]
	s.spare = all[n:]
	for i, off := range s.offs {
		pairs[i] = pair{s.ab[i], off}
	}
	radix(pairs, s.spare, topShift(pairs), s.yield)
	clear(s.same)
	s.exact = s.keyLen.Exact(s.cmp, len(s.prefix))
	s.sortTies(pairs, s.same, len(s.prefix), 0)
	for i, p := range pairs {
		s.ab[i], s.offs[i] = p.ab, p.off
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
		if s.yield && k%yieldEvery == 0 {
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

const (
	radixBits = 8
	fewPairs  = 40 // insertion sort below
)

// topShift is the lowest bit of the highest digit in which the pairs differ.
func topShift(a []pair) int {
	var diff uint64
	for i := range a {
		diff |= a[i].ab ^ a[0].ab
	}
	return max(64-bits.LeadingZeros64(diff)-radixBits, 0)
}

// radix sorts a by the bits of abbreviations below shift + radixBits, stably; the bits
// above are equal. tmp is as long as a. Each recursion sorts by the next digit.
func radix(a, tmp []pair, shift int, yield bool) {
	if len(a) <= fewPairs {
		insertion(a)
		return
	}
	const digits = 1 << radixBits
	var count [digits]int32
	for i := range a {
		count[a[i].ab>>shift&(digits-1)]++
	}
	var next [digits]int32
	sum := int32(0)
	for d, n := range count {
		next[d] = sum
		sum += n
	}
	tmp = tmp[:len(a)]
	for i := range a {
		d := a[i].ab >> shift & (digits - 1)
		tmp[next[d]] = a[i]
		next[d]++
	}
	copy(a, tmp)
	if yield && len(a) > yieldEvery {
		runtime.Gosched()
	}
	if shift == 0 {
		return
	}
	below := max(shift-radixBits, 0)
	from := int32(0)
	for _, n := range count {
		if n > 1 {
			radix(a[from:from+n], tmp, below, yield)
		}
		from += n
	}
}

func insertion(a []pair) {
	for i := 1; i < len(a); i++ {
		p := a[i]
		j := i
		for j > 0 && a[j-1].ab > p.ab {
			a[j] = a[j-1]
			j--
		}
		a[j] = p
	}
}

// maxTieDepth bounds how often a group is abbreviated anew, after a longer prefix.
const maxTieDepth = 8

// sortTies orders each group of entries with equal abbreviations after skip bytes, and
// notes in same which entries have the user key of the one before. Before it, groups
// are in the order of the arena.
func (s *sorter) sortTies(a []pair, same []byte, skip, depth int) {
	for i := 0; i < len(a); {
		j := i + 1
		for j < len(a) && a[j].ab == a[i].ab {
			j++
		}
		if j-i > 1 {
			s.sortGroup(a[i:j], same[i:j], skip, depth)
		}
		i = j
	}
}

func (s *sorter) sortGroup(a []pair, same []byte, skip, depth int) {
	if s.exact {
		s.newestFirst(a, same)
		return
	}
	first := s.mem.key(a[0].off)
	shared, one := prefix.Prefix(first), true
	for _, p := range a[1:] {
		key := s.mem.key(p.off)
		shared = shared.With(key)
		one = one && len(shared) == len(first) && len(shared) == len(key)
	}
	switch {
	case one:
		s.newestFirst(a, same)
	case len(a) > fewPairs && depth < maxTieDepth && s.cmp.HasAbbrev() && len(shared) >= skip+8:
		ab := a[0].ab
		for i := range a {
			a[i].ab = shared.Abbrev(s.cmp, s.mem.key(a[i].off))
		}
		radix(a, s.spare, topShift(a), s.yield)
		s.sortTies(a, same, len(shared), depth+1)
		for i := range a {
			a[i].ab = ab
		}
	default:
		slices.SortFunc(a, s.compare)
		for i := 1; i < len(a); i++ {
			if s.cmp.Cmp(s.mem.key(a[i-1].off), s.mem.key(a[i].off)) == 0 {
				same[i] = 1
			}
		}
	}
}

// newestFirst orders versions of one key. Mostly they were written oldest first.
func (s *sorter) newestFirst(a []pair, same []byte) {
	for i := 1; i < len(same); i++ {
		same[i] = 1
	}
	slices.Reverse(a)
	if s.rising {
		return
	}
	byTrailer := func(x, y pair) int { return cmp.Compare(s.mem.trailer(y.off), s.mem.trailer(x.off)) }
	if !slices.IsSortedFunc(a, byTrailer) {
		slices.SortFunc(a, byTrailer)
	}
}

func (s *sorter) compare(x, y pair) int { return s.mem.compare(s.cmp, x.off, y.off) }

// compare orders two entries.
func (m *memory) compare(c *base.Comparer, x, y uint32) int {
	if r := c.Cmp(m.key(x), m.key(y)); r != 0 {
		return r
	}
	return cmp.Compare(m.trailer(y), m.trailer(x))
}
