// Package iters turns the sorted sources of a database (memtables, tables,
// levels) into one: NewLevel concatenates the tables of a sorted run, Merge merges
// sources for compactions, and Cursor shows what a user sees at a snapshot.
//
// Nothing here is safe for concurrent use: one goroutine owns an iterator.
package iters

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/prefix"
)

// input is a source of a merge, with the chunk that the source returned last.
type input struct {
	src base.Source
	e   base.Chunk
	i   int // present entry of e; valid while live
	// Entries [lo, n) of e are within the bounds.
	lo, n int
	live  bool
	// allVisible says that every entry of e is visible at the merge's sequence
	// number, with a raw value.
	allVisible bool
	// own says that all entries are visible, whatever the sequence number: they are the
	// reader's own writes.
	own bool
}

// item is a live input. ab is the abbreviation of its present key, inverted when the
// merge runs backward, so that the smaller one always comes first.
type item struct {
	ab uint64
	in int32
}

// Merge is the sorted union of sources, in internal order, within bounds. Equal
// entries come in the order of the sources.
//
// ord holds the live inputs, sorted by their present entries. A step moves the first
// input. As long as its entry precedes that of ord[1], the runner-up, nothing else is
// touched; otherwise the first input is inserted further back. The entries that
// precede the runner-up are the merge's span, and are found together.
type Merge struct {
	cmp  *base.Comparer
	in   []input
	ord  []item
	back bool
	// abbrevs reads abbreviations after the prefix, in the direction of the merge.
	abbrevs prefix.Reader
	loads   uint
	// first is true until the first positioning, which compares present keys only:
	// many iterators read one entry.
	first bool
	// single says that spans have one entry.
	single bool
	// leapt says that the other inputs may be far ahead of one with the reader's own writes.
	leapt bool
	// prefixIsPointOnly says that prefix and the abbreviations hold for the present
	// entries only, not for the rest of their chunks.
	prefixIsPointOnly bool
	// peekAb is the abbreviation of the first input's entry peekAt, if that is not
	// negative: spanEnd computed it, and advance needs it again.
	peekAt       int
	peekAb       uint64
	seq          base.SeqNum
	lower, upper []byte
	err          error // of the last move; positioning calls clear it
	// prefix is what every entry in a live chunk begins with, in prefixMem.
	prefix    prefix.Prefix
	prefixMem [64]byte
	ordBuf    [10]item
}

// NewMerge merges sources within [lower, upper), either of which may be nil. It
// is not positioned. The bounds are retained. The sources are closed by Close.
func NewMerge(cmp *base.Comparer, sources []base.Source, lower, upper []byte) *Merge {
	m := new(Merge)
	m.reset(cmp, sources, base.MaxSeqNum, lower, upper)
	return m
}

func (m *Merge) reset(cmp *base.Comparer, sources []base.Source, seq base.SeqNum, lower,
	upper []byte) {
	m.cmp, m.seq, m.err, m.single = cmp, seq, nil, false
	m.first, m.prefixIsPointOnly, m.leapt = true, false, false
	m.abbrevs.None = !cmp.HasAbbrev()
	if cap(m.in) >= len(sources) {
		clear(m.in[:cap(m.in)])
		m.in = m.in[:len(sources)]
	} else {
		m.in = make([]input, len(sources))
	}
	if cap(m.ord) == 0 {
		m.ord = m.ordBuf[:0]
	}
	if cap(m.ord) < len(sources) {
		m.ord = make([]item, 0, len(sources))
	}
	for j, s := range sources {
		m.in[j].src = s
	}
	m.setBounds(lower, upper)
}

func (m *Merge) setBounds(lower, upper []byte) {
	m.lower, m.upper, m.err = lower, upper, nil
	for j := range m.in {
		m.in[j].live = false
		if b, ok := m.in[j].src.(base.Bounded); ok {
			b.SetBounds(lower, upper)
		}
	}
	m.ord = m.ord[:0]
}

// Valid reports whether the merge is positioned on an entry.
func (m *Merge) Valid() bool { return len(m.ord) > 0 }

// Close closes the sources.
func (m *Merge) Close() {
	m.ord = m.ord[:0]
	for j := range m.in {
		in := &m.in[j]
		if in.src == nil {
			continue
		}
		in.src.Close()
		*in = input{}
	}
	m.in = m.in[:0]
}

// First goes to the first entry within the bounds. After an error the merge is
// not Valid.
func (m *Merge) First() error {
	m.toFirst()
	return m.err
}

