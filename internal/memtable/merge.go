package memtable

import (
	"cmp"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
)

// head is a run inside a merge with a window [lo, hi) of it: the part that the
// stretch last produced took from this run.
type head struct {
	r      *run
	w      widen
	lo, hi int
}

func (h *head) ab(i int) uint64 { return h.w.apply(h.r.ab[i]) }

// merger produces runs' entries in order, a stretch at a time, both ways.
type merger struct {
	cmp   *base.Comparer
	mem   *memory
	heads []head
	live  []candidate
	tied  []int32 // indices in live
	ab    [stretch]uint64
	offs  [stretch]uint32
	// rising: of two entries of a key the newer one lies behind in the arena.
	rising bool
	exact  bool // equal abbreviations mean equal keys
}

// candidate is the next entry of a run that is not exhausted.
type candidate struct {
	ab  uint64
	off uint32
	run int32
}

// stretch is the largest number of entries handed out at once.
const stretch = 256

// open begins a merge of runs, which share the abbreviation after the shortest
// prefix common to all, and returns that prefix.
func (g *merger) open(t *Table, runs []*run) (prefix []byte) {
	c := t.cmp
	// The runs came first: what they hold was noted in disorder before.
	g.cmp, g.mem, g.rising = c, t.mem.Load(), !t.disorder.Load()
	if len(runs) == 0 {
		return nil
	}
	prefix = runs[0].prefix
	for _, r := range runs[1:] {
		prefix = prefix[:base.SharedPrefixLen(prefix, r.prefix)]
	}
	g.exact = exact(c, keyLenOf(runs), len(prefix))
	for _, r := range runs {
		g.heads = append(g.heads, head{r: r, w: widening(c, r.prefix, len(prefix))})
	}
	return prefix
}

// keyLenOf is the length of all keys in runs, -1 when they differ.
func keyLenOf(runs []*run) int {
	n := runs[0].keyLen
	for _, r := range runs[1:] {
		if r.keyLen != n {
			return -1
		}
	}
	return n
}

// tie compares two entries with equal abbreviations.
func (g *merger) tie(x, y uint32) int {
	if !g.exact {
		if r := g.cmp.Cmp(g.mem.key(x), g.mem.key(y)); r != 0 {
			return r
		}
	}
	return g.newer(x, y)
}

// newer is below 0 when of two entries of a key x is the newer one.
func (g *merger) newer(x, y uint32) int {
	if g.rising {
		return cmp.Compare(y, x)
	}
	return cmp.Compare(g.mem.trailer(y), g.mem.trailer(x))
}

// beginAhead puts an empty window behind the present one, with the entries that
// follow as candidates.
func (g *merger) beginAhead() {
	g.live = g.live[:0]
	for i := range g.heads {
		h := &g.heads[i]
		h.lo = h.hi
		if h.hi < len(h.r.offs) {
			g.live = append(g.live, candidate{h.ab(h.hi), h.r.offs[h.hi], int32(i)})
		}
	}
}

// beginBack is beginAhead in the other direction.
func (g *merger) beginBack() {
	g.live = g.live[:0]
	for i := range g.heads {
		h := &g.heads[i]
		h.hi = h.lo
		if h.lo > 0 {
			g.live = append(g.live, candidate{h.ab(h.lo - 1), h.r.offs[h.lo-1], int32(i)})
		}
	}
}

