package record

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// ChainReader returns the records of a chained log. It stops at the first chunk that is
// not the intact successor of the one before, and then tells three things apart:
//
//   - The end of the log, io.EOF: what follows was never written, or was written in a
//     former life of the file.
//   - A torn end, a *base.Corruption for which Tail is true: chunks of this life are incomplete or
//     missing there, without proof that they were durable. A power cut
//     leaves this, also with intact chunks behind the gap.
//   - Damage, a *base.Corruption for which Tail is false: bytes are missing below an
//     offset that a later chunk of this life, or the caller, knows to have been durable.
//
// The Corruption's Offset is where the last whole record ends.
type ChainReader struct {
	blocks
	seed   uint32
	num    uint64
	synced int64 // what the caller knows to have been durable

	begin    Begin
	former   uint64 // log whose first chunk the file has, if not num; 0: none
	life     uint32 // 0: not known
	previous uint32
	durable  int64 // the most that a chunk says

	follows bool
	resume  int64        // where Resume continues; 0: nowhere
	scanned bool         // durable has what all chunks say
	budget  verifyBudget // of all scans
}

// NewChainReader returns a reader of the first size bytes of r, which are log num. name
// is for errors. The first synced bytes are known to have been durable.
func NewChainReader(r io.ReaderAt, size int64, name string, num uint64, synced int64) *ChainReader {
	return &ChainReader{blocks: newBlocks(r, size, name, chainHeaderLen), seed: numCRC(num),
		num: num, synced: synced, budget: crcBudget(size)}
}

// Begin is what the first chunk says. It is valid after Next, if Begun.
func (r *ChainReader) Begin() (b Begin, begun bool) {
	return r.begin, r.pos > 0 && r.begin.Num == r.num
}

// Former is the number of an older log whose first chunk the file begins with; 0: none.
func (r *ChainReader) Former() uint64 { return r.former }

// Durable is how many bytes of the log its chunks say were durable, as far as it was
// read. If it is not 0, all logs before this one were durable.
func (r *ChainReader) Durable() int64 { return r.durable }

// Follows reports, after a *base.Corruption, that intact chunks of this life follow the gap.
func (r *ChainReader) Follows() bool { return r.follows }

// Resume makes Next continue, after a *base.Corruption, with the first intact record behind
// the gap. It returns false when there is none.
func (r *ChainReader) Resume() bool {
	if !errors.Is(r.err, base.ErrCorruption) || r.resume == 0 {
		return false
	}
	at := r.resume
	r.resume = 0 // an error that Next returns now may be damage as well: it is returned once
	if lost, err := r.keyLost(r.r, r.name); lost || err != nil {
		r.err = cmp.Or(err, r.err)
		return !lost
	}
	if err := r.load(at); err != nil {
		r.err = err
		return true
	}
	r.previous = chained(r.block[at-r.blockOff:]).previous()
	r.pos, r.err, r.tail, r.follows = at, nil, false, false
	return true
}

// Next returns the next record; it is valid until the following call. A failure to read
// is returned as it is. Errors last.
func (r *ChainReader) Next() ([]byte, error) {
	if r.err == nil && r.pos == 0 {
		r.err = r.readBegin()
	}
	if r.err != nil {
		return nil, r.err
	}
	rec, err := r.next()
	r.err = err
	return rec, err
}

// readBegin reads the first chunk. It names the log's life, without which no later chunk can be
// told from one of a former life of the file. There are four cases:
//
//  1. The chunk is intact and of this log: reading begins behind it.
//  2. It is intact and of a log with a larger number, which the file cannot have been before: the
//     file is another log, and that is damage.
//  3. It is intact and of an older log. Either this log was not begun, or its first chunk was
//     lost; then later chunks of it lie near the beginning.
//  4. It is damaged. The life is that of chunks that follow one another anywhere in the file.
//
// In cases 3 and 4 classifyEnd and endError say whether a torn end or damage is the reason.
func (r *ChainReader) readBegin() error {
	if r.size == 0 {
		return r.classifyEnd(0, nil)
	}
	if err := r.load(0); err != nil {
		return err
	}
	h := chained(r.block)
	b, former := beginOf(h)
	switch {
	case former && b.Num == r.num:
		if err := r.beginOpening(h); err != nil {
			return err
		}
		r.begin, r.life, r.previous = b, b.Life, h.sum()
		r.pos = int64(chainHeaderLen + chunkLen(h))
		r.ended = r.pos
		return nil
	case former && b.Num > r.num:
		// A file has been older logs only.
		return base.Corruptf("log record", "the file is log %06d", b.Num).At(r.name, -1, r.size)
	case former:
		// The first chunk of an older log: this one was not begun, unless its first
		// chunk was lost. Then some of those that follow are here.
		r.former = b.Num
	}
	search := r.size
	if former {
		search = min(search, beginSearch)
	}
	var err error
	if r.life, err = r.findLife(search); err != nil {
		return err
	}
	if r.life == 0 && former {
		return r.endError(0, "the log was not begun", false)
	}
	if err := r.load(0); err != nil {
		return err
	}
	return r.classifyEnd(0, chained(r.block))
}

