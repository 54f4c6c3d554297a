package iters

import (
	"bytes"
	"math"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
)

// Cursor is what a user sees of the merged sources at one sequence number,
// within bounds: the newest visible version of each key, deleted keys hidden.
//
// It holds a span: entries [lo, hi) of one chunk, which are consecutive answers. Moves
// within the span touch nothing else.
//
// Forward, the merge is positioned on the span's entry lo. Backward it is on entry hi-1.
// When past is set, the merge has already left the entry in its direction: backward it is on
// the last entry of a smaller key, forward on an entry of a larger key or on an older one of
// the same key.
type Cursor struct {
	at, lo, hi int // lo <= at < hi when Valid; all zero when not
	// Columns of e, for Key and Value.
	data, keyOff, valOff, valEnd unsafe.Pointer
	e                            *base.Chunk

	m    Merge
	past bool
	// While hide is set, entries of user key last are passed over: it was returned,
	// or is deleted. last aliases a chunk or buf.
	hide  bool
	last  []byte
	op    *mergeop.Operator
	folds FoldCounter
	fold  *mergeop.Fold // nil until a key has operands
	now   uint64        // what has expired by then is not visible
	// values and keysOnly are those of Options.
	values   Values
	keysOnly bool
	aheads   []ahead // of the sources
	// deadline is that of the entry in own; 0: none.
	deadline uint64
	// own is a one-entry chunk for an entry whose chunk is gone, or a value that was made of
	// operands.
	own base.Chunk
	// apart, if it is not nil, is the present value: own has the key alone.
	apart  []byte
	ownOff [3]uint32
	ownTr  [1]base.Trailer
	// dels are range tombstones, nil where there are none.
	dels *covers
	// empties are known-empty ranges; passed is what the present move passes over, see passOver.
	empties Empties
	look    int  // entries that a move passes over before it asks empties
	most    int  // see Options
	again   bool // see Options
	passed  passing
	// closed makes every later move return false.
	closed bool
	buf    []byte
	ownBuf []byte
	bufArr [64]byte
}

// FoldCounter is told how many operands a cursor folded into a value, or why the merge
// operator failed.
type FoldCounter interface{ CountFold(operands int, err error) }

// Values reads values that lie in logs.
type Values interface {
	// AppendValue appends the value that a handle refers to to dst.
	AppendValue(dst, handle []byte) ([]byte, error)
	// ReadValues appends the values of a batch to dst, and says in b where each of them lies. Those
	// that cannot be read are left out.
	ReadValues(dst []byte, b *base.ValueBatch) []byte
}

// Options says what a cursor shows.
type Options struct {
	Seq base.SeqNum // entries that are newer are not visible
	// when the reader began, in seconds since 1970; 0: nothing had expired
	Now          uint64
	Lower, Upper []byte // bounds [Lower, Upper); nil: none. They are retained
	// makes values of operands; nil: moves to keys that have some fail
	Merge     *mergeop.Operator
	Folds     FoldCounter // counts each use of Merge; nil: not counted
	Own       bool        // all entries of the first source are visible, whatever Seq is
	Single    bool        // spans have one entry, so that Step and StepBack never move
	RangeDels []RangeDels
	// OpenRangeDels returns those of a table.
	OpenRangeDels func(*manifest.FileMeta) (*rangedel.List, error)
	// Empties knows ranges that the cursor need not look at; nil: none.
	Empties Empties
	// Again: there are other cursors of the same Seq, which pass over the same newer entries.
	Again bool
	// Most, if it is not 0, is about how many dead entries a move passes over one by one before it
	// gives up: it finds nothing, and learns the range that it passed over.
	Most   int
	Values Values // for sources with references
	// KeysOnly: values that lie in logs are not read, but for operands above them.
	KeysOnly bool
}

