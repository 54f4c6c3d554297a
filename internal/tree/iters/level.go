package iters

import (
	"sort"
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
)

// level concatenates the tables of one sorted run. At most one table is open at a time,
// and none that lies outside of the bounds.
type level struct {
	cmp          *base.Comparer
	files        []*manifest.FileMeta
	open         func(*manifest.FileMeta) (base.Source, error)
	skip         func(f *manifest.FileMeta, lower, upper []byte) bool // nil: no file is
	lower, upper []byte
	cur          int // index of src's file
	prefetched   int // index of the file that PrefetchSeek found, -1 for none
	src          base.Source
	skipped      bool // src is an empty one in place of the file's
}

// NewLevel makes a source of files that ascend without overlap in internal
// order. A table is opened when a move first needs it and closed when a move
// leaves it. files is retained. After Close it must not be touched.
func NewLevel(cmp *base.Comparer, files []*manifest.FileMeta,
	open func(*manifest.FileMeta) (base.Source, error)) base.Source {
	l := levels.Get().(*level)
	*l = level{cmp: cmp, files: files, open: open, cur: -1, prefetched: -1}
	return l
}

// NewFilteredLevel is NewLevel without the tables that skip rules out: tables without a user key in
// [lower, upper), the bounds of the level. A nil upper is no bound.
func NewFilteredLevel(cmp *base.Comparer, files []*manifest.FileMeta,
	open func(*manifest.FileMeta) (base.Source, error),
	skip func(f *manifest.FileMeta, lower, upper []byte) bool) base.Source {
	l := NewLevel(cmp, files, open).(*level)
	l.skip = skip
	return l
}

var (
	_ base.SeekPrefetcher = (*level)(nil)
	_ base.Bounded        = (*level)(nil)
)

// levels holds closed levels, which NewLevel uses again.
var levels = sync.Pool{New: func() any { return new(level) }}

// SetBounds says that no user key outside of [lower, upper) will be looked at.
func (l *level) SetBounds(lower, upper []byte) {
	l.lower, l.upper = lower, upper
	if l.skipped { // within other bounds it may have entries
		l.leave()
	}
}

// enter opens file n in place of the open one. It reports false when there is no file n
// within the bounds.
func (l *level) enter(n int) (bool, error) {
	if n < 0 || n >= len(l.files) {
		return false, nil
	}
	f := l.files[n]
	if l.upper != nil && l.cmp.Cmp(f.Smallest.User, l.upper) >= 0 || l.lower != nil &&
		l.cmp.Cmp(f.Largest.User, l.lower) < 0 {
		return false, nil
	}
	if l.src != nil && l.cur == n {
		return true, nil
	}
	l.leave()
	if l.skip != nil && l.lower != nil && l.skip(f, l.lower, l.upper) {
		l.cur, l.src, l.skipped = n, NewLevel(l.cmp, nil, nil), true
		return true, nil
	}
	src, err := l.open(f)
	if err != nil {
		return false, err
	}
	l.cur, l.src = n, src
	return true, nil
}

func (l *level) leave() {
	if l.src == nil {
		return
	}
	l.src.Close()
	l.src, l.cur, l.skipped = nil, -1, false
}

// none is the answer of a positioning call that found nothing or failed.
func (l *level) none(e *base.Chunk, err error) (int, error) {
	*e = base.Chunk{}
	return -1, err
}

// firstFrom is the first entry of file n or of those after it.
func (l *level) firstFrom(n int, e *base.Chunk) (int, error) {
	return l.from(n, 1, base.Source.First, e)
}

// lastFrom is the last entry of file n or of those before it.
func (l *level) lastFrom(n int, e *base.Chunk) (int, error) {
	return l.from(n, -1, base.Source.Last, e)
}

func (l *level) from(n, step int, find func(base.Source, *base.Chunk) (int, error),
	e *base.Chunk) (int, error) {
	for ; ; n += step {
		if ok, err := l.enter(n); !ok {
			return l.none(e, err)
		}
		if i, err := find(l.src, e); i >= 0 || err != nil {
			return i, err
		}
	}
}

func (l *level) First(e *base.Chunk) (int, error) {
	if l.lower != nil {
		return l.SeekGE(l.lower, base.MaxTrailer, e)
	}
	return l.firstFrom(0, e)
}

func (l *level) Last(e *base.Chunk) (int, error) {
	if l.upper != nil {
		return l.SeekLT(l.upper, base.MaxTrailer, e)
	}
	return l.lastFrom(len(l.files)-1, e)
}

func (l *level) PrefetchSeek(key []byte, t base.Trailer) {
	l.prefetched = l.find(key, t)
	if ok, err := l.enter(l.prefetched); !ok || err != nil {
		return // SeekGE enters it again, and returns the error
	}
	if a, ok := l.src.(base.SeekPrefetcher); ok {
		a.PrefetchSeek(key, t)
	}
}

// find is the file that has the first entry at or after (key, t).
func (l *level) find(key []byte, t base.Trailer) int {
	return sort.Search(len(l.files), func(i int) bool {
		k := &l.files[i].Largest
		return l.cmp.CompareInternal(k.User, k.Trailer, key, t) >= 0
	})
}

func (l *level) SeekGE(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	i := l.prefetched
	if l.prefetched = -1; i < 0 {
		i = l.find(key, t)
	}
	if ok, err := l.enter(i); !ok {
		return l.none(e, err)
	}
	if at, err := l.src.SeekGE(key, t, e); at >= 0 || err != nil {
		return at, err
	}
	return l.firstFrom(i+1, e)
}

func (l *level) SeekLT(key []byte, t base.Trailer, e *base.Chunk) (int, error) {
	i := sort.Search(len(l.files), func(i int) bool {
		k := &l.files[i].Smallest
		return l.cmp.CompareInternal(k.User, k.Trailer, key, t) >= 0
	})
	if ok, err := l.enter(i - 1); !ok {
		return l.none(e, err)
	}
	if at, err := l.src.SeekLT(key, t, e); at >= 0 || err != nil {
		return at, err
	}
	return l.lastFrom(i-2, e)
}

func (l *level) Next(e *base.Chunk) (bool, error) {
	if l.src == nil {
		return false, nil
	}
	if ok, err := l.src.Next(e); ok || err != nil {
		return ok, err
	}
	i, err := l.firstFrom(l.cur+1, e)
	return i >= 0, err
}

func (l *level) Prev(e *base.Chunk) (bool, error) {
	if l.src == nil {
		return false, nil
	}
	if ok, err := l.src.Prev(e); ok || err != nil {
		return ok, err
	}
	i, err := l.lastFrom(l.cur-1, e)
	return i >= 0, err
}

func (l *level) Close() {
	l.leave()
	*l = level{}
	levels.Put(l)
}
