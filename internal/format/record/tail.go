package record

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// ErrNotYet says that a log has no further whole record so far.
var ErrNotYet = errors.New("the log has no further record yet")

// Tail returns the records of a log that another process may be writing. A record that is not
// whole is looked at again from its beginning at the next call, as its writer may take it back
// and write another one.
//
// The bytes after the last whole record are "not yet" there: zeros, a former life, a part of a
// record. Only Examine, which reads on, tells damage from it.
type Tail struct {
	r    io.ReaderAt
	name string
	num  uint64

	opening      // opening.header is that of the framing
	looked  bool // at the first chunk of a log in LevelDB's framing
	seed    uint32
	begin   Begin // begin.Life is 0 before the first chunk of a chained log

	pos      int64  // where the last whole record ends
	previous uint32 // the sum of its last chunk
	start    int64  // where it begins

	buf    []byte // of a block
	block  []byte // what was read of it
	off    int64  // its file offset
	fresh  bool   // block was read in this call
	joined []byte

	stuck stuck
}

// stuck is what the last calls of Next found behind the last whole record.
type stuck struct {
	at    int64
	sum   uint32 // of the bytes there
	looks int
	since time.Time
	next  int // the look at which Suspect returns true
}

// NewTail reads r, a log in LevelDB's framing, from pos on, where a record ends; 0: from its
// beginning. name is for errors.
func NewTail(r io.ReaderAt, name string, pos int64) *Tail {
	return &Tail{r: r, name: name, opening: opening{header: headerLen}, pos: pos, start: pos}
}

// NewChainTail reads r, the chained log num, from pos on.
func NewChainTail(r io.ReaderAt, name string, num uint64, pos int64) *Tail {
	return &Tail{r: r, name: name, num: num, opening: opening{header: chainHeaderLen},
		seed: numCRC(num), pos: pos, start: pos}
}

// End is where the last record returned ends.
func (t *Tail) End() int64 { return t.pos }

// Start is where the last record returned begins.
func (t *Tail) Start() int64 { return t.start }

// ReadBegin returns the first chunk of a chained log. It fails with ErrNotYet as long as there
// is none. gone says that the file is a later log, or was this one and is not any more.
func (t *Tail) ReadBegin() (b Begin, gone bool, err error) {
	head, err := readHead(t.r)
	if err != nil {
		return Begin{}, false, err
	}
	if len(head) < chainHeaderLen+beginLen {
		return Begin{}, t.begin.Life != 0, ErrNotYet
	}
	h := chained(head)
	switch b, ok := beginOf(h); {
	case ok && b.Num > t.num:
		return Begin{}, true, ErrNotYet
	case ok && b.Num == t.num && (t.begin.Life == 0 || t.begin.Life == b.Life):
		if t.begin.Life == 0 {
			if err := t.beginOpening(h); err != nil {
				return Begin{}, false, err
			}
		}
		if end := int64(chainHeaderLen + chunkLen(h)); t.begin.Life == 0 && t.pos == 0 {
			t.pos, t.start, t.previous = end, end, h.sum()
		}
		t.begin = b
		return b, false, nil
	}
	return Begin{}, t.begin.Life != 0, ErrNotYet
}

// beginOpening reads from the first chunk of a chained log, which is intact, how it is sealed.
func (t *Tail) beginOpening(h chained) error {
	if h[chainHeaderLen] == beginSealedVersion {
		return t.opening.begin(t.r, t.name, h, beginLen)
	}
	return t.checkClear(t.r, t.name)
}

// look reads the first chunk of a log in LevelDB's framing, which says how it is sealed. Where
// there is none yet, a log that may be clear is read like a clear one: no chunk is found in it. Of
// an encrypted log nothing can be read without the key: look fails with ErrNotYet.
func (t *Tail) look() error {
	head, err := readHead(t.r)
	if err != nil {
		return err
	}
	begun := len(head) >= headerLen && !allZero(head[:headerLen])
	switch {
	case begun && head[atType] != chunkBegin:
		if err := t.checkClear(t.r, t.name); err != nil {
			return err
		}
	case begun && chunkLen(head) <= len(head)-headerLen && checksumOK(head, chunkLen(head)):
		if err := t.opening.begin(t.r, t.name, head, 0); err != nil {
			return err
		}
		if end := int64(headerLen + chunkLen(head)); t.pos == 0 {
			t.pos, t.start = end, end
		}
	case keysOf(t.r).AllowClear():
		return nil
	default:
		t.stop(t.pos, head)
		return ErrNotYet
	}
	t.looked = true
	return nil
}