// Reset makes a cursor, new or closed, one over sources, newest first. It keeps its buffers.
// The sources are closed by Close. The cursor is not positioned.
func (c *Cursor) Reset(cmp *base.Comparer, sources []base.Source, o Options) {
	c.closed, c.dels = false, nil
	if len(o.RangeDels) > 0 {
		c.dels = newCovers(cmp, &o)
	}
	c.op, c.folds, c.now = o.Merge, o.Folds, o.Now
	c.values, c.keysOnly = o.Values, o.KeysOnly
	c.setEmpties(o.Empties)
	c.again, c.most = o.Again, o.Most
	if c.most == 0 {
		c.most = math.MaxInt
	}
	c.invalidate()
	if c.buf == nil {
		c.buf = c.bufArr[:0]
	}
	c.m.reset(cmp, sources, o.Seq, o.Lower, o.Upper)
	c.m.single = o.Single
	if o.Own {
		c.m.in[0].own = true
	}
}

// SetBounds replaces the bounds, which are retained. The cursor is no longer
// positioned.
func (c *Cursor) SetBounds(lower, upper []byte) {
	c.invalidate()
	c.m.setBounds(lower, upper)
}

// Valid reports whether the cursor is positioned on an entry.
func (c *Cursor) Valid() bool { return c.at < c.hi }

// Key is the present user key, valid until the next move. nil when not Valid.
func (c *Cursor) Key() []byte {
	if c.at >= c.hi {
		return nil
	}
	return c.part(column(c.keyOff, c.at), column(c.valOff, c.at))
}

// part is the bytes of the chunk's data from one offset to another. Of an empty part the address is
// that of the data: behind the last byte another object may begin.
func (c *Cursor) part(from, end uint32) []byte {
	n := end - from
	if n == 0 {
		from = 0
	}
	return unsafe.Slice((*byte)(unsafe.Add(c.data, from)), n)
}

// column is element i of a column of offsets, which the chunk vouches for.
func column(p unsafe.Pointer, i int) uint32 { return *(*uint32)(unsafe.Add(p, 4*i)) }

// setSpan makes entries [lo, hi) of e the span, and entry at the present one.
func (c *Cursor) setSpan(e *base.Chunk, at, lo, hi int) {
	c.e, c.at, c.lo, c.hi, c.apart = e, at, lo, hi, nil
	c.data = unsafe.Pointer(unsafe.SliceData(e.Data))
	c.keyOff = unsafe.Pointer(unsafe.SliceData(e.KeyOff))
	c.valOff = unsafe.Pointer(unsafe.SliceData(e.ValOff))
	c.valEnd = unsafe.Pointer(unsafe.SliceData(e.ValEnd))
}

// Value is the present value, valid until the next move. nil when not Valid.
func (c *Cursor) Value() []byte {
	if c.at >= c.hi {
		return nil
	}
	if c.apart != nil {
		return c.apart
	}
	return c.part(column(c.valOff, c.at), column(c.valEnd, c.at))
}

// Apart copies key if it lies in the chunk of the present entry, or in its value: a move may give
// that memory up before it has found key. A nil cursor has none.
func (c *Cursor) Apart(key []byte) []byte {
	if c == nil || c.at >= c.hi {
		return key
	}
	return base.Apart(base.Apart(key, c.e.Data), c.apart)
}

// Err is what made the last move fail, nil at a plain end. The cursor is not
// valid after a failure; First, Last and Seek try again.
func (c *Cursor) Err() error { return c.m.err }

// Close closes the sources and returns Err. A second Close does nothing.
func (c *Cursor) Close() error {
	c.invalidate()
	if !c.closed {
		c.closed, c.empties = true, nil
		c.freeAhead()
		c.m.Close()
		if c.fold != nil {
			c.fold.Free()
			c.fold = nil
		}
	}
	return c.m.err
}

// Next moves to the following key. It reports false, and the cursor is no longer
// valid, at the end. On an invalid cursor it does nothing.
func (c *Cursor) Next() bool {
	return c.Step() || c.nextSpan()
}

// Prev moves to the preceding key.
func (c *Cursor) Prev() bool {
	return c.StepBack() || c.prevSpan()
}

