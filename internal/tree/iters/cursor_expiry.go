package iters

import "github.com/loamdb/loam/internal/base"

// Entries that expire are shown as entries of the cursor's own, without their deadlines.

// isGone reports whether entry i of e, which is usable, says that its key has no value: it is a
// tombstone, or has expired.
func (c *Cursor) isGone(e *base.Chunk, i int) bool {
	k := e.Trailers[i].Kind()
	if !k.Expires() {
		return k.IsTombstone()
	}
	_, deadline, _ := base.CutDeadline(e.Value(i))
	return deadline <= c.now
}

// showLive moves the cursor to entry i of e, which is usable and expires. It reports false if the
// entry has expired. Forward, the merge is to leave the entry.
func (c *Cursor) showLive(e *base.Chunk, i int) bool {
	value, deadline, _ := base.CutDeadline(e.Value(i))
	if deadline <= c.now {
		return false
	}
	c.showOwn(e.Key(i), value, e.Trailers[i].Seq())
	c.deadline = deadline
	return true
}

// failed makes the cursor invalid after a failure of the merge, and returns false.
func (c *Cursor) failed() bool {
	c.invalidate()
	return false
}

// Deadline is when the present entry expires, in seconds since 1970; 0: never.
func (c *Cursor) Deadline() uint64 {
	if c.e == &c.own && c.Valid() {
		return c.deadline
	}
	return 0
}
