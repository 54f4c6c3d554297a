package iters

import (
	"math"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/tree/empties"
)

// Empties are the known-empty ranges that a cursor uses and adds to.
type Empties interface {
	// Within returns a fact about a range that has key, which the cursor may use, or nil.
	Within(key []byte) *empties.Fact
	// Edge is Within of a range that has all keys before its end, or with end, all behind its
	// beginning.
	Edge(end bool) *empties.Fact
	// Count says that a move passed over so many entries one by one, and over known-empty ranges.
	Count(dead, ranges int)
	// Passed says that the cursor saw no visible entry in r, and passed over dead others. newer and
	// expired say that some of these are newer than the cursor's sequence number, or have expired.
	// r is valid during the call.
	Passed(r *empties.Range, dead int, newer, expired bool)
}

// A cursor asks for a known-empty range after it passed over firstLook entries in a move, and then
// each time that it passed over as many again, but at most every maxLook entries.
const maxLook = 64

// minDead is how many entries a known-empty range spares at least. Builds that check invariants
// have many small ones.
var firstLook, minDead = looks()

func looks() (first, dead int) {
	if invariants.Enabled {
		return 1, 2
	}
	return 4, 64
}

// leastSought is minDead for a cursor that only looks for known-empty ranges, see Options.Most, and
// for a range that extends a known one: the next readers of a queue pass over the same entries
// again until there are so many.
const leastSought = 16

// passing is what a move passed over: the entries of keys without a value from a key to another.
type passing struct {
	empties.Range
	active bool // the range has begun
	// The move begins at from, which it may show if it runs forward; nil: with edge at the first
	// of all keys, or the last one, otherwise somewhere before the range.
	from []byte
	edge bool
	// The move passed over an entry that later readers may see, or one that its reader's own
	// writes hide. Others learn nothing from that.
	newer, own bool
	expired    bool // over a value that had expired
	dead       int  // entries, less those in known-empty ranges
	base       int  // dead after the last such range
	jumps      int  // known-empty ranges
}

// begin begins a move from an entry.
func (p *passing) begin() {
	p.newer, p.own, p.expired, p.from, p.edge = false, false, false, nil, false
}

// enter begins a move from key, or with edge from the first or last of all keys. If the move begins
// in a known-empty range, enter returns the range, and seekEnd is next. A cursor with the reader's
// own writes does not enter: these may be in the range.
func (c *Cursor) enter(key []byte, edge, back bool) *empties.Fact {
	p := &c.passed
	p.begin()
	c.hide, c.last = false, nil
	if c.empties == nil {
		return nil
	}
	if p.edge = edge; !c.Valid() { // otherwise key may alias a chunk
		p.from = key
	}
	if len(c.m.in) > 0 && c.m.in[0].own {
		return nil
	}
	var f *empties.Fact
	if edge {
		f = c.empties.Edge(back)
	} else {
		f = c.empties.Within(key)
	}
	if f == nil || back && !edge && !f.FromStart && c.m.cmp.Cmp(f.Lo, key) >= 0 {
		return nil
	}
	c.m.back, p.from = back, key // is copied
	c.startPass(nil)
	c.jumpOver(f)
	return f
}

// seekEnd positions the merge behind f, which enter returned, or before it.
func (c *Cursor) seekEnd(f *empties.Fact) {
	m := &c.m
	switch {
	case m.back && (f.FromStart || m.lower != nil && m.cmp.Cmp(f.Lo, m.lower) < 0):
		m.exhaust(true)
	case m.back:
		m.seekLT(f.Lo, 0)
	case f.ToEnd || m.upper != nil && m.cmp.Cmp(f.Hi, m.upper) >= 0:
		m.exhaust(false)
	default:
		m.seekGE(f.Hi, base.MakeTrailer(m.seq, base.KindForSeek))
	}
}

// startPass begins the range that the move may learn: where the move began, or else at key. Whether
// key is visible is not decided yet. If it is, the range ends where it begins.
func (c *Cursor) startPass(key []byte) {
	p := &c.passed
	p.active, p.base, p.dead, p.jumps = true, 0, 0, 0
	open := false
	if p.from != nil || p.edge {
		key, open = p.from, c.m.back
	}
	if c.m.back {
		p.Hi, p.HiOpen, p.ToEnd = append(p.Hi[:0], key...), open, p.edge
	} else {
		p.Lo, p.LoOpen, p.FromStart = append(p.Lo[:0], key...), open, p.edge
	}
}

// jumpOver extends passed up to the end of a known-empty range.
func (c *Cursor) jumpOver(f *empties.Fact) {
	p := &c.passed
	p.jumps++
	p.expired = p.expired || f.Now > 0
	if c.m.back {
		c.setEnd(f.Lo, f.LoOpen)
		p.FromStart = f.FromStart
	} else {
		c.setEnd(f.Hi, f.HiOpen)
		p.ToEnd = f.ToEnd
	}
}

