package memtable

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
)

const (
	// backlogEntries that are not in the tree make the background insert them.
	backlogEntries = 4096
	// Every markEvery entries the arena's offset and a sequence number are noted: by them the arena
	// is cut into parts that are sorted side by side, and entries that are newer than a reader are
	// told from others without a look at them.
	markEvery = 256
	// turnEntries are inserted by the background before it gives up the lock for a
	// moment.
	turnEntries = 512
	// groupEntries are inserted together, so that their cache misses overlap.
	groupEntries = 4
	// liveLeaf entries fill a new leaf when more entries are expected.
	liveLeaf = fanout * 3 / 4
	// An empty tree is built by sorting from sortFrom entries on, and by several
	// goroutines from parallelFrom on.
	sortFrom     = 2 * fanout
	parallelFrom = 4 * backlogEntries
	maxParallel  = 8
	// serialEntries are inserted on the caller's thread between two questions whether to end.
	serialEntries = 64
)

// lazyOrder decides when entries get into the tree. The tree has the entries that lie
// before covered in the arena. The others are added when a source is opened, and once
// on is set also by a background goroutine, which exists only while there is a backlog.
//
// With a comparer on the caller's thread (base.Comparer.Serial) there is no such goroutine, and
// nothing is sorted: Order inserts after each write.
//
// Locks: mu, which is held while entries are added, before markMu.
type lazyOrder struct {
	m        *MemTable
	on       atomic.Bool  // backlogs are added in the background
	used     atomic.Bool  // a source was opened
	held     atomic.Int64 // bytes of the tree, and of arrays while it is built
	working  atomic.Bool  // the background goroutine exists
	stop     atomic.Bool
	bg       sync.WaitGroup
	backlogs int64 // of the writer: how often backlogEntries were written

	markMu sync.Mutex
	marks  []mark // of every markEvery-th entry

	mu sync.Mutex
	btree
	covered atomic.Uint64 // arena offset
	sorted  int64         // entries in the tree
	// err is why entries could not be added: for good when a comparer panicked,
	// until the next attempt when there was no memory.
	err error
}

// mark is where in the arena an entry begins, and its sequence number.
type mark struct {
	off uint32
	seq base.SeqNum
}

func (o *lazyOrder) init(m *MemTable, on bool) {
	o.m = m
	o.covered.Store(arenaStart)
	o.on.Store(on && !m.cmp.Serial())
}

// close ends background work and frees the tree. REQUIRES: nobody uses the memtable.
func (o *lazyOrder) close() {
	o.stop.Store(true)
	o.bg.Wait()
	o.leaves.free()
	o.branches.free()
}

// mark notes the markEvery-th entry since the last mark.
func (o *lazyOrder) mark(off uint32, seq base.SeqNum) {
	o.markMu.Lock()
	o.marks = append(o.marks, mark{off, seq})
	o.markMu.Unlock()
}

// marksUpTo is how many marks are of entries that are not newer than seq.
//
// REQUIRES: markMu is held.
func (o *lazyOrder) marksUpTo(seq base.SeqNum) int {
	return sort.Search(len(o.marks), func(i int) bool { return o.marks[i].seq > seq })
}

// written is told how many entries there are.
func (o *lazyOrder) written(n int64) {
	if c := (n - 1) / backlogEntries; c != o.backlogs {
		o.backlogs = c
		if o.on.Load() {
			o.wake()
		}
	}
}

func (o *lazyOrder) wake() {
	if o.working.CompareAndSwap(false, true) {
		o.bg.Add(1)
		go o.work()
	}
}

// work adds backlogs until there is none.
func (o *lazyOrder) work() {
	defer o.bg.Done()
	for {
		for !o.stop.Load() && o.addBacklog() {
			runtime.Gosched()
		}
		o.working.Store(false)
		// A writer that saw working set did not wake anybody: look once more.
		if o.stop.Load() || !o.backlogWaits() || !o.working.CompareAndSwap(false, true) {
			return
		}
	}
}

func (o *lazyOrder) backlogWaits() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err == nil && o.m.count.Load()-o.sorted >= backlogEntries
}