// beginOpening reads from the first chunk, which is intact, how the log is sealed.
func (r *ChainReader) beginOpening(h chained) error {
	if h[chainHeaderLen] == beginSealedVersion {
		return r.opening.begin(r.r, r.name, h, beginLen)
	}
	return r.checkClear(r.r, r.name)
}

// beginSearch is how far chunks of a log are looked for whose file begins with another
// log. A log that stands ready is usually such a file, and may be large.
const beginSearch = 4 * blockSize

// next assembles one record.
func (r *ChainReader) next() ([]byte, error) {
	unfinished := false
	for {
		reach := r.pos // the intact chunks end here
		if room := blockSize - r.pos%blockSize; room < r.least() {
			r.pos += room
		}
		if r.pos >= r.size {
			return nil, r.classifyEnd(reach, nil)
		}
		if err := r.load(r.pos); err != nil {
			return nil, err
		}
		h := chained(r.block[r.pos-r.blockOff:])
		if !r.successor(h) {
			return nil, r.classifyEnd(reach, h)
		}
		typ, n := h.typ(), chunkLen(h)
		if begins := typ == chunkFull || typ == chunkFirst; begins == unfinished {
			return nil, r.classifyEnd(reach, h)
		}
		at := r.pos
		if typ == chunkFull {
			data, err := r.full(h, r.name, at)
			if err != nil {
				return nil, err
			}
			r.link(h, n)
			r.start, r.ended = at, r.pos
			return data, nil
		}
		if typ == chunkFirst {
			r.start, r.joined, unfinished = at, r.joined[:0], true
		}
		joined, err := r.data(r.joined, h, r.name, at)
		if err != nil {
			return nil, err
		}
		r.joined = joined
		if r.link(h, n); typ == chunkLast {
			r.ended = r.pos
			return r.joined, nil
		}
	}
}

// link goes behind the chunk h, which has n bytes of data.
func (r *ChainReader) link(h chained, n int) {
	r.previous, r.durable = h.sum(), max(r.durable, h.durable(r.pos))
	r.pos += int64(chainHeaderLen + n)
}

// successor reports whether h is the intact chunk at pos that follows the last one.
func (r *ChainReader) successor(h chained) bool {
	return len(h) >= chainHeaderLen && h.life() == r.life && h.previous() == r.previous &&
		h.typ() <= chunkLast && h.intact(r.seed, r.pos)
}

// classifyEnd makes the error for a log whose intact chunks end at reach. h is the chunk at pos in
// place of the expected one.
func (r *ChainReader) classifyEnd(reach int64, h chained) error {
	mine := r.ofThisLife(h) // scan reads other blocks
	written, err := r.scan(min(r.pos, r.size))
	if err != nil {
		return err
	}
	why := "the log ends"
	switch {
	case r.follows:
		why = "a chunk is damaged or missing, and others follow"
	case mine:
		why = "a chunk is damaged"
	case reach > r.ended:
		why = "the record's last chunk is missing"
	case written:
		why = "no chunk"
	default:
		return r.endError(reach, why, false)
	}
	return r.endError(reach, why, true)
}

// endError makes the error for a log that stops at reach. torn says that something is
// missing; it is damage if it had been durable.
func (r *ChainReader) endError(reach int64, why string, torn bool) error {
	durable := max(r.durable, r.synced)
	if durable <= reach && !torn {
		return io.EOF
	}
	r.tail = durable <= reach
	var c *base.Corruption
	if r.tail {
		c = base.Corruptf("log record", "%s", why)
	} else {
		c = base.Corruptf("log record", "%s, but the log had been synced up to %d", why, durable)
	}
	return c.At(r.name, r.ended, max(r.size-r.ended, 0))
}

