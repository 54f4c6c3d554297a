package memtable

import "github.com/loamdb/loam/internal/base"

// links is what an entry says of its key's older entries; zero for none.
type links struct{ older, jump, depth uint32 }

// links of the entry at off; zero when it is its key's oldest.
func (m *memory) links(off uint32) links {
	if m.u64(off)&linked == 0 {
		return links{}
	}
	return links{m.u32(off + 16), m.u32(off + 20), m.u32(off + 24)}
}

// linksTo are the links of an entry that goes before the one at old. The jumps
// form a skew-binary list (Myers, "An applicative random-access stack", 1983).
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

// olderThan finds the newest entry behind off with a sequence of at most seq,
// given that sequences only fall along the chain; 0 for none.
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

// newestOf looks through the whole chain of a table whose sequences do not only
// rise.
func (m *memory) newestOf(off uint32, seq base.SeqNum) uint32 {
	best, bestTrailer := uint32(0), base.Trailer(0)
	for ; off != 0; off = m.links(off).older {
		if t := m.trailer(off); t.Seq() <= seq && (best == 0 || t > bestTrailer) {
			best, bestTrailer = off, t
		}
	}
	return best
}
