package tree

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/tree/memtable"
)

// multiGetChunk keys go through the stages of a MultiGet side by side: enough
// to overlap their cache misses and reads, few enough to stay in the L1 cache.
const multiGetChunk = 32

// MultiResult receives the values of a MultiGet. Reuse one to allocate nothing.
type MultiResult struct {
	buf   []byte
	spans []span
	slow  bool // a span is unresolved
	at    moment
	state [multiGetChunk]lookup
}

// span is where a value lies in buf; end < 0 is a missing key, or one that is not resolved
// yet.
type span struct{ start, end int }

// unresolved is the end of a span whose newest visible entry does not end the lookup.
const unresolved = -2

// lookup is one key on its way through the stages.
type lookup struct {
	base.Lookup
	done   bool
	reader sstable.Reader   // to ask next, nil for none
	at     sstable.Position // in it
	pinned sstable.Pinned   // the block there, if it is cached
}

// unpin gives up the block of a lookup that goes no further.
func (l *lookup) unpin() {
	if l.pinned.Valid() {
		l.pinned.Release()
		l.pinned = sstable.Pinned{}
	}
}

// Len is the number of keys asked for.
func (r *MultiResult) Len() int { return len(r.spans) }

// Value returns the value of key i; found is false when it has none, and when
// there is no key i. The slice is valid until the next use of r.
func (r *MultiResult) Value(i int) (value []byte, found bool) {
	if uint(i) >= uint(len(r.spans)) || r.spans[i].end < 0 {
		return nil, false
	}
	s := r.spans[i]
	return r.buf[s.start:s.end:s.end], true
}

// Reset makes r one of n missing keys.
func (r *MultiResult) Reset(n int) {
	r.buf, r.spans, r.slow = r.buf[:0], r.spans[:0], false
	for range n {
		r.spans = append(r.spans, span{end: -1})
	}
}

// Set replaces the answer for key i. The value is copied.
func (r *MultiResult) Set(i int, value []byte, found bool) {
	r.spans[i] = span{end: -1}
	if found {
		r.buf = append(r.buf, value...)
		r.spans[i] = span{start: len(r.buf) - len(value), end: len(r.buf)}
	}
}

// MultiGet looks up many keys in snap, or in one state of the present if that is
// nil. On an error the results are not to be used.
func (t *Tree) MultiGet(keys [][]byte, snap *Snapshot, r *MultiResult) (err error) {
	r.Reset(0)
	r.at = t.at(snap)
	s, seq, err := t.acquireAt(snap)
	if err != nil {
		return err
	}
	defer func() {
		for i := range r.state[:min(len(keys), multiGetChunk)] {
			r.state[i].unpin() // after a failure
		}
		s.Unref()
		clear(r.state[:min(len(keys), multiGetChunk)]) // keep no key alive
		if r := recover(); r != nil {
			err = t.panicked(r)
		}
	}()
	r.Reset(len(keys))
	if s.hasRangeDels() {
		return t.multiGetCovered(s, keys, seq, r)
	}
	for start := 0; start < len(keys); start += multiGetChunk {
		end := min(start+multiGetChunk, len(keys))
		if err := t.multiGetChunk(s, keys[start:end], seq, r, r.spans[start:end]); err != nil {
			return err
		}
	}
	if r.slow {
		return t.multiGetResolved(s, keys, seq, r)
	}
	return nil
}

// multiGetResolved is the slow path of MultiGet.
func (t *Tree) multiGetResolved(s *ReadState, keys [][]byte, seq base.SeqNum,
	r *MultiResult) error {
	h := hold{tree: t, state: s, counted: true, at: r.at}
	fold := mergeop.New()
	defer fold.Free()
	for i := range r.spans {
		if r.spans[i].end != unresolved {
			continue
		}
		fold.Reset()
		one := resolver{key: keys[i], seq: seq, fold: fold}
		if err := one.collect(&h); err != nil {
			return err
		}
		r.spans[i].end = -1
		buf, err := one.value(t, r.buf)
		switch {
		case err == nil:
			r.spans[i] = span{start: len(r.buf), end: len(buf)}
			r.buf = buf
		case !errors.Is(err, base.ErrNotFound):
			return err
		}
	}
	return nil
}

