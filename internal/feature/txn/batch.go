package txn

import (
	"sort"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/batchrepr"
)

// Batch is the writes of a transaction. Get one from NewBatch.
type Batch struct {
	repr   []byte
	spaces []*Space
	used   int  // how many of spaces belong to this use
	kept   bool // a source was opened, which may outlive the transaction
	// lows are the rollbacks since the first source. A later rollback to the same or a smaller size
	// replaces earlier ones, so that serials and sizes ascend.
	lows      []low
	rollbacks uint64 // the last serial
}

// low is a rollback.
type low struct {
	serial uint64
	size   int // of the batch afterwards
}

// Space is the writes to one keyspace.
type Space struct {
	b    *Batch
	id   base.KeyspaceID
	list skipList
	dels rangeDels
}

// maxPooled bounds the memory of a Batch that is used again, in bytes and nodes.
const maxPooled = 64 << 10

var batches = sync.Pool{New: func() any { return new(Batch) }}

// NewBatch returns an empty batch.
func NewBatch() *Batch {
	b := batches.Get().(*Batch)
	b.repr = batchrepr.Init(b.repr)
	b.used = 0
	b.lows, b.rollbacks = b.lows[:0], 0
	return b
}

// Release gives the batch up. Its sources may still be used.
func (b *Batch) Release() {
	if b.kept || cap(b.repr) > maxPooled {
		return
	}
	for _, s := range b.spaces {
		if cap(s.list.nodes) > maxPooled {
			return
		}
	}
	batches.Put(b)
}

// Space returns the writes to a keyspace. With add it is made if there are none, else it is nil.
func (b *Batch) Space(id base.KeyspaceID, c *base.Comparer, add bool) *Space {
	for _, s := range b.spaces[:b.used] {
		if s.id == id {
			return s
		}
	}
	if !add {
		return nil
	}
	if b.used == len(b.spaces) {
		b.spaces = append(b.spaces, &Space{b: b})
	}
	s := b.spaces[b.used]
	b.used++
	s.id = id
	s.list.init(c)
	s.dels.reset()
	return s
}

// empty reports whether there are no writes.
func (s *Space) empty() bool { return len(s.list.nodes) == 1 && len(s.dels.offs) == 0 }

// Add appends a write. The caller has checked that the batch stays below its limit of 4 GiB.
func (s *Space) Add(kind base.Kind, key, value []byte) {
	off := uint32(len(s.b.repr))
	s.b.repr = batchrepr.AppendEntry(s.b.repr, s.id, kind, key, value)
	if kind.IsPoint() {
		s.list.add(s.b.repr, off, key)
	} else {
		s.dels.offs = append(s.dels.offs, off)
	}
}

// Get returns the newest write to a key; a range delete over it is a deletion. The value is
// valid until the next Add.
func (s *Space) Get(key []byte) (value []byte, kind base.Kind, found bool) {
	value, kind, found = s.Newest(key)
	if kind == base.KindSetExpiring { // not before the commit
		value, _, _ = base.CutDeadline(value)
	}
	return value, kind, found
}

// Newest is Get of a value as Add got it, with its deadline if it expires.
func (s *Space) Newest(key []byte) (value []byte, kind base.Kind, found bool) {
	n := s.list.first(s.b.repr, key, newest)
	covered := s.covered(key)
	if n != 0 && sequence(s.list.nodes[n].off) > covered {
		kind, _, value = entryAt(s.b.repr, s.list.nodes[n].off)
		return value, kind, true
	}
	return nil, base.KindDelete, covered > 0
}

// operands adds the writes to a key, whose newest one is an operand, to f, up to the one that ends
// the lookup. It reports whether there is such a one, so that what the database has does not count.
func (s *Space) operands(key []byte, f *mergeop.Fold) (ended bool) {
	covered := s.covered(key)
	for n := s.list.first(s.b.repr, key, newest); n != 0; n = s.list.nodes[n].next {
		kind, k, value := entryAt(s.b.repr, s.list.nodes[n].off)
		switch {
		case s.list.cmp.Cmp(k, key) != 0:
			return covered > 0
		case sequence(s.list.nodes[n].off) < covered || kind.IsTombstone():
			return true
		}
		if kind == base.KindSetExpiring {
			value, _, _ = base.CutDeadline(value)
		}
		buf := append(f.Buffer(), value...)
		if kind.EndsLookup() {
			f.Existing(buf, len(f.Buffer()))
			return true
		}
		f.Operand(buf)
	}
	return covered > 0
}

// Bytes is the batch in its wire form, valid until the next Add.
func (b *Batch) Bytes() []byte { return b.repr }

// Size is the length of Bytes.
func (b *Batch) Size() int { return len(b.repr) }

// Count is the number of writes.
func (b *Batch) Count() int { return int(batchrepr.Count(b.repr)) }

// Mark is a state of a Batch to go back to.
type Mark struct {
	size  int
	count uint32
}

// Mark returns the present state.
func (b *Batch) Mark() Mark { return Mark{len(b.repr), batchrepr.Count(b.repr)} }

// RollBack takes back all writes since a mark. Sources that see one of them fail from now on.
func (b *Batch) RollBack(m Mark) {
	for _, s := range b.spaces[:b.used] {
		for n := len(s.list.nodes) - 1; n > 0 && int(s.list.nodes[n].off) >= m.size; n-- {
			s.list.removeLast(b.repr)
		}
		s.dels.rollBack(m.size)
	}
	if b.kept {
		b.rollbacks++
		for n := len(b.lows); n > 0 && b.lows[n-1].size >= m.size; n-- {
			b.lows = b.lows[:n-1]
		}
		b.lows = append(b.lows, low{b.rollbacks, m.size})
	}
	b.repr = b.repr[:m.size]
	batchrepr.SetCount(b.repr, m.count)
}

// tookBack reports whether a rollback behind serial took back a part of the first size bytes.
func (b *Batch) tookBack(serial uint64, size int) bool {
	i := sort.Search(len(b.lows), func(i int) bool { return b.lows[i].serial > serial })
	return i < len(b.lows) && b.lows[i].size < size
}
