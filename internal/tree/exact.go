package tree

import (
	"bytes"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/format/sstable"
)

// A seek to a key that is there needs no merge. A seek in general positions every source, because
// the next key may be in any of them, and it has the memtables put in order before. If the newest
// visible version of the key itself is a value, the key is the answer: no key at or after it comes
// before it. A point read finds that version by hashes and filters, and stops at the first source
// that has it. So an iterator is opened without its sources (lazy). The first seek looks for the
// key itself, and the sources are opened by the first move that needs them: a move on from there,
// a move to the first key, or a seek to a key that is not there. They show the same entries then:
// the iterator holds the read state, and its sequence number is that of the time of Init.
//
// A point read in vain is lost time, about a fifth of a seek, and so is one from which the iterator
// moves on. So each scan, which serves many iterators one after the other, notes how often it was
// worth it (luck), and without luck tries one seek in exactEvery.
const (
	maxLuck    = 8
	exactEvery = 64
)

// lazyWith reports whether an iterator with these options opens its sources when they are needed.
// A reader's own writes are sources as of Init; a Watch takes the moves of the cursor; under some
// orders a key that is equal to the one sought has other bytes.
func (t *Tree) lazyWith(o *IterOptions) bool {
	return o.Own == nil && len(o.OwnRangeDels) == 0 && o.Watch == nil && o.most == 0 &&
		t.cmp.EqualIsBytewise
}

// seekExact moves a lazy iterator to key if the newest visible version of key is a value that the
// version itself has. It does not change the iterator otherwise, but for a position that it had.
// The scan keeps key, which may alias what the iterator shows.
func (it *Iterator) seekExact(key []byte) bool {
	s := it.scan
	it.endExact(true)
	s.key = append(s.key[:0], key...)
	unlikely := s.luck < 0 && s.seeks%exactEvery != 0 && !invariants.Enabled
	if unlikely || !it.inBounds(s.key) || !it.open() {
		return false
	}
	var flags sstable.ReadFlags
	if it.noFill {
		flags |= sstable.NoFill
	}
	if it.keysOnly {
		flags |= sstable.NoValue
	}
	h := hold{tree: it.tree, state: it.state, hasRef: true}
	var w walk
	w.begin(it.tree, s.key, it.view.Seq, flags)
	w.noValue = it.keysOnly
	entry, t, found, err := h.next(&w, append(s.entry[:0], s.key...), nil)
	if err == nil && found && t.Kind() == base.KindValueHandle {
		entry, err = h.large(entry, len(s.key), flags)
		t = base.MakeTrailer(t.Seq(), base.KindSet)
	}
	if err != nil || !found || t.Kind() != base.KindSet {
		s.luck = max(s.luck-1, -maxLuck) // the seek reports an error, if it meets it
		return false
	}
	s.entry, it.err = entry, nil
	it.exacts++
	s.cursor.Show(entry, len(s.key), t)
	return true
}

// endExact ends the position that seekExact made, if there is one. worth says that the iterator did
// not move on from there.
func (it *Iterator) endExact(worth bool) {
	s := it.scan
	switch {
	case !s.cursor.Valid():
		return
	case worth:
		s.luck = min(s.luck+1, maxLuck)
	default:
		s.luck = max(s.luck-1, -maxLuck)
	}
	s.cursor.Hide()
	if cap(s.entry) > maxUnwanted {
		s.entry = nil
	}
}

// leaveExact moves a lazy iterator on from the key that seekExact found: back, or forward.
func (it *Iterator) leaveExact(back bool) bool {
	key := it.scan.key
	it.endExact(false)
	it.exacts-- // runs are sought after all
	if !it.ready() {
		return false
	}
	if back {
		return it.cursor.SeekLT(key)
	}
	it.cursor.SkipValues(true)
	ok := it.cursor.SeekGE(key)
	it.cursor.SkipValues(it.keysOnly)
	invariants.Check(!ok || bytes.Equal(it.cursor.Key(), key),
		"tree: a seek does not find the key that a point read found")
	return ok && it.cursor.Next()
}

// inBounds reports whether an iterator may show key.
func (it *Iterator) inBounds(key []byte) bool {
	cmp := it.tree.cmp
	return (it.lower == nil || cmp.Cmp(key, it.lower) >= 0) &&
		(it.upper == nil || cmp.Cmp(key, it.upper) < 0)
}