func (m *Merge) toFirst() {
	if m.lower != nil {
		m.seekGE(m.lower, base.MaxTrailer)
		return
	}
	m.locate(false, base.Source.First)
}

// last goes to the last entry within the bounds, running backward.
func (m *Merge) last() {
	if m.upper != nil {
		m.seekLT(m.upper, base.MaxTrailer)
		return
	}
	m.locate(true, base.Source.Last)
}

// seekGE goes to the first entry at or after (key, t); key is not below lower.
func (m *Merge) seekGE(key []byte, t base.Trailer) {
	m.prefetchSeek(key, t)
	m.locate(false, func(s base.Source, e *base.Chunk) (int, error) { return s.SeekGE(key, t, e) })
}

// prefetchSeek tells all sources of the SeekGE(key, t) that follows, so that they wait
// for memory together. A single source gains nothing from it.
func (m *Merge) prefetchSeek(key []byte, t base.Trailer) {
	if len(m.in) == 1 {
		return
	}
	for j := range m.in {
		if a, ok := m.in[j].src.(base.SeekPrefetcher); ok {
			a.PrefetchSeek(key, t)
		}
	}
}

// seekLT goes to the last entry before (key, t), running backward; key is not
// above upper.
func (m *Merge) seekLT(key []byte, t base.Trailer) {
	m.locate(true, func(s base.Source, e *base.Chunk) (int, error) { return s.SeekLT(key, t, e) })
}

// locate positions all inputs, by what find calls of their sources.
func (m *Merge) locate(back bool, find func(base.Source, *base.Chunk) (int, error)) {
	m.direct(back)
	m.leapt = false
	for j := range m.in {
		in := &m.in[j]
		i, err := find(in.src, &in.e)
		m.position(in, i, err)
	}
	m.build()
}

// seekOne positions an input at its first entry at or after key, or running backward at the last
// one before it.
func (m *Merge) seekOne(in *input, key []byte) {
	seek := base.Source.SeekGE
	if m.back {
		seek = base.Source.SeekLT
	}
	i, err := seek(in.src, key, base.MaxTrailer, &in.e)
	m.position(in, i, err)
}

// direct begins a positioning.
func (m *Merge) direct(back bool) {
	m.back, m.err = back, nil
	m.abbrevs.Flip = prefix.Flip(m.cmp)
	if back {
		m.abbrevs.Flip = ^m.abbrevs.Flip
	}
}

// turn changes direction. Live inputs step over their present entry. The others have
// run out in the old direction; they seek key, the user key of the caller's entry. So do those that
// leap left far from it.
func (m *Merge) turn(back bool, key []byte) {
	if m.err != nil {
		return
	}
	m.direct(back)
	for j := range m.in {
		in := &m.in[j]
		switch {
		case m.leapt && !in.own:
			m.seekOne(in, key)
		case in.live && back:
			m.move(in, in.i-1)
		case in.live:
			m.move(in, in.i+1)
		default:
			m.seekOne(in, key)
		}
	}
	m.leapt = false
	m.build()
}

// position takes over what a positioning call of the input's source returned.
func (m *Merge) position(in *input, i int, err error) {
	in.live = false
	if err != nil {
		m.fail(err)
		return
	}
	if i < 0 {
		return
	}
	m.clipToBounds(in)
	in.i = i
	in.live = i >= in.lo && i < in.n
}

// fail keeps the first error of a move.
func (m *Merge) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

// clipToBounds finds what part of a new chunk is within the bounds.
func (m *Merge) clipToBounds(in *input) {
	e := &in.e
	in.lo, in.n = 0, e.Len()
	in.allVisible = e.AllLiveSets && e.MaxSeq <= m.seq && e.Codecs == nil && !m.single
	if in.n == 0 {
		return
	}
	if m.upper != nil && m.cmp.Cmp(e.Key(in.n-1), m.upper) >= 0 {
		in.n = lowerBound(m.cmp, e, 0, in.n, m.upper)
	}
	if m.lower != nil && m.cmp.Cmp(e.Key(0), m.lower) < 0 {
		in.lo = lowerBound(m.cmp, e, 0, in.n, m.lower)
	}
}

// lowerBound is the first index in [i, j) whose user key is >= key, or j.
func lowerBound(cmp *base.Comparer, e *base.Chunk, i, j int, key []byte) int {
	for i < j {
		h := int(uint(i+j) >> 1)
		if cmp.Cmp(e.Key(h), key) < 0 {
			i = h + 1
		} else {
			j = h
		}
	}
	return i
}