// Step is Next within the present span: at its end it returns false and does not move.
// It is small enough to be inlined.
func (c *Cursor) Step() bool {
	if c.at+1 < c.hi {
		c.at++
		return true
	}
	return false
}

// StepBack is Prev within the present span.
func (c *Cursor) StepBack() bool {
	if c.at > c.lo {
		c.at--
		return true
	}
	return false
}

// First moves to the first key within the bounds.
func (c *Cursor) First() bool {
	if c.empty() {
		return false
	}
	if f := c.enter(c.m.lower, c.m.lower == nil, false); f != nil {
		c.seekEnd(f)
	} else {
		c.m.toFirst()
	}
	return c.settle(c.findNextUserEntry())
}

// Last moves to the last key within the bounds.
func (c *Cursor) Last() bool {
	if c.empty() {
		return false
	}
	if f := c.enter(c.m.upper, c.m.upper == nil, true); f != nil {
		c.seekEnd(f)
	} else {
		c.m.last()
	}
	return c.settle(c.findPrevUserEntry())
}

// SeekGE moves to the first key at or after key.
func (c *Cursor) SeekGE(key []byte) bool {
	m := &c.m
	if c.at < c.hi && m.cmp.Cmp(c.e.Key(c.at), key) <= 0 && m.cmp.Cmp(key, c.e.Key(c.hi-1)) <= 0 {
		c.at = lowerBound(m.cmp, c.e, c.at, c.hi, key)
		return true
	}
	if c.empty() {
		return false
	}
	if m.lower != nil && m.cmp.Cmp(key, m.lower) < 0 {
		key = m.lower
	}
	if m.upper != nil && m.cmp.Cmp(key, m.upper) >= 0 {
		c.invalidate()
		return false
	}
	if f := c.enter(key, false, false); f != nil {
		c.seekEnd(f)
	} else {
		m.seekGE(key, base.MakeTrailer(m.seq, base.KindForSeek))
	}
	return c.settle(c.findNextUserEntry())
}

// SeekLT moves to the last key before key.
func (c *Cursor) SeekLT(key []byte) bool {
	m := &c.m
	if c.at < c.hi && m.cmp.Cmp(key, c.e.Key(c.at)) <= 0 && m.cmp.Cmp(c.e.Key(c.lo), key) < 0 {
		c.at = lowerBound(m.cmp, c.e, c.lo, c.at, key) - 1
		return true
	}
	if c.empty() {
		return false
	}
	if m.upper != nil && m.cmp.Cmp(key, m.upper) > 0 {
		key = m.upper
	}
	if m.lower != nil && m.cmp.Cmp(key, m.lower) <= 0 {
		c.invalidate()
		return false
	}
	if f := c.enter(key, false, true); f != nil {
		c.seekEnd(f)
	} else {
		m.seekLT(key, base.MaxTrailer)
	}
	return c.settle(c.findPrevUserEntry())
}

// empty reports whether nothing can be found, the cursor being closed or the bounds
// excluding all keys. It then invalidates the cursor.
func (c *Cursor) empty() bool {
	m := &c.m
	if !c.closed {
		m.err = nil
	}
	c.resetAhead()
	if c.closed || m.lower != nil && m.upper != nil && m.cmp.Cmp(m.lower, m.upper) >= 0 {
		c.invalidate()
		return true
	}
	return false
}

func (c *Cursor) invalidate() {
	c.e, c.at, c.lo, c.hi, c.apart = nil, 0, 0, 0, nil
	c.hide, c.past, c.last = false, false, nil
}

// nextSpan is Next from the last entry of the span.
func (c *Cursor) nextSpan() bool {
	if c.at >= c.hi {
		return false
	}
	c.passed.begin()
	m := &c.m
	switch {
	case m.back:
		c.setLast(c.e.Key(c.at))
		m.turn(false, c.last)
	case c.past:
		c.setLast(c.e.Key(c.at))
	default:
		c.last, c.hide = c.e.Key(c.at), true
		c.step(c.at + 1)
	}
	c.hide = true
	return c.settle(c.findNextUserEntry())
}

