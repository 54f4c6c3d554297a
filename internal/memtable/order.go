package memtable

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/offheap"
)

const (
	// chunkEntries are sorted into a run when so many have come.
	chunkEntries = 4096
	// fresh entries that came beside sources join the tail, see foldTail.
	fresh = 256
	// fanIn runs of one level are merged into one of the next.
	fanIn = 8
	// Beside a writer, sources merge up to manyRuns by themselves rather than
	// that the background takes the processor from both.
	manyRuns = 3
	// parallelFrom unsorted entries are sorted by several goroutines.
	parallelFrom = 4 * chunkEntries
	maxParallel  = 8
)

// order keeps a table's sorted runs. Runs cover the arena from its start up to
// covered; what lies behind is sorted when a source needs it and, once on, in
// chunks by a background goroutine, which exists only while there is something
// to sort or merge.
//
// Locks: mergeMu (held through a merge of large runs) before mu (held while
// unsorted entries are sorted, and for changes of the list) before markMu.
type order struct {
	t       *Table
	on      atomic.Bool
	crowded atomic.Bool  // a source met more runs than need be
	held    atomic.Int64 // bytes of runs
	working atomic.Bool
	stop    atomic.Bool
	bg      sync.WaitGroup
	chunks  int64 // writer's: full chunks so far

	markMu sync.Mutex
	marks  []uint32 // arena offset of every chunkEntries-th entry

	mergeMu sync.Mutex
	mu      sync.Mutex
	runs    []*run // any order, but what foldTail looks at comes last
	covered uint64
	changed bool  // in runs of a chunk or more, since a source looked
	sorted  int64 // entries in runs
	err     error // a comparer that panicked, for good; no memory, until asked again
}

func (o *order) init(t *Table, on bool) {
	o.t = t
	o.covered = arenaStart
	o.on.Store(on)
}

// close ends background work and frees the runs. Nobody uses the table.
func (o *order) close() {
	o.stop.Store(true)
	o.bg.Wait()
	for _, r := range o.runs {
		r.unref()
	}
	o.runs = nil
}

func (o *order) memoryUsage() int64 { return o.held.Load() }

// mark notes where a chunk begins.
func (o *order) mark(off uint32) {
	o.markMu.Lock()
	o.marks = append(o.marks, off)
	o.markMu.Unlock()
}

// written tells that the table has n entries now.
func (o *order) written(n int64) {
	if c := (n - 1) / chunkEntries; c != o.chunks {
		o.chunks = c
		if o.on.Load() {
			o.wake()
		}
	}
}

func (o *order) wake() {
	if o.working.CompareAndSwap(false, true) {
		o.bg.Add(1)
		go o.work()
	}
}

// work sorts full chunks and merges runs until nothing is left to do.
func (o *order) work() {
	defer o.bg.Done()
	for {
		for !o.stop.Load() && (o.sortChunk() || o.mergeSome()) {
			runtime.Gosched()
		}
		o.working.Store(false)
		// There may be something new since the last look.
		if o.stop.Load() || !o.crowded.Load() && !o.chunkWaits() || !o.working.CompareAndSwap(false, true) {
			return
		}
	}
}

// nextChunk is the chunk boundary up to which can be sorted now; 0 for none.
// Under mu.
func (o *order) nextChunk() (to uint64) {
	if o.err != nil {
		return 0
	}
	end := o.t.end.Load()
	o.markMu.Lock()
	defer o.markMu.Unlock()
	if k := o.sorted/chunkEntries + 1; k < int64(len(o.marks)) {
		to = uint64(o.marks[k])
	}
	if to > end {
		return 0
	}
	return to
}

func (o *order) chunkWaits() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.nextChunk() != 0
}

// guard turns a panic, which only a user's comparer can cause, into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("loam: panic while ordering a memtable: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// sortChunk sorts up to the next chunk boundary when that many entries have
// come.
func (o *order) sortChunk() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	to := o.nextChunk()
	return to != 0 && o.sortTo(to, chunkEntries, false) == nil
}

// sortTo extends the runs by [covered, to), at most n entries. Under mu, so that
// it lets others run meanwhile only when nobody waits, which is for the caller
// to say.
func (o *order) sortTo(to uint64, n int64, yield bool) error {
	o.err = guard(func() error {
		r, err := sortRange(o.t.cmp, o.t.mem.Load(), o.covered, to, int(n), &o.held, yield)
		if err != nil {
			return err
		}
		o.covered = to
		o.append(r)
		return o.foldTail()
	})
	return o.err
}

