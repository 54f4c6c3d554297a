package memtable

import (
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/format/batchrepr"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/memory/arena"
	"github.com/loamdb/loam/internal/memory/budget"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// Options configures a MemTable.
type Options struct {
	Comparer *base.Comparer
	// Size is how many arena bytes are taken before Room returns ErrFull.
	Size int64
	// EntrySize is what EntrySize returned for the previous memtable, 0 when
	// unknown. It decides how large the hash index is in proportion to the arena.
	EntrySize int
	// Large says that the previous memtable had hugeFrom bytes or more: this one allocates all of
	// its memory at once then, or if Filled, unless there is an Account.
	Large bool
	// Small begins with a small hash index, as with an Account: many memtables share what memory
	// there is. Its growth takes some 20 us.
	Small bool
	// Ordered inserts entries into the tree from the start instead of from the
	// first NewSource on.
	Ordered bool
	// Filled says that the previous memtable was filled, so that this one takes what Spare has.
	Filled bool
	// Spare is where memory comes from, if Filled, and goes to. nil keeps none.
	Spare *arena.Spare
	// Account takes the bytes of the arena and the index; nil: nobody is.
	Account *budget.Account
	// ManyDeletes is called by the writer when a deletion is visible and there are manyDeletes of
	// them, once until TellAgain. nil: nobody is told.
	ManyDeletes func()
}

// Follow sets EntrySize, Ordered, Large and Filled by the previous memtable. One that is half full
// counts as filled: probably the next one will be, too.
func (o *Options) Follow(prev *MemTable) {
	o.EntrySize, o.Ordered = prev.EntrySize(), prev.Iterated()
	o.Large, o.Filled = prev.pos >= hugeFrom, prev.pos >= uint64(prev.planned.arena/2)
}

// NewSpare makes a Spare for memtables of an Options.Size.
func NewSpare(size int64) *arena.Spare { return arena.NewSpare(sizeFor(size, 0, false).arena) }

// SetSpareSize makes s one for memtables of another Options.Size.
func SetSpareSize(s *arena.Spare, size int64) { s.SetSize(sizeFor(size, 0, false).arena) }

// MemTable holds writes that are not in a table yet. The package comment lists the callers of each
// method.
type MemTable struct {
	cmp    *base.Comparer
	hashed bool // there is a hash index: the comparer's equality is that of bytes

	mem atomic.Pointer[memory]

	// Fields of the writer. pos and n are ahead of end and count within a batch.
	pos  uint64
	n    int64
	last base.Trailer
	next uint64 // the arena offset from which on held is set again
	huge bool
	// askAt is the arena offset from which on HalfFull is true.
	askAt uint64
	// deleted is deletes with those of the batch.
	deleted     int64
	looked      int64 // deleted at the last Looked
	manyDeletes func()
	whole       bool // allocate all memory at once
	batch       []pending
	space

	// end is the arena offset up to which entries are complete.
	end   atomic.Uint64
	count atomic.Int64
	// disorder says that trailers do not only rise from entry to entry. It is set
	// before the first entry that does not becomes visible.
	disorder atomic.Bool
	marked   atomic.Uint64 // the sequence number of the last mark
	// operands says that there are entries that do not end a lookup: a reader may need
	// several versions of a key. It is set before the first becomes visible.
	operands atomic.Bool
	expiring atomic.Bool // there are entries that expire
	deletes  atomic.Int64
	told     atomic.Bool // manyDeletes was called since TellAgain

	refs  atomic.Int64
	order lazyOrder
	dels  rangeDels
	held  budget.Held // set by the writer, and by the last Unref
}

// pending is an entry of a batch whose index slot has been touched.
type pending struct {
	key, value []byte
	hash       uint64
	kind       base.Kind
}

// applyGroup entries have their index slots touched side by side, so that the
// cache misses overlap.
const applyGroup = 16

// New makes an empty memtable with one reference. It allocates memory as entries are
// written; after a Large or Filled one, the first entry reserves addresses for all.
func New(o Options) *MemTable {
	m := &MemTable{cmp: o.Comparer, hashed: o.Comparer.EqualIsBytewise, pos: arenaStart,
		whole: (o.Large || o.Filled) && o.Account == nil, held: budget.Held{Account: o.Account},
		manyDeletes: o.ManyDeletes}
	m.end.Store(arenaStart)
	m.refs.Store(1)
	m.order.init(m, o.Ordered)
	m.planned = sizeFor(o.Size, o.EntrySize, m.hashed)
	m.askAt = m.askFrom(m.planned.arena)
	m.spare, m.filled, m.small = o.Spare, o.Filled && o.Account == nil,
		o.Small || o.Account != nil
	m.mem.Store(new(memory))
	return m
}

// Ref adds a reference.
func (m *MemTable) Ref() { m.refs.Add(1) }

// Unref drops a reference; the last one stops background work and frees the
// memory.
func (m *MemTable) Unref() {
	n := m.refs.Add(-1)
	invariants.Check(n >= 0, "memtable: Unref without reference")
	if n != 0 {
		return
	}
	m.order.close()
	m.space.free(m.spare, m.pos)
	m.held.Set(0, 0)
	m.mem.Store(new(memory))
}

// ErrFull says that the memtable has entries and takes no more: it is time to flush it.
var ErrFull = errors.New("the memtable is full")

// Room makes sure that a batch of n bytes with that many entries fits. If it does not,
// or there is no memory for it, the error is ErrFull. An empty memtable makes itself
// large enough instead, up to the 4 GiB that offsets reach; its errors are ErrTooLarge
// and ErrNoMemory.
func (m *MemTable) Room(n int64, entries int) error {
	if m.fits(n, entries) && !m.crowded {
		return nil
	}
	if n < 0 || entries < 0 || uint64(n) > maxArena || uint64(entries) > maxArena/2 {
		return fmt.Errorf("%w: a batch of %d bytes, %d entries", base.ErrTooLarge, n, entries)
	}
	bytes, count := m.pos+uint64(n)+uint64(entries)*maxHeader, m.n+int64(entries)
	if m.touchAhead(m.mem.Load().nslots, count, m.whole); m.fits(n, entries) && !m.crowded {
		return nil
	}
	if bytes > uint64(m.planned.arena) || count > m.capacity(m.planned.nslots) || m.crowded &&
		m.mem.Load().nslots == m.planned.nslots {
		if m.Len() != 0 {
			return ErrFull
		}
		if err := m.replan(n, entries); err != nil {
			return err
		}
	}
	if m.crowded {
		count = max(count, m.maxEntries+1)
	}
	mem, err := m.space.grow(m.mem.Load(), bytes, count, m.whole)
	if err != nil && m.whole {
		m.whole = false
		mem, err = m.space.grow(mem, bytes, count, false)
	}
	m.mem.Store(mem)
	if err != nil {
		if m.n != 0 {
			return ErrFull
		}
		return err
	}
	m.crowded, m.next = false, 0
	return nil
}

// Touch has the first page of an empty memtable that has Room, so that its first entry does not
// wait for it. The writer's.
func (m *MemTable) Touch() { m.arena.Whole()[0] = 0 }

// replan sizes an empty memtable for one batch. Readers may still use its old memory.
func (m *MemTable) replan(n int64, entries int) error {
	s, ok := sizeForBatch(n, entries, m.hashed)
	if !ok {
		return fmt.Errorf("%w: a batch of %d bytes, %d entries", base.ErrTooLarge, n, entries)
	}
	old := m.space
	m.space = space{planned: s, spare: old.spare, small: old.small,
		outgrown: []func(){func() { old.free(nil, 0) }}}
	m.whole = true
	m.mem.Store(new(memory))
	return nil
}

// fits reports whether there is memory for a batch.
func (m *MemTable) fits(n int64, entries int) bool {
	need := uint64(n) + uint64(entries)*maxHeader
	return m.arena != nil && m.pos+need <= uint64(m.arena.Len()) &&
		m.n+int64(entries) <= m.checkAt
}

// reserve is Room, but it takes what fits into a crowded index: Room was asked for a whole group of
// batches, of which an earlier one may have an entry that is far from its home.
func (m *MemTable) reserve(n int64, entries int) error {
	if m.fits(n, entries) {
		return nil
	}
	return m.Room(n, entries)
}

// Apply adds the entries of a batch (batchrepr, validated), which are all of the table's keyspace;
// entry i gets sequence seq + i. It fails only where Room does, or the comparer of a range delete:
// a caller that has asked Room knows that it does not. Readers see the entries one by one; the
// sequence they read at keeps a batch whole.
func (m *MemTable) Apply(batch []byte, seq base.SeqNum) error {
	n := int(batchrepr.Count(batch))
	if err := m.reserve(int64(len(batch)), n); err != nil {
		return err
	}
	mem := m.mem.Load()
	it := batchrepr.Read(batch)
	if n == 1 {
		if _, kind, key, value, ok := it.Next(); ok {
			m.insertOne(mem, base.MakeTrailer(seq, kind), key, value)
		}
	} else {
		m.applyMany(mem, &it, seq)
	}
	if err := m.addRangeDels(); err != nil {
		return err
	}
	m.publish()
	return it.Err()
}

func (m *MemTable) applyMany(mem *memory, it *batchrepr.Iter, seq base.SeqNum) {
	for {
		group := m.batch[:0]
		for len(group) < applyGroup {
			_, kind, key, value, ok := it.Next()
			if !ok {
				break
			}
			group = append(group, pending{key, value, m.hashOf(key), kind})
		}
		if m.hashed { // a loop of its own: so short that the misses overlap
			for i := range group {
				mem.touch(group[i].hash)
			}
		}
		for i := range group {
			p := &group[i]
			if p.kind == base.KindRangeDelete {
				m.dels.batch = append(m.dels.batch, rangedel.Tombstone{Start: p.key, Limit: p.value,
					Seq: seq})
			} else {
				m.insert(mem, base.MakeTrailer(seq, p.kind), p.key, p.value, p.hash)
			}
			seq++
		}
		clear(group) // keep no batch alive
		m.batch = group[:0]
		if len(group) < applyGroup {
			return
		}
	}
}

func (m *MemTable) hashOf(key []byte) uint64 {
	if m.hashed {
		return hashKey(key)
	}
	return 0
}

// Add adds one entry. Like Apply it fails only where Room does.
func (m *MemTable) Add(seq base.SeqNum, kind base.Kind, key, value []byte) error {
	if err := m.reserve(int64(len(key)+len(value)), 1); err != nil {
		return err
	}
	m.insertOne(m.mem.Load(), base.MakeTrailer(seq, kind), key, value)
	err := m.addRangeDels()
	m.publish()
	return err
}

func (m *MemTable) insertOne(mem *memory, t base.Trailer, key, value []byte) {
	if t.Kind() == base.KindRangeDelete {
		m.dels.batch = append(m.dels.batch, rangedel.Tombstone{Start: key, Limit: value,
			Seq: t.Seq()})
		return
	}
	m.insert(mem, t, key, value, m.hashOf(key))
}

// insert appends an entry and makes it visible to Get.
func (m *MemTable) insert(mem *memory, t base.Trailer, key, value []byte, hash uint64) {
	if t <= m.last {
		m.disorder.Store(true)
	}
	if m.n&(markEvery-1) == 0 {
		m.order.mark(uint32(m.pos), t.Seq())
		m.marked.Store(uint64(t.Seq()))
	}
	m.n++
	if t.Kind() != base.KindSet {
		m.noteKind(t.Kind())
	}
	m.last = t
	off := uint32(m.pos)
	if !m.hashed {
		m.pos += mem.write(off, t, links{}, key, value)
		return
	}
	slot, old := mem.find(key, hash)
	var l links
	if old != 0 {
		l = mem.linksTo(old)
	}
	m.pos += mem.write(off, t, l, key, value)
	mem.setSlot(slot, hash, off)
	if mem.distance(slot, hash) > maxProbe {
		m.crowded = true
	}
}

// publish makes all entries inserted so far visible to sources.
func (m *MemTable) publish() {
	m.count.Store(m.n)
	m.end.Store(m.pos)
	if m.deleted != m.deletes.Load() {
		m.deletes.Store(m.deleted)
		m.tell()
	}
	if m.pos > m.next {
		m.grown()
	}
	m.order.written(m.n)
}

// grown asks for huge pages once that is worth it, and tells the account what is held.
func (m *MemTable) grown() {
	step, least := uint64(minArena), uint64(hugeFrom)
	switch {
	case m.arena.Len() <= minArena: // of which pages become resident as they are written
		step, least = 4<<10, 0
	case m.pos > hugeFrom:
		step = 2 << 20
		if !m.huge {
			m.huge = true
			m.arena.AdviseHuge()
			offheap.AdviseHuge(m.index)
		}
	}
	m.next = m.pos + step - m.pos%step // resident up to here, or to the length of a small arena
	m.held.Set(int64(min(max(m.next, least), uint64(m.arena.Len()))),
		int64(cap(m.index)+cap(m.ahead)))
}

// Hit is an entry that Get found.
type Hit struct {
	Trailer base.Trailer
	off     uint32
}

// Get returns the entry that l, of MakeLookup, asks for. The value aliases the
// arena and is nil for a deletion.
func (m *MemTable) Get(l base.Lookup) (value []byte, hit Hit, found bool) {
	if !m.hashed {
		return m.getOrdered(l)
	}
	mem := m.mem.Load()
	if mem.nslots == 0 {
		return nil, Hit{}, false
	}
	_, off := mem.find(l.Key(), l.Hash)
	if off == 0 {
		return nil, Hit{}, false
	}
	if m.disorder.Load() {
		off = mem.newestOf(off, l.Seq)
	} else if mem.trailer(off).Seq() > l.Seq {
		off = mem.olderThan(off, l.Seq)
	}
	if off == 0 {
		return nil, Hit{}, false
	}
	e := mem.entry(off)
	return e.valueOf(mem), Hit{e.trailer, off}, true
}

// GetNext is Get for the newest entry of the key that is older than prev, which Get or GetNext
// found for l.
func (m *MemTable) GetNext(prev Hit, l base.Lookup) (value []byte, hit Hit, found bool) {
	if m.hashed && !m.disorder.Load() {
		mem := m.mem.Load()
		return mem.hit(mem.links(prev.off).older)
	}
	if prev.Trailer.Seq() == 0 {
		return nil, Hit{}, false
	}
	l.Seq = prev.Trailer.Seq() - 1
	return m.Get(l)
}

// Written is the place in the memtable behind all entries that were applied before the
// call, for Since.
func (m *MemTable) Written() uint64 { return m.end.Load() }

// Since calls f with the key of each entry from a place on, 0 for all, in the order of their
// writes, until f returns false. The keys alias the arena.
func (m *MemTable) Since(place uint64, f func(key []byte) bool) {
	m.Walk(place, func(_ base.Trailer, key []byte, _ uint64) bool { return f(key) })
}

// Walk is Since with the trailer of each entry, and the place behind it.
func (m *MemTable) Walk(place uint64, f func(t base.Trailer, key []byte, next uint64) bool) {
	end := m.end.Load() // before mem: an empty memtable's memory may be replaced
	mem := m.mem.Load()
	for place = max(place, arenaStart); place < end; {
		e := mem.entry(uint32(place))
		place = uint64(e.end)
		if !f(e.trailer, mem.arena[e.key:e.value:e.value], place) {
			return
		}
	}
}

// Behind is a place before which no entry is newer than seq; of the entries behind it at most
// markEvery are not newer, where the entries came in the order of their sequence numbers.
func (m *MemTable) Behind(seq base.SeqNum) (place uint64) {
	o := &m.order
	o.markMu.Lock()
	defer o.markMu.Unlock()
	i := o.marksUpTo(seq)
	if i == 0 || m.disorder.Load() { // disorder is noted before a mark
		return 0
	}
	return uint64(o.marks[i-1].off)
}

// newerFrom is an arena offset from which on all entries are newer than seq, or came after the
// call. At most markEvery such entries come before it.
func (m *MemTable) newerFrom(seq base.SeqNum) uint32 {
	if uint64(seq) >= m.marked.Load() || m.disorder.Load() {
		return math.MaxUint32
	}
	o := &m.order
	o.markMu.Lock()
	defer o.markMu.Unlock()
	if i := o.marksUpTo(seq); i < len(o.marks) {
		return o.marks[i].off
	}
	return math.MaxUint32
}

// Prefetch loads the cache line of the index that Get looks at first.
func (m *MemTable) Prefetch(l base.Lookup) {
	if mem := m.mem.Load(); mem.nslots != 0 {
		mem.touch(l.Hash)
	}
}

// noteKind notes an entry that is no set.
func (m *MemTable) noteKind(k base.Kind) {
	switch {
	case k == base.KindDelete:
		m.deleted++
		if m.deleted%orderDeletes == 0 && 4*m.deleted >= m.n && !m.cmp.Serial() {
			m.order.on.Store(true)
		}
	case !k.EndsLookup() && !m.operands.Load():
		m.operands.Store(true)
	case k.Expires() && !m.expiring.Load():
		m.expiring.Store(true)
	}
}

// HasOperands reports whether there are entries that do not end a lookup.
func (m *MemTable) HasOperands() bool { return m.operands.Load() }

// A memtable with deletions for a quarter of its entries is ordered in the background after
// orderDeletes of them, before an iterator is opened that has to pass over them.
const orderDeletes = backlogEntries

// manyDeletes is how many deletions are worth a look at the memtable.
const manyDeletes = 64

// tell calls Options.ManyDeletes if that is due: a single range tombstone may delete much.
func (m *MemTable) tell() {
	if (m.deleted >= manyDeletes || m.dels.written.Load() > 0) && m.manyDeletes != nil &&
		!m.told.Load() {
		m.told.Store(true)
		m.manyDeletes()
	}
}

// TellAgain has Options.ManyDeletes called at the next deletion. Points, called afterwards, counts
// each deletion that was not told of: the writer stores its count before it looks at told.
func (m *MemTable) TellAgain() { m.told.Store(false) }

// Deletes is the number of deletions of single keys.
func (m *MemTable) Deletes() int { return int(m.deletes.Load()) }

// Unlooked is the number of deletions of single keys since Looked. The writer's.
func (m *MemTable) Unlooked() int64 { return m.deleted - m.looked }

// Looked begins the count of Unlooked at n. The writer's.
func (m *MemTable) Looked(n int64) { m.looked = m.deleted - n }

// HasExpiring reports whether there are entries that expire.
func (m *MemTable) HasExpiring() bool { return m.expiring.Load() }

// Iterated reports whether a source was ever opened.
func (m *MemTable) Iterated() bool { return m.order.used.Load() }

// Shrink gives back to the system what has no entries yet of an arena that was another
// memtable's. The writer's: nothing is written meanwhile.
func (m *MemTable) Shrink() {
	if m.recycled {
		m.recycled = false
		m.arena.ReleaseFrom(int(m.pos))
		arena.Free(m.spareIndex)
		m.spareIndex = nil
	}
}

// Comparer orders the keys.
func (m *MemTable) Comparer() *base.Comparer { return m.cmp }

// Len is the number of entries, versions and tombstones included, those of ranges too.
func (m *MemTable) Len() int { return m.Points() + int(m.dels.written.Load()) }

// Points is the number of entries without range tombstones: of those that sources hand out.
func (m *MemTable) Points() int { return int(m.count.Load()) }

// Bytes is how much of the arena is filled.
func (m *MemTable) Bytes() int64 { return int64(m.end.Load() - arenaStart) }

// EntrySize is the average size of an entry in the arena in bytes, 0 without entries.
func (m *MemTable) EntrySize() int {
	n := m.count.Load()
	if n == 0 {
		return 0
	}
	return int(m.Bytes() / n)
}

// MemoryUsage is how many bytes are held: the filled part of the arena, the index and
// the tree. Pages of the index that no entry has touched yet are counted too.
func (m *MemTable) MemoryUsage() int64 {
	dels := m.dels.Bytes()
	if m.count.Load() == 0 {
		return dels
	}
	return m.Bytes() + int64(m.mem.Load().nslots*8) + m.order.held.Load() + dels
}
