package lsm

import (
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
	// Snapshot to read from; nil: the present.
	Snapshot *Snapshot
}

// Iterator walks over the keys of one state of the database in order. It is
// used by one goroutine at a time. It holds memory and table files until Close.
//
// Moves report whether the iterator is at an entry; when one reports false, Err
// tells the end from a failure. After a failure it stays invalid until the next
// First, Last or Seek.
type Iterator struct {
	db       *DB
	view     *view
	seeks    uint64        // since it was opened, see background.visited
	cursor   *iters.Cursor // nil when there is none, and after Close
	scan     *scan
	keysOnly bool
	err      error // why there is no cursor, or that the database was closed
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
	it := &Iterator{db: db, keysOnly: o.KeysOnly}
	seq := base.MaxSeqNum
	if o.Snapshot != nil {
		if err := o.Snapshot.check(); err != nil {
			it.err = err
			return it
		}
		seq = o.Snapshot.seq
	}
	db.refs.Add(1)
	it.view = db.acquireView()
	if it.view == nil {
		db.unrefDB()
		it.err = ErrClosed
		return it
	}
	// After the view, as in get.
	seq = min(seq, base.SeqNum(db.visible.Load()))
	if o.Prefix != nil {
		it.prefix = slices.Clone(o.Prefix)
	}
	it.setBounds(o.Lower, o.Upper)
	flags := sstable.ReadFlags(0)
	if o.NoFillCache {
		flags = sstable.NoFill
	}
	it.scan = scans.Get().(*scan)
	it.scan.sources = db.sources(it.scan.sources[:0], it.view, seq, flags)
	it.cursor = &it.scan.cursor
	it.cursor.Reset(db.cmp, it.scan.sources, seq, it.lower, it.upper)
	return it
}

// sources appends everything that a merged read of v at seq must look at.
func (db *DB) sources(sources []base.Source, v *view, seq base.SeqNum, flags sstable.ReadFlags) []base.Source {
	sources = append(sources, v.mem.NewSourceAt(seq))
	for _, s := range v.imm {
		sources = append(sources, s.table.NewSourceAt(seq))
	}
	open := db.scanFill
	if flags&sstable.NoFill != 0 {
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

// ready reports whether moves may go on, and drops the position when the
// database has been closed meanwhile.
func (it *Iterator) ready() bool {
	if it.cursor == nil {
		return false
	}
	if it.db.view.Load() == nil {
		it.err = ErrClosed
		return false
	}
	it.err = nil
	return true
}

// guard turns a panic of a move into the iterator's error.
func (it *Iterator) guard(ok *bool) {
	if r := recover(); r != nil {
		it.db.recovered(r, &it.err)
		*ok = false
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
	return it.Valid() && it.cursor.Next()
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
	return it.Valid() && it.cursor.Prev()
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

// Err returns what made the last move fail, or nil at a plain end.
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

// Close releases what the iterator holds and returns Err. Closing twice is
// harmless.
func (it *Iterator) Close() error {
	err := it.Err()
	if it.cursor == nil {
		return err
	}
	it.cursor.Close()
	if runs := len(it.scan.sources) - 1 - len(it.view.imm); runs > 1 && it.seeks > 0 {
		it.db.bg.visited(it.seeks * uint64(runs-1))
	}
	clear(it.scan.sources)
	scans.Put(it.scan)
	it.cursor, it.scan = nil, nil
	it.err = ErrClosed
	it.view.unref()
	it.db.unrefDB()
	return err
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
	for ok := it.Valid(); ok && n < maxEntries && len(dst) < limit; ok = move(it) {
		var m int
		dst, m = appendRun(it.cursor, dst, maxEntries-n, limit, !it.keysOnly)
		n += m
	}
	return dst, n
}

// All returns the entries from lower up to, not including, upper, for range;
// nil is no bound. Key and value are valid until the next step. *err, if a
// pointer is given, receives the failure that ended the loop early, or nil: look
// at it after the loop. Without a pointer a failure goes to Options.Logger only.
func (db *DB) All(lower, upper []byte, err ...*error) iter.Seq2[[]byte, []byte] {
	return db.walk(IterOptions{Lower: lower, Upper: upper}, (*Iterator).First, (*Iterator).Next, err)
}

// Backward is All in descending order.
func (db *DB) Backward(lower, upper []byte, err ...*error) iter.Seq2[[]byte, []byte] {
	return db.walk(IterOptions{Lower: lower, Upper: upper}, (*Iterator).Last, (*Iterator).Prev, err)
}

// Prefix is All over the keys that begin with prefix.
func (db *DB) Prefix(prefix []byte, err ...*error) iter.Seq2[[]byte, []byte] {
	return db.walk(IterOptions{Prefix: prefix}, (*Iterator).First, (*Iterator).Next, err)
}

func (db *DB) walk(o IterOptions, start, move func(*Iterator) bool, errs []*error) iter.Seq2[[]byte, []byte] {
	return func(yield func(k, v []byte) bool) {
		it := db.Iter(&o)
		for ok := start(it); ok && yield(it.Key(), it.Value()); ok = move(it) {
		}
		err := it.Close()
		for _, p := range errs {
			*p = err
		}
		if err != nil && len(errs) == 0 {
			db.log.Error("a scan ended early", "dir", db.dir, "err", err)
		}
	}
}
