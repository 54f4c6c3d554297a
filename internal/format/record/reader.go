package record

import (
	"cmp"
	"errors"
	"io"
	"math"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Reader returns the records of a file one after another. Unlike LevelDB's it never
// skips damage by itself: a later record may depend on one that was lost in it.
type Reader struct {
	blocks
	zeros  bool         // see Zeros
	resume int64        // where Resume continues; -1: nowhere
	budget verifyBudget // of all searches
}

// NewReader reads the first size bytes of r. name is for errors.
func NewReader(r io.ReaderAt, size int64, name string) *Reader {
	return &Reader{blocks: newBlocks(r, size, name, headerLen), resume: -1,
		budget: crcBudget(size)}
}

// Next returns the next record; it is valid until the following call.
//
// At the end of the log the error is io.EOF; zeros up to the end of the file,
// as allocating ahead leaves them, are an end too. Damage is a
// *base.Corruption: its Offset is where intact records end, its Length reaches
// to where they go on or to the end of the file, and Tail tells the two apart.
// A failure to read is returned as it is. Errors last until Resume.
//
// A record whose chunks are intact but whose rest was never written, because
// the writer died and a later one went on behind it (LevelDB's reuse_logs), is
// not damage: it is left out.
func (r *Reader) Next() ([]byte, error) {
	if r.err != nil {
		return nil, r.err
	}
	rec, err := r.next()
	if r.err = err; err == nil {
		r.ended = r.pos
	}
	return rec, err
}

// Zeros reports, after a *base.Corruption, whether only zeros, and perhaps a record
// without its end before them, lie before the next intact record: a killed writer had
// allocated them ahead, and another writer appended behind them (LevelDB's reuse_logs). A
// lost page looks the same, so the records that follow must prove that none is missing.
func (r *Reader) Zeros() bool { return r.zeros }

// Resume makes Next continue, after a *base.Corruption, with the first intact record
// behind the damage. It returns false when there is none.
func (r *Reader) Resume() bool {
	var c *base.Corruption
	if !errors.As(r.err, &c) || r.resume < 0 {
		return false
	}
	at := r.resume
	r.resume = -1 // an error that Next returns now may be damage as well: it is returned once
	if lost, err := r.keyLost(r.r, r.name); lost || err != nil {
		r.err = cmp.Or(err, r.err)
		return !lost
	}
	r.pos, r.err, r.tail, r.zeros = at, nil, false, false
	return true
}

// next assembles one record.
func (r *Reader) next() ([]byte, error) {
	begin := int64(-1) // offset of the unfinished record
	for {
		h, typ, err := r.chunk(begin)
		if err != nil {
			return nil, err
		}
		at, end := r.pos, r.pos+int64(len(h))
		if at == 0 && typ == chunkBegin {
			if err := r.opening.begin(r.r, r.name, h, 0); err != nil {
				return nil, r.unopened(err, at, end)
			}
			r.pos, r.ended = end, end
			continue
		}
		if err := r.checkClear(r.r, r.name); err != nil {
			return nil, err
		}
		switch typ {
		case chunkFull:
			data, err := r.full(h, r.name, at)
			if err != nil {
				return nil, r.unopened(err, at, end)
			}
			r.pos, r.start = end, at
			return data, nil
		case chunkFirst:
			if r.joined, err = r.data(r.joined[:0], h, r.name, at); err != nil {
				return nil, r.unopened(err, at, end)
			}
			r.pos, begin = end, at
		case chunkMiddle, chunkLast:
			if begin < 0 {
				return nil, r.damaged(at, end, false,
					"a chunk of type %d with no record begun", typ)
			}
			if r.joined, err = r.data(r.joined, h, r.name, at); err != nil {
				return nil, r.unopened(err, at, end)
			}
			if r.pos = end; typ == chunkLast {
				r.start = begin
				return r.joined, nil
			}
		default:
			if begin < 0 {
				begin = at
			}
			return nil, r.damaged(begin, end, false, "unknown chunk type %d", typ)
		}
	}
}

// unopened is the damage of a chunk that is intact and cannot be opened; others follow at end.
func (r *Reader) unopened(err error, at, end int64) error {
	var c *base.Corruption
	if !errors.As(err, &c) {
		return err
	}
	return r.damaged(at, end, false, "%s", c.Reason)
}

// chunk verifies the chunk at pos, skipping a block's trailer, and returns it whole, and its
// type. It does not change pos. begin is the offset of the unfinished record,
// -1 for none.
func (r *Reader) chunk(begin int64) (h []byte, typ byte, err error) {
	if room := blockSize - r.pos%blockSize; room < r.least() {
		r.pos += room
	}
	if r.pos >= r.size {
		return nil, 0, r.end(begin)
	}
	if err := r.load(r.pos); err != nil {
		return nil, 0, err
	}
	b := r.block[r.pos-r.blockOff:]
	if len(b) < headerLen || b[6] == chunkZero && chunkLen(b) == 0 {
		zero, err := r.zeroToEnd(r.pos)
		if err != nil {
			return nil, 0, err
		}
		if zero {
			return nil, 0, r.end(begin)
		}
	}
	from := r.pos
	if begin >= 0 {
		from = begin
	}
	if len(b) < headerLen {
		return nil, 0, r.damaged(from, r.size, true, "%d bytes where a chunk header takes %d",
			len(b), headerLen)
	}
	n := chunkLen(b)
	switch {
	case b[6] == chunkZero && n == 0:
		return nil, 0, r.zerosThen(from)
	case n > len(b)-headerLen:
		return nil, 0, r.damaged(from, r.pos+1, true, "chunk of %d bytes with %d left", n,
			len(b)-headerLen)
	case !checksumOK(b, n):
		return nil, 0, r.damaged(from, r.pos+1, true, "checksum mismatch in a chunk of %d bytes", n)
	}
	return b[: headerLen+n : headerLen+n], b[6], nil
}

// zerosThen returns the error for zeros at pos with other bytes behind them. from is
// where the damage begins.
func (r *Reader) zerosThen(from int64) error {
	err := r.damaged(from, r.pos+1, true, "zeros where a chunk header is expected")
	if r.resume < 0 {
		return err
	}
	for off := r.pos; off < r.resume; off = r.blockOff + blockSize {
		if off = vfs.NextData(r.r, off); off >= r.resume {
			break
		}
		if err := r.load(off); err != nil {
			return err
		}
		b := r.block[off-r.blockOff:]
		if !allZero(b[:min(int64(len(b)), r.resume-off)]) {
			return err
		}
	}
	r.zeros = true
	return err
}

// end returns the error for zeros up to the end of the file: io.EOF, or damage when an
// unfinished record lacks its last chunk.
func (r *Reader) end(begin int64) error {
	if begin < 0 {
		return io.EOF
	}
	return r.damaged(begin, r.size, true, "the record's last chunk is missing")
}

// damaged makes the error for damage in [begin, ...). Intact records may be
// found from scan on. mayBeTail says that a torn write looks like this.
func (r *Reader) damaged(begin, scan int64, mayBeTail bool, format string, args ...any) error {
	found, sure, err := r.findRecord(scan)
	if err != nil {
		return err
	}
	r.resume = found
	r.tail = mayBeTail && sure && found < 0
	c := base.Corruptf("log record", format, args...)
	c.File, c.Offset, c.Length = r.name, begin, r.size-begin
	if found >= 0 {
		c.Length = found - begin
	}
	return c
}

// zeroToEnd reports whether all bytes from off on are zero. Holes are not read.
func (r *Reader) zeroToEnd(off int64) (bool, error) {
	for ; off < r.size; off = r.blockOff + blockSize {
		if off = vfs.NextData(r.r, off); off >= r.size {
			break
		}
		if err := r.load(off); err != nil {
			return false, err
		}
		if !allZero(r.block[off-r.blockOff:]) {
			return false, r.load(r.pos)
		}
	}
	return true, nil
}

// findRecord is the offset of the first chunk that begins a record, at off or after it,
// -1 for none. Behind a damaged length it has to try every byte. The checksums that it
// computes are bounded, and those of all searches together; sure is false when it stopped for that.
func (r *Reader) findRecord(off int64) (at int64, sure bool, err error) {
	least := max(r.budget-math.MaxUint32, 0) // what it leaves of the budget
	for off < r.size {
		// A header may begin in a hole, but its last byte is not zero.
		if off = max(off, vfs.NextData(r.r, off)-headerLen); off+headerLen > r.size {
			break
		}
		if err := r.load(off); err != nil {
			return -1, false, err
		}
		b := r.block
		for i := int(off - r.blockOff); i+headerLen <= len(b); i++ {
			typ := b[i+6]
			if typ != chunkFull && typ != chunkFirst {
				continue
			}
			n := chunkLen(b[i:])
			end := i + headerLen + n
			// A first chunk always fills its block.
			if end > len(b) || typ == chunkFirst && end != blockSize {
				continue
			}
			if r.budget -= verifyBudget(n); r.budget < least {
				return -1, false, nil
			}
			if checksumOK(b[i:], n) {
				return r.blockOff + int64(i), true, nil
			}
		}
		off = r.blockOff + blockSize
	}
	return -1, true, nil
}