// addBacklog adds backlogEntries if that many wait, and reports whether it did.
func (o *lazyOrder) addBacklog() bool {
	if !o.backlogWaits() {
		return false
	}
	for n := 0; n < backlogEntries && !o.stop.Load(); n += turnEntries {
		if o.addTurn() != nil {
			return false
		}
	}
	return true
}

func (o *lazyOrder) addTurn() error {
	o.mu.Lock()
	defer o.mu.Unlock() // also when the comparer ends the goroutine
	return o.add(turnEntries, false)
}

// errGoexit is the error of an order whose goroutine the comparer has ended. An insertion may be
// half made, as after a panic.
var errGoexit = fmt.Errorf("ordering a memtable: %w", base.ErrGoexit)

// catchPanic turns a panic, which only a user's comparer can cause, into an error.
func catchPanic(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("ordering a memtable: %w", base.NewPanic(p))
		}
	}()
	return f()
}

// complete adds all entries that were published before the call.
func (o *lazyOrder) complete() error {
	if o.covered.Load() >= o.m.end.Load() {
		return nil
	}
	if !o.mu.TryLock() {
		// the comparer is the user's: the goroutine may be in it, and have the lock
		if !o.m.cmp.HasAbbrev() {
			if err := base.NotWithinComparer(); err != nil {
				return err
			}
		}
		o.mu.Lock()
	}
	defer o.mu.Unlock()
	o.retry()
	if o.m.cmp.Serial() {
		return o.addSerially(o.m.end.Load())
	}
	return o.add(math.MaxInt, false)
}

// addSerially adds the entries before end, unless a comparison asks for an early end: then the
// next call goes on from there. REQUIRES: mu is held.
func (o *lazyOrder) addSerially(end uint64) error {
	_ = o.m.cmp.CheckInterrupted() // of an earlier call
	for o.covered.Load() < end {
		if err := o.add(serialEntries, false); err != nil {
			return err
		}
		if err := o.m.cmp.CheckInterrupted(); err != nil {
			return err
		}
	}
	return nil
}

// Order adds the entries to the tree of a memtable whose comparer is on the caller's thread. It
// is called after each write; where it ends early, the next reader or writer goes on.
func (m *MemTable) Order() error { return m.order.complete() }

// retry forgets a lack of memory. REQUIRES: mu is held.
func (o *lazyOrder) retry() {
	if errors.Is(o.err, offheap.ErrNoMemory) {
		o.err = nil
	}
}

// add adds up to limit published entries, or all of them if the tree is empty and they
// are worth sorting. sealing says that no entry will follow, and that no caller waits.
// REQUIRES: mu is held.
func (o *lazyOrder) add(limit int, sealing bool) error {
	end := o.m.end.Load()
	n := o.m.count.Load() - o.sorted // at least what lies before end
	if o.err != nil || o.covered.Load() >= end {
		return o.err
	}
	o.err = errGoexit // unless catchPanic returns
	o.err = catchPanic(func() error {
		if o.root == 0 && n >= sortFrom && !o.m.cmp.Serial() {
			return o.sortFirst(end, n, sealing)
		}
		for o.covered.Load() < end && limit > 0 {
			n, err := o.addGroup(end, min(limit, groupEntries))
			if err != nil {
				return err
			}
			limit -= n
		}
		return nil
	})
	return o.err
}

// addGroup inserts up to limit entries, groupEntries at most, that lie before end.
// Their leaves are prefetched together, so that the cache misses overlap.
func (o *lazyOrder) addGroup(end uint64, limit int) (n int, err error) {
	if o.root == 0 {
		if err := o.begin(); err != nil {
			return 0, err
		}
	}
	var offs, leaves [groupEntries]uint32
	mem, at := o.m.mem.Load(), o.covered.Load()
	for ; n < limit && at < end; n++ {
		offs[n] = uint32(at)
		e := mem.entry(uint32(at))
		at = uint64(e.end)
	}
	shape := o.shape.Load()
	for i, off := range offs[:n] {
		leaves[i] = o.leafFor(off, nil)
		if n > 1 {
			o.leaves.at(leaves[i]).prefetch()
		}
	}
	for i, off := range offs[:n] {
		if o.shape.Load() != shape {
			leaves[i] = o.leafFor(off, nil)
		}
		if err := o.insert(off, leaves[i]); err != nil {
			o.covered.Store(uint64(off))
			return i, err
		}
	}
	o.covered.Store(at)
	return n, nil
}