// forward produces up to limit entries after the window into ab[:n], offs[:n].
func (g *merger) forward(limit int) (n int) {
	g.beginAhead()
	for n < limit && len(g.live) > 0 {
		best, second := g.least()
		c := &g.live[best]
		h := &g.heads[c.run]
		end := min(len(h.r.offs), h.hi+limit-n)
		i, ab := h.hi, c.ab
		for {
			g.ab[n], g.offs[n] = ab, h.r.offs[i]
			n++
			i++
			if i == end {
				break
			}
			if ab = h.ab(i); ab >= second && len(g.live) > 1 {
				break
			}
		}
		h.hi = i
		if i == len(h.r.offs) {
			g.drop(best)
		} else if n < limit {
			c.ab, c.off = h.ab(i), h.r.offs[i]
		}
	}
	return n
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

// backward produces up to limit entries before the window into the ends of ab
// and offs.
func (g *merger) backward(limit int) (n int) {
	g.beginBack()
	for n < limit && len(g.live) > 0 {
		best, second := g.greatest()
		c := &g.live[best]
		h := &g.heads[c.run]
		end := max(0, h.lo-(limit-n))
		i, ab := h.lo, c.ab
		for {
			i--
			n++
			g.ab[stretch-n], g.offs[stretch-n] = ab, h.r.offs[i]
			if i == end {
				break
			}
			if ab = h.ab(i - 1); ab <= second && len(g.live) > 1 {
				break
			}
		}
		h.lo = i
		if i == 0 {
			g.drop(best)
		} else if n < limit {
			c.ab, c.off = h.ab(i-1), h.r.offs[i-1]
		}
	}
	return n
}

// greatest returns the candidate that comes last, and the largest abbreviation
// of the others.
func (g *merger) greatest() (best int, second uint64) {
	for i := 1; i < len(g.live); i++ {
		b, c := &g.live[best], &g.live[i]
		if c.ab > b.ab || c.ab == b.ab && g.tie(c.off, b.off) > 0 {
			second = max(second, b.ab)
			best = i
		} else {
			second = max(second, c.ab)
		}
	}
	return best, second
}

func (g *merger) drop(i int) {
	last := len(g.live) - 1
	g.live[i] = g.live[last]
	g.live = g.live[:last]
}

// repeats reports whether a user key stands twice in ab[from:to], or its first
// one also before the window.
func (g *merger) repeats(from, to int) bool {
	if len(g.heads) == 1 && g.heads[0].r.plain {
		return false
	}
	for i := from + 1; i < to; i++ {
		if g.ab[i] == g.ab[i-1] && g.sameKey(g.offs[i], g.offs[i-1]) {
			return true
		}
	}
	for i := range g.heads {
		h := &g.heads[i]
		if h.lo > 0 && h.ab(h.lo-1) == g.ab[from] && g.sameKey(h.r.offs[h.lo-1], g.offs[from]) {
			return true
		}
	}
	return false
}

// sameKey compares the user keys of two entries with equal abbreviations.
func (g *merger) sameKey(x, y uint32) bool {
	return g.exact || g.cmp.Cmp(g.mem.key(x), g.mem.key(y)) == 0
}

var mergers = sync.Pool{New: func() any { return new(merger) }}

func (g *merger) put() {
	clear(g.heads)
	g.heads, g.live, g.mem = g.heads[:0], g.live[:0], nil
	mergers.Put(g)
}

// noteSame sets same[i].
func (r *run) noteSame(g *merger, i int) {
	r.same[i] = 0
	if r.ab[i] == r.ab[i-1] && g.sameKey(r.offs[i], r.offs[i-1]) {
		r.same[i], r.plain = 1, false
	}
}

// beginRun opens a merge of runs into one, and makes that.
func (g *merger) beginRun(t *Table, runs []*run) (out *run, err error) {
	total := 0
	for _, r := range runs {
		total += len(r.offs)
	}
	prefix := g.open(t, runs)
	if out, err = newRun(total, &t.order.held); err != nil {
		return nil, err
	}
	out.setPrefix(prefix)
	out.same[0], out.keyLen = 0, keyLenOf(runs)
	for _, r := range runs {
		out.plain = out.plain && r.plain
		out.newest = max(out.newest, r.newest)
	}
	return out, nil
}

// insertRun makes one run of a and b, which is small against a: of a, whole
// pieces are copied. b's entries came after a's.
func insertRun(t *Table, a, b *run) (out *run, err error) {
	g := mergers.Get().(*merger)
	defer g.put()
	if out, err = g.beginRun(t, []*run{a, b}); err != nil {
		return nil, err
	}
	done := false
	defer func() { // also when the comparer panics
		if !done {
			out.unref()
		}
	}()
	from, n := 0, 0
	for j, off := range b.offs {
		ab := g.heads[1].ab(j)
		to := g.placeIn(from, ab, off)
		n += g.copyPiece(out, n, from, to)
		from = to
		out.ab[n], out.offs[n] = ab, off
		if n > 0 {
			out.noteSame(g, n)
		}
		n++
	}
	g.copyPiece(out, n, from, len(a.offs))
	done = true
	return out, nil
}

// placeIn is where in the first run, at from or later, an entry belongs.
func (g *merger) placeIn(from int, ab uint64, off uint32) int {
	h := &g.heads[0]
	n := len(h.r.offs)
	lo, hi := from, n
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		if h.ab(mid) < ab {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == n || h.ab(lo) != ab || g.tie(off, h.r.offs[lo]) < 0 {
		return lo
	}
	group := sort.Search(n-lo, func(k int) bool {
		return h.ab(lo+k) != ab || g.tie(off, h.r.offs[lo+k]) < 0
	})
	return lo + group
}

// copyPiece copies entries [from, to) of the first run to out[n:].
func (g *merger) copyPiece(out *run, n, from, to int) int {
	if from == to {
		return 0
	}
	h := &g.heads[0]
	if h.w == (widen{}) {
		copy(out.ab[n:], h.r.ab[from:to])
	} else {
		for i := from; i < to; i++ {
			out.ab[n+i-from] = h.ab(i)
		}
	}
	copy(out.offs[n:], h.r.offs[from:to])
	copy(out.same[n:], h.r.same[from:to])
	if n > 0 {
		out.noteSame(g, n)
	}
	return to - from
}

// mergeYield entries a merge, which is in the background, lets other goroutines
// run: every 160 us or so. Beside goroutines that fill their time slices of 10 ms,
// a merge that does so more often does not keep pace.
const mergeYield = 8 * yieldEvery

// mergeRuns makes one run of several. It returns nil when stop became true.
func mergeRuns(t *Table, runs []*run, stop *atomic.Bool) (*run, error) {
	g := mergers.Get().(*merger)
	defer g.put()
	out, err := g.beginRun(t, runs)
	if err != nil {
		return nil, err
	}
	done := false
	defer func() { // also when the comparer panics
		if !done {
			out.unref()
		}
	}()
	total := len(out.offs)
	for at, turn := 0, 0; at < total; turn++ {
		if turn%(mergeYield/stretch) == 0 {
			if stop != nil && stop.Load() {
				return nil, nil
			}
			runtime.Gosched()
		}
		n := g.forward(stretch)
		copy(out.ab[at:], g.ab[:n])
		copy(out.offs[at:], g.offs[:n])
		for i := max(at, 1); i < at+n; i++ {
			out.noteSame(g, i)
		}
		at += n
	}
	done = true
	return out, nil
}