// move positions the input on entry `to` of its chunk. An index one past either end of
// the chunk means the next chunk in the merge's direction. It reports whether the input
// is still live.
func (m *Merge) move(in *input, to int) bool {
	in.i = to
	if to >= in.lo && to < in.n {
		return true
	}
	in.live = false
	e := &in.e
	if m.back && in.lo > 0 || !m.back && in.n < e.Len() {
		return false // the bound lies in this chunk
	}
	next := base.Source.Next
	if m.back {
		next = base.Source.Prev
	}
	for ok := true; ok; ok = e.Len() == 0 {
		if more, err := next(in.src, e); err != nil {
			m.fail(err)
			return false
		} else if !more {
			return false
		}
	}
	in.i = 0
	if m.back {
		in.i = e.Len() - 1
	}
	m.clipToBounds(in)
	in.live = in.i >= in.lo && in.i < in.n
	return in.live
}

// build fills ord after a positioning.
func (m *Merge) build() {
	m.ord = m.ord[:0]
	m.peekAt = -1
	if m.err != nil {
		return
	}
	for j := range m.in {
		if m.in[j].live {
			m.ord = append(m.ord, item{in: int32(j)})
		}
	}
	if len(m.ord) < 2 {
		return
	}
	m.setPrefix(m.first)
	m.first = false
	for n := 1; n < len(m.ord); n++ {
		it := m.ord[n]
		j := n
		for ; j > 0 && m.before(it, m.ord[j-1]); j-- {
			m.ord[j] = m.ord[j-1]
		}
		m.ord[j] = it
	}
}

// needWholePrefix extends a prefix that holds for present entries only to all entries
// of the live chunks.
func (m *Merge) needWholePrefix() {
	if m.prefixIsPointOnly {
		m.setPrefix(false)
	}
}

// setPrefix makes the prefix as long as the live chunks allow, or with present, as their
// present entries allow, and computes all abbreviations anew. The order of ord does not
// change.
func (m *Merge) setPrefix(present bool) {
	m.prefixIsPointOnly = present
	if m.abbrevs.None {
		return
	}
	var p prefix.Prefix
	for k, it := range m.ord {
		in := &m.in[it.in]
		i, j := in.lo, in.n-1
		if present {
			i, j = in.i, in.i
		}
		if k == 0 {
			p = in.e.Key(i)
		} else {
			p = p.With(in.e.Key(i))
		}
		if i != j {
			p = p.With(in.e.Key(j))
		}
	}
	m.prefix = m.prefixMem[:copy(m.prefixMem[:], p)]
	m.abbrevs.Skip = len(m.prefix)
	for k := range m.ord {
		it := &m.ord[k]
		in := &m.in[it.in]
		it.ab = m.abbrevs.Abbrev(&in.e, in.i)
	}
}

// widenPrefix shortens the prefix if the input's new chunk does not have it.
func (m *Merge) widenPrefix(in *input) {
	if m.abbrevs.None {
		return
	}
	if m.loads++; m.loads&15 == 0 {
		m.setPrefix(false) // all inputs have moved on: a longer prefix may hold
		return
	}
	p := m.prefix.With(in.e.Key(in.lo)).With(in.e.Key(in.n - 1))
	if len(p) < len(m.prefix) {
		w := m.prefix.Widen(m.abbrevs.Flip, len(p))
		for k := range m.ord {
			m.ord[k].ab = w.Apply(m.ord[k].ab)
		}
		m.prefix, m.abbrevs.Skip = p, len(p)
	}
}

// before reports whether the present entry of a comes before that of b.
func (m *Merge) before(a, b item) bool {
	if a.ab != b.ab {
		return a.ab < b.ab
	}
	ia := &m.in[a.in]
	return m.beforeFull(a.in, ia.i, b.in)
}

// beforeFull reports whether entry i of input a comes before the present entry of input
// b, by their internal keys, then by the order of the inputs.
func (m *Merge) beforeFull(a int32, i int, b int32) bool {
	ia, ib := &m.in[a], &m.in[b]
	c := m.cmp.CompareInternal(ia.e.Key(i), ia.e.Trailers[i], ib.e.Key(ib.i), ib.e.Trailers[ib.i])
	if c == 0 {
		c = int(a) - int(b)
	}
	return c < 0 != m.back
}

