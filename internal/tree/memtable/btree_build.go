package memtable

import (
	"cmp"
	"runtime"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/prefix"
)

// head is a sorted array in a merge; its entries from at on are still to come.
type head struct {
	r  *sortedArray
	w  prefix.Widening
	at int
}

func (h *head) ab(i int) uint64 { return h.w.Apply(h.r.pairs[i].Ab) }

// candidate is the next entry of an array that is not exhausted.
type candidate struct {
	ab    uint64
	off   uint32
	array int32 // index in heads
}

// merger produces the entries of sorted arrays in order. prefix is what all of
// their keys share, and abbreviations are after that.
type merger struct {
	cmp    *base.Comparer
	mem    *memory
	heads  []head
	live   []candidate
	prefix prefix.Prefix
	keyLen prefix.Length
	last   candidate
	rising bool // of two entries of a key, the newer one has the greater offset
	exact  bool // equal abbreviations mean equal keys
}

func newMerger(m *MemTable, arrays []*sortedArray) *merger {
	g := &merger{cmp: m.cmp, mem: m.mem.Load(), rising: !m.disorder.Load(),
		prefix: arrays[0].prefix, keyLen: arrays[0].keyLen}
	for _, r := range arrays[1:] {
		g.prefix = g.prefix.With(r.prefix)
		if r.keyLen != g.keyLen {
			g.keyLen = prefix.Mixed
		}
	}
	g.exact = g.keyLen.Exact(m.cmp, len(g.prefix))
	for i, r := range arrays {
		h := head{r: r, w: r.prefix.Widen(prefix.Flip(m.cmp), len(g.prefix))}
		g.heads = append(g.heads, h)
		g.live = append(g.live, candidate{h.ab(0), r.pairs[0].Off, int32(i)})
	}
	return g
}

// tie compares two entries with equal abbreviations.
func (g *merger) tie(x, y uint32) int {
	if !g.exact {
		if r := g.cmp.Cmp(g.mem.key(x), g.mem.key(y)); r != 0 {
			return r
		}
	}
	if g.rising {
		return cmp.Compare(y, x)
	}
	return cmp.Compare(g.mem.trailer(y), g.mem.trailer(x))
}

// sameKey compares the user keys of two entries with equal abbreviations.
func (g *merger) sameKey(x, y uint32) bool {
	return g.exact || g.cmp.Cmp(g.mem.key(x), g.mem.key(y)) == 0
}

// next moves up to limit entries into x, which is empty. Entries of one array that
// precede those of all others are moved without comparing again.
func (g *merger) next(x *node, limit int) {
	n := 0
	for n < limit && len(g.live) > 0 {
		best, second := g.least()
		c := &g.live[best]
		h := &g.heads[c.array]
		end := min(len(h.r.pairs), h.at+limit-n)
		i, ab := h.at, c.ab
		same := h.r.pairs[i].Same
		if g.last.array != c.array {
			same = g.last.off != 0 && g.last.ab == ab && g.sameKey(g.last.off, c.off)
		}
		for {
			x.ab[n], x.offs[n] = ab, h.r.pairs[i].Off
			if same {
				x.same |= 1 << n
			}
			n++
			i++
			if i == end {
				break
			}
			same = h.r.pairs[i].Same
			if ab = h.ab(i); ab >= second && len(g.live) > 1 {
				break
			}
		}
		h.at = i
		g.last = candidate{x.ab[n-1], x.offs[n-1], c.array}
		if i == len(h.r.pairs) {
			last := len(g.live) - 1
			g.live[best] = g.live[last]
			g.live = g.live[:last]
		} else {
			c.ab, c.off = h.ab(i), h.r.pairs[i].Off
		}
	}
	x.n, x.keyLen = uint32(n), g.keyLen
	for _, off := range x.offs[:n] {
		x.newest = max(x.newest, off)
	}
	x.setPrefix(g.prefix)
}

// least returns the candidate that comes first, and the smallest abbreviation
// of the others.
func (g *merger) least() (best int, second uint64) {
	second = ^uint64(0)
	for i := 1; i < len(g.live); i++ {
		b, c := &g.live[best], &g.live[i]
		if c.ab < b.ab || c.ab == b.ab && g.tie(c.off, b.off) < 0 {
			second = min(second, b.ab)
			best = i
		} else {
			second = min(second, c.ab)
		}
	}
	return best, second
}

// build fills the tree, which has no leaf yet, from sorted arrays, leaf by leaf from
// left to right. For sealing see add. A comparer that panics leaves the tree unusable.
// REQUIRES: mu is held.
func (o *lazyOrder) build(arrays []*sortedArray, sealing bool) error {
	total, perLeaf := 0, liveLeaf
	if sealing {
		perLeaf = fanout
	}
	for _, r := range arrays {
		total += len(r.pairs)
	}
	if err := o.reserve(total/perLeaf + 1); err != nil {
		return err
	}
	g := newMerger(o.m, arrays)
	o.shape.Add(1)
	for o.sorted < int64(total) {
		id, x := o.leaves.take()
		x.reset()
		g.next(x, perLeaf)
		x.lengthenPrefix(g.cmp, g.mem)
		o.sorted += int64(x.n)
		if x.prev = id - 1; id == firstLeaf {
			o.root = id
		} else {
			o.leaves.at(id - 1).next = id
			o.attach(o.rightmost(), x.offs[0], id)
		}
		if sealing && id%yieldLeaves == 0 {
			runtime.Gosched()
		}
	}
	o.last.Store(o.leaves.n)
	o.shape.Add(1)
	return nil
}

// yieldLeaves are built in 160 us or so, then others get the processor. Yielding more
// often starves the build when other goroutines use their full 10 ms slices.
const yieldLeaves = 256

// rightmost is the path to the last leaf, see leafFor.
func (o *lazyOrder) rightmost() []step {
	path := make([]step, o.height, maxIn)
	id := o.root
	for i := range path {
		b := o.branches.at(id)
		path[len(path)-1-i] = step{id, int(b.n) - 1}
		id = b.kids[b.n-1]
	}
	return path
}