// sortFirst sorts the entries before end, at most n, and builds the tree from them.
func (o *lazyOrder) sortFirst(end uint64, n int64, sealing bool) error {
	cuts := []uint64{arenaStart, end}
	if !sealing && n >= parallelFrom {
		cuts = o.cut(end, n)
	}
	share := n
	if len(cuts) > 2 {
		share = n/int64(len(cuts)-1) + 2*markEvery
	}
	arrays := make([]*sortedArray, len(cuts)-1)
	defer func() { // also when the comparer panics
		for _, r := range arrays {
			if r != nil {
				r.free()
			}
		}
		o.m.held.Account.Settle()
	}()
	errs := make([]error, len(arrays))
	var wg sync.WaitGroup
	defer wg.Wait() // also when the comparer ends this goroutine
	sortPart := func(i int) {
		errs[i] = errGoexit // unless catchPanic returns
		errs[i] = catchPanic(func() (err error) {
			arrays[i], err = sortRange(o.m.cmp, o.m.mem.Load(), cuts[i], cuts[i+1], int(share),
				&o.held, sealing)
			return err
		})
	}
	for i := range arrays[1:] {
		wg.Go(func() { sortPart(i + 1) })
	}
	sortPart(0)
	wg.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = o.build(arrays, sealing)
	}
	if err == nil {
		o.covered.Store(end)
	}
	return err
}

// cut divides the arena before end into parts of about the same number of entries. It
// returns where they begin, and end.
func (o *lazyOrder) cut(end uint64, n int64) []uint64 {
	parts := min(runtime.GOMAXPROCS(0), maxParallel, int(n/(2*backlogEntries)))
	cuts := []uint64{arenaStart}
	o.markMu.Lock()
	defer o.markMu.Unlock()
	for i := 1; i < parts; i++ {
		k := n * int64(i) / int64(parts) / markEvery
		if k >= int64(len(o.marks)) {
			break
		}
		if at := uint64(o.marks[k].off); at > cuts[len(cuts)-1] && at < end {
			cuts = append(cuts, at)
		}
	}
	return append(cuts, end)
}

// Seal adds all entries to the tree once no more are written, so that a flush finds
// them in order. It may run beside readers, on one goroutine. Should it fail, sources
// that are opened later report why.
func (m *MemTable) Seal() {
	o := &m.order
	o.mu.Lock()
	defer o.mu.Unlock()
	o.retry()
	_ = o.add(math.MaxInt, true) // NewSource reports it
}

// getOrdered is Get without the index.
func (m *MemTable) getOrdered(l base.Lookup) (value []byte, hit Hit, found bool) {
	if err := m.order.complete(); err != nil {
		if base.Transient(err) {
			panic(err) // which ends the read, and nothing else
		}
		return m.getUnordered(l)
	}
	if m.order.covered.Load() == arenaStart {
		return nil, Hit{}, false
	}
	mem := m.mem.Load() // after covered: an empty memtable's memory may be replaced
	var p leafCopy
	key := l.Key()
	at := m.order.seekLeaf(key, l.Trailer(), &p)
	if at == p.n {
		if !m.order.nextLeaf(&p) {
			return nil, Hit{}, false
		}
		at = 0
	}
	if off := p.offs[at]; m.cmp.Cmp(mem.key(off), key) == 0 {
		return mem.hit(off)
	}
	return nil, Hit{}, false
}

// getUnordered looks at every entry, for when order could not be made.
func (m *MemTable) getUnordered(l base.Lookup) (value []byte, hit Hit, found bool) {
	newest, end := uint32(0), m.end.Load()
	mem := m.mem.Load() // as in getOrdered
	for at := uint64(arenaStart); at < end; {
		off := uint32(at)
		e := mem.entry(off)
		if e.trailer.Seq() <= l.Seq && (newest == 0 || e.trailer > mem.trailer(newest)) &&
			m.cmp.Cmp(mem.key(off), l.Key()) == 0 {
			newest = off
		}
		at = uint64(e.end)
	}
	return mem.hit(newest)
}
