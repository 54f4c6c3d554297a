package lsm

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/iters"
	"github.com/loamdb/loam/internal/manifest"
	"github.com/loamdb/loam/internal/sstable"
)

// IterOptions configures an iterator. nil and zero fields mean: everything,
// with values, at present, filling the cache.
type IterOptions struct {
	Lower  []byte // first key to return; nil: no bound
	Upper  []byte // first key not to return; nil: no bound
	Prefix []byte // only keys that begin so; joined with the bounds (bytewise order only)
	// KeysOnly leaves values out of blocks; Value is nil.
	KeysOnly bool
	// NoFillCache leaves the block cache as it is: for scans whose data will
	// not be read again.
	NoFillCache bool
	// Snapshot to read from, of the same database; nil: the present.
	Snapshot *Snapshot
}

// Iterator walks over the keys of one state of the database in order. It is
// used by one goroutine at a time. It holds memory and table files until Close.
//
// Moves report whether the iterator is at an entry; when one reports false, Err
// tells the end from a failure. After a failure it stays invalid until the next
// First, Last or Seek, which tries again from the beginning.
type Iterator struct {
	db       *DB
	view     *view
	seq      base.SeqNum
	seeks    uint64        // since it was opened, see background.visited
	cursor   *iters.Cursor // nil when there is none, and after Close
	scan     *scan
	noFill   bool
	keysOnly bool
	closed   bool
	err      error // why there is no cursor, or why the last move failed outside of it
	prefix   []byte
	lower    []byte
	upper    []byte
}

// scan is the machinery of an iterator, used again by later ones.
type scan struct {
	cursor  iters.Cursor
	sources []base.Source
}

var scans = sync.Pool{New: func() any { return new(scan) }}

// Iter opens an iterator that is at no entry yet: call First, Last or a Seek.
// A failure to open shows in Err. Close it.
func (db *DB) Iter(o *IterOptions) *Iterator {
	if o == nil {
		o = &IterOptions{}
	}
	it := &Iterator{db: db, keysOnly: o.KeysOnly, noFill: o.NoFillCache}
	if o.Snapshot != nil && o.Snapshot.db != db {
		it.err = fmt.Errorf("%w: the snapshot is another database's", ErrInvalidArgument)
		return it
	}
	v := db.acquireView()
	seq, err := db.seqAfter(v, o.Snapshot)
	if err != nil {
		if v != nil {
			v.unref()
		}
		it.err = err
		return it
	}
	it.view, it.seq = v, seq
	if o.Prefix != nil {
		it.prefix = slices.Clone(o.Prefix)
	}
	it.setBounds(o.Lower, o.Upper)
	it.scan = scans.Get().(*scan)
	it.cursor = &it.scan.cursor
	it.reset()
	return it
}

// reset gives the cursor, which is new or closed, sources of its own.
func (it *Iterator) reset() {
	it.scan.sources = it.db.sources(it.scan.sources[:0], it.view, it.seq, it.noFill)
	it.cursor.Reset(it.db.cmp, it.scan.sources, it.seq, it.lower, it.upper)
}

// sources appends everything that a merged read of v at seq must look at.
func (db *DB) sources(sources []base.Source, v *view, seq base.SeqNum, noFill bool) []base.Source {
	sources = append(sources, v.mem.NewSourceAt(seq))
	for _, s := range v.imm {
		sources = append(sources, s.table.NewSourceAt(seq))
	}
	open := db.scanFill
	if noFill {
		open = db.scanNoFill
	}
	files := v.version.Levels[0].Files
	for i := range files {
		sources = append(sources, iters.NewLevel(db.cmp, files[i:i+1], open))
	}
	for i := 1; i < manifest.NumLevels; i++ {
		if files := v.version.Levels[i].Files; len(files) > 0 {
			sources = append(sources, iters.NewLevel(db.cmp, files, open))
		}
	}
	return sources
}

func (db *DB) scanFill(m *manifest.FileMeta) (base.Source, error) {
	return db.openSource(m, sstable.Scan)
}

func (db *DB) scanNoFill(m *manifest.FileMeta) (base.Source, error) {
	return db.openSource(m, sstable.Scan|sstable.NoFill)
}

