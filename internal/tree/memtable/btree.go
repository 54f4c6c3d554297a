package memtable

import (
	"cmp"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/prefix"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// A B+tree over the entries of the arena. One goroutine at a time inserts, holding
// lazyOrder.mu; entries are never removed. Readers take no lock (leaf_copy.go): they
// copy a leaf and compare its version before and after, and on the way down the
// tree's shape (sequence locks). What they read in between may be torn, but every
// offset is that of an entry, every index that of a node, and every count in bounds,
// so that a search in torn data ends and touches no foreign memory.

const (
	fanout = prefix.Width // of leaves and branches
	maxIn  = 16           // height of branches: more than 1<<32 entries need
	// firstLeaf is the leftmost leaf for good: a split moves the right half away.
	firstLeaf = 1
)

// node is a sorted array of entries, the part that leaves and branches have in common. ab[i] is the
// abbreviation of entry i's key after the first prefixLen bytes, which all keys of the
// node share. Behind the n-th it is the greatest there is, so that a search need not
// wait for n.
type node struct {
	version   atomic.Uint32 // odd while the node changes
	n         uint32
	prefixLen uint32
	keyLen    prefix.Length
	// prefixCopy holds the prefix as far as it fits.
	prefixCopy [24]byte
	// The following fields are those of a leaf. Bit i of same says that entry i has
	// the user key of the entry before it. next and prev are 0 for none; while a
	// leaf is split, prev of its successor may name a leaf further back.
	same       uint64
	next, prev uint32
	newest     uint32  // no entry of the leaf has a larger offset in the arena
	_          [4]byte // fills a cache line
	ab         [fanout]uint64
	offs       [fanout]uint32
}

// branch is a node whose entry i is the first entry of the subtree kids[i]. Smaller
// entries may have come into the leftmost subtree since; firstLeaf's next split mends
// that.
type branch struct {
	node
	kids [fanout]uint32
}

// btree refers to leaves and branches by their index in the pool, from 1 on.
type btree struct {
	shape  atomic.Uint32 // odd while branches change, or entries move between leaves
	root   uint32        // a leaf while height is 0; 0 while there is no leaf
	height int
	last   atomic.Uint32 // rightmost leaf
	// ascending says that the last entry was inserted at the end. Only where keys have no
	// abbreviations: one comparison then is worth more than the way down.
	ascending bool
	leaves    pool[node]
	branches  pool[branch]
}

// step is a branch on the way to a leaf, and the child that was taken.
type step struct {
	branch uint32
	kid    int
}

// prefix is what all keys share. REQUIRES: the node is not empty.
func (x *node) prefix(mem *memory) prefix.Prefix {
	skip := int(x.prefixLen)
	if skip <= len(x.prefixCopy) {
		return x.prefixCopy[:skip]
	}
	key := mem.key(x.offs[0])
	return key[:min(skip, len(key))]
}

// lower is the number of entries before (key, t).
func (x *node) lower(c *base.Comparer, mem *memory, key []byte, t base.Trailer) int {
	n := int(x.n)
	if n == 0 {
		return 0
	}
	p := x.prefix(mem)
	if !p.In(key) {
		if p.Before(c, key) {
			return 0
		}
		return n
	}
	ab := p.Abbrev(c, key)
	lo := min(prefix.SearchArray(&x.ab, ab), n)
	if lo == n || x.ab[lo] != ab || t == base.MaxTrailer && len(key) == int(x.keyLen) &&
		x.exact(c) {
		return lo
	}
	hi := prefix.TiesEnd(x.ab[:n], lo)
	for lo < hi {
		mid := int(uint(lo+hi) / 2)
		off := x.offs[mid]
		if c.CompareInternal(mem.key(off), mem.trailer(off), key, t) < 0 {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// place is lower without abbreviations, to insert. It reports whether the entries before and at the
// index have the user key; -1: they were not compared.
func (x *node) place(c *base.Comparer, mem *memory, key []byte,
	t base.Trailer) (at, before, here int) {
	before, here = -1, -1
	lo, hi := 0, int(x.n)
	mid := hi - 1 // keys often ascend
	if x.next != 0 || lo == hi {
		mid = hi / 2
	}
	for lo < hi {
		off := x.offs[mid]
		order, same := c.Cmp(mem.key(off), key), 0
		if order == 0 {
			order, same = cmp.Compare(t, mem.trailer(off)), 1
		}
		if order < 0 {
			lo, before = mid+1, same
		} else {
			hi, here = mid, same
		}
		mid = int(uint(lo+hi) / 2)
	}
	return lo, before, here
}

// exact reports whether keys of the node are equal when their abbreviations are.
func (x *node) exact(c *base.Comparer) bool { return x.keyLen.Exact(c, int(x.prefixLen)) }

// equals reports whether entry i has this user key. ab is its abbreviation, which
// counts if the key has the node's prefix.
func (x *node) equals(i int, c *base.Comparer, mem *memory, key []byte, ab uint64) bool {
	if x.ab[i] != ab && c.HasAbbrev() {
		return false
	}
	return len(key) == int(x.keyLen) && x.exact(c) && x.prefix(mem).In(key) ||
		c.Cmp(mem.key(x.offs[i]), key) == 0
}

// reset empties the node.
func (x *node) reset() {
	x.clear(0)
	x.n, x.same, x.next, x.prev, x.newest = 0, 0, 0, 0, 0
}

// clear sets the abbreviations from i on to that of no entry.
func (x *node) clear(i int) {
	ab := x.ab[i:]
	for i := range ab {
		ab[i] = ^uint64(0)
	}
}

func (x *node) setPrefix(p prefix.Prefix) {
	x.prefixLen = uint32(len(p))
	copy(x.prefixCopy[:], p)
}

// put inserts an entry at index at. Its key may lack the prefix.
func (x *node) put(at int, c *base.Comparer, mem *memory, off uint32) {
	key := mem.key(off)
	if x.n == 0 {
		x.keyLen, x.offs[0] = prefix.LengthOf(key), off
		x.setPrefix(prefix.OfOne(c, key))
	}
	x.keyLen = x.keyLen.With(key)
	p := x.prefix(mem)
	if n := len(p.With(key)); n < len(p) {
		w := p.Widen(prefix.Flip(c), n)
		w.ApplyAll(x.ab[:x.n])
		x.prefixLen = uint32(n)
	}
	n := int(x.n)
	copy(x.ab[at+1:n+1], x.ab[at:n])
	copy(x.offs[at+1:n+1], x.offs[at:n])
	x.ab[at], x.offs[at] = c.Abbrev(key, int(x.prefixLen)), off
	x.n++
}

// moveTo moves the entries from mid on into y, which is empty. Fewer entries may
// share more: both get a longer prefix where it helps.
func (x *node) moveTo(y *node, mid int, c *base.Comparer, mem *memory) {
	n := int(x.n)
	copy(y.ab[:], x.ab[mid:n])
	copy(y.offs[:], x.offs[mid:n])
	x.clear(mid)
	y.prefixLen, y.keyLen, y.prefixCopy = x.prefixLen, x.keyLen, x.prefixCopy
	y.same, x.same = x.same>>mid, x.same&(1<<mid-1)
	y.n, x.n = uint32(n-mid), uint32(mid)
	y.newest = x.newest
	x.lengthenPrefix(c, mem)
	y.lengthenPrefix(c, mem)
}

// lengthenPrefix makes the prefix as long as it can be if distinct keys share an
// abbreviation.
func (x *node) lengthenPrefix(c *base.Comparer, mem *memory) {
	if !c.HasAbbrev() || x.exact(c) {
		return
	}
	for i := 1; ; i++ {
		if i >= int(x.n) {
			return
		}
		if x.ab[i] == x.ab[i-1] && x.same>>i&1 == 0 {
			break
		}
	}
	p := prefix.Of(c, mem.key(x.offs[0]), mem.key(x.offs[x.n-1]))
	if len(p) > int(x.prefixLen) {
		x.setPrefix(p)
		for i, off := range x.offs[:x.n] {
			x.ab[i] = p.Abbrev(c, mem.key(off))
		}
	}
}

// kid is the index of the child that leads to (key, t).
func (b *branch) kid(c *base.Comparer, mem *memory, key []byte, t base.Trailer) int {
	return max(b.lower(c, mem, key, t)-1, 0)
}

// begin makes firstLeaf.
func (o *lazyOrder) begin() error {
	if err := o.reserve(1); err != nil {
		return err
	}
	o.shape.Add(1)
	id, x := o.leaves.take()
	x.reset()
	o.last.Store(id)
	o.root = id
	o.shape.Add(1)
	return nil
}

// reserve allocates so many leaves and the branches that they may need above them, so
// that splits do not fail halfway. A split takes one leaf, and a branch on each level.
func (o *lazyOrder) reserve(leaves int) error {
	a, err := o.leaves.reserve(leaves)
	o.held.Add(a)
	if err == nil {
		a, err = o.branches.reserve(leaves/(fanout/2) + maxIn)
		o.held.Add(a)
	}
	return err
}

// leafFor is the leaf where a new entry belongs. path, unless it is nil, gets the way
// there, from the leaf's parent up. REQUIRES: mu is held.
func (o *lazyOrder) leafFor(off uint32, path []step) uint32 {
	c, mem := o.m.cmp, o.m.mem.Load()
	key, t := mem.key(off), o.rank(off)
	id := o.root
	if o.ascending && path == nil {
		last := o.last.Load()
		x := o.leaves.at(last)
		if end := x.offs[x.n-1]; c.CompareInternal(mem.key(end), mem.trailer(end), key, t) < 0 {
			return last
		}
	}
	for level := o.height; level > 0; level-- {
		b := o.branches.at(id)
		kid := b.kid(c, mem, key, t)
		if path != nil {
			path[level-1] = step{id, kid}
		}
		id = b.kids[kid]
	}
	return id
}

// rank is the trailer that places a new entry among the entries of its key.
func (o *lazyOrder) rank(off uint32) base.Trailer {
	if o.m.disorder.Load() {
		return o.m.mem.Load().trailer(off)
	}
	return base.MaxTrailer // the entry is its key's newest
}

// prefetch starts loading all of the node into the processor's cache.
func (x *node) prefetch() { offheap.Prefetch(unsafe.Pointer(x), int(unsafe.Sizeof(*x))) }

// insert adds an entry to leaf id, where it belongs. REQUIRES: mu is held.
func (o *lazyOrder) insert(off, id uint32) error {
	c, mem := o.m.cmp, o.m.mem.Load()
	key := mem.key(off)
	x := o.leaves.at(id)
	at, before, here := 0, -1, -1
	if c.HasAbbrev() {
		at = x.lower(c, mem, key, o.rank(off))
	} else {
		at, before, here = x.place(c, mem, key, o.rank(off))
	}
	// A comparer may panic, so all its answers are there before anything changes.
	var same, sameNext uint64
	ab := c.Abbrev(key, int(x.prefixLen))
	if before > 0 || before < 0 && at > 0 && x.equals(at-1, c, mem, key, ab) {
		same = 1
	}
	after, next := x, at
	if at == int(x.n) && x.next != 0 {
		after, next = o.leaves.at(x.next), 0
		ab = c.Abbrev(key, int(after.prefixLen))
	}
	if here > 0 || here < 0 && next < int(after.n) && after.equals(next, c, mem, key, ab) {
		sameNext = 1
	}
	o.ascending = at == int(x.n) && x.next == 0 && !c.HasAbbrev()
	if x.n < fanout {
		x.version.Add(1)
		x.putLeaf(at, c, mem, off, same)
		x.version.Add(1)
	} else {
		var path [maxIn]step
		o.leafFor(off, path[:])
		if err := o.reserve(1); err != nil {
			return err
		}
		o.shape.Add(1)
		x, at = o.split(x, id, at, path[:o.height], off, same)
		o.shape.Add(1)
	}
	if sameNext != 0 {
		after, next = x, at+1
		if next == int(x.n) {
			after, next = o.leaves.at(x.next), 0
		}
		after.version.Add(1)
		after.same |= 1 << next
		after.version.Add(1)
	}
	o.sorted++
	return nil
}

// putLeaf is put in a leaf; same is 1 if the entry before has the same user key.
func (x *node) putLeaf(at int, c *base.Comparer, mem *memory, off uint32, same uint64) {
	x.put(at, c, mem, off)
	x.newest = max(x.newest, off)
	below := uint64(1)<<at - 1
	x.same = x.same&below | same<<at | x.same&^below<<1
}

// split inserts into leaf x, which is full. The right half of x moves into a new leaf,
// or nothing does when the tree grows at its right end, as it does when keys ascend:
// leaves then stay full. It returns where the entry is now. REQUIRES: shape is odd.
func (o *lazyOrder) split(x *node, id uint32, at int, path []step, off uint32,
	same uint64) (*node, int) {
	c, mem := o.m.cmp, o.m.mem.Load()
	mid := fanout / 2
	if at == fanout && x.next == 0 {
		mid = fanout
	}
	newID, y := o.leaves.take()
	x.version.Add(1)
	y.reset()
	y.version.Store(1)
	x.moveTo(y, mid, c, mem)
	y.next, y.prev, x.next = x.next, id, newID
	if y.next != 0 {
		o.leaves.at(y.next).prev = newID
	} else {
		o.last.Store(newID)
	}
	to := x
	if at > mid || mid == fanout {
		to, at = y, at-mid
	}
	to.putLeaf(at, c, mem, off, same)
	if id == firstLeaf {
		for _, s := range path {
			o.branches.at(s.branch).replaceFirst(c, mem, x.offs[0])
		}
	}
	o.attach(path, y.offs[0], newID)
	y.version.Store(2)
	x.version.Add(1)
	return to, at
}

// attach adds a child, whose first entry is first, after the child at the end of path.
// REQUIRES: shape is odd.
func (o *lazyOrder) attach(path []step, first, kid uint32) {
	c, mem := o.m.cmp, o.m.mem.Load()
	for _, s := range path {
		b := o.branches.at(s.branch)
		at := s.kid + 1
		if b.n < fanout {
			b.adopt(at, c, mem, first, kid)
			return
		}
		mid := fanout / 2
		if at == fanout {
			mid = fanout
		}
		id, r := o.branches.take()
		r.reset()
		b.moveTo(&r.node, mid, c, mem)
		copy(r.kids[:], b.kids[mid:])
		if at > mid || mid == fanout {
			r.adopt(at-mid, c, mem, first, kid)
		} else {
			b.adopt(at, c, mem, first, kid)
		}
		first, kid = r.offs[0], id
	}
	left := o.root
	id, r := o.branches.take()
	r.reset()
	r.adopt(0, c, mem, o.leaves.at(firstLeaf).offs[0], left)
	r.adopt(1, c, mem, first, kid)
	o.root = id
	o.height++
}

// replaceFirst replaces the first entry by off, which is not greater.
func (b *branch) replaceFirst(c *base.Comparer, mem *memory, off uint32) {
	copy(b.ab[:], b.ab[1:b.n])
	copy(b.offs[:], b.offs[1:b.n])
	b.n--
	b.ab[b.n] = ^uint64(0)
	b.put(0, c, mem, off)
}

// adopt inserts a child at index at; first is its first entry.
func (b *branch) adopt(at int, c *base.Comparer, mem *memory, first, kid uint32) {
	n := int(b.n)
	copy(b.kids[at+1:n+1], b.kids[at:n])
	b.kids[at] = kid
	b.put(at, c, mem, first)
}
