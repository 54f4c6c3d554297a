package iters

import "github.com/loamdb/loam/internal/base"

// showPlaced moves the cursor to entry i of e, which is usable and of a native kind: it expires, or
// its value lies in a log. It reports false if the entry has expired, or, with m.err, if its value
// cannot be read. Forward, the merge is to leave the entry.
func (c *Cursor) showPlaced(e *base.Chunk, i int) bool {
	if e.Trailers[i].Kind() == base.KindSetExpiring {
		return c.showLive(e, i)
	}
	var handle [base.MaxValueHandle + 1]byte
	n := copy(handle[:], e.Value(i)) // e may be own; a longer handle is none
	key, seq := e.Key(i), e.Trailers[i].Seq()
	c.ownBuf = append(c.ownBuf[:0], key...)
	if !c.keysOnly {
		value, err := c.values.AppendValue(c.ownBuf, handle[:n])
		if err != nil {
			c.stop(err)
			return false
		}
		c.ownBuf = value
	}
	c.makeOwn(len(key), base.MakeTrailer(seq, base.KindSet))
	c.setSpan(&c.own, 0, 0, 1)
	c.past, c.hide, c.last = true, false, nil
	return true
}
