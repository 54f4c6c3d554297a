package memtable

import (
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// An iterator that meets entries of a memtable which a range tombstone of the same memtable
// hides cannot jump to the tombstone's end: newer entries may lie in between. But a leaf
// knows the entry in it that was written last, so that a leaf of hidden entries costs as
// much as one of them.

// skip is what the caller of a source does not want: entries before limit that are older than
// seq. A nil limit is no wish.
type skip struct {
	limit []byte
	seq   base.SeqNum
}

// Skip says that the following Next may leave out entries with keys before limit and
// sequence numbers below seq.
func (s *source) Skip(limit []byte, seq base.SeqNum) { s.skip = skip{limit, seq} }

// skipAhead does what Skip asked for, leaf by leaf. Leaves are never removed, and entries
// only move into a new leaf behind theirs: as long as the tree has the same shape, the
// leaf of limit follows that of the last entry in the chain.
func (s *source) skipAhead() {
	w := s.skip
	s.skip = skip{}
	o := &s.m.order
	last := s.offs[s.to-1]
	if s.m.disorder.Load() || !s.oldOffs(s.leafCopy.offs[s.at:s.n], w.seq) {
		return
	}
	var from, to leafCopy
	shape := o.shape.Load()
	start := o.seekLeaf(s.mem.key(last), 0, &from) // behind all entries of that key
	end := o.seekLeaf(w.limit, base.MaxTrailer, &to)
	if shape&1 != 0 || o.shape.Load() != shape {
		return // another time
	}
	if from.leaf == to.leaf {
		if start <= end && s.oldOffs(to.offs[start:end], w.seq) {
			s.adopt(&to, end, seekChunk)
		}
		return
	}
	if !s.oldOffs(from.offs[start:from.n], w.seq) {
		return
	}
	for id := from.next; id != to.leaf; {
		next, old := o.oldLeaf(id, w.seq)
		if !old {
			o.copyLeaf(id, &to)
			s.adopt(&to, 0, scanChunk)
			return
		}
		id = next
	}
	if s.oldOffs(to.offs[:end], w.seq) {
		s.adopt(&to, end, seekChunk)
	} else {
		s.adopt(&to, 0, scanChunk)
	}
}

// adopt goes to entry at of a leaf. Of the keys before it, what the caller wants is returned.
func (s *source) adopt(p *leafCopy, at, want int) {
	s.leafCopy = *p
	s.positionAt(at, want)
}

// oldOffs reports whether all entries of a part of a leaf are older than seq.
func (s *source) oldOffs(offs []uint32, seq base.SeqNum) bool {
	newest := uint32(0)
	for _, off := range offs {
		newest = max(newest, off)
	}
	return newest == 0 || s.mem.trailer(newest).Seq() < seq
}

// oldLeaf reports whether all entries of leaf id are older than seq, and returns the leaf behind
// it. Sequence numbers rise from entry to entry: the memtable is not in disorder.
func (o *lazyOrder) oldLeaf(id uint32, seq base.SeqNum) (next uint32, old bool) {
	x := o.leaves.at(id)
	newest, ok := uint32(0), false
	for i := 0; lockFree && !ok && i < lockFreeTries; i++ {
		v := x.version.Load()
		next, newest = x.next, x.newest
		ok = v&1 == 0 && x.version.Load() == v
	}
	if !ok {
		o.mu.Lock()
		next, newest = x.next, x.newest
		o.mu.Unlock()
	}
	if next != 0 {
		offheap.Prefetch(unsafe.Pointer(o.leaves.at(next)), 1)
	}
	return next, next != 0 && newest != 0 && o.m.mem.Load().trailer(newest).Seq() < seq
}
