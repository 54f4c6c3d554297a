package memtable

import (
	"sort"

	"github.com/loamdb/loam/internal/base"
)

// What a reader at one sequence sees is merged key by key: all entries of a user
// key are passed at once, in every run, and at most one of them is produced. So
// windows begin and end between keys. Entries that are not produced are looked at
// only in runs that hold sequences above the reader's.

// forwardAt is forward for a reader at seq. It fills offs only.
func (g *merger) forwardAt(limit int, seq base.SeqNum) (n int) {
	g.beginAhead()
	for n < limit && len(g.live) > 0 {
		best, second := g.firstKey()
		c := &g.live[best]
		h := &g.heads[c.run]
		r := h.r
		if len(g.tied) > 0 {
			if off := g.passTied(best, seq); off != 0 {
				g.offs[n] = off
				n++
			}
			continue
		}
		alone := len(g.live) == 1
		i := h.hi
		for n < limit {
			end := r.groupEnd(i)
			if off := g.seen(r, i, end, seq); off != 0 {
				g.offs[n] = off
				n++
			}
			i = end
			if i == len(r.offs) || !alone && h.ab(i) >= second {
				break
			}
		}
		h.hi = i
		if i == len(r.offs) {
			g.drop(best)
		} else {
			c.ab, c.off = h.ab(i), r.offs[i]
		}
	}
	return n
}

// passTied goes past the key at which best and the tied candidates stand and
// returns what is seen of it, 0 for nothing.
func (g *merger) passTied(best int, seq base.SeqNum) (off uint32) {
	g.tied = append(g.tied, int32(best))
	done := false
	for _, k := range g.tied {
		c := &g.live[k]
		h := &g.heads[c.run]
		i := h.hi
		h.hi = h.r.groupEnd(i)
		off = g.newest(off, g.seen(h.r, i, h.hi, seq))
		if h.hi == len(h.r.offs) {
			done = true
		} else {
			c.ab, c.off = h.ab(h.hi), h.r.offs[h.hi]
		}
	}
	if done {
		for i := len(g.live) - 1; i >= 0; i-- {
			if h := &g.heads[g.live[i].run]; h.hi == len(h.r.offs) {
				g.drop(i)
			}
		}
	}
	return off
}

// firstKey returns a candidate with the smallest user key and the smallest
// abbreviation of a candidate with another key. Others with the same key are in
// tied.
func (g *merger) firstKey() (best int, second uint64) {
	g.tied = g.tied[:0]
	second = ^uint64(0)
	for i := 1; i < len(g.live); i++ {
		b, c := &g.live[best], &g.live[i]
		switch order := g.keyOrder(c, b); {
		case order > 0:
			second = min(second, c.ab)
		case order == 0:
			g.tied = append(g.tied, int32(i))
		default:
			second = min(second, b.ab)
			best = i
			g.tied = g.tied[:0]
		}
	}
	return best, second
}

// keyOrder compares user keys.
func (g *merger) keyOrder(a, b *candidate) int {
	switch {
	case a.ab < b.ab:
		return -1
	case a.ab > b.ab:
		return 1
	case g.exact:
		return 0
	}
	return g.cmp.Cmp(g.mem.key(a.off), g.mem.key(b.off))
}

// seen returns which of entries [i, j) of a run, all of one user key, a reader
// at seq sees; 0 for none.
func (g *merger) seen(r *run, i, j int, seq base.SeqNum) uint32 {
	if r.newest.Seq() <= seq || g.mem.trailer(r.offs[i]).Seq() <= seq {
		return r.offs[i]
	}
	offs := r.offs[i+1 : j]
	k := sort.Search(len(offs), func(k int) bool { return g.mem.trailer(offs[k]).Seq() <= seq })
	if k == len(offs) {
		return 0
	}
	return offs[k]
}

// newest returns the newer one of two entries of a key; 0 stands for none.
func (g *merger) newest(x, y uint32) uint32 {
	if x == 0 || y != 0 && g.newer(y, x) < 0 {
		return y
	}
	return x
}

// backwardAt is backward for a reader at seq. It fills offs only.
func (g *merger) backwardAt(limit int, seq base.SeqNum) (n int) {
	g.beginBack()
	for n < limit && len(g.live) > 0 {
		best, second := g.lastKey()
		c := &g.live[best]
		h := &g.heads[c.run]
		r := h.r
		if len(g.tied) > 0 {
			if off := g.passTiedBack(best, seq); off != 0 {
				n++
				g.offs[stretch-n] = off
			}
			continue
		}
		alone := len(g.live) == 1
		i := h.lo
		for n < limit {
			end := i
			i = r.groupStart(i - 1)
			if off := g.seen(r, i, end, seq); off != 0 {
				n++
				g.offs[stretch-n] = off
			}
			if i == 0 || !alone && h.ab(i-1) <= second {
				break
			}
		}
		h.lo = i
		if i == 0 {
			g.drop(best)
		} else {
			c.ab, c.off = h.ab(i-1), r.offs[i-1]
		}
	}
	return n
}

// passTiedBack is passTied in the other direction.
func (g *merger) passTiedBack(best int, seq base.SeqNum) (off uint32) {
	g.tied = append(g.tied, int32(best))
	done := false
	for _, k := range g.tied {
		c := &g.live[k]
		h := &g.heads[c.run]
		end := h.lo
		h.lo = h.r.groupStart(end - 1)
		off = g.newest(off, g.seen(h.r, h.lo, end, seq))
		if h.lo == 0 {
			done = true
		} else {
			c.ab, c.off = h.ab(h.lo-1), h.r.offs[h.lo-1]
		}
	}
	if done {
		for i := len(g.live) - 1; i >= 0; i-- {
			if g.heads[g.live[i].run].lo == 0 {
				g.drop(i)
			}
		}
	}
	return off
}

// lastKey is firstKey in the other direction.
func (g *merger) lastKey() (best int, second uint64) {
	g.tied = g.tied[:0]
	for i := 1; i < len(g.live); i++ {
		b, c := &g.live[best], &g.live[i]
		switch order := g.keyOrder(c, b); {
		case order < 0:
			second = max(second, c.ab)
		case order == 0:
			g.tied = append(g.tied, int32(i))
		default:
			second = max(second, b.ab)
			best = i
			g.tied = g.tied[:0]
		}
	}
	return best, second
}
