package memtable

import (
	"runtime"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/arena"
)

// leafCopy is a copy of a leaf. Its reader follows next and prev as they were when it
// was made: later inserts stay invisible to it.
type leafCopy struct {
	leaf       uint32
	next, prev uint32
	n          int
	same       uint64
	offs       [fanout]uint32
}

// lockFree says that readers copy leaves without the lock. That needs a processor that
// does not reorder loads, and no race detector, which takes the copy of a leaf that
// changes for a race although its result is thrown away.
const lockFree = runtime.GOARCH == "amd64" && !arena.RaceDetector

// lockFreeTries is how often a reader copies in vain before it takes the lock.
const lockFreeTries = 8

// tryCopyLeaf copies leaf id. It reports false when the leaf changed meanwhile: the
// copy is then worthless.
func (o *lazyOrder) tryCopyLeaf(id uint32, p *leafCopy) bool {
	x := o.leaves.at(id)
	v := x.version.Load()
	p.leaf, p.next, p.prev, p.n, p.same = id, x.next, x.prev, int(x.n), x.same
	copy(p.offs[:p.n], x.offs[:])
	return v&1 == 0 && x.version.Load() == v
}

// copyLeaf copies leaf id.
func (o *lazyOrder) copyLeaf(id uint32, p *leafCopy) {
	for i := 0; lockFree && i < lockFreeTries; i++ {
		if o.tryCopyLeaf(id, p) {
			return
		}
		runtime.Gosched()
	}
	o.mu.Lock()
	o.tryCopyLeaf(id, p)
	o.mu.Unlock()
}

// seekLeaf copies the leaf where (key, t) belongs, and returns the number of its
// entries that lie before (key, t). It is 0 only in an empty tree or before its first
// entry. It may be all entries of the leaf: the next leaf then begins behind (key, t).
func (o *lazyOrder) seekLeaf(key []byte, t base.Trailer, p *leafCopy) (at int) {
	for i := 0; lockFree && i < lockFreeTries; i++ {
		if at, ok := o.trySeekLeaf(key, t, p); ok {
			return at
		}
		runtime.Gosched()
	}
	o.mu.Lock()
	defer o.mu.Unlock() // the comparer may panic
	at, _ = o.trySeekLeaf(key, t, p)
	return at
}

func (o *lazyOrder) trySeekLeaf(key []byte, t base.Trailer, p *leafCopy) (at int, ok bool) {
	c, mem := o.m.cmp, o.m.mem.Load()
	shape := o.shape.Load()
	id, height := o.root, o.height
	for {
		// Before this check the root, or a child's index, may be torn.
		if shape&1 != 0 || o.shape.Load() != shape {
			return 0, false
		}
		if height == 0 {
			break
		}
		b := o.branches.at(id)
		id = b.kids[b.kid(c, mem, key, t)]
		height--
	}
	x := o.leaves.at(id)
	x.prefetch()
	v := x.version.Load()
	at = x.lower(c, mem, key, t)
	if !o.tryCopyLeaf(id, p) || x.version.Load() != v || o.shape.Load() != shape {
		return 0, false
	}
	return at, true
}

// nextLeaf copies the leaf behind p. It reports false at the last one.
func (o *lazyOrder) nextLeaf(p *leafCopy) bool {
	if p.next == 0 {
		return false
	}
	last := p.offs[max(p.n-1, 0)]
	o.copyLeaf(p.next, p)
	if p.same&1 != 0 {
		// The entry before it may have been inserted after p was copied.
		if mem := o.m.mem.Load(); o.m.cmp.Cmp(mem.key(last), mem.key(p.offs[0])) != 0 {
			p.same &^= 1
		}
	}
	return true
}

// prevLeaf copies the leaf before p. It reports false at the first one.
func (o *lazyOrder) prevLeaf(p *leafCopy) bool {
	leaf, before := p.leaf, p.prev
	if before == 0 {
		return false
	}
	for {
		o.copyLeaf(before, p)
		if p.next == leaf {
			return true
		}
		before = p.next // that leaf was split; prev of the leaf behind is set later
	}
}
