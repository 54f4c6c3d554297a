package iters

import "github.com/loamdb/loam/internal/base"

// NewCursor makes a cursor over sources, newest first, as of seq, within [lower, upper).
// See Reset.
func NewCursor(cmp *base.Comparer, sources []base.Source, seq base.SeqNum, lower,
	upper []byte) *Cursor {
	c := new(Cursor)
	c.Reset(cmp, sources, Options{Seq: seq, Lower: lower, Upper: upper, Merge: appendOperator})
	return c
}