func (c *Cursor) setEmpties(e Empties) {
	c.empties, c.look, c.passed.active = e, math.MaxInt, false
	if e != nil {
		c.look = firstLook
	}
}

// passOver is called in a move that has passed over dead entries, and is about to look at one of
// key. If key is in a known-empty range the move goes to the end of that one. look is for how many
// entries the move is to call it again. jumped: the merge is elsewhere, or has ended because the
// move passed over so many entries as it may.
//
// key is the end of passed until the move finds something else.
func (c *Cursor) passOver(key []byte, dead int) (look int, jumped bool) {
	p := &c.passed
	if !p.active {
		c.startPass(key)
	}
	p.dead = dead
	f := c.empties.Within(key)
	if f == nil {
		c.setEnd(key, true)
		if dead-p.base >= c.most { // all up to key is known to be empty
			c.m.ord = c.m.ord[:0]
			return dead, true
		}
		return dead + min(max(dead-p.base, firstLook), maxLook), false
	}
	p.base = dead
	c.jumpOver(f)
	if !c.m.back && c.hide { // the chunk that last aliases may go
		c.setLast(c.last)
	}
	if c.m.back {
		c.m.leap(f.Lo, f.FromStart)
	} else {
		c.m.leap(f.Hi, f.ToEnd)
	}
	return dead + firstLook, true
}

// setEnd makes key the end of what the move passed over.
func (c *Cursor) setEnd(key []byte, open bool) {
	p := &c.passed
	if c.m.back {
		p.Lo, p.LoOpen, p.FromStart = append(p.Lo[:0], key...), open, false
	} else {
		p.Hi, p.HiOpen, p.ToEnd = append(p.Hi[:0], key...), open, false
	}
}

// extend is called at the end of all entries, forward: the last key was passed over, too.
func (p *passing) extend(c *Cursor) {
	if p.active && c.hide && !p.ToEnd && c.m.cmp.Cmp(c.last, p.Hi) >= 0 {
		p.Hi, p.HiOpen = append(p.Hi[:0], c.last...), false
	}
}

// settle ends a move that found an entry, or none. What it passed over is empty for readers to
// come, too, up to the entry.
func (c *Cursor) settle(found bool) bool {
	if c.passed.active {
		c.settlePass(found)
	}
	return found
}

func (c *Cursor) settlePass(found bool) {
	p := &c.passed
	p.active = false
	c.empties.Count(p.dead, p.jumps)
	least := minDead
	if c.most < math.MaxInt || p.jumps == 1 {
		least = min(least, leastSought)
	}
	// Several ranges become one: the next reader needs one seek.
	if p.own || c.m.err != nil || p.dead < least && p.jumps < 2 {
		return
	}
	if found {
		c.setEnd(c.Key(), true)
	}
	if !p.Empty(c.m.cmp) {
		c.empties.Passed(&p.Range, p.dead, p.newer, p.expired)
	}
}

// leap moves the inputs to their first entries at or after key, or running backward to the last
// ones at or before it, but for the reader's own writes. The present entries are before key in the
// direction of the merge. all: there is no such key.
func (m *Merge) leap(key []byte, all bool) {
	out := all || !m.back && m.upper != nil && m.cmp.Cmp(key, m.upper) >= 0 ||
		m.back && m.lower != nil && m.cmp.Cmp(key, m.lower) < 0
	for j := range m.in {
		in := &m.in[j]
		if in.own {
			m.leapt = m.leapt || in.live
		}
		if !in.live || in.own {
			continue
		}
		e := &in.e
		switch {
		case out:
			in.live = false
		case m.back:
			if m.cmp.Cmp(e.Key(in.lo), key) > 0 {
				i, err := in.src.SeekLT(key, 0, e)
				m.position(in, i, err)
			} else {
				for low := in.lo; in.i > low; { // the last entry that is not behind key
					if h := int(uint(low+in.i+1) >> 1); m.cmp.Cmp(e.Key(h), key) <= 0 {
						low = h
					} else {
						in.i = h - 1
					}
				}
			}
		case m.cmp.Cmp(e.Key(in.n-1), key) >= 0:
			in.i = lowerBound(m.cmp, e, in.i, in.n, key)
		default:
			i, err := in.src.SeekGE(key, base.MakeTrailer(m.seq, base.KindForSeek), e)
			m.position(in, i, err)
		}
	}
	m.build()
}

// exhaust leaves no entry in a direction.
func (m *Merge) exhaust(back bool) {
	m.direct(back)
	m.leapt = false
	for j := range m.in {
		m.in[j].live = false
	}
	m.build()
}
