package testkit

import (
	"slices"
	"sort"

	"github.com/loamdb/loam/internal/base"
)

// Model is a database as it should be: a sorted map that keeps every version,
// so that any earlier state can be read. The zero Time is the empty database.
type Model struct {
	cmp  *base.Comparer
	keys []*history // every key ever written, in order
	past map[string]*history
	now  Time
}

// history is a key with all it ever held, oldest first.
type history struct {
	key      string
	bytes    []byte // key
	versions []version
}

// Time numbers the states of a Model: every Put and Delete makes the next.
type Time int

type version struct {
	at    Time
	value string
	gone  bool
}

// NewModel returns an empty model. The comparer's equality must be bytewise.
func NewModel(cmp *base.Comparer) *Model {
	return &Model{cmp: cmp, past: map[string]*history{}}
}

// Now is the present state, to be read at later.
func (m *Model) Now() Time { return m.now }

// Put sets key.
func (m *Model) Put(key, value []byte) { m.add(key, version{value: string(value)}) }

// Delete removes key.
func (m *Model) Delete(key []byte) { m.add(key, version{gone: true}) }

func (m *Model) add(key []byte, v version) {
	m.now++
	v.at = m.now
	h := m.past[string(key)]
	if h == nil {
		h = &history{key: string(key)}
		h.bytes = []byte(h.key)
		m.keys = slices.Insert(m.keys, m.search(key), h)
		m.past[h.key] = h
	}
	h.versions = append(h.versions, v)
}

// search is the index of the first key at or after key.
func (m *Model) search(key []byte) int {
	return sort.Search(len(m.keys), func(i int) bool { return m.cmp.Compare(m.keys[i].bytes, key) >= 0 })
}

// Get returns the value of key as of t.
func (m *Model) Get(t Time, key []byte) (value string, ok bool) {
	if h := m.past[string(key)]; h != nil {
		return h.at(t)
	}
	return "", false
}

func (h *history) at(t Time) (string, bool) {
	for i := len(h.versions) - 1; i >= 0; i-- {
		if v := &h.versions[i]; v.at <= t {
			return v.value, !v.gone
		}
	}
	return "", false
}

// Pair is a key with its value.
type Pair struct{ Key, Value string }

// Scan returns the pairs as of t with lower <= key < upper, ascending; a nil
// bound is open.
func (m *Model) Scan(t Time, lower, upper []byte) []Pair {
	var out []Pair
	c := m.Cursor(t, lower, upper)
	for ok := c.First(); ok; ok = c.Next() {
		out = append(out, Pair{c.Key(), c.Value()})
	}
	return out
}

// Cursor walks a Model as of one time. Keys that are written later do not
// disturb it.
type Cursor struct {
	m            *Model
	t            Time
	lower, upper []byte
	valid        bool
	on           *history // the present key
	index        int      // where it stood in m.keys
	value        string
}

// Cursor returns an unpositioned cursor over lower <= key < upper.
func (m *Model) Cursor(t Time, lower, upper []byte) *Cursor {
	return &Cursor{m: m, t: t, lower: lower, upper: upper}
}

// SetBounds changes the bounds and unpositions the cursor.
func (c *Cursor) SetBounds(lower, upper []byte) { c.lower, c.upper, c.valid = lower, upper, false }

// Valid reports whether the cursor is on a pair.
func (c *Cursor) Valid() bool { return c.valid }

// Key is the present key.
func (c *Cursor) Key() string { return c.on.key }

// Value is the present value.
func (c *Cursor) Value() string { return c.value }

// forward stands on the first visible key of keys[i:] below upper.
func (c *Cursor) forward(i int) bool {
	for c.valid = false; i < len(c.m.keys); i++ {
		h := c.m.keys[i]
		if c.upper != nil && c.m.cmp.Compare(h.bytes, c.upper) >= 0 {
			return false
		}
		if c.stand(i, h) {
			return true
		}
	}
	return false
}

// backward stands on the last visible key of keys[:i+1] at or above lower.
func (c *Cursor) backward(i int) bool {
	for c.valid = false; i >= 0; i-- {
		h := c.m.keys[i]
		if c.lower != nil && c.m.cmp.Compare(h.bytes, c.lower) < 0 {
			return false
		}
		if c.stand(i, h) {
			return true
		}
	}
	return false
}

func (c *Cursor) stand(i int, h *history) bool {
	c.value, c.valid = h.at(c.t)
	if c.valid {
		c.on, c.index = h, i
	}
	return c.valid
}

// where is the present key's index, which grows as keys before it come.
func (c *Cursor) where() int {
	if c.m.keys[c.index] != c.on {
		c.index = c.m.search(c.on.bytes)
	}
	return c.index
}

// First moves to the first pair.
func (c *Cursor) First() bool {
	if c.lower == nil {
		return c.forward(0)
	}
	return c.forward(c.m.search(c.lower))
}

// Last moves to the last pair.
func (c *Cursor) Last() bool {
	if c.upper == nil {
		return c.backward(len(c.m.keys) - 1)
	}
	return c.backward(c.m.search(c.upper) - 1)
}

// SeekGE moves to the first pair at or after key.
func (c *Cursor) SeekGE(key []byte) bool {
	if c.lower != nil && c.m.cmp.Compare(key, c.lower) < 0 {
		key = c.lower
	}
	return c.forward(c.m.search(key))
}

// SeekLT moves to the last pair before key.
func (c *Cursor) SeekLT(key []byte) bool {
	if c.upper != nil && c.m.cmp.Compare(key, c.upper) > 0 {
		key = c.upper
	}
	return c.backward(c.m.search(key) - 1)
}

// Next moves on; the cursor must be valid.
func (c *Cursor) Next() bool { return c.valid && c.forward(c.where()+1) }

// Prev moves back; the cursor must be valid.
func (c *Cursor) Prev() bool { return c.valid && c.backward(c.where()-1) }
