package testkit

import (
	"sort"

	"github.com/loamdb/loam/internal/base"
)

// Model is a database as it should be: a sorted map that keeps every version,
// so that any earlier state can be read. The zero Time is the empty database.
type Model struct {
	cmp  *base.Comparer
	keys []string // every key ever written, in order
	past map[string][]version
	now  Time
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
	return &Model{cmp: cmp, past: map[string][]version{}}
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
	k := string(key)
	if _, ok := m.past[k]; !ok {
		i := m.search(key)
		m.keys = append(m.keys, "")
		copy(m.keys[i+1:], m.keys[i:])
		m.keys[i] = k
	}
	m.past[k] = append(m.past[k], v)
}

// search is the index of the first key at or after key.
func (m *Model) search(key []byte) int {
	return sort.Search(len(m.keys), func(i int) bool { return m.cmp.Compare([]byte(m.keys[i]), key) >= 0 })
}

// Get returns the value of key as of t.
func (m *Model) Get(t Time, key []byte) (value string, ok bool) { return m.at(t, string(key)) }

func (m *Model) at(t Time, key string) (string, bool) {
	h := m.past[key]
	for i := len(h) - 1; i >= 0; i-- {
		if h[i].at <= t {
			return h[i].value, !h[i].gone
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
	key, value   string
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
func (c *Cursor) Key() string { return c.key }

// Value is the present value.
func (c *Cursor) Value() string { return c.value }

// forward stands on the first visible key of keys[i:] below upper.
func (c *Cursor) forward(i int) bool {
	for c.valid = false; i < len(c.m.keys); i++ {
		k := c.m.keys[i]
		if c.upper != nil && c.m.cmp.Compare([]byte(k), c.upper) >= 0 {
			return false
		}
		if v, ok := c.m.at(c.t, k); ok {
			c.key, c.value, c.valid = k, v, true
			return true
		}
	}
	return false
}

// backward stands on the last visible key of keys[:i+1] at or above lower.
func (c *Cursor) backward(i int) bool {
	for c.valid = false; i >= 0; i-- {
		k := c.m.keys[i]
		if c.lower != nil && c.m.cmp.Compare([]byte(k), c.lower) < 0 {
			return false
		}
		if v, ok := c.m.at(c.t, k); ok {
			c.key, c.value, c.valid = k, v, true
			return true
		}
	}
	return false
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
func (c *Cursor) Next() bool { return c.valid && c.forward(c.m.search([]byte(c.key))+1) }

// Prev moves back; the cursor must be valid.
func (c *Cursor) Prev() bool { return c.valid && c.backward(c.m.search([]byte(c.key))-1) }
