package iters

import "github.com/loamdb/loam/internal/base"

// NewCursor makes a cursor over sources, newest first, as of seq. The bounds
// [lower, upper) may be nil and are retained. The sources are closed by Close.
// The cursor is not positioned.
func NewCursor(cmp *base.Comparer, sources []base.Source, seq base.SeqNum, lower, upper []byte) *Cursor {
	c := new(Cursor)
	c.Reset(cmp, sources, seq, lower, upper)
	return c
}
