package iters

import (
	"sync"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/manifest"
)

// level is the concatenation of the tables of one sorted run. It has one table
// open at a time, and none of those that lie outside of the bounds.
type level struct {
	cmp          *base.Comparer
	files        []*manifest.FileMeta
	open         func(*manifest.FileMeta) (base.Source, error)
	lower, upper []byte
	cur          int // index of src's file
	aimed        int // the file that Aim found, -1 for none
	src          base.Source
	err          error
}

// NewLevel makes a source of files that ascend without overlap in internal
// order. A table is opened when a move first needs it and closed when a move
// leaves it. files is retained. After Close it must not be touched.
func NewLevel(cmp *base.Comparer, files []*manifest.FileMeta, open func(*manifest.FileMeta) (base.Source, error)) base.Source {
	l := levels.Get().(*level)
	*l = level{cmp: cmp, files: files, open: open, cur: -1, aimed: -1}
	return l
}

// levels are closed ones, for NewLevel to use again.
var levels = sync.Pool{New: func() any { return new(level) }}

// SetBounds says that no user key outside of [lower, upper) will be looked at.
func (l *level) SetBounds(lower, upper []byte) { l.lower, l.upper = lower, upper }

// enter makes file n the open one. It reports false when there is no such file
// within the bounds, and on failure.
func (l *level) enter(n int) bool {
	if l.err != nil || n < 0 || n >= len(l.files) {
		return false
	}
	f := l.files[n]
	if l.upper != nil && l.cmp.Cmp(f.Smallest.User, l.upper) >= 0 || l.lower != nil && l.cmp.Cmp(f.Largest.User, l.lower) < 0 {
		return false
	}
	if l.src != nil && l.cur == n {
		return true
	}
	l.leave()
	if l.err != nil {
		return false
	}
	src, err := l.open(f)
	if err != nil {
		l.err = err
		return false
	}
	l.cur, l.src = n, src
	return true
}

func (l *level) leave() {
	if l.src == nil {
		return
	}
	if err := l.src.Close(); err != nil && l.err == nil {
		l.err = err
	}
	l.src, l.cur = nil, -1
}

// failed takes over the open table's error.
func (l *level) failed() bool {
	if err := l.src.Err(); err != nil && l.err == nil {
		l.err = err
	}
	return l.err != nil
}

func (l *level) none(e *base.Entries) int {
	*e = base.Entries{}
	return -1
}

// firstFrom is the first entry of file n or of those after it.
func (l *level) firstFrom(n int, e *base.Entries) int {
	for ; l.enter(n); n++ {
		if i := l.src.First(e); i >= 0 || l.failed() {
			return i
		}
	}
	return l.none(e)
}

// lastFrom is the last entry of file n or of those before it.
func (l *level) lastFrom(n int, e *base.Entries) int {
	for ; l.enter(n); n-- {
		if i := l.src.Last(e); i >= 0 || l.failed() {
			return i
		}
	}
	return l.none(e)
}

func (l *level) First(e *base.Entries) int {
	if l.lower != nil {
		return l.SeekGE(l.lower, base.MaxTrailer, e)
	}
	return l.firstFrom(0, e)
}

func (l *level) Last(e *base.Entries) int {
	if l.upper != nil {
		return l.SeekLT(l.upper, base.MaxTrailer, e)
	}
	return l.lastFrom(len(l.files)-1, e)
}

// aimer is a source that can have the processor fetch what SeekGE(key, t), which
// is the next call, will look at: after Aims of several sources, their SeekGEs wait
// for memory once, not one after the other.
type aimer interface {
	Aim(key []byte, t base.Trailer)
}

func (l *level) Aim(key []byte, t base.Trailer) {
	if l.aimed = l.find(key, t); l.enter(l.aimed) {
		if a, ok := l.src.(aimer); ok {
			a.Aim(key, t)
		}
	}
}

// find is the file that has the first entry at or after (key, t).
func (l *level) find(key []byte, t base.Trailer) int {
	i, j := 0, len(l.files)
	for i < j {
		h := int(uint(i+j) >> 1)
		k := &l.files[h].Largest
		if l.cmp.CompareInternal(k.User, k.Trailer, key, t) < 0 {
			i = h + 1
		} else {
			j = h
		}
	}
	return i
}

func (l *level) SeekGE(key []byte, t base.Trailer, e *base.Entries) int {
	i := l.aimed
	if l.aimed = -1; i < 0 {
		i = l.find(key, t)
	}
	if !l.enter(i) {
		return l.none(e)
	}
	if at := l.src.SeekGE(key, t, e); at >= 0 || l.failed() {
		return at
	}
	return l.firstFrom(i+1, e)
}

func (l *level) SeekLT(key []byte, t base.Trailer, e *base.Entries) int {
	i, j := 0, len(l.files)
	for i < j {
		h := int(uint(i+j) >> 1)
		k := &l.files[h].Smallest
		if l.cmp.CompareInternal(k.User, k.Trailer, key, t) < 0 {
			i = h + 1
		} else {
			j = h
		}
	}
	if !l.enter(i - 1) {
		return l.none(e)
	}
	if at := l.src.SeekLT(key, t, e); at >= 0 || l.failed() {
		return at
	}
	return l.lastFrom(i-2, e)
}

func (l *level) Next(e *base.Entries) bool {
	if l.src == nil {
		return false
	}
	if l.src.Next(e) {
		return true
	}
	return !l.failed() && l.firstFrom(l.cur+1, e) >= 0
}

func (l *level) Prev(e *base.Entries) bool {
	if l.src == nil {
		return false
	}
	if l.src.Prev(e) {
		return true
	}
	return !l.failed() && l.lastFrom(l.cur-1, e) >= 0
}

func (l *level) Err() error { return l.err }

func (l *level) Close() error {
	l.leave()
	err := l.err
	*l = level{}
	levels.Put(l)
	return err
}
