package iters

import "github.com/loamdb/loam/internal/base"

// A move to a reference reads its value. The second such move in a direction reads the values of
// the references that follow in the chunk of the same source, too. Neighbours are read at once,
// the others side by side. Each source has its own values that were read ahead: twice as many each
// time, up to maxAhead bytes; half as many if moves came to less than half of the last ones,
// because newer sources have the same keys. A value that cannot be read ahead is read again when a
// move comes to it, and fails then.

// maxAhead is how many bytes of values are read ahead for a source, if one value has not more.
const maxAhead = 128 << 10

// ahead is the values that the next moves to entries of a source come to.
type ahead struct {
	batch base.ValueBatch // in the order of the moves
	at    int             // the first value of the batch that no move came to or beyond
	used  int             // values of the batch that moves came to
	buf   []byte          // of the batch
	next  int             // how many values the next batch has
	back  bool            // the direction
}

// reset forgets what was read.
func (a *ahead) reset() {
	a.batch.Reset()
	a.at, a.used, a.next = 0, 0, 1
}

// find returns the value of h if it was read ahead.
func (a *ahead) find(h base.ValueHandle) (value []byte, ok bool) {
	for i := a.at; i < len(a.batch.Values); i++ {
		if v := &a.batch.Values[i]; v.ValueHandle == h {
			a.at = i + 1
			a.used++
			return a.buf[v.From:v.To], v.To > 0
		}
	}
	return nil, false
}

// resetAhead forgets what was read ahead, before a move that is no step.
func (c *Cursor) resetAhead() {
	for i := range c.aheads {
		c.aheads[i].reset()
	}
}

// freeAhead gives up large buffers.
func (c *Cursor) freeAhead() {
	c.resetAhead()
	size := 0
	for i := range c.aheads {
		size += cap(c.aheads[i].buf)
	}
	if size > 4*maxAhead {
		c.aheads = nil
	}
}

// aheadOf is what was read ahead for a source.
func (c *Cursor) aheadOf(in int32) *ahead {
	for len(c.aheads) <= int(in) {
		c.aheads = append(c.aheads, ahead{next: 1})
	}
	a := &c.aheads[in]
	if a.back != c.m.back {
		a.reset()
		a.back = c.m.back
	}
	return a
}

// showPlaced moves the cursor to entry i of e, which is usable and of a native kind: it expires, or
// its value lies in a log. It came from source in. It reports false if the entry has expired, or,
// with m.err, if its value cannot be read. Forward, the merge is to leave the entry.
func (c *Cursor) showPlaced(e *base.Chunk, i int, in int32) bool {
	var deadline uint64
	switch e.Trailers[i].Kind() {
	case base.KindSetExpiring:
		return c.showLive(e, i)
	case base.KindExpiringHandle:
		if _, deadline, _ = base.CutDeadline(e.Value(i)); deadline <= c.now {
			return false
		}
	}
	var value []byte
	if !c.keysOnly {
		var err error
		if value, err = c.placed(e, i, in); err != nil {
			c.stop(err)
			return false
		}
	}
	key, seq := e.Key(i), e.Trailers[i].Seq() // e may be own
	c.ownBuf = append(c.ownBuf[:0], key...)
	c.makeOwn(len(key), base.MakeTrailer(seq, base.KindSet))
	c.setSpan(&c.own, 0, 0, 1)
	c.apart, c.deadline = value, deadline
	c.past, c.hide, c.last = true, false, nil
	return true
}

// placed returns the value of entry i of e, which lies in a log, until the next move.
func (c *Cursor) placed(e *base.Chunk, i int, in int32) (value []byte, err error) {
	a, handle := c.aheadOf(in), e.Trailers[i].Kind().Handle(e.Value(i))
	h, err := base.DecodeValueHandle(handle)
	if err != nil {
		return nil, err
	}
	if value, ok := a.find(h); ok {
		return value, nil
	}
	if a.used < len(a.batch.Values)/2 {
		a.next = max(a.next/4, 1) // half of what the batch had
	}
	a.batch.Reset()
	a.at, a.used = 0, 0
	if a.next > 1 && e != &c.own {
		lo, hi := c.m.in[in].lo, c.m.in[in].n
		c.wanted(a, e, i, lo, hi)
	}
	a.next = min(2*a.next, maxAhead)
	if len(a.batch.Values) > 1 {
		a.buf = c.values.ReadValues(a.buf[:0], &a.batch)
		if value, ok := a.find(h); ok {
			return value, nil
		}
	}
	a.buf, err = c.values.AppendValue(a.buf[:0], handle)
	a.batch.Reset()
	return a.buf, err
}

// wanted makes a batch of the value of entry i of e, and of those of entries [lo, hi) that the next
// moves come to.
func (c *Cursor) wanted(a *ahead, e *base.Chunk, i, lo, hi int) {
	step := 1
	if c.m.back {
		step = -1
	}
	for size := 0; i >= lo && i < hi && len(a.batch.Values) < a.next && size < maxAhead; i += step {
		if k := e.Trailers[i].Kind(); !k.Refers() || !a.batch.Add(k.Handle(e.Value(i))) {
			return
		}
		size += int(a.batch.Values[len(a.batch.Values)-1].Len)
	}
}
