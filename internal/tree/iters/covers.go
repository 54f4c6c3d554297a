package iters

import (
	"math"
	"sort"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
)

// RangeDels are range tombstones of one source of a Cursor: either a List, or those of tables
// that ascend without overlap. They cover keys of that source and of all behind it, which are
// older.
type RangeDels struct {
	Source int // its index
	List   *rangedel.List
	Files  []*manifest.FileMeta
	Own    bool // all of List is visible, whatever sequence number is read at
}

// covers tells which entries range tombstones hide. It looks at one span of keys at a time,
// for all of which the same holds, so that most answers cost one or two comparisons. A table
// is opened when a key within its bounds is first asked for.
type covers struct {
	cmp  *base.Comparer
	seq  base.SeqNum
	open func(*manifest.FileMeta) (*rangedel.List, error)
	runs []coverRun

	// The span asked for last, the intersection of those of the runs.
	any bool
	rangedel.Span
	source int // the first source with a tombstone over the span; noSource without any
}

const noSource = math.MaxInt

// coverRun is a RangeDels with the span that was asked for last.
type coverRun struct {
	RangeDels
	any  bool
	span rangedel.Span
	list *rangedel.List // of Files[file], once it was asked for
	file int
}

func newCovers(cmp *base.Comparer, o *Options) *covers {
	d := &covers{cmp: cmp, seq: o.Seq, open: o.OpenRangeDels,
		runs: make([]coverRun, len(o.RangeDels))}
	for i := range o.RangeDels {
		d.runs[i].RangeDels = o.RangeDels[i]
	}
	return d
}

func within(cmp *base.Comparer, s *rangedel.Span, key []byte) bool {
	return (s.Limit == nil || cmp.Cmp(key, s.Limit) < 0) &&
		(s.Start == nil || cmp.Cmp(s.Start, key) <= 0)
}

// at makes the span with key the present one.
func (d *covers) at(key []byte) error {
	if d.any && within(d.cmp, &d.Span, key) {
		return nil
	}
	for i := range d.runs {
		r := &d.runs[i]
		if r.any && within(d.cmp, &r.span, key) {
			continue
		}
		if err := r.at(d, key, false); err != nil {
			d.any = false
			return err
		}
	}
	d.intersect()
	return nil
}

func (d *covers) intersect() {
	d.any, d.source, d.Span = true, noSource, rangedel.Span{}
	for i := range d.runs {
		r := &d.runs[i]
		if s := r.span.Start; s != nil && (d.Start == nil || d.cmp.Cmp(s, d.Start) > 0) {
			d.Start = s
		}
		if s := r.span.Limit; s != nil && (d.Limit == nil || d.cmp.Cmp(s, d.Limit) < 0) {
			d.Limit = s
		}
		if r.span.Seq > 0 {
			d.Seq, d.source = max(d.Seq, r.span.Seq), min(d.source, r.Source)
		}
	}
}

// extent returns where the covered keys end that begin with the present span, towards larger or,
// with back, smaller keys: the sources from source on have no visible ones among them. bound, nil
// for none, is how far the answer matters. REQUIRES: the present span is covered so.
func (d *covers) extent(source int, back bool, bound []byte) (to []byte, err error) {
	to = d.Limit
	if back {
		to = d.Start
	}
	further := func(a, b []byte) bool {
		c := d.cmp.Cmp(a, b)
		return c > 0 && !back || c < 0 && back
	}
	for bound == nil || further(bound, to) {
		var next []byte
		for i := range d.runs {
			r := &d.runs[i]
			if r.Source >= source {
				continue
			}
			key, err := r.covered(d, to, back)
			if err != nil {
				return nil, err
			}
			if key != nil && (next == nil || further(key, next)) {
				next = key
			}
		}
		if next == nil {
			break
		}
		to = next
	}
	return to, nil
}

// covered is a key up to which the run covers all keys from key on, or with back, from those just
// before key on; nil if it does not cover those.
func (r *coverRun) covered(d *covers, key []byte, back bool) ([]byte, error) {
	list, seq := r.List, r.seq(d)
	if list == nil {
		if err := r.at(d, key, back); err != nil || r.span.Seq == 0 {
			return nil, err
		}
		list = r.list
	}
	if back {
		return list.CoveredFrom(key, seq), nil
	}
	return list.CoveredTo(key, seq), nil
}

// seq is the sequence number that List is read at.
func (r *coverRun) seq(d *covers) base.SeqNum {
	if r.Own {
		return base.MaxSeqNum
	}
	return d.seq
}

// at makes the run's span that with key, or with back, with the keys just before key.
func (r *coverRun) at(d *covers, key []byte, back bool) error {
	spanAt := (*rangedel.List).SpanAt
	if back {
		spanAt = (*rangedel.List).SpanBefore
	}
	if r.List != nil {
		r.span, r.any = spanAt(r.List, key, r.seq(d)), true
		return nil
	}
	i := sort.Search(len(r.Files), func(i int) bool {
		if back {
			return d.cmp.Cmp(r.Files[i].Largest.User, key) >= 0
		}
		return !r.Files[i].EndsBefore(d.cmp, key)
	})
	if i < len(r.Files) {
		if c := d.cmp.Cmp(r.Files[i].Smallest.User, key); c < 0 || c == 0 && !back {
			list, err := r.load(d, i)
			if err == nil {
				r.of(i, spanAt(list, key, d.seq))
			}
			return err
		}
	}
	r.gap(i)
	return nil
}

