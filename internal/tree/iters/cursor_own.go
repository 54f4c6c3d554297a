package iters

import "github.com/loamdb/loam/internal/base"

// A cursor shows an entry of its own where no source has the entry as it is shown, or has it still.

// showOwn moves the cursor to an entry of its own.
func (c *Cursor) showOwn(key, value []byte, seq base.SeqNum) {
	c.setOwn(key, value, base.MakeTrailer(seq, base.KindSet))
	c.setSpan(&c.own, 0, 0, 1)
	c.past, c.hide, c.last = true, false, nil
}

// keep copies entry i into own.
func (c *Cursor) keep(e *base.Chunk, i int) { c.setOwn(e.Key(i), e.Value(i), e.Trailers[i]) }

// setOwn makes own an entry. key may alias it.
func (c *Cursor) setOwn(key, value []byte, t base.Trailer) {
	c.ownBuf = append(append(c.ownBuf[:0], key...), value...)
	c.makeOwn(len(key), t)
}

// SkipValues says whether values that lie in logs are not read, as Options.KeysOnly does.
func (c *Cursor) SkipValues(skip bool) { c.keysOnly = skip }

// Show moves a cursor without sources, new or closed, to an entry: a key of so many bytes and its
// value. It is retained until Hide, Reset or Close.
func (c *Cursor) Show(entry []byte, keyLen int, t base.Trailer) {
	c.makeOwnOf(entry, keyLen, t)
	c.setSpan(&c.own, 0, 0, 1)
}

// Hide ends the position, also one of Show, and what the cursor was before it was closed. A nil
// cursor has none.
func (c *Cursor) Hide() {
	if c != nil {
		c.invalidate()
		c.own.Data, c.m.err = nil, nil
	}
}

// makeOwn makes own the entry of ownBuf, of which the first bytes are the key.
func (c *Cursor) makeOwn(keyLen int, t base.Trailer) { c.makeOwnOf(c.ownBuf, keyLen, t) }

// makeOwnOf is makeOwn with the entry in data.
func (c *Cursor) makeOwnOf(data []byte, keyLen int, t base.Trailer) {
	c.ownOff = [3]uint32{0, uint32(keyLen), uint32(len(data))}
	c.ownTr[0], c.deadline = t, 0
	c.own = base.Chunk{
		Data: data, KeyOff: c.ownOff[0:1], ValOff: c.ownOff[1:2], ValEnd: c.ownOff[2:3],
		Trailers: c.ownTr[:], MaxSeq: t.Seq(),
	}
}