// ofThisLife reports whether h is a chunk of this life, be it damaged.
func (r *ChainReader) ofThisLife(h chained) bool {
	if r.life == 0 || len(h) < atUnsynced {
		return false
	}
	if h.life() == r.life {
		return true
	}
	if len(h) < chainHeaderLen {
		return false
	}
	whole := bytes.Clone(h[:min(len(h), chainHeaderLen+chunkLen(h))])
	binary.LittleEndian.PutUint32(whole[atLife:], r.life)
	return chained(whole).intact(r.seed, r.pos)
}

// scan looks for intact chunks of this life from off on. It sets follows, resume, and
// durable to the most that any of them says. written reports non-zero bytes where no former life
// can have left them. Behind a Resume, durable is known: then scan ends where records go on, so
// that a log with many gaps is looked through twice.
func (r *ChainReader) scan(off int64) (written bool, err error) {
	life := binary.LittleEndian.AppendUint32(nil, r.life)
	for ; off < r.size; off = r.blockOff + blockSize {
		// A header may begin in a hole, with zeros.
		if off = max(off, vfs.NextData(r.r, off)-chainHeaderLen); off >= r.size {
			break
		}
		if err := r.load(off); err != nil {
			return written, err
		}
		if from := max(off, r.begin.Former); from < r.blockOff+int64(len(r.block)) {
			written = written || !allZero(r.block[from-r.blockOff:])
		}
		for i := int(off - r.blockOff); r.life != 0; {
			next := bytes.Index(r.block[min(i+atLife, len(r.block)):], life)
			if next < 0 {
				break
			}
			i += next
			h, pos := chained(r.block[i:]), r.blockOff+int64(i)
			if r.budget.verify(h, r.seed, pos) {
				r.follows, r.durable = true, max(r.durable, h.durable(pos))
				if r.resume == 0 && pos > 0 && (h.typ() == chunkFull || h.typ() == chunkFirst) {
					if r.resume = pos; r.scanned {
						return written, nil
					}
				}
			}
			i++
		}
		if r.budget < 0 {
			return written, fmt.Errorf("%s: %w: too many bytes from %d on look like chunks", r.name,
				base.ErrCorruption, off)
		}
	}
	r.scanned = true
	return written, nil
}

// findLife finds the life of a log whose first chunk is damaged: that of an intact chunk
// which follows another one in its block, among the first bytes of the file. It is 0 if
// there is none.
func (r *ChainReader) findLife(first int64) (uint32, error) {
	budget := crcBudget(r.size)
	for off := int64(0); off < first && budget >= 0; off = r.blockOff + blockSize {
		if off = max(off, vfs.NextData(r.r, off)-chainHeaderLen); off >= first {
			break
		}
		if err := r.load(off); err != nil {
			return 0, err
		}
		if allZero(r.block) { // allocated ahead
			continue
		}
		for i := int(off - r.blockOff); i+2*chainHeaderLen <= len(r.block); i++ {
			h := chained(r.block[i:])
			next := i + chainHeaderLen + chunkLen(h)
			if next+chainHeaderLen > len(r.block) || h.typ() == chunkZero || h.typ() > chunkBegin {
				continue
			}
			follower := chained(r.block[next:])
			if follower.life() == h.life() && follower.previous() == h.sum() &&
				budget.verify(follower, r.seed, r.blockOff+int64(next)) {
				return h.life(), nil
			}
		}
	}
	return 0, nil
}

// verifyBudget bounds the bytes of which checksums are computed.
type verifyBudget int64

// crcBudget allows for every byte of a log of n to be verified several times.
func crcBudget(n int64) verifyBudget { return verifyBudget(64*min(max(n, 0), 1<<56) + 1<<20) }

// verify is intact, unless the budget is used up.
func (b *verifyBudget) verify(h chained, seed uint32, pos int64) bool {
	if len(h) < chainHeaderLen || *b < 0 {
		return false
	}
	*b -= verifyBudget(min(len(h), chainHeaderLen+chunkLen(h)))
	return h.intact(seed, pos)
}
