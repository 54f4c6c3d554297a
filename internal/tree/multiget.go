package tree

import (
	"errors"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/sstable"
)

// multiGetChunk keys go through the stages of a MultiGet side by side: enough
// to overlap their cache misses and reads, few enough to stay in the L1 cache.
const multiGetChunk = 32

// MultiResult receives the values of a MultiGet. Reuse one to allocate nothing.
type MultiResult struct {
	buf   []byte
	spans []span
	slow  bool // a span is unresolved
	state [multiGetChunk]lookup
	large base.ValueBatch // of the values that lie in logs
	keys  []int           // of the batch's values, by their numbers
	first int             // number of the chunk's first key
}

// span is where a value lies in buf; end < 0 is a missing key, or one that is not resolved
// yet.
type span struct{ start, end int }

// unresolved is the end of a span whose newest visible entry does not end the lookup.
const unresolved = -2

// lookup is one key on its way through the stages.
type lookup struct {
	walk
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
	r.large.Reset()
	r.keys = r.keys[:0]
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
// nil. Keys may lie in what r has. On an error the results are not to be used.
func (t *Tree) MultiGet(keys [][]byte, snap *Snapshot, r *MultiResult) (err error) {
	r.buf = base.Reusable(r.buf, keys)
	r.Reset(0)
	ops := t.shared.Ops
	ops.MultiGetKeys.Add(int64(len(keys)))
	if ops.MultiGets.Count()%multiGetsPerSample == 1 {
		defer ops.MultiGetTimes.Since(hist.Now())
	}
	defer t.catch(&err)
	h := hold{tree: t, hasRef: true, at: t.at(snap)}
	var seq base.SeqNum
	if h.state, seq, err = t.acquireAt(snap); err != nil {
		return err
	}
	defer func() {
		used := r.state[:min(len(keys), multiGetChunk)]
		for i := range used {
			used[i].unpin() // after a failure
		}
		h.end()
		clear(used) // keep no key alive
	}()
	r.Reset(len(keys))
	for start := 0; start < len(keys); start += multiGetChunk {
		end := min(start+multiGetChunk, len(keys))
		r.first = start
		if err := h.multiGetChunk(keys[start:end], seq, r, r.spans[start:end]); err != nil {
			return err
		}
	}
	h.multiGetLarge(r)
	if r.slow {
		return h.multiGetResolved(keys, seq, r)
	}
	return nil
}

// multiGetLarge reads the values that lie in logs, in the order of their places. Those that it
// cannot read stay unresolved.
func (h *hold) multiGetLarge(r *MultiResult) {
	r.buf = h.tree.shared.Files.ReadValues(r.buf, &r.large)
	for i, key := range r.keys {
		if v := &r.large.Values[i]; v.To > 0 {
			r.spans[key] = span{start: v.From, end: v.To}
		} else {
			r.slow = true
		}
	}
}

// multiGetResolved is the slow path of MultiGet.
func (h *hold) multiGetResolved(keys [][]byte, seq base.SeqNum, r *MultiResult) error {
	fold := mergeop.New()
	defer fold.Free()
	for i, key := range keys {
		if r.spans[i].end != unresolved {
			continue
		}
		fold.Reset()
		one := resolver{fold: fold}
		if err := one.collect(h, key, seq, 0); err != nil {
			return err
		}
		r.spans[i].end = -1
		buf, err := one.value(h, key, r.buf)
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
func (h *hold) multiGetChunk(keys [][]byte, seq base.SeqNum, r *MultiResult, spans []span) error {
	state := r.state[:len(keys)]
	for i, key := range keys {
		l := &state[i]
		l.walk = walk{}
		l.begin(h.tree, key, seq, 0)
		h.state.Mem.Prefetch(l.Lookup)
	}
	for i := range state {
		if value, t, found := state[i].inMemory(h, nil); found {
			h.record(r, i, spans, append(r.buf, value...), t)
		}
	}
	for more := true; more; {
		var err error
		if more, err = h.multiGetTables(r, state, spans); err != nil {
			return err
		}
	}
	return nil
}

// multiGetTables takes each key without an answer through the next table that may hold it. It
// reports whether keys without an answer are left.
func (h *hold) multiGetTables(r *MultiResult, state []lookup, spans []span) (more bool, err error) {
	for i := range state {
		l := &state[i]
		l.reader = nil
		m := l.nextTable(h)
		if m == nil {
			continue
		}
		if l.unordered(h, m) {
			l.last, spans[i].end, r.slow = true, unresolved, true
			continue
		}
		if l.reader, err = h.tree.shared.Files.Reader(m); err != nil {
			return false, err
		}
		if m.RangeDels > 0 {
			l.cover(l.reader.RangeDels().Newest(l.Key(), l.Seq))
		}
		l.reader.PrefetchFilter(l.Lookup)
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
			more = more || !l.last
			continue
		}
		value, hit, found, err := l.get(r.buf)
		switch {
		case err != nil:
			return false, err
		case !found:
			h.tree.soughtInVain(hit.Searched)
		case hit.Trailer.Seq() >= l.covered:
			h.record(r, i, spans, value, hit.Trailer)
		}
		more = more || !l.last
	}
	return more, nil
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

// record keeps the answer for key i of a chunk; buf is r.buf with the value appended.
func (h *hold) record(r *MultiResult, i int, spans []span, buf []byte, t base.Trailer) {
	r.state[i].last = true
	s := &spans[i]
	switch t.Kind() {
	case base.KindSet:
		*s = span{start: len(r.buf), end: len(buf)}
		r.buf = buf
	case base.KindDelete:
	case base.KindSetExpiring, base.KindExpiringHandle:
		user, deadline, ok := base.CutDeadline(buf[len(r.buf):])
		switch {
		case !ok:
			s.end, r.slow = unresolved, true // which says what is wrong
		case h.at.expired(deadline):
		case t.Kind().Refers():
			r.recordLarge(i, s, user)
		default:
			*s = span{start: len(r.buf), end: len(r.buf) + len(user)}
			r.buf = buf[:s.end]
		}
	case base.KindValueHandle:
		r.recordLarge(i, s, buf[len(r.buf):])
	default:
		s.end, r.slow = unresolved, true
	}
}

// recordLarge keeps the handle of key i of a chunk. The slow path returns the error of a handle
// that cannot be decoded.
func (r *MultiResult) recordLarge(i int, s *span, handle []byte) {
	if s.end = unresolved; r.large.Add(handle) {
		r.keys = append(r.keys, r.first+i)
	} else {
		r.slow = true
	}
}
