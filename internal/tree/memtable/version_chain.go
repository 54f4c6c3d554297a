package memtable

import "github.com/loamdb/loam/internal/base"

// links leads to older entries of the same key; zero when there are none.
type links struct{ older, jump, depth uint32 }

// links of the entry at off; zero when it is its key's oldest.
func (m *memory) links(off uint32) links {
	if m.u64(off)&linked == 0 {
		return links{}
	}
	return links{m.u32(off + 16), m.u32(off + 20), m.u32(off + 24)}
}

// linksTo is the links of a new entry whose key's newest entry so far is at old. The
// jumps form a skew-binary list (Myers, "An applicative random-access stack", 1983):
// an entry jumps as far as two equal jumps of its predecessors together, or else to
// its predecessor.
func (m *memory) linksTo(old uint32) links {
	p := m.links(old)
	l := links{older: old, jump: old, depth: p.depth + 1}
	if p.jump != 0 {
		q := m.links(p.jump)
		r := links{}
		if q.jump != 0 {
			r = m.links(q.jump)
			if p.depth-q.depth == q.depth-r.depth {
				l.jump = q.jump
			}
		}
	}
	return l
}

// olderThan finds the newest entry before the one at off, of the same key, whose
// sequence is at most seq; 0 when there is none. REQUIRES: sequences fall along the
// chain (no disorder).
func (m *memory) olderThan(off uint32, seq base.SeqNum) uint32 {
	for {
		l := m.links(off)
		if l.older == 0 {
			return 0
		}
		if m.trailer(l.jump).Seq() > seq {
			off = l.jump
			continue
		}
		if m.trailer(l.older).Seq() <= seq {
			return l.older
		}
		off = l.older
	}
}

// newestOf is olderThan, off included, for a chain in disorder: it looks at every
// entry.
func (m *memory) newestOf(off uint32, seq base.SeqNum) uint32 {
	best, bestTrailer := uint32(0), base.Trailer(0)
	for ; off != 0; off = m.links(off).older {
		if t := m.trailer(off); t.Seq() <= seq && (best == 0 || t > bestTrailer) {
			best, bestTrailer = off, t
		}
	}
	return best
}