func (db *DB) openSource(m *manifest.FileMeta, flags sstable.ReadFlags) (base.Source, error) {
	r, err := db.files.Reader(m)
	if err != nil {
		return nil, err
	}
	return r.NewSource(flags), nil
}

// setBounds narrows the bounds to the prefix and keeps copies.
func (it *Iterator) setBounds(lower, upper []byte) {
	cmp := it.db.cmp
	if it.prefix != nil {
		if lower == nil || cmp.Cmp(lower, it.prefix) < 0 {
			lower = it.prefix
		}
		if after := prefixEnd(it.prefix); after != nil && (upper == nil || cmp.Cmp(upper, after) > 0) {
			upper = after
		}
	}
	it.lower = cloneBound(lower)
	it.upper = cloneBound(upper)
}

// cloneBound copies b and keeps nil, no bound, apart from the empty key.
func cloneBound(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append(make([]byte, 0, len(b)), b...)
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
	if it.err != nil {
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
	case it.closed || it.cursor != nil && it.db.view.Load() == nil:
		it.err = ErrClosed
	case it.cursor != nil:
		return true
	}
	return false
}

// guard turns a panic of a move into the iterator's error.
func (it *Iterator) guard(ok *bool) {
	if r := recover(); r != nil {
		it.db.recovered(r, &it.err)
		*ok = false
	} else if !*ok {
		it.db.failOnPanic(it.Err())
	}
}

// First moves to the first key.
func (it *Iterator) First() (ok bool) {
	defer it.guard(&ok)
	return it.ready() && it.cursor.First()
}

// Last moves to the last key.
func (it *Iterator) Last() (ok bool) {
	defer it.guard(&ok)
	return it.ready() && it.cursor.Last()
}

// SeekGE moves to the first key at or after key.
func (it *Iterator) SeekGE(key []byte) (ok bool) {
	defer it.guard(&ok)
	it.seeks++
	return it.ready() && it.cursor.SeekGE(key)
}

// SeekLT moves to the last key before key.
func (it *Iterator) SeekLT(key []byte) (ok bool) {
	defer it.guard(&ok)
	it.seeks++
	return it.ready() && it.cursor.SeekLT(key)
}

// Next moves to the following key. On an iterator that is at no entry it
// reports false.
func (it *Iterator) Next() bool {
	if c := it.cursor; c != nil && it.err == nil && it.db.view.Load() != nil && c.Step() {
		return true
	}
	return it.next()
}

func (it *Iterator) next() (ok bool) {
	defer it.guard(&ok)
	return it.open() && it.Valid() && it.cursor.Next()
}

// Prev moves to the preceding key. On an iterator that is at no entry it
// reports false.
func (it *Iterator) Prev() bool {
	if c := it.cursor; c != nil && it.err == nil && it.db.view.Load() != nil && c.StepBack() {
		return true
	}
	return it.prev()
}

func (it *Iterator) prev() (ok bool) {
	defer it.guard(&ok)
	return it.open() && it.Valid() && it.cursor.Prev()
}

// Valid reports whether the iterator is at an entry.
func (it *Iterator) Valid() bool {
	if it.cursor == nil || it.err != nil || !it.cursor.Valid() {
		return false
	}
	if it.db.view.Load() == nil {
		it.err = ErrClosed
		return false
	}
	return true
}

// Key returns the key, which is valid and unchanged until the next move or
// Close. nil when the iterator is at no entry.
func (it *Iterator) Key() []byte {
	if it.cursor == nil || !it.cursor.Valid() {
		return nil
	}
	return it.cursor.Key()
}

// Value returns the value, which is valid and unchanged until the next move or
// Close. nil when the iterator is at no entry, or was opened with KeysOnly.
func (it *Iterator) Value() []byte {
	if it.keysOnly || it.cursor == nil || !it.cursor.Valid() {
		return nil
	}
	return it.cursor.Value()
}

// Err returns what made the last move fail, or nil at a plain end. Close does not
// change it; a move after Close fails with ErrClosed.
func (it *Iterator) Err() error {
	if it.err != nil || it.cursor == nil {
		return it.err
	}
	return it.cursor.Err()
}

