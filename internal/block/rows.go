package block

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
)

// LevelDB's row layout: entries of
//
//	shared, unshared, value length    varints
//	key[shared:], value
//
// where key is an internal key and shared counts the bytes it has in common
// with the entry before; then a u32 offset for each restart point (an entry
// with shared 0) and their u32 count.

// Shape is what Measure found out about a row block.
type Shape struct {
	Count int // entries
	data  uint64
	end   int // of the entries, in the block
}

// ViewSize is the memory that BuildView needs.
func (s Shape) ViewSize(cols Columns) int {
	var v View
	// The last trailer is decoded in place, hence its room after the data.
	return int(uint64(v.layout(s.Count, cols)) + s.data + base.TrailerLen + Slack)
}

// Measure checks the structure of a row block: lengths, shared prefixes,
// restart points. An error is returned as soon as its View would take more
// than limit bytes, which bounds what prefix compression can expand to.
func Measure(rows []byte, limit int64) (Shape, error) {
	end, restarts, err := splitRestarts(rows)
	if err != nil {
		return Shape{}, err
	}
	s := Shape{end: end}
	const perEntry = 1 + 8 + 8 + 4 + 4 // columns
	budget := uint64(min(max(limit, 0), 1<<32-1, math.MaxInt))
	budget -= min(budget, viewHeader+7+4+base.TrailerLen+Slack)
	nextRestart, numRestarts := uint32(0), len(restarts)/4
	ri := 0
	if end > 0 {
		nextRestart = binary.LittleEndian.Uint32(restarts)
	}
	var last uint64 // length of the key before
	for p := 0; p < end; {
		at := p
		shared, unshared, vlen, n := rowHeader(rows, p, end)
		if n == 0 {
			return Shape{}, badRow(at, "malformed lengths")
		}
		p += n
		klen := shared + unshared
		switch {
		case shared > last:
			return Shape{}, badRow(at, "shares %d bytes with a key of %d", shared, last)
		case unshared+vlen > uint64(end-p):
			return Shape{}, badRow(at, "ends outside the block")
		case klen < base.TrailerLen:
			return Shape{}, badRow(at, "key is too short for an internal key")
		}
		if ri < numRestarts && uint32(at) == nextRestart {
			if shared != 0 {
				return Shape{}, badRow(at, "restart point shares %d bytes", shared)
			}
			ri++
			if ri < numRestarts {
				next := binary.LittleEndian.Uint32(restarts[4*ri:])
				if next <= nextRestart {
					return Shape{}, base.Corruptf("table block", "restart points do not ascend")
				}
				nextRestart = next
			}
		}
		p += int(unshared + vlen)
		last = klen
		s.Count++
		s.data += klen - base.TrailerLen + vlen
		if s.data+uint64(s.Count)*perEntry > budget {
			return Shape{}, base.Corruptf("table block", "takes more than %d bytes in memory after %d of its %d", limit, p, len(rows))
		}
	}
	if ri != numRestarts && (end > 0 || numRestarts != 1 || binary.LittleEndian.Uint32(restarts) != 0) {
		return Shape{}, base.Corruptf("table block", "restart point %d is not the start of an entry", ri)
	}
	return s, nil
}

// splitRestarts returns where the entries end and the restart array.
func splitRestarts(rows []byte) (end int, restarts []byte, err error) {
	n := len(rows)
	if n < 8 {
		return 0, nil, base.Corruptf("table block", "%d bytes are too few for a block", n)
	}
	if uint64(n) >= 1<<32 {
		return 0, nil, base.Corruptf("table block", "%d bytes are too many for a block", n)
	}
	count := binary.LittleEndian.Uint32(rows[n-4:])
	if count == 0 || uint64(count)*4 > uint64(n-4) {
		return 0, nil, base.Corruptf("table block", "%d restart points in a block of %d bytes", count, n)
	}
	end = n - 4 - 4*int(count)
	return end, rows[end : n-4], nil
}

func badRow(at int, format string, args ...any) error {
	c := base.Corruptf("table block", "entry at %d: "+format, append([]any{at}, args...)...)
	return c
}

// rowHeader decodes the three lengths at rows[p:end]; n is 0 when they are
// malformed.
func rowHeader(rows []byte, p, end int) (shared, unshared, vlen uint64, n int) {
	if p+3 <= end {
		a, b, c := rows[p], rows[p+1], rows[p+2]
		if a|b|c < 0x80 {
			return uint64(a), uint64(b), uint64(c), 3
		}
	}
	return slowRowHeader(rows[p:end])
}

func slowRowHeader(b []byte) (shared, unshared, vlen uint64, n int) {
	var out [3]uint64
	for i := range out {
		v, w := base.Uvarint32(b[n:])
		if w == 0 {
			return 0, 0, 0, 0
		}
		out[i] = uint64(v)
		n += w
	}
	return out[0], out[1], out[2], n
}

