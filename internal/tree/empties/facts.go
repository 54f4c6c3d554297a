package empties

import (
	"math/bits"
	"slices"

	"github.com/loamdb/loam/internal/base"
)

// maxChunk is how many facts a chunk has at most. A change copies one, and the list of chunks.
const maxChunk = 64

// facts are facts in ascending order, disjoint. They are immutable. So are their chunks, which have
// one fact at least.
type facts struct {
	chunks [][]*Fact
	n      int // facts, and those that they were made of
	bytes  int // of their keys
	// floor is the largest worth of a fact that went for another one; hand is which chunk the next
	// one is of.
	floor, hand int
	small       bool // the bounds are a part, see smallPart
}

// smallPart is which part of the bounds those of a Set are that Add fills: there may be many.
const smallPart = 128

// place is where a fact is in facts: in a chunk, or behind the last one.
type place struct{ chunk, i int }

func (l *facts) at(p place) *Fact { return l.chunks[p.chunk][p.i] }

func (l *facts) next(p place) place {
	if p.i++; p.i == len(l.chunks[p.chunk]) {
		return place{p.chunk + 1, 0}
	}
	return p
}

// before is the place of the fact before p, if there is one.
func (l *facts) before(p place) (place, bool) {
	switch {
	case p.i > 0:
		return place{p.chunk, p.i - 1}, true
	case p.chunk > 0:
		return place{p.chunk - 1, len(l.chunks[p.chunk-1]) - 1}, true
	}
	return p, false
}

func (l *facts) len() (n int) {
	for _, c := range l.chunks {
		n += len(c)
	}
	return n
}

// search is the place of the first fact that does not end before key; found: it has key.
func (l *facts) search(cmp *base.Comparer, key []byte) (p place, found bool) {
	j := len(l.chunks)
	last := func(c int) *Fact { return l.chunks[c][len(l.chunks[c])-1] }
	if j == 0 || last(j-1).endsBefore(cmp, key) { // most queues are written at their ends
		return place{j, 0}, false
	}
	for p.chunk < j {
		if h := int(uint(p.chunk+j) >> 1); last(h).endsBefore(cmp, key) {
			p.chunk = h + 1
		} else {
			j = h
		}
	}
	c := l.chunks[p.chunk]
	for j = len(c) - 1; p.i < j; {
		if h := int(uint(p.i+j) >> 1); c[h].endsBefore(cmp, key) {
			p.i = h + 1
		} else {
			j = h
		}
	}
	return p, !c[p.i].startsBehind(cmp, key)
}

// replace is l with other facts in the place of those from one place up to another.
func (l *facts) replace(from, to place, with ...*Fact) facts {
	r := *l
	for p := from; p != to && p.chunk < len(l.chunks); p = l.next(p) {
		r.count(l.at(p), -1)
		if p.chunk == to.chunk && p.i+1 == to.i {
			break
		}
	}
	var fresh []*Fact
	end := min(to.chunk+1, len(l.chunks)) // of the chunks that change
	if from.chunk < len(l.chunks) {
		fresh = append(fresh, l.chunks[from.chunk][:from.i]...)
	} else if from.chunk > 0 { // they come to the end of the last chunk
		from.chunk--
		fresh = append(fresh, l.chunks[from.chunk]...)
	}
	for _, f := range with {
		r.count(f, 1)
	}
	fresh = append(fresh, with...)
	if to.chunk < len(l.chunks) {
		fresh = append(fresh, l.chunks[to.chunk][to.i:]...)
	}
	if n := len(fresh); n > 0 && n < maxChunk/4 && end < len(l.chunks) &&
		n+len(l.chunks[end]) <= maxChunk/2 {
		fresh = append(fresh, l.chunks[end]...)
		end++
	}
	var chunks [][]*Fact
	for n := len(fresh); n > maxChunk; n = len(fresh) {
		chunks, fresh = append(chunks, fresh[:n/2:n/2]), fresh[n/2:]
	}
	if len(fresh) > 0 {
		chunks = append(chunks, fresh)
	}
	r.chunks = slices.Concat(l.chunks[:from.chunk], chunks, l.chunks[end:])
	for r.tooLarge() {
		r = r.evict()
	}
	return r
}