func (o *order) append(r *run) {
	o.runs = append(o.runs, r)
	o.sorted += int64(len(r.offs))
	o.changed = o.changed || len(r.offs) >= chunkEntries
}

// foldTail leaves at most two runs below a chunk: what came lately, below fresh
// entries, which each source adds to, and the tail, to which fresh entries are
// added at a time. So it costs little, and sources find few runs. Under mu.
func (o *order) foldTail() error {
	for len(o.runs) >= 2 {
		k := len(o.runs) - 2
		a, b := o.runs[k], o.runs[k+1]
		if len(a.offs) >= chunkEntries || len(a.offs) >= fresh && len(b.offs) < fresh {
			return nil
		}
		r, err := insertRun(o.t, a, b)
		if err != nil {
			return err
		}
		o.runs = append(o.runs[:k], r)
		o.changed = o.changed || len(r.offs) >= chunkEntries
		a.unref()
		b.unref()
	}
	return nil
}

// sortAll extends the runs to all that was published. Under mu.
func (o *order) sortAll() error {
	end := o.t.end.Load()
	n := o.t.count.Load() - o.sorted // at least what lies before end
	switch {
	case o.err != nil || o.covered >= end:
		return o.err
	case n < parallelFrom:
		return o.sortTo(end, n, false)
	}
	return o.sortParallel(end, n)
}

// sortParallel cuts what is unsorted at chunk boundaries and sorts the parts
// side by side.
func (o *order) sortParallel(end uint64, n int64) error {
	parts := min(runtime.GOMAXPROCS(0), maxParallel, int(n/(2*chunkEntries)))
	cuts := []uint64{o.covered}
	o.markMu.Lock()
	for i := 1; i < parts; i++ {
		k := (o.sorted + n*int64(i)/int64(parts)) / chunkEntries
		if k >= int64(len(o.marks)) {
			break
		}
		if at := uint64(o.marks[k]); at > cuts[len(cuts)-1] && at < end {
			cuts = append(cuts, at)
		}
	}
	o.markMu.Unlock()
	cuts = append(cuts, end)
	share := n/int64(parts) + 2*chunkEntries
	if len(cuts) == 2 {
		share = n
	}
	runs := make([]*run, len(cuts)-1)
	errs := make([]error, len(runs))
	var wg sync.WaitGroup
	for i := range runs {
		wg.Add(1)
		go func() {
			defer wg.Done()
			errs[i] = guard(func() (err error) {
				runs[i], err = sortRange(o.t.cmp, o.t.mem.Load(), cuts[i], cuts[i+1], int(share), &o.held, false)
				return err
			})
		}()
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			o.err = err
		}
	}
	for _, r := range runs {
		switch {
		case r == nil:
		case o.err != nil:
			r.unref()
		default:
			o.append(r)
		}
	}
	if o.err == nil {
		o.covered = end
	}
	return o.err
}

// level of a run: 0 below a chunk, then one more for each factor of fanIn.
func level(r *run) int {
	l := 0
	for n := len(r.offs) / chunkEntries; n > 0; n /= fanIn {
		l++
	}
	return l
}

// mergeSome merges fanIn runs of one level, or else, when sources wish for it,
// the small runs. It reports whether there was something to merge.
func (o *order) mergeSome() bool {
	o.mergeMu.Lock()
	defer o.mergeMu.Unlock()
	o.mu.Lock()
	var group []*run
	if o.err == nil {
		group = pickGroup(o.runs)
	}
	if group == nil && o.crowded.Load() {
		if o.err == nil {
			group = pickSmall(o.runs)
		}
		if group == nil {
			o.crowded.Store(false)
		}
	}
	for _, r := range group {
		r.refs.Add(1)
	}
	o.mu.Unlock()
	return len(group) > 0 && o.replace(group, &o.stop)
}

// pickGroup returns fanIn runs of the lowest level that has so many.
func pickGroup(runs []*run) []*run {
	var count [12]int // 1<<32 entries would be level 8
	for _, r := range runs {
		count[level(r)]++
	}
	for l := 1; l < len(count); l++ {
		if count[l] < fanIn {
			continue
		}
		group := make([]*run, 0, fanIn)
		for _, r := range runs {
			if level(r) == l && len(group) < fanIn {
				group = append(group, r)
			}
		}
		return group
	}
	return nil
}

