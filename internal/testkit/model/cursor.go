package model

import "github.com/loamdb/loam/internal/base"

// Cursor walks a Model as a reader at one sequence number. Later versions and
// new keys do not disturb it.
type Cursor struct {
	m            *Model
	at           base.SeqNum
	lower, upper []byte
	on           *history // the present key
	index        int      // where it stood in m.keys
	entry        Entry    // its visible version
	valid        bool     // whether the cursor is on a key
}

// Cursor returns an unpositioned cursor over lower <= key < upper; a nil bound
// is open.
func (m *Model) Cursor(at base.SeqNum, lower, upper []byte) *Cursor {
	return &Cursor{m: m, at: at, lower: lower, upper: upper}
}

// SetBounds changes the bounds and unpositions the cursor.
func (c *Cursor) SetBounds(lower, upper []byte) {
	c.lower, c.upper = lower, upper
	c.Unposition()
}

// Unposition takes the cursor off its key.
func (c *Cursor) Unposition() { c.valid = false }

// Valid reports whether the cursor is on a key.
func (c *Cursor) Valid() bool { return c.valid }

// Key is the present key.
func (c *Cursor) Key() string { return string(c.entry.Key) }

// Value is the present value.
func (c *Cursor) Value() string { return string(c.entry.Value) }

// forward moves to the first visible key of keys[i:] below upper.
func (c *Cursor) forward(i int) bool {
	for c.Unposition(); i < len(c.m.keys); i++ {
		h := c.m.keys[i]
		if c.upper != nil && c.m.cmp.Compare(h.key, c.upper) >= 0 {
			return false
		}
		if c.position(i, h) {
			return true
		}
	}
	return false
}

// backward moves to the last visible key of keys[:i+1] at or above lower.
func (c *Cursor) backward(i int) bool {
	for c.Unposition(); i >= 0; i-- {
		h := c.m.keys[i]
		if c.lower != nil && c.m.cmp.Compare(h.key, c.lower) < 0 {
			return false
		}
		if c.position(i, h) {
			return true
		}
	}
	return false
}

func (c *Cursor) position(i int, h *history) bool {
	e := c.m.live(h, c.at)
	if e == nil {
		return false
	}
	c.on, c.index, c.entry, c.valid = h, i, *e, true
	return true
}

// where is the present key's index, which grows when keys before it are added.
func (c *Cursor) where() int {
	if c.m.keys[c.index] != c.on {
		c.index = c.m.search(c.on.key)
	}
	return c.index
}

// First moves to the first key.
func (c *Cursor) First() bool {
	if c.lower == nil {
		return c.forward(0)
	}
	return c.forward(c.m.search(c.lower))
}

// Last moves to the last key.
func (c *Cursor) Last() bool {
	if c.upper == nil {
		return c.backward(len(c.m.keys) - 1)
	}
	return c.backward(c.m.search(c.upper) - 1)
}

// SeekGE moves to the first key at or after key.
func (c *Cursor) SeekGE(key []byte) bool {
	if c.lower != nil && c.m.cmp.Compare(key, c.lower) < 0 {
		key = c.lower
	}
	return c.forward(c.m.search(key))
}

// SeekLT moves to the last key before key.
func (c *Cursor) SeekLT(key []byte) bool {
	if c.upper != nil && c.m.cmp.Compare(key, c.upper) > 0 {
		key = c.upper
	}
	return c.backward(c.m.search(key) - 1)
}

// Next moves to the next key, from a key only.
func (c *Cursor) Next() bool { return c.Valid() && c.forward(c.where()+1) }

// Prev moves to the previous key, from a key only.
func (c *Cursor) Prev() bool { return c.Valid() && c.backward(c.where()-1) }
