package tree

import (
	"math"
	"slices"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/tree/empties"
	"github.com/loamdb/loam/internal/tree/iters"
)

// IterOptions says what an iterator walks over; see lsm.IterOptions.
type IterOptions struct {
	Lower, Upper, Prefix  []byte
	KeysOnly, NoFillCache bool
	Snapshot              *Snapshot
	// Own makes a source of the reader's own writes, which are newer than all that the
	// tree has, as they were when the iterator was opened. nil: there are none.
	Own func() base.Source
	// OwnRangeDels are the reader's own range deletes at that time, with Own.
	OwnRangeDels []*rangedel.List
	// Watch takes the keys and ranges that the iterator reads. nil: nobody asks.
	Watch Watch
	most  int // iters.Options.Most
}

// Watch takes the moves of an iterator: of the key that it is at afterwards, not nil,
// or nil at the end.
type Watch interface {
	// Forward: the iterator went to the first key from `from` on, nil for the first of all.
	Forward(from, at, upper []byte)
	// Backward: the iterator went to the last key before `before`, nil for the last of all.
	Backward(before, at, lower []byte)
	Next(at, upper []byte)
	Prev(at, lower []byte)
}

// Iterator walks over the keys of one ReadState in order, at one sequence number;
// see lsm.Iterator.
type Iterator struct {
	tree     *Tree
	state    *ReadState
	view     empties.View  // Now is when it was opened, or its snapshot; 0: nothing expired then
	snap     *Snapshot     // nil: the view is of the present
	learns   bool          // known-empty ranges
	seeks    uint64        // since it was opened, see Tree.addRunsSought
	told     uint64        // the part of seeks that Operations has counted
	dead     int           // entries passed over and not yet counted in Operations
	hits     int           // known-empty ranges used and not yet counted in Operations
	most     int           // iters.Options.Most
	learned  bool          // a known-empty range
	cursor   *iters.Cursor // nil when there is none, and after Close
	scan     *scan
	noFill   bool
	keysOnly bool
	closed   bool
	lazy     bool   // the sources are not open, see seekExact
	exacts   uint64 // seeks that needed no sources
	err      error  // why there is no cursor, or why the last move failed outside of it
	prefix   []byte
	lower    []byte
	upper    []byte
	own      func() base.Source
	ownDels  []*rangedel.List
	watch    Watch
}

// scan is the machinery of an iterator, used again by later ones.
type scan struct {
	cursor  iters.Cursor
	sources []base.Source
	runs    int // of tables, among sources
	// seeks counts those of all its iterators, and says which ones are measured.
	seeks uint
	luck  int8   // of seekExact, above 0 if it is worth its time
	key   []byte // that seekExact looked for
	entry []byte // that it found: the key, and the value
}

var scans = sync.Pool{New: func() any { return new(scan) }}

// Init makes it, a zero Iterator, one over t that is at no entry yet. A failure
// shows in Err.
func (t *Tree) Init(it *Iterator, o *IterOptions) {
	it.tree, it.keysOnly, it.noFill = t, o.KeysOnly, o.NoFillCache
	it.own, it.ownDels, it.watch, it.most = o.Own, o.OwnRangeDels, o.Watch, o.most
	if it.prefix = cloneBound(o.Prefix); !it.setBounds(o.Lower, o.Upper) {
		return
	}
	acquire := (*Tree).acquireAt
	if o.most > 0 { // a scout: a catch-up, which acquireAt waits for, goes as one
		acquire = (*Tree).acquireShown
	}
	s, seq, err := acquire(t, o.Snapshot)
	if err != nil {
		it.err = err
		return
	}
	it.state, it.view = s, empties.View{State: s.ordinal, Seq: seq}
	if o.Snapshot != nil {
		it.snap, it.view.Now = o.Snapshot, o.Snapshot.now
	} else if clock := &t.shared.Seqs.Clock; clock.InUse() { // seq was loaded before
		it.view.Now = clock.Now()
	}
	it.learns = len(o.OwnRangeDels) == 0
	it.scan = scans.Get().(*scan)
	it.cursor = &it.scan.cursor
	it.cursor.Hide()
	if it.lazy = t.lazyWith(o); it.lazy {
		it.scan.runs = 0
		return
	}
	if t.cmp.BuiltIn() {
		it.reset()
		return
	}
	begun := false
	defer func() {
		if !begun { // the comparer has panicked, or ended the goroutine
			_, it.closed = it.Close(), false
		}
	}()
	defer it.catchPanic(&begun)
	it.reset()
	begun = true
}