// Next returns the next record, which is valid until the following call, or ErrNotYet. A
// failure to read is returned as it is. After an error Next may be called again.
func (t *Tail) Next() ([]byte, error) {
	t.fresh = false
	if t.header == chainHeaderLen && t.begin.Life == 0 {
		if _, _, err := t.ReadBegin(); err != nil {
			return nil, err
		}
	}
	if t.header == headerLen && !t.looked {
		if err := t.look(); err != nil {
			return nil, err
		}
	}
	pos, previous, start := t.pos, t.previous, int64(-1)
	for {
		if room := blockSize - pos%blockSize; room < t.least() {
			pos += room
		}
		h, ok, err := t.chunk(pos, previous)
		if err != nil {
			return nil, err
		}
		begins := ok && (h[atType] == chunkFull || h[atType] == chunkFirst)
		if !ok || begins == (start >= 0) && (t.header == chainHeaderLen || !begins) {
			t.stop(pos, h)
			return nil, ErrNotYet
		}
		if t.header == chainHeaderLen {
			previous = chained(h).sum()
		}
		if begins { // in LevelDB's framing also behind a record that was never finished
			start, t.joined = pos, t.joined[:0]
		}
		data, err := t.take(h, pos)
		if err != nil {
			return nil, err
		}
		pos += int64(t.header + chunkLen(h))
		if h[atType] == chunkFirst || h[atType] == chunkMiddle {
			continue
		}
		t.pos, t.previous, t.start, t.stuck = pos, previous, start, stuck{}
		return data, nil
	}
}

// take returns the record that the chunk h at pos ends, or what it joins.
func (t *Tail) take(h []byte, pos int64) (data []byte, err error) {
	if h[atType] == chunkFull {
		return t.full(h, t.name, pos)
	}
	joined, err := t.data(t.joined, h, t.name, pos)
	if err == nil {
		t.joined = joined
	}
	return t.joined, err
}

// chunk returns the bytes of a block from pos on, and whether they begin with an intact chunk
// that may follow one with the sum previous. What is not intact is read once more.
func (t *Tail) chunk(pos int64, previous uint32) (h []byte, ok bool, err error) {
	if in := pos - t.off; in >= 0 && in < int64(len(t.block)) {
		if h = t.block[in:]; t.intact(h, pos, previous) {
			return h, true, nil
		}
		if t.fresh {
			return h, false, nil
		}
	}
	if t.buf == nil {
		t.buf = make([]byte, blockSize)
	}
	n, err := t.r.ReadAt(t.buf[:blockSize-pos%blockSize], pos)
	if err == io.EOF {
		err = nil
	}
	t.off, t.block, t.fresh = pos, t.buf[:n], true
	return t.block, err == nil && t.intact(t.block, pos, previous), err
}

func (t *Tail) intact(h []byte, pos int64, previous uint32) bool {
	if len(h) < t.header || h[atType] == chunkZero || h[atType] > chunkLast ||
		chunkLen(h) > len(h)-t.header {
		return false
	}
	if t.header == headerLen {
		return checksumOK(h, chunkLen(h))
	}
	c := chained(h)
	if c.life() != t.begin.Life || previous != 0 && c.previous() != previous {
		return false
	}
	return c.intact(t.seed, pos)
}

// settled is how long the same bytes stand behind a log's end before they are taken for more than
// a write under way.
const settled = 2 * time.Millisecond

// stop records the bytes after the last whole record, at pos.
func (t *Tail) stop(pos int64, h []byte) {
	sum := base.CRC(h)
	if s := &t.stuck; s.looks == 0 || s.at != pos || s.sum != sum {
		const rarely = 16 // zeros and a former life are what usually stands there
		*s = stuck{at: pos, sum: sum, since: time.Now(), next: rarely}
		mine := t.header == headerLen || len(h) >= chainHeaderLen &&
			chained(h).life() == t.begin.Life
		if pos != t.pos || mine && !allZero(h[:min(len(h), t.header)]) {
			s.next = 2
		}
	}
	t.stuck.looks++
}

