package memtable

import (
	"runtime"

	"github.com/loamdb/loam/internal/base"
)

// leafCopy is a copy of a leaf. A reader that has it follows next and prev as they
// were: what has been inserted between since is not for it to see.
type leafCopy struct {
	leaf       uint32
	next, prev uint32
	n          int
	same       uint64
	offs       [fanout]uint32
}

// lockFree says that readers do without the lock: where the processor keeps loads
// in order, and the race detector does not take a sequence lock for a race.
const lockFree = runtime.GOARCH == "amd64" && !raceDetector

// lockFreeTries have been in vain before a reader takes the lock.
const lockFreeTries = 8

// tryCopyLeaf copies leaf id. It reports false when the leaf changed
// meanwhile.
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

// seekLeaf copies the leaf where (key, t) belongs, and returns how many entries of
// it lie before that: none only if there are none in the tree. All of it may,
// and entries behind (key, t) then begin in the next leaf.
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
		// What was read may be nonsense before this is known.
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

// nextLeaf goes on to the next leaf.
func (o *lazyOrder) nextLeaf(p *leafCopy) bool {
	if p.next == 0 {
		return false
	}
	last := p.offs[max(p.n-1, 0)]
	o.copyLeaf(p.next, p)
	if p.same&1 != 0 {
		// The entry before it may be one that the page does not have.
		if mem := o.m.mem.Load(); o.m.cmp.Cmp(mem.key(last), mem.key(p.offs[0])) != 0 {
			p.same &^= 1
		}
	}
	return true
}

// prevLeaf goes to the leaf before.
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
		before = p.next // a leaf was split, and leaf has not been told
	}
}