// Fail makes it, a zero Iterator, one that cannot move because of err.
func (it *Iterator) Fail(err error) { it.err = err }

// reset gives the cursor, which is new or closed, sources of its own.
func (it *Iterator) reset() {
	it.lazy = false
	sources := it.scan.sources[:0]
	if it.own != nil {
		sources = append(sources, it.own())
	}
	dels := it.state.hasRangeDels()
	// Entries that come to an empty memtable later are not visible at seq. Range tombstones count
	// sources, so with some all are there.
	if dels || len(it.ownDels) > 0 || it.state.Mem.Points() > 0 {
		sources = append(sources, it.state.Mem.NewSourceAt(it.view.Seq))
	}
	for _, m := range it.state.Sealed {
		sources = append(sources, m.Mem.NewSourceAt(it.view.Seq))
	}
	memtables := len(sources)
	it.scan.sources = it.tree.tableSources(sources, it.state, it.noFill)
	it.scan.runs = len(it.scan.sources) - memtables
	o := iters.Options{Seq: it.view.Seq, Now: it.view.Now, Lower: it.lower, Upper: it.upper,
		Merge: it.state.merge, Folds: it.tree, Own: it.own != nil, Single: it.watch != nil,
		Values: it.tree.shared.Files, KeysOnly: it.keysOnly}
	for _, l := range it.ownDels {
		o.RangeDels = append(o.RangeDels, iters.RangeDels{List: l, Own: true})
	}
	if dels {
		o.OpenRangeDels = it.tree.RangeDelsOf
		for _, d := range it.state.rangeDels() {
			if it.own != nil {
				d.Source++
			}
			o.RangeDels = append(o.RangeDels, d)
		}
	}
	o.Empties, o.Again, o.Most = it, it.snap != nil, it.most
	if it.most > 0 {
		o.Merge, o.Folds = keyOnly, nil
	}
	it.cursor.Reset(it.tree.cmp, it.scan.sources, o)
}

// at is the key that the iterator came to by a move, or nil.
func (it *Iterator) at(ok bool) []byte {
	if !ok {
		return nil
	}
	if key := it.cursor.Key(); key != nil {
		return key
	}
	return []byte{}
}

// toForward and toBackward tell the watch of a positioning.
func (it *Iterator) toForward(from []byte, ok bool) bool {
	if it.watch != nil && it.Err() == nil {
		if it.lower != nil && (from == nil || it.tree.cmp.Cmp(from, it.lower) < 0) {
			from = it.lower
		}
		it.watch.Forward(from, it.at(ok), it.upper)
	}
	return ok
}

func (it *Iterator) toBackward(before []byte, ok bool) bool {
	if it.watch != nil && it.Err() == nil {
		if it.upper != nil && (before == nil || it.tree.cmp.Cmp(before, it.upper) > 0) {
			before = it.upper
		}
		it.watch.Backward(before, it.at(ok), it.lower)
	}
	return ok
}