// pickSmall returns the smaller runs of at least a chunk, as many as it takes
// for each that is left to be more than twice as large as all below it together;
// nil when that is so.
func pickSmall(runs []*run) []*run {
	var few [32]*run
	large := few[:0]
	total := 0
	for _, r := range runs {
		if len(r.offs) >= chunkEntries {
			large = append(large, r)
			total += len(r.offs)
		}
	}
	slices.SortFunc(large, func(a, b *run) int { return len(b.offs) - len(a.offs) })
	for i, r := range large {
		total -= len(r.offs)
		if i+1 < len(large) && len(r.offs) <= 2*total {
			return slices.Clone(large[i:])
		}
	}
	return nil
}

// replace merges group, of which the caller took a reference each, and lists the
// result instead. Under mergeMu.
func (o *order) replace(group []*run, stop *atomic.Bool) bool {
	var r *run
	err := guard(func() (err error) {
		r, err = mergeRuns(o.t, group, stop)
		return err
	})
	o.mu.Lock()
	defer o.mu.Unlock()
	if r != nil {
		// All of group is still listed: it was picked under mergeMu, and foldTail
		// takes no run of a chunk or more that it did not see coming.
		runs := append(make([]*run, 0, len(o.runs)), r)
		for _, old := range o.runs {
			if !slices.Contains(group, old) {
				runs = append(runs, old)
			}
		}
		o.runs = runs
		for _, g := range group {
			g.unref() // the list's
		}
	} else if err != nil && o.err == nil {
		o.err = err
	}
	for _, g := range group {
		g.unref()
	}
	return r != nil
}

// retry forgets a lack of memory. Under mu.
func (o *order) retry() {
	if errors.Is(o.err, offheap.ErrNoMemory) {
		o.err = nil
	}
}

// acquire returns runs that cover all entries published before the call, each
// with a reference for the caller.
func (o *order) acquire(dst []*run) ([]*run, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.retry()
	quiet := o.covered >= o.t.end.Load()
	if err := o.sortAll(); err != nil {
		return dst, err
	}
	for _, r := range o.runs {
		r.refs.Add(1)
		dst = append(dst, r)
	}
	if o.changed && (quiet || len(o.runs) > manyRuns) {
		o.changed = false
		o.crowded.Store(pickSmall(o.runs) != nil)
	}
	return dst, nil
}

// Seal says that no more writes come, and makes the table one sorted run. It
// may be called from any one goroutine beside readers.
func (m *Table) Seal() {
	o := &m.order
	o.mergeMu.Lock()
	defer o.mergeMu.Unlock()
	o.mu.Lock()
	o.retry()
	var group []*run
	if o.sealSort() == nil && len(o.runs) > 1 {
		group = append(group, o.runs...)
		for _, r := range group {
			r.refs.Add(1)
		}
	}
	o.mu.Unlock()
	if group != nil {
		o.replace(group, nil)
	}
}

// sealSort sorts what is unsorted: all at once and on this goroutine when no
// run exists yet. Under mu.
func (o *order) sealSort() error {
	if len(o.runs) > 0 || o.err != nil {
		return o.sortAll()
	}
	if end := o.t.end.Load(); end > o.covered {
		return o.sortTo(end, o.t.count.Load(), true)
	}
	return nil
}

// getOrdered is Get without the index.
func (m *Table) getOrdered(key []byte, seq base.SeqNum) (value []byte, t base.Trailer, found bool) {
	mem := m.mem.Load()
	var few [24]*run
	runs, err := m.order.acquire(few[:0])
	if err != nil {
		return m.getUnordered(mem, key, seq)
	}
	for _, r := range runs {
		i := r.seek(m.cmp, mem, key, base.MakeTrailer(seq, base.KindMax))
		if i < len(r.offs) {
			e := mem.entry(r.offs[i])
			if (!found || e.trailer > t) && m.cmp.Cmp(mem.key(r.offs[i]), key) == 0 {
				value, t, found = e.valueOf(mem), e.trailer, true
			}
		}
		r.unref()
	}
	return value, t, found
}

// getUnordered looks at every entry: for when no order could be made.
func (m *Table) getUnordered(mem *memory, key []byte, seq base.SeqNum) (value []byte, t base.Trailer, found bool) {
	for at, end := uint64(arenaStart), m.end.Load(); at < end; {
		e := mem.entry(uint32(at))
		if e.trailer.Seq() <= seq && (!found || e.trailer > t) && m.cmp.Cmp(mem.key(uint32(at)), key) == 0 {
			value, t, found = e.valueOf(mem), e.trailer, true
		}
		at = uint64(e.end)
	}
	return value, t, found
}
