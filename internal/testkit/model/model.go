// Package model is the oracle of the tests: a sorted map that does nothing
// clever. Model is a database that keeps every version of every key, so that
// any earlier state can be read; Entry is one version of one key.
//
// Concurrent readers may share a model that nobody changes.
package model

import (
	"bytes"
	"slices"
	"sort"

	"github.com/loamdb/loam/internal/base"
)

// Model is a database as it should be. Keys that its comparer takes for equal
// are one key, in whatever spelling. Sequence number 0 is the empty database,
// unless Add puts an entry there.
type Model struct {
	cmp        *base.Comparer
	keys       []*history // ascending
	bySpelling map[string]*history
	now        base.SeqNum
	// Join applies an operand to a value, nil for none, which it may change. New makes it
	// JoinByComma.
	Join func(existing, operand []byte) []byte
}

// JoinByComma appends an operand behind a comma, in the room behind existing if there is some.
func JoinByComma(existing, operand []byte) []byte {
	if existing == nil {
		return append([]byte{}, operand...)
	}
	return append(append(existing, ','), operand...)
}

// history holds the versions of one key, oldest first.
type history struct {
	key      []byte // in one of its spellings
	versions []Entry
}

// New returns an empty model.
func New(cmp *base.Comparer, es ...Entry) *Model {
	m := &Model{cmp: cmp, bySpelling: map[string]*history{}, Join: JoinByComma}
	for _, e := range es {
		m.Add(e)
	}
	return m
}

// Now is the newest sequence number.
func (m *Model) Now() base.SeqNum { return m.now }

// Put sets key at the next sequence number.
func (m *Model) Put(key, value []byte) {
	m.Add(Entry{key, value, base.MakeTrailer(m.now+1, base.KindSet)})
}

// Delete removes key at the next sequence number.
func (m *Model) Delete(key []byte) {
	m.Add(Entry{key, nil, base.MakeTrailer(m.now+1, base.KindDelete)})
}

// Merge adds an operand to key at the next sequence number.
func (m *Model) Merge(key, operand []byte) {
	m.Add(Entry{key, operand, base.MakeTrailer(m.now+1, base.KindMerge)})
}

// DeleteRange removes the keys from start up to, not including, limit, at the next sequence
// number.
func (m *Model) DeleteRange(start, limit []byte) {
	m.now++
	for i := m.search(start); i < len(m.keys) && m.cmp.Compare(m.keys[i].key, limit) < 0; i++ {
		h := m.keys[i]
		h.versions = append(h.versions, Entry{h.key, nil, base.MakeTrailer(m.now, base.KindDelete)})
	}
}

// Add inserts a copy of an entry, whose sequence number may be any.
func (m *Model) Add(e Entry) {
	e.Key, e.Value = bytes.Clone(e.Key), bytes.Clone(e.Value)
	m.now = max(m.now, e.Trailer.Seq())
	h := m.history(e.Key)
	if h == nil {
		h = &history{key: e.Key}
		m.keys = slices.Insert(m.keys, m.search(e.Key), h)
	}
	m.bySpelling[string(e.Key)] = h
	i := len(h.versions)
	for i > 0 && h.versions[i-1].Trailer > e.Trailer {
		i--
	}
	h.versions = slices.Insert(h.versions, i, e)
}

func (m *Model) history(key []byte) *history {
	if h := m.bySpelling[string(key)]; h != nil || m.cmp.EqualIsBytewise {
		return h
	}
	if i := m.search(key); i < len(m.keys) && m.cmp.Compare(m.keys[i].key, key) == 0 {
		return m.keys[i]
	}
	return nil
}

// search returns the index of the first key at or after key.
func (m *Model) search(key []byte) int {
	return sort.Search(len(m.keys), func(i int) bool {
		return m.cmp.Compare(m.keys[i].key, key) >= 0
	})
}

// newest returns the newest version up to a sequence number, nil if there is none.
func (h *history) newest(at base.SeqNum) *Entry {
	for i := len(h.versions) - 1; i >= 0; i-- {
		if e := &h.versions[i]; e.Trailer.Seq() <= at {
			return e
		}
	}
	return nil
}

// live is what a reader sees at a sequence number: the newest set, with the operands that
// are newer applied to it, nil if there is nothing.
func (m *Model) live(h *history, at base.SeqNum) *Entry {
	n := sort.Search(len(h.versions), func(i int) bool { return h.versions[i].Trailer.Seq() > at })
	first := n // of the operands
	for first > 0 && h.versions[first-1].Trailer.Kind() == base.KindMerge {
		first--
	}
	var found *Entry
	if first > 0 && h.versions[first-1].Trailer.Kind() == base.KindSet {
		found = &h.versions[first-1]
	}
	if first == n {
		return found
	}
	var value []byte // of its own
	if found != nil {
		value = append([]byte{}, found.Value...)
	}
	for i := first; i < n; i++ {
		value = m.Join(value, h.versions[i].Value)
	}
	last := &h.versions[n-1]
	return &Entry{Key: last.Key, Value: value, Trailer: base.MakeTrailer(last.Trailer.Seq(),
		base.KindSet)}
}

// Get returns the value that a reader at a sequence number sees.
func (m *Model) Get(at base.SeqNum, key []byte) (value string, ok bool) {
	if h := m.history(key); h != nil {
		if e := m.live(h, at); e != nil {
			return string(e.Value), true
		}
	}
	return "", false
}

// Newest returns the newest version of key up to a sequence number, a
// tombstone too.
func (m *Model) Newest(at base.SeqNum, key []byte) (e Entry, ok bool) {
	if h := m.history(key); h != nil {
		if e := h.newest(at); e != nil {
			return *e, true
		}
	}
	return Entry{}, false
}

// Entries returns every version of every key in internal order.
func (m *Model) Entries() []Entry {
	var out []Entry
	for _, h := range m.keys {
		for _, e := range slices.Backward(h.versions) {
			out = append(out, e)
		}
	}
	return out
}

// EntriesAt returns the newest version of each key up to a sequence number,
// tombstones too.
func (m *Model) EntriesAt(at base.SeqNum) []Entry {
	var out []Entry
	for _, h := range m.keys {
		if e := h.newest(at); e != nil {
			out = append(out, *e)
		}
	}
	return out
}

// Pair is a key with its value.
type Pair struct{ Key, Value string }

// Scan returns what a reader at a sequence number sees of lower <= key < upper,
// ascending; a nil bound is open.
func (m *Model) Scan(at base.SeqNum, lower, upper []byte) []Pair {
	var out []Pair
	c := m.Cursor(at, lower, upper)
	for ok := c.First(); ok; ok = c.Next() {
		out = append(out, Pair{c.Key(), c.Value()})
	}
	return out
}