// tableSources appends the sorted runs of s.
func (t *Tree) tableSources(sources []base.Source, s *ReadState, noFill bool) []base.Source {
	open := t.scanFill
	if noFill {
		open = t.scanNoFill
	}
	var skip func(f *manifest.FileMeta, lower, upper []byte) bool
	if t.tables.Load().PrefixLength > 0 {
		skip = t.lacks
	}
	files := s.Version.Levels[0].Files
	for i := range files {
		sources = append(sources, iters.NewFilteredLevel(t.cmp, files[i:i+1], open, skip))
	}
	for i := 1; i < manifest.NumLevels; i++ {
		if files := s.Version.Levels[i].Files; len(files) > 0 {
			sources = append(sources, iters.NewFilteredLevel(t.cmp, files, open, skip))
		}
	}
	return sources
}

// lacks reports whether the filter of a table tells that there is no entry in [lower, upper).
// Range tombstones of the table are looked at all the same.
func (t *Tree) lacks(m *manifest.FileMeta, lower, upper []byte) bool {
	r, err := t.shared.Files.Reader(m)
	if err != nil || r.MayContainRange(lower, upper) {
		return false // the move that opens the table says why it cannot
	}
	t.shared.Files.CountSkip()
	return true
}

func (t *Tree) scanFill(m *manifest.FileMeta) (base.Source, error) {
	return t.OpenSource(m, sstable.Scan)
}

func (t *Tree) scanNoFill(m *manifest.FileMeta) (base.Source, error) {
	return t.OpenSource(m, sstable.Scan|sstable.NoFill)
}

// OpenSource opens a table of a state that the caller holds.
func (t *Tree) OpenSource(m *manifest.FileMeta, flags sstable.ReadFlags) (base.Source, error) {
	direct := flags&sstable.Private != 0 && t.tables.Load().DirectIO
	return t.shared.Files.Source(m, flags, direct)
}

// setBounds narrows the bounds to the prefix and keeps copies.
func (it *Iterator) setBounds(lower, upper []byte) (ok bool) {
	if cmp := it.tree.cmp; len(it.prefix) > 0 {
		defer it.catchPanic(&ok)
		if err := it.tree.checkPrefix(it.prefix); err != nil {
			it.err = err
			return false
		}
		if lower == nil || cmp.Cmp(lower, it.prefix) < 0 {
			lower = it.prefix
		}
		if after := prefixEnd(it.prefix); after != nil &&
			(upper == nil || cmp.Cmp(upper, after) > 0) {
			upper = after
		}
	}
	it.lower, it.upper = cloneBound(lower), cloneBound(upper)
	return true
}

// cloneBound copies b and keeps nil, no bound, apart from the empty key.
func cloneBound(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
}

// checkPrefix refuses a prefix under an order in which the keys that begin with it are not those
// from it to prefixEnd. Of a comparer that is not built in it sees descending orders only.
func (t *Tree) checkPrefix(p []byte) error {
	if len(p) == 0 || t.cmp == base.Bytewise ||
		t.cmp != base.IndexedDB && t.cmp.Cmp(p, append(slices.Clip(p), 0)) < 0 {
		return nil
	}
	return base.Invalidf("comparer %s does not sort keys by their first bytes: "+
		"use bounds in place of a prefix", t.cmp.Name)
}

// prefixEnd is the first key behind all that begin with p, nil if there is none.
func prefixEnd(p []byte) []byte {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != 0xff {
			end := slices.Clone(p[:i+1])
			end[i]++
			return end
		}
	}
	return nil
}

// ready prepares a move that needs no position. After a panic the cursor's state
// is unknown, so its sources are opened anew.
func (it *Iterator) ready() bool {
	if !it.open() {
		return false
	}
	if it.lazy {
		it.err = nil
		it.reset()
	} else if it.err != nil {
		it.err = nil
		it.cursor.Close()
		it.reset()
	}
	return true
}

// open reports whether the iterator can move at all, and if not, sees to it that
// Err says why.
func (it *Iterator) open() bool {
	switch {
	case it.cursor != nil && it.tree.Closed():
		it.stop(base.ErrDatabaseClosed)
	case it.closed:
		it.err = base.ErrIteratorClosed
	case it.cursor != nil:
		return true
	}
	return false
}