// prevSpan is Prev from the first entry of the span.
func (c *Cursor) prevSpan() bool {
	if c.at >= c.hi {
		return false
	}
	c.passed.begin()
	m := &c.m
	switch {
	case !m.back:
		c.setLast(c.e.Key(c.at))
		m.turn(true, c.last)
		c.hide = true
	case !c.past:
		// Every older version lies behind, and no newer one exists (spanStart).
		c.hide, c.last = false, nil
		m.advance(c.at - 1)
	}
	return c.settle(c.findPrevUserEntry())
}

// step advances the merge. If that may release the chunk that last aliases, it copies
// last before. Without hide nothing reads last, whose chunk may be gone already.
func (c *Cursor) step(to int) {
	in := &c.m.in[c.m.ord[0].in]
	if c.hide && (to < in.lo || to >= in.n) {
		c.setLast(c.last)
	}
	c.m.advance(to)
}

// setLast makes last a copy of key.
func (c *Cursor) setLast(key []byte) {
	c.last = append(c.buf[:0], key...)
	c.buf = c.last
}

// same reports whether two user keys are equal.
func (c *Cursor) same(a, b []byte) bool {
	if c.m.cmp.EqualIsBytewise {
		return bytes.Equal(a, b)
	}
	return c.m.cmp.Cmp(a, b) == 0
}

// usable refuses an entry of a kind or codec that is not known.
func (c *Cursor) usable(e *base.Chunk, i int) bool {
	switch k := e.Trailers[i].Kind(); {
	case !k.Known() || !k.IsPoint():
		c.stop(base.Corruptf("internal key", "unknown kind %d", k))
	case k.HasValue() && e.Codec(i) != base.CodecRaw:
		c.stop(base.Corruptf("value", "unknown codec %d", e.Codec(i)))
	case k.Expires() && e.ValEnd[i]-e.ValOff[i] < base.DeadlineLen:
		c.stop(base.NoDeadline())
	default:
		return true
	}
	return c.failed()
}

// findNextUserEntry finds the first visible entry at or after the merge's position.
//
// The versions of a key come newest first, so the first one that the reader may see decides about
// the key: a value is the answer, a tombstone or an expired value hides the key (hide, last), and
// the loop passes its older versions. Versions that are too new are passed before that, and say
// nothing about the key. Where all entries of an input are visible, as in most tables, no version
// is compared: the entries before the next one of another input are answers, as one span.
func (c *Cursor) findNextUserEntry() bool {
	m := &c.m
	dead, look := 0, c.look // entries of keys without a value that were passed over
	for len(m.ord) > 0 {
		in := &m.in[m.ord[0].in]
		e, i := &in.e, in.i
		if dead >= look {
			var gone bool
			if look, gone = c.passOver(e.Key(i), dead); gone {
				continue
			}
		}
		if c.hide && c.same(e.Key(i), c.last) {
			if !in.allVisible && !c.usable(e, i) {
				return false
			}
			if dead > 0 { // otherwise the key is the one that the move left
				dead++
			}
			c.step(i + 1)
			continue
		}
		if c.dels != nil {
			// After a turn, hidden keys that were jumped over may come before last, a visible one.
			beyond := dead > 0 || !c.hide || m.cmp.Cmp(e.Key(i), c.last) > 0
			if c.hides(in, i) {
				if beyond {
					dead++
				}
				continue
			}
		}
		if in.allVisible {
			hi := m.spanEnd(in)
			if c.dels != nil {
				hi = c.clip(e, i, hi)
			}
			c.setSpan(e, i, i, hi)
			c.past = false
			return true
		}
		if !c.usable(e, i) {
			return false
		}
		t := e.Trailers[i]
		c.passed.own = c.passed.own || in.own
		switch {
		case t.Seq() > m.seq && !in.own:
			c.passed.newer = true
			if c.again && (dead > 0 || !c.hide || m.cmp.Cmp(e.Key(i), c.last) > 0) {
				dead++
			}
			c.step(i + 1)
		case t.Kind().IsTombstone():
			dead++
			c.last, c.hide = e.Key(i), true
			c.step(i + 1)
		case !t.Kind().EndsLookup():
			return c.foldForward()
		case t.Kind() >= base.KindValueHandle:
			if c.showPlaced(e, i, m.ord[0].in) {
				m.advance(i + 1)
				return m.err == nil || c.failed()
			}
			if m.err != nil {
				return c.failed()
			}
			dead++
			c.passed.expired = true
			c.last, c.hide = e.Key(i), true
			c.step(i + 1)
		default:
			c.setSpan(e, i, i, i+1)
			c.past = false
			return true
		}
	}
	c.passed.extend(c)
	c.invalidate()
	return false
}