// gap makes the run's span that before file i. No tombstone of a file covers its largest key
// or one behind it.
func (r *coverRun) gap(i int) {
	r.any, r.span = true, rangedel.Span{}
	if i > 0 {
		r.span.Start = r.Files[i-1].Largest.User
	}
	if i < len(r.Files) {
		r.span.Limit = r.Files[i].Smallest.User
	}
}

// of makes the run's span one of file i.
func (r *coverRun) of(i int, s rangedel.Span) {
	if s.Start == nil {
		s.Start = r.Files[i].Smallest.User
	}
	if s.Limit == nil && i+1 < len(r.Files) {
		s.Limit = r.Files[i+1].Smallest.User
	}
	r.any, r.span = true, s
}

func (r *coverRun) load(d *covers, i int) (*rangedel.List, error) {
	if r.list == nil || r.file != i {
		r.any, r.list = false, nil
		list, err := d.open(r.Files[i])
		if err != nil {
			return nil, err
		}
		r.list, r.file = list, i
	}
	return r.list, nil
}

// hides reports whether a range tombstone hides entry i of the merge's first input, or whether
// finding that out failed. It has then moved on: past all that is hidden with the entry where
// the tombstone is of a newer source, by one seek.
func (c *Cursor) hides(in *input, i int) bool {
	d, m := c.dels, &c.m
	if err := d.at(in.e.Key(i)); err != nil {
		c.stop(err)
		return true
	}
	source := int(m.ord[0].in)
	switch {
	case d.source > source:
		return false
	case d.source < source:
		c.jump(in, source)
		return true
	case in.e.Trailers[i].Seq() >= d.Seq:
		return false
	case m.back:
		c.passBack(in, i)
	default:
		c.pass(in, i)
	}
	return true
}

// skipFrom is how many entries of a chunk are passed one by one before its source is asked to
// leave out more: that takes it as long as some ten entries.
const skipFrom = 32

// pass moves the merge's first input past entry i and those behind it in its chunk that
// tombstones of the same source hide, too.
func (c *Cursor) pass(in *input, i int) {
	d, e := c.dels, &in.e
	n := in.n
	if d.Limit != nil && d.cmp.Cmp(e.Key(n-1), d.Limit) >= 0 {
		n = lowerBound(d.cmp, e, i+1, n, d.Limit)
	}
	to := i + 1
	for to < n && e.Trailers[to].Seq() < d.Seq {
		to++
	}
	if to == e.Len() && to-i >= skipFrom && d.Limit != nil {
		if s, ok := in.src.(base.Skipper); ok {
			s.Skip(d.Limit, d.Seq)
		}
	}
	c.step(to)
}

// passBack is pass towards smaller keys.
func (c *Cursor) passBack(in *input, i int) {
	d, e := c.dels, &in.e
	lo := in.lo
	if d.Start != nil && d.cmp.Cmp(e.Key(lo), d.Start) < 0 {
		lo = lowerBound(d.cmp, e, lo, i, d.Start)
	}
	to := i - 1
	for to >= lo && e.Trailers[to].Seq() < d.Seq {
		to--
	}
	c.step(to)
}

// jump moves the merge's first input past the keys that are covered from its present one on.
func (c *Cursor) jump(in *input, source int) {
	d, m := c.dels, &c.m
	if c.hide { // the chunk that last aliases may go
		c.setLast(c.last)
	}
	bound := m.upper
	if m.back {
		bound = m.lower
	}
	key, err := d.extent(source, m.back, bound)
	if err != nil {
		c.stop(err)
		return
	}
	m.jump(in, key)
}

// stop ends a move that failed.
func (c *Cursor) stop(err error) {
	c.m.fail(err)
	c.m.ord = c.m.ord[:0]
}

// clip is the end of a span of answers from entry i of the merge's first input on, which is not
// hidden, of those up to hi: all in the present span of tombstones.
func (c *Cursor) clip(e *base.Chunk, i, hi int) int {
	d := c.dels
	if d.source == int(c.m.ord[0].in) {
		return i + 1 // other entries may be hidden
	}
	if d.Limit == nil {
		return hi
	}
	return lowerBound(d.cmp, e, i+1, hi, d.Limit)
}

// clipBack is the start of a span of answers up to entry i, of those from lo on.
func (c *Cursor) clipBack(e *base.Chunk, lo, i int) int {
	d := c.dels
	if d.source == int(c.m.ord[0].in) {
		return i + 1 // none: other entries of the key may be hidden
	}
	if d.Start == nil {
		return lo
	}
	return lowerBound(d.cmp, e, lo, i, d.Start)
}

// jump moves the first input to its first entry at or after key, or running backward to the
// last one before it; a nil key is behind all entries, or before them.
func (m *Merge) jump(in *input, key []byte) {
	e := &in.e
	switch {
	case key == nil || !m.back && m.upper != nil && m.cmp.Cmp(key, m.upper) >= 0 || m.back &&
		m.lower != nil && m.cmp.Cmp(key, m.lower) <= 0:
		in.live = false
		m.peekAt = -1
		m.ord = m.ord[:copy(m.ord, m.ord[1:])]
		return
	case !m.back && m.cmp.Cmp(e.Key(in.n-1), key) >= 0:
		m.advance(lowerBound(m.cmp, e, in.i, in.n, key))
		return
	case m.back && m.cmp.Cmp(e.Key(in.lo), key) < 0:
		m.advance(lowerBound(m.cmp, e, in.lo, in.i, key) - 1)
		return
	}
	m.seekOne(in, key)
	m.build()
}