func (l *facts) tooLarge() bool {
	if l.small {
		return l.n > maxFacts/smallPart || l.bytes > maxBytes/smallPart
	}
	return l.n > maxFacts || l.bytes > maxBytes
}

// The bounds, which tests lower.
var maxFacts, maxBytes = MaxFacts, MaxBytes

// count adds f and what it was made of to the sums, or takes them off.
func (l *facts) count(f *Fact, sign int) {
	l.n += sign
	l.bytes += sign * (len(f.Lo) + len(f.Hi))
	for _, w := range f.was {
		l.n += sign
		l.bytes += sign * (len(w.Lo) + len(w.Hi))
	}
}

// evictFrom is how many chunks a fact is chosen from that goes.
const evictFrom = 4

// evict is l without the fact of some chunks that is worth least.
func (l *facts) evict() facts {
	least := place{chunk: l.hand % len(l.chunks)}
	for k := range min(evictFrom, len(l.chunks)) {
		c := (l.hand + k) % len(l.chunks)
		for i, f := range l.chunks[c] {
			if f.worth < l.at(least).worth {
				least = place{c, i}
			}
		}
	}
	f, next := l.at(least), *l
	next.count(f, -1)
	next.floor, next.hand = max(l.floor, f.worth), l.hand+evictFrom
	c := slices.Delete(slices.Clone(l.chunks[least.chunk]), least.i, least.i+1)
	next.chunks = slices.Clone(l.chunks)
	if next.chunks[least.chunk] = c; len(c) == 0 {
		next.chunks = slices.Delete(next.chunks, least.chunk, least.chunk+1)
	}
	return next
}

// add joins f to the facts that it meets.
func (l *facts) add(cmp *base.Comparer, f *Fact) facts {
	joined := *f
	var from place
	if !f.FromStart {
		from, _ = l.search(cmp, f.Lo)
	}
	if p, ok := l.before(from); ok && l.at(p).meets(cmp, &f.Range) {
		from = p
	}
	to, most := from, f
	for to.chunk < len(l.chunks) && l.at(to).meets(cmp, &f.Range) {
		o := l.at(to)
		joined.join(cmp, o)
		if o.Dead > most.Dead || most == f {
			most = o
		}
		to = l.next(to)
	}
	joined.was = nil
	if most != f {
		joined.remember(most)
	}
	joined.worth = l.floor + joined.Dead
	return l.replace(from, to, &joined)
}

// join makes f the union with o, which meets it. It holds where both do.
func (f *Fact) join(cmp *base.Comparer, o *Fact) {
	if f.startsAfter(cmp, &o.Range) {
		f.Lo, f.LoOpen, f.FromStart, f.loCut = o.Lo, o.LoOpen, o.FromStart, o.loCut
	}
	if f.stopsBefore(cmp, &o.Range) {
		f.Hi, f.HiOpen, f.ToEnd, f.hiCut = o.Hi, o.HiOpen, o.ToEnd, o.hiCut
	}
	f.State, f.Seq, f.Now = max(f.State, o.State), max(f.Seq, o.Seq), max(f.Now, o.Now)
	f.Dead += o.Dead
}

// A reader that began before the last join cannot use the joined fact, so earlier facts that spare
// many entries are kept for it: one for each order of magnitude of their age in sequence numbers. A
// reader then passes over at most some times as many entries as were written since it began.
const (
	manyDead = 512
	minAge   = 64
)

// remember keeps o, which f was made of, and what o remembers, for readers of earlier views.
func (f *Fact) remember(o *Fact) {
	add := func(w *Fact) {
		if w.View == f.View || w.Dead < manyDead {
			return
		}
		if n := len(f.was); n > 0 && f.age(f.was[n-1]) == f.age(w) {
			return // the older one of an age stays until it is of the next one
		}
		if w.was != nil { // w is for itself
			alone := *w
			alone.was = nil
			w = &alone
		}
		f.was = append(f.was, w)
	}
	for _, w := range o.was {
		add(w)
	}
	add(o)
}

// age is the order of magnitude of the sequence numbers from those of w to those of f.
func (f *Fact) age(w *Fact) int { return bits.Len64(uint64(f.Seq-w.Seq) / minAge) }