// findPrevUserEntry finds the last visible entry at or before the merge's position.
//
// The versions of a key come oldest first. The candidate is the newest visible one so
// far; it is the answer when another key, or the end, follows. A candidate that is a tombstone,
// or has expired, answers nothing: the search goes on with the other key.
//
// A chunk is valid until the merge leaves it. So a candidate that is the first entry of its chunk
// is copied into own before the merge advances. Where all entries of an input are visible, there
// are no versions to compare: the entries since the runner-up are answers, as one span.
func (c *Cursor) findPrevUserEntry() bool {
	m := &c.m
	dead, look := 0, c.look
	var cand *base.Chunk // nil: none. Its chunk is an input's or own
	var candAt int
	var candIn int32 // the source that it came from
	folding := false // cand is an operand; fold has it and what it changes
	for len(m.ord) > 0 {
		in := &m.in[m.ord[0].in]
		e, i := &in.e, in.i
		key := e.Key(i)
		if cand == nil {
			if c.hide && c.same(key, c.last) {
				if !in.allVisible && !c.usable(e, i) {
					return false
				}
				c.step(i - 1)
				continue
			}
			if dead >= look {
				var gone bool
				if look, gone = c.passOver(key, dead); gone {
					continue
				}
			}
			if c.dels != nil { // see findNextUserEntry
				beyond := dead > 0 || !c.hide || m.cmp.Cmp(key, c.last) < 0
				if c.hides(in, i) {
					if beyond {
						dead++
					}
					continue
				}
			}
			c.hide = false
			if in.allVisible {
				lo := m.spanStart(in)
				if c.dels != nil && lo <= i {
					lo = c.clipBack(e, lo, i)
				}
				if lo <= i {
					c.setSpan(e, i, lo, i+1)
					c.past = false
					return true
				}
			}
		} else if !c.same(key, c.last) {
			if !c.isGone(cand, candAt) {
				break
			}
			c.passed.expired = c.passed.expired || !cand.Trailers[candAt].Kind().IsTombstone()
			cand, folding = nil, false
			dead++
			continue
		}
		if !in.allVisible && !c.usable(e, i) {
			return false
		}
		if t := e.Trailers[i]; t.Seq() <= m.seq || in.own {
			if !t.Kind().EndsLookup() && !c.foldNewer(cand, candAt, folding, e.Value(i)) {
				return c.failed()
			}
			cand, candAt, c.last, folding = e, i, key, !t.Kind().EndsLookup()
			candIn = m.ord[0].in
			c.passed.own = c.passed.own || in.own
		} else {
			c.passed.newer = true
			if c.again && cand == nil {
				dead++
			}
		}
		if i == 0 && cand == e { // the chunk goes away
			c.keep(e, candAt)
			cand, candAt, c.last = &c.own, 0, c.own.Key(0)
		}
		m.advance(i - 1)
	}
	if cand == nil || m.err != nil || c.isGone(cand, candAt) {
		c.invalidate()
		return false
	}
	if folding {
		return c.show(c.last, false)
	}
	if cand.Trailers[candAt].Kind() >= base.KindValueHandle {
		return c.showPlaced(cand, candAt, candIn) || c.failed()
	}
	c.setSpan(cand, candAt, candAt, candAt+1)
	c.past = true
	return true
}