// multiGetChunk takes up to multiGetChunk keys through memtables and tables,
// stage by stage, so that the memory accesses of one stage overlap.
func (t *Tree) multiGetChunk(s *ReadState, keys [][]byte, seq base.SeqNum, r *MultiResult,
	spans []span) error {
	state := r.state[:len(keys)]
	for i, key := range keys {
		state[i] = lookup{Lookup: memtable.MakeLookup(t.cmp, key, seq)}
		s.Mem.Prefetch(state[i].Lookup)
	}
	left := len(keys)
	for i, key := range keys {
		if value, trailer, found := s.memGet(state[i].Lookup); found {
			r.record(&state[i], &spans[i], append(r.buf, value...), trailer)
			left--
		} else {
			state[i].Lookup = base.MakeLookup(t.cmp, key, seq)
		}
	}
	for _, m := range s.Version.Levels[0].Files {
		if left == 0 {
			return nil
		}
		n, err := t.multiGetTables(r, spans, func(l base.Lookup) *manifest.FileMeta {
			if t.cmp.Cmp(l.Key(), m.Smallest.User) < 0 || t.cmp.Cmp(l.Key(), m.Largest.User) > 0 {
				return nil
			}
			return m
		})
		if err != nil {
			return err
		}
		left -= n
	}
	for i := 1; i < manifest.NumLevels && left > 0; i++ {
		level := &s.Version.Levels[i]
		if len(level.Files) == 0 {
			continue
		}
		n, err := t.multiGetTables(r, spans, func(l base.Lookup) *manifest.FileMeta {
			return t.candidate(level, l)
		})
		if err != nil {
			return err
		}
		left -= n
	}
	return nil
}

// multiGetTables takes the keys without an answer through one sorted run, where
// pick names the file that may hold a key. It returns how many got one.
func (t *Tree) multiGetTables(r *MultiResult, spans []span,
	pick func(base.Lookup) *manifest.FileMeta) (answered int, err error) {
	state := r.state[:len(spans)]
	for i := range state {
		l := &state[i]
		l.reader = nil
		if l.done {
			continue
		}
		m := pick(l.Lookup)
		if m == nil {
			continue
		}
		reader, err := t.shared.Files.Reader(m)
		if err != nil {
			return 0, err
		}
		l.reader = reader
		reader.PrefetchFilter(l.Lookup)
	}
	for i := range state {
		if l := &state[i]; l.reader != nil {
			ok := l.reader.MayContain(l.Lookup)
			if ok {
				l.at, ok = l.reader.Find(l.Lookup)
			}
			if !ok {
				l.reader = nil
			}
		}
	}
	for i := range state {
		if l := &state[i]; l.reader != nil {
			l.reader.Prefetch(l.at)
		}
	}
	for i := range state {
		if l := &state[i]; l.reader != nil {
			l.pinned, _ = l.reader.Pin(l.at, l.Lookup)
		}
	}
	for i := range state {
		l := &state[i]
		if l.reader == nil {
			continue
		}
		value, hit, found, err := l.get(r.buf)
		if err != nil {
			return 0, err
		}
		if found {
			r.record(l, &spans[i], value, hit.Trailer)
			answered++
		} else {
			t.soughtInVain(hit.Searched)
		}
	}
	return answered, nil
}

// get is the last stage of a lookup in a table.
func (l *lookup) get(dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	if l.pinned.Valid() {
		b := l.pinned
		l.pinned = sstable.Pinned{}
		value, hit, found = l.reader.GetPinned(b, l.at, l.Lookup, dst)
		return value, hit, found, nil
	}
	return l.reader.GetAt(l.at, l.Lookup, 0, dst)
}

// record keeps the answer for one key; buf is r.buf with the value appended.
func (r *MultiResult) record(l *lookup, s *span, buf []byte, t base.Trailer) {
	l.done = true
	l.reader = nil
	switch t.Kind() {
	case base.KindSet:
		*s = span{start: len(r.buf), end: len(buf)}
		r.buf = buf
	case base.KindDelete:
	case base.KindSetExpiring:
		user, deadline, ok := base.CutDeadline(buf[len(r.buf):])
		if !ok {
			s.end, r.slow = unresolved, true // which says what is wrong
		} else if !r.at.expired(deadline) {
			*s = span{start: len(r.buf), end: len(r.buf) + len(user)}
			r.buf = buf[:s.end]
		}
	default:
		s.end, r.slow = unresolved, true
	}
}