// stop leaves the iterator at no entry: its span may lie in blocks that a move gave up by a panic.
func (it *Iterator) stop(err error) {
	it.err = err
	it.cursor.Hide()
}

// catchPanic turns a panic of a move into the iterator's error.
func (it *Iterator) catchPanic(ok *bool) {
	if r := recover(); r != nil {
		it.stop(it.tree.shared.Fail(base.NewPanic(r)))
		*ok = false
	} else if !*ok && it.tree != nil { // else see Fail
		it.tree.failOnPanic(it.Err())
	}
}

// countSeek counts a seek. measured reports whether its duration is to be taken.
func (it *Iterator) countSeek() (measured bool) {
	it.seeks++
	if it.scan == nil {
		return false
	}
	it.scan.seeks++
	if it.scan.seeks%seeksPerSample != 1 {
		return false
	}
	it.tellSeeks()
	return true
}

// tellSeeks has Operations count the seeks since the last call.
func (it *Iterator) tellSeeks() {
	if it.seeks > it.told {
		it.tree.shared.Ops.Seeks.Add(int64(it.seeks - it.told))
		it.told = it.seeks
	}
	it.tellPassed()
}

// First moves to the first key.
func (it *Iterator) First() (ok bool) {
	defer it.catchPanic(&ok)
	return it.ready() && it.toForward(nil, it.cursor.First())
}

// Last moves to the last key.
func (it *Iterator) Last() (ok bool) {
	defer it.catchPanic(&ok)
	return it.ready() && it.toBackward(nil, it.cursor.Last())
}

// SeekGE moves to the first key at or after key, which may lie in what the iterator shows.
func (it *Iterator) SeekGE(key []byte) (ok bool) {
	defer it.catchPanic(&ok)
	key = it.cursor.Apart(key)
	if it.countSeek() {
		defer it.tree.shared.Ops.SeekTimes.Since(hist.Now())
	}
	if it.lazy {
		if it.seekExact(key) {
			return true
		}
		key = it.scan.key
	}
	return it.ready() && it.toForward(key, it.cursor.SeekGE(key))
}

// SeekLT moves to the last key before key, which may lie in what the iterator shows.
func (it *Iterator) SeekLT(key []byte) (ok bool) {
	defer it.catchPanic(&ok)
	key = it.cursor.Apart(key)
	if it.countSeek() {
		defer it.tree.shared.Ops.SeekTimes.Since(hist.Now())
	}
	return it.ready() && it.toBackward(key, it.cursor.SeekLT(key))
}

// Next moves to the following key. On an iterator that is at no entry it
// reports false.
func (it *Iterator) Next() bool {
	if c := it.cursor; c != nil && it.err == nil && !it.tree.Closed() && c.Step() {
		return true
	}
	return it.next()
}

func (it *Iterator) next() (ok bool) {
	defer it.catchPanic(&ok)
	switch {
	case !it.open() || !it.Valid():
	case it.lazy:
		ok = it.leaveExact(false)
	default:
		ok = it.cursor.Next()
	}
	if it.watch != nil && it.cursor != nil && it.Err() == nil {
		it.watch.Next(it.at(ok), it.upper)
	}
	return ok
}

// Prev moves to the preceding key. On an iterator that is at no entry it
// reports false.
func (it *Iterator) Prev() bool {
	if c := it.cursor; c != nil && it.err == nil && !it.tree.Closed() && c.StepBack() {
		return true
	}
	return it.prev()
}

func (it *Iterator) prev() (ok bool) {
	defer it.catchPanic(&ok)
	switch {
	case !it.open() || !it.Valid():
	case it.lazy:
		ok = it.leaveExact(true)
	default:
		ok = it.cursor.Prev()
	}
	if it.watch != nil && it.cursor != nil && it.Err() == nil {
		it.watch.Prev(it.at(ok), it.lower)
	}
	return ok
}