// SetBounds replaces Lower and Upper; the iterator is then at no entry.
func (it *Iterator) SetBounds(lower, upper []byte) {
	if it.cursor == nil {
		return
	}
	it.setBounds(lower, upper)
	it.cursor.SetBounds(it.lower, it.upper)
}

// Close releases what the iterator holds and returns Err: nil when the last move
// ended well. Closing twice is harmless.
func (it *Iterator) Close() error {
	it.closed = true
	if it.cursor == nil {
		return it.err
	}
	it.err = it.Err()
	it.cursor.Close()
	if runs := len(it.scan.sources) - 1 - len(it.view.imm); runs > 1 && it.seeks > 0 {
		it.db.bg.visited(it.seeks * uint64(runs-1))
	}
	clear(it.scan.sources)
	scans.Put(it.scan)
	it.cursor, it.scan = nil, nil
	it.view.unref()
	it.view = nil
	return it.err
}

// NextBlock appends entries to dst, beginning with the current one, and moves
// behind them: at most maxEntries, and no further one once maxBytes have been
// appended (0: no limit). Each entry is its key's length and its value's length, as 32-bit
// little-endian integers, then key and value. n is how many were appended;
// when it is less than asked for, the iterator has become invalid and Err tells
// why.
func (it *Iterator) NextBlock(dst []byte, maxEntries, maxBytes int) (block []byte, n int) {
	return it.block(dst, maxEntries, maxBytes, (*iters.Cursor).AppendForward, (*Iterator).Next)
}

// PrevBlock is NextBlock in descending order.
func (it *Iterator) PrevBlock(dst []byte, maxEntries, maxBytes int) (block []byte, n int) {
	return it.block(dst, maxEntries, maxBytes, (*iters.Cursor).AppendBackward, (*Iterator).Prev)
}

// block appends run by run; move goes from one to the next.
func (it *Iterator) block(dst []byte, maxEntries, maxBytes int, appendRun func(c *iters.Cursor, dst []byte, entries, limit int, values bool) ([]byte, int), move func(*Iterator) bool) (block []byte, n int) {
	if maxEntries <= 0 {
		maxEntries = math.MaxInt
	}
	limit := math.MaxInt
	if maxBytes > 0 && maxBytes < limit-len(dst) {
		limit = len(dst) + maxBytes
	}
	for ok := it.open() && it.Valid(); ok && n < maxEntries && len(dst) < limit; ok = move(it) {
		var m int
		dst, m = appendRun(it.cursor, dst, maxEntries-n, limit, !it.keysOnly)
		n += m
	}
	return dst, n
}

// All returns the entries from lower up to, not including, upper, for range;
// nil is no bound. Key and value are valid until the next step. *err receives
// the failure that ended the loop early, or nil: look at it after the loop.
// A nil err panics at the call: a scan that fails must be able to say so.
func (db *DB) All(lower, upper []byte, err *error) iter.Seq2[[]byte, []byte] {
	return db.walk(IterOptions{Lower: lower, Upper: upper}, (*Iterator).First, (*Iterator).Next, err)
}

// Backward is All in descending order.
func (db *DB) Backward(lower, upper []byte, err *error) iter.Seq2[[]byte, []byte] {
	return db.walk(IterOptions{Lower: lower, Upper: upper}, (*Iterator).Last, (*Iterator).Prev, err)
}

// Prefix is All over the keys that begin with prefix.
func (db *DB) Prefix(prefix []byte, err *error) iter.Seq2[[]byte, []byte] {
	return db.walk(IterOptions{Prefix: prefix}, (*Iterator).First, (*Iterator).Next, err)
}

func (db *DB) walk(o IterOptions, start, move func(*Iterator) bool, err *error) iter.Seq2[[]byte, []byte] {
	if err == nil {
		panic("loam: All, Backward and Prefix need a place for the error of the scan: pass &err")
	}
	return func(yield func(k, v []byte) bool) {
		it := db.Iter(&o)
		defer func() { *err = it.Close() }() // also when the loop's body panics
		for ok := start(it); ok && yield(it.Key(), it.Value()); ok = move(it) {
		}
	}
}