// Suspect reports, after ErrNotYet, that it is time for Examine: the same bytes stood there for a
// while. It says so rarely.
func (t *Tail) Suspect() bool {
	s := &t.stuck
	if s.looks == 0 || s.looks < s.next || time.Since(s.since) < settled {
		return false
	}
	s.next = 2 * s.looks
	return true
}

// Examine reads on behind the last whole record. It returns a *base.Corruption where Reader and
// ChainReader find more than a torn end. The record may have been written meanwhile, so it is
// damage only if Next still has no record afterwards. resume is, with such an error, where records
// go on behind zeros that a killed writer may have allocated, 0 for nowhere: see Reader.Zeros. size
// is that of the file now.
func (t *Tail) Examine(size int64) (resume int64, err error) {
	if t.header == headerLen {
		r := NewReader(t.r, size, t.name)
		r.pos, r.cipher = t.pos, t.cipher
		_, err = r.Next()
		switch {
		// what was allocated ahead has been cut off meanwhile
		case errors.Is(err, io.ErrUnexpectedEOF):
			return 0, nil
		case !errors.Is(err, base.ErrCorruption) && err != io.EOF:
			return 0, err
		case err == io.EOF, r.Tail():
			return 0, nil
		case r.Zeros():
			return r.resume, err
		}
		return 0, err
	}
	r := NewChainReader(t.r, size, t.name, t.num, 0)
	if t.begin.Life != 0 {
		r.begin, r.life, r.previous, r.cipher = t.begin, t.begin.Life, t.previous, t.cipher
		r.pos, r.ended = t.pos, t.pos
		if t.previous == 0 && t.pos < size { // reading began there
			if err := r.load(t.pos); errors.Is(err, io.ErrUnexpectedEOF) {
				return 0, nil // as above
			} else if err != nil {
				return 0, err
			}
			if h := chained(r.block[t.pos-r.blockOff:]); len(h) >= chainHeaderLen {
				r.previous = h.previous()
			}
		}
	}
	_, err = r.Next()
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, base.ErrCorruption) &&
		r.Tail() {
		return 0, nil
	}
	return 0, err
}

// Reach is an offset at or after the log's present end. size is that of the file.
// Only the beginnings of some blocks are looked at, each of which is a chunk's.
func (t *Tail) Reach(size int64) (int64, error) {
	if t.header == chainHeaderLen && t.begin.Life == 0 {
		if _, _, err := t.ReadBegin(); err != nil {
			return 0, err
		}
	}
	last := t.pos / blockSize // block that was written
	for again := true; again; {
		unwritten := (size + blockSize - 1) / blockSize
		for last+1 < unwritten {
			mid := last + (unwritten-last)/2
			written, err := t.written(mid * blockSize)
			if err != nil {
				return 0, err
			}
			if written {
				last = mid
			} else {
				unwritten = mid
			}
		}
		again = false // unless a damaged block has misled the search
		for step := int64(2); !again && (last+step)*blockSize < size; step *= 2 {
			written, err := t.written((last + step) * blockSize)
			if err != nil {
				return 0, err
			}
			if again = written; written {
				last += step
			}
		}
	}
	return (last + 1) * blockSize, nil
}

// written reports whether a chunk of this log begins at pos, as far as its header shows.
func (t *Tail) written(pos int64) (bool, error) {
	var head [chainHeaderLen]byte
	n, err := t.r.ReadAt(head[:t.header], pos)
	if err == io.EOF {
		err = nil
	}
	if t.header == headerLen || err != nil || n < t.header {
		return !allZero(head[:n]), err
	}
	return chained(head[:]).life() == t.begin.Life, nil
}

// Skip makes Next continue at pos, where Examine said that records go on.
func (t *Tail) Skip(pos int64) { t.pos, t.stuck = pos, stuck{} }

// Missing is the damage that the records of this log end before end, where the next log says
// that they ended.
func (t *Tail) Missing(end int64, next uint64) error {
	return base.Corruptf("log record", "the log ends here, but log %06d was begun behind more of "+
		"it, up to %d", next, end).At(t.name, t.pos, max(end-t.pos, 0))
}

// Invalid locates what is wrong with the contents of the record that begins at Start.
func (t *Tail) Invalid(err error) error {
	var c *base.Corruption
	if errors.As(err, &c) {
		return base.LocateCorruption(err, t.name, t.start, t.pos-t.start)
	}
	return fmt.Errorf("%s: %w", t.name, err)
}