// Valid reports whether the iterator is at an entry.
func (it *Iterator) Valid() bool {
	return it.cursor != nil && it.err == nil && it.cursor.Valid() &&
		(!it.tree.Closed() || it.open()) // which says why not
}

// Key returns the key, which is valid and unchanged until the next move or
// Close. nil when the iterator is at no entry.
func (it *Iterator) Key() []byte {
	if it.cursor == nil {
		return nil
	}
	return it.cursor.Key()
}

// Value returns the value, which is valid and unchanged until the next move or
// Close. nil when the iterator is at no entry, or was opened with KeysOnly.
func (it *Iterator) Value() []byte {
	if it.keysOnly || it.cursor == nil {
		return nil
	}
	return it.cursor.Value()
}

// Err returns what made the last move fail, or nil at a plain end. Close does not
// change it; a move after Close fails with base.ErrClosed.
func (it *Iterator) Err() error {
	if it.err != nil || it.cursor == nil {
		return it.err
	}
	return it.cursor.Err()
}

// Deadline is when the present entry expires, in seconds since 1970; 0: never.
func (it *Iterator) Deadline() uint64 {
	if it.cursor == nil {
		return 0
	}
	return it.cursor.Deadline()
}

// SetBounds replaces Lower and Upper; the iterator is then at no entry.
func (it *Iterator) SetBounds(lower, upper []byte) {
	switch {
	case it.cursor == nil:
	case !it.setBounds(lower, upper):
		_, it.closed = it.Close(), false // as one that Init could not make: Err stays
	case it.lazy:
		it.endExact(true)
	default:
		it.cursor.SetBounds(it.lower, it.upper)
	}
}

// Close releases what the iterator holds and returns Err: nil when the last move
// ended well. Closing twice is harmless.
func (it *Iterator) Close() error {
	it.closed = true
	if it.cursor == nil {
		return it.err
	}
	it.err = it.Err()
	if it.lazy {
		it.endExact(true)
		it.lazy = false
	}
	it.cursor.Close()
	it.tellSeeks()
	if runs := it.scan.runs; runs > 1 && it.seeks > it.exacts {
		it.tree.addRunsSought((it.seeks - it.exacts) * uint64(runs-1))
	}
	clear(it.scan.sources)
	if cap(it.scan.key) > maxUnwanted {
		it.scan.key = nil
	}
	scans.Put(it.scan)
	it.state.Unref()
	it.cursor, it.scan, it.state = nil, nil, nil
	return it.err
}

// NextBlock appends entries, beginning with the current one, and moves behind
// them; see lsm.Iterator.
func (it *Iterator) NextBlock(dst []byte, maxEntries, maxBytes int) (block []byte, n int) {
	return it.block(dst, maxEntries, maxBytes, (*iters.Cursor).AppendForward, (*Iterator).Next)
}

// PrevBlock is NextBlock in descending order.
func (it *Iterator) PrevBlock(dst []byte, maxEntries, maxBytes int) (block []byte, n int) {
	return it.block(dst, maxEntries, maxBytes, (*iters.Cursor).AppendBackward, (*Iterator).Prev)
}

// block appends span by span; move goes from one to the next.
func (it *Iterator) block(dst []byte, maxEntries, maxBytes int,
	appendSpan func(c *iters.Cursor, dst []byte, entries, limit int, values bool) ([]byte, int),
	move func(*Iterator) bool) (block []byte, n int) {
	if maxEntries <= 0 {
		maxEntries = math.MaxInt
	}
	limit := math.MaxInt
	if maxBytes > 0 && maxBytes < limit-len(dst) {
		limit = len(dst) + maxBytes
	}
	for ok := it.open() && it.Valid(); ok && n < maxEntries && len(dst) < limit; ok = move(it) {
		var m int
		dst, m = appendSpan(it.cursor, dst, maxEntries-n, limit, !it.keysOnly)
		n += m
	}
	return dst, n
}