// BuildView builds the View of a row block in dst, which has the size that
// ViewSize(cols) says and begins on a multiple of eight; s must come from
// Measure(rows). Keys must ascend strictly in internal order and kinds must be
// known.
func BuildView(dst, rows []byte, s Shape, cmp *base.Comparer, cols Columns) (View, error) {
	cols = cols.valid(cmp)
	v := View{p: unsafe.Pointer(unsafe.SliceData(dst))}
	dataOff := v.layout(s.Count, cols)
	v.data = dst[dataOff:]
	b := rowBuilder{View: v, rows: rows, end: s.end, cmp: cmp, plain: true}
	if err := b.run(); err != nil {
		return View{}, err
	}
	skip := 0
	if s.Count > 0 {
		v.data = v.data[:b.pos]
		skip = base.SharedPrefixLen(v.Key(0), v.Key(s.Count-1))
	}
	if cols&Abbreviations != 0 {
		for i := range s.Count {
			*(*uint64)(unsafe.Add(v.p, v.abbrevs+uintptr(i)*8)) = cmp.Abbrev(v.Key(i), skip)
		}
	}
	if b.plain {
		cols |= viewPlain
	}
	*(*uint32)(v.p) = uint32(s.Count)
	*(*uint32)(unsafe.Add(v.p, hdrFlags)) = uint32(cols)
	*(*uint32)(unsafe.Add(v.p, hdrSkip)) = uint32(skip)
	*(*uint32)(unsafe.Add(v.p, hdrSize)) = uint32(dataOff) + uint32(b.pos)
	*(*uint64)(unsafe.Add(v.p, hdrMaxSeq)) = uint64(b.maxTrailer.Seq())
	return OpenView(dst), nil
}

// rowBuilder is the state of one BuildView.
type rowBuilder struct {
	View
	rows       []byte
	end        int
	cmp        *base.Comparer
	pos        int // next free byte of data
	maxTrailer base.Trailer
	plain      bool
}

func (b *rowBuilder) run() error {
	var prev []byte // user key before
	var prevTrailer base.Trailer
	data, rows := b.data, b.rows
	p := 0
	for i := range b.n {
		sharedU, unsharedU, vlenU, n := rowHeader(rows, p, b.end)
		shared, unshared, vlen := int(sharedU), int(unsharedU), int(vlenU)
		at := p
		p += n
		// The whole internal key goes to pos; the value then covers its trailer.
		ulen := shared + unshared - base.TrailerLen
		key := data[b.pos : b.pos+ulen+base.TrailerLen]
		if shared <= len(prev) {
			copy(key, prev[:shared])
		} else {
			copy(key, prev)
			for j := len(prev); j < shared; j++ {
				key[j] = byte(prevTrailer >> (8 * (j - len(prev))))
			}
		}
		copy(key[shared:], rows[p:p+unshared])
		p += unshared
		t := base.Trailer(binary.LittleEndian.Uint64(key[ulen:]))
		key = key[:ulen:ulen]
		copy(data[b.pos+ulen:b.pos+ulen+vlen], rows[p:p+vlen])
		p += vlen
		if t.Kind() != base.KindSet {
			if t.Kind() > base.KindMax {
				return badRow(at, "unknown kind %d", t.Kind())
			}
			b.plain = false
		}
		if i > 0 {
			if err := b.order(at, prev, key, min(shared, len(prev), ulen), prevTrailer, t); err != nil {
				return err
			}
		}
		b.put(i, key, t, ulen)
		b.pos += ulen + vlen
		prev, prevTrailer = key, t
		b.maxTrailer = max(b.maxTrailer, t)
	}
	*(*uint32)(unsafe.Add(b.p, b.keyOffs+uintptr(b.n)*4)) = uint32(b.pos)
	return nil
}

// order checks that (prev, pt) sorts before (key, t). The keys are known to
// share their first shared bytes.
func (b *rowBuilder) order(at int, prev, key []byte, shared int, pt, t base.Trailer) error {
	if !b.cmp.HasAbbrev() {
		shared = 0 // only for orders by bytes can a common prefix be left out
	}
	c := b.cmp.Cmp(prev[shared:], key[shared:])
	if c == 0 {
		b.plain = false
	}
	if c > 0 || c == 0 && pt <= t {
		return badRow(at, "keys do not ascend")
	}
	return nil
}

// put stores entry i's columns.
func (b *rowBuilder) put(i int, key []byte, t base.Trailer, ulen int) {
	if b.flags&Fingerprints != 0 {
		*(*byte)(unsafe.Add(b.p, viewHeader+uintptr(i))) = fingerprint(base.Hash(key))
	}
	*(*base.Trailer)(unsafe.Add(b.p, b.trailers+uintptr(i)*8)) = t
	*(*uint32)(unsafe.Add(b.p, b.keyOffs+uintptr(i)*4)) = uint32(b.pos)
	*(*uint32)(unsafe.Add(b.p, b.valOffs+uintptr(i)*4)) = uint32(b.pos + ulen)
}

// EachRow calls f for each entry of a row block whose keys are plain strings
// (a metaindex). key and value are valid during the call.
func EachRow(rows []byte, f func(key, value []byte) error) error {
	end, _, err := splitRestarts(rows)
	if err != nil {
		return err
	}
	var key []byte
	for p := 0; p < end; {
		at := p
		shared, unshared, vlen, n := rowHeader(rows, p, end)
		if n == 0 || shared > uint64(len(key)) || unshared+vlen > uint64(end-p-n) {
			return badRow(at, "malformed lengths")
		}
		p += n
		key = append(key[:shared], rows[p:p+int(unshared)]...)
		p += int(unshared)
		if err := f(key, rows[p:p+int(vlen)]); err != nil {
			return err
		}
		p += int(vlen)
	}
	return nil
}