// advance moves the first input to entry `to` (see move) and restores the order of ord.
//
// The other inputs stay where they are, so ord is in order but for its first item: one insertion
// restores it, with one comparison while the same input stays first. Where abbreviations differ,
// they decide; beforeFull decides between equal ones, and never calls two entries equal. An input
// that has ended leaves ord. After an error ord is empty, and the merge is not Valid.
func (m *Merge) advance(to int) {
	m.needWholePrefix()
	top := m.ord[0].in
	in := &m.in[top]
	if to >= in.lo && to < in.n {
		in.i = to
		if len(m.ord) == 1 {
			return
		}
		if to != m.peekAt {
			m.peekAb = m.abbrevs.Abbrev(&in.e, to)
		}
	} else {
		if !m.move(in, to) {
			m.ord = m.ord[:copy(m.ord, m.ord[1:])]
			if m.err != nil {
				m.ord = m.ord[:0]
			}
			return
		}
		if len(m.ord) == 1 {
			return
		}
		m.widenPrefix(in)
		m.peekAb = m.abbrevs.Abbrev(&in.e, in.i)
	}
	m.peekAt = -1
	it := item{m.peekAb, top}
	ord := m.ord
	j := 1
	for ; j < len(ord); j++ {
		o := ord[j]
		if it.ab < o.ab || it.ab == o.ab && m.beforeFull(top, in.i, o.in) {
			break
		}
		ord[j-1] = o
	}
	ord[j-1] = it
}

// NextSpan returns the next entries of the merge that are neighbours in one chunk:
// entries [i, end) of e. No entry of another source comes between them. REQUIRES: Valid,
// and not running backward.
func (m *Merge) NextSpan() (e *base.Chunk, i, end int) {
	in := &m.in[m.ord[0].in]
	return &in.e, in.i, m.spanEnd(in)
}

// Advance moves to entry `to` of the chunk that NextSpan returned, at most the span's
// end. The chunk stays valid until its last entry is passed. After an error the merge is
// not Valid.
func (m *Merge) Advance(to int) error {
	m.advance(to)
	return m.err
}

// spanEnd is the first index after the present one whose entry does not come
// before the runner-up.
func (m *Merge) spanEnd(in *input) int {
	if len(m.ord) == 1 {
		return in.n
	}
	i := in.i + 1
	if i >= in.n || m.prefixIsPointOnly {
		return i
	}
	r := m.ord[1]
	ab := m.abbrevs.Abbrev(&in.e, i)
	if ab > r.ab || ab == r.ab && !m.beforeFull(m.ord[0].in, i, r.in) {
		m.peekAt, m.peekAb = i, ab
		return i
	}
	if m.below(in, in.n-1) {
		return in.n
	}
	return m.border(in, i, in.n-1, (*Merge).below) + 1
}

// border is the last entry on the way from good to bad, two entries of the first input, of those
// from good on for which holds. It holds for good and not for bad; the answer is usually near good.
func (m *Merge) border(in *input, good, bad int, holds func(*Merge, *input, int) bool) int {
	dir := 1
	if bad < good {
		dir = -1
	}
	for step := dir; (bad-good-step)*dir > 0; step *= 2 {
		if !holds(m, in, good+step) {
			bad = good + step
			break
		}
		good += step
	}
	for good+dir != bad {
		if h := int(uint(good+bad) >> 1); holds(m, in, h) {
			good = h
		} else {
			bad = h
		}
	}
	return good
}

// below reports whether entry i of the first input comes before the runner-up.
func (m *Merge) below(in *input, i int) bool {
	r := m.ord[1]
	ab := m.abbrevs.Abbrev(&in.e, i)
	return ab < r.ab || ab == r.ab && m.beforeFull(m.ord[0].in, i, r.in)
}

// spanStart is, in a merge that runs backward, the start of the span that ends with the
// present entry: from it on, every user key of the first input is above the runner-up's
// and has no entries outside of this chunk. It is above in.i when the span is empty.
func (m *Merge) spanStart(in *input) int {
	i := in.lo
	if !in.e.FirstIsNewest {
		i = max(i, 1) // the preceding chunk may end with newer versions of entry 0's key
	}
	if len(m.ord) == 1 || i > in.i {
		return i
	}
	m.needWholePrefix()
	j := in.i
	if !m.above(in, j) {
		return j + 1
	}
	if j == i || !m.above(in, j-1) {
		return j
	}
	if m.above(in, i) {
		return i
	}
	return m.border(in, j, i, (*Merge).above)
}

// above reports whether the user key of entry i of the first input is above the
// runner-up's.
func (m *Merge) above(in *input, i int) bool {
	r := m.ord[1]
	ab := m.abbrevs.Abbrev(&in.e, i)
	if ab != r.ab {
		return ab < r.ab
	}
	ir := &m.in[r.in]
	return m.cmp.Cmp(in.e.Key(i), ir.e.Key(ir.i)) > 0
}
