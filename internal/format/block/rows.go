package block

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/prefix"
)

// LevelDB's row layout: entries of
//
//	shared, unshared, value length    varints
//	key[shared:], value
//
// where key is an internal key and shared counts the bytes it has in common
// with the previous entry; then a u32 offset for each restart point (an entry
// with shared 0) and their u32 count.

// Shape is what BuildView needs to know of a row block; Measure computes it.
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
	end, points, err := splitRestarts(rows)
	if err != nil {
		return Shape{}, err
	}
	s := Shape{end: end}
	budget := viewBudget(limit)
	restarts := newRestarts(points, end)
	var last uint64 // length of the previous key
	for p := 0; p < end; {
		at := p
		shared, unshared, vlen, n := rowHeader(rows, p, end)
		p += n
		klen := shared + unshared
		if n == 0 || shared > last || unshared+vlen > uint64(end-p) || klen < base.TrailerLen {
			return Shape{}, badLengths(at, p, end, last, shared, unshared, vlen, n)
		}
		if uint64(at) == restarts.next {
			if err := restarts.met(at, shared); err != nil {
				return Shape{}, err
			}
		}
		p += int(unshared + vlen)
		last = klen
		s.Count++
		s.data += klen - base.TrailerLen + vlen
		if s.data+uint64(s.Count)*viewPerEntry > budget {
			return Shape{}, tooLarge(limit, p, len(rows))
		}
	}
	return s, restarts.check(end)
}

// viewPerEntry is what the columns of a View take for an entry.
const viewPerEntry = 1 + 8 + 8 + 4 + 4

// viewBudget is what columns and data of a View of limit bytes may take.
func viewBudget(limit int64) uint64 {
	budget := uint64(min(max(limit, 0), 1<<32-1, math.MaxInt))
	return budget - min(budget, viewHeader+7+4+base.TrailerLen+Slack)
}

func tooLarge(limit int64, p, n int) error {
	return base.Corruptf("table block", "takes more than %d bytes in memory after %d of its %d",
		limit, p, n)
}

// restarts are the restart points of a block that is read from its beginning.
type restarts struct {
	points []byte // u32 each
	n      int    // of those that were met
	next   uint64 // offset of the next one; MaxUint64 for none
}

func newRestarts(points []byte, end int) restarts {
	if end == 0 {
		return restarts{points: points, next: math.MaxUint64}
	}
	return restarts{points: points, next: uint64(binary.LittleEndian.Uint32(points))}
}

// met checks the entry at the next restart point.
func (r *restarts) met(at int, shared uint64) error {
	if shared != 0 {
		return badRow(at, "restart point shares %d bytes", shared)
	}
	last := r.next
	r.next = math.MaxUint64
	if r.n++; r.n < len(r.points)/4 {
		r.next = uint64(binary.LittleEndian.Uint32(r.points[4*r.n:]))
		if r.next <= last {
			return base.Corruptf("table block", "restart points do not ascend")
		}
	}
	return nil
}

// check checks that all restart points were met as starts of entries. A
// block without entries may have one, at 0.
func (r *restarts) check(end int) error {
	n := len(r.points) / 4
	if r.n != n && (end > 0 || n != 1 || binary.LittleEndian.Uint32(r.points) != 0) {
		return base.Corruptf("table block", "restart point %d is not the start of an entry", r.n)
	}
	return nil
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
		return 0, nil, base.Corruptf("table block", "%d restart points in a block of %d bytes",
			count, n)
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
	// The restart points after the entries make the four bytes readable.
	if x := binary.LittleEndian.Uint32(rows[p:]); x&0x808080 == 0 && p+3 <= end {
		return uint64(x & 0xff), uint64(x >> 8 & 0xff), uint64(x >> 16 & 0xff), 3
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
	b := rowBuilder{View: v, rows: rows, end: s.end, cmp: cmp, allLiveSets: true}
	if err := b.run(); err != nil {
		return View{}, err
	}
	v.data = v.data[:b.pos]
	prefixLen := v.abbreviate(cmp, cols)
	if b.allLiveSets {
		v.flags |= viewAllLiveSets
	}
	v.putHeader(prefixLen, b.maxTrailer.Seq())
	return v, nil
}

// abbreviate fills the column of abbreviations, if there is one, and returns
// the length of the prefix that they leave out: the one that all keys but the
// last share. The last key of an index may be short, hence foreign to the
// others; it then gets the largest abbreviation, because it sorts after
// everything with their prefix.
func (v *View) abbreviate(cmp *base.Comparer, cols Columns) (prefixLen int) {
	n := v.n
	if cols&Abbreviations == 0 || n == 0 {
		return 0
	}
	p := prefix.Of(cmp, v.Key(0), v.Key(max(n-2, 0)))
	abbrevs := v.abbrevColumn()
	for i := range n - 1 {
		abbrevs[i] = p.Abbrev(cmp, v.Key(i))
	}
	abbrevs[n-1] = math.MaxUint64
	if last := v.Key(n - 1); p.In(last) {
		abbrevs[n-1] = p.Abbrev(cmp, last)
	}
	return len(p)
}

// rowBuilder is the state of one BuildView.
type rowBuilder struct {
	View
	rows        []byte
	end         int
	cmp         *base.Comparer
	pos         int // next free byte of data
	maxTrailer  base.Trailer
	allLiveSets bool
}

func (b *rowBuilder) run() error {
	var prev []byte // previous user key
	var prevTrailer base.Trailer
	data, rows := b.data, b.rows
	ascending := b.cmp.HasAbbrev() && b.cmp.Abbrev([]byte{0}, 0) < b.cmp.Abbrev([]byte{1}, 0)
	p, pos, prevPos := 0, 0, 0
	for i := range b.n {
		at := p
		sharedU, unsharedU, vlenU, n := rowHeader(rows, p, b.end)
		shared, unshared, vlen := int(sharedU), int(unsharedU), int(vlenU)
		p += n
		// The whole internal key goes to pos; the value then covers its trailer.
		ulen := shared + unshared - base.TrailerLen
		if shared <= min(len(prev), wide) && unshared <= wide && p+wide <= len(rows) &&
			pos+2*wide <= len(data) {
			// The usual case copies whole words. Bytes beyond the key are
			// overwritten by the value.
			copyWide(data[pos:], data[prevPos:])
			copyWide(data[pos+shared:], rows[p:])
		} else {
			copyKey(data[pos:pos+shared+unshared], prev, prevTrailer, rows[p:p+unshared])
		}
		p += unshared
		key := data[pos : pos+ulen : pos+ulen]
		var t base.Trailer
		if unshared >= base.TrailerLen {
			t = base.Trailer(binary.LittleEndian.Uint64(rows[p-base.TrailerLen:]))
		} else {
			t = base.Trailer(binary.LittleEndian.Uint64(data[pos+ulen:]))
		}
		copy(data[pos+ulen:pos+ulen+vlen], rows[p:p+vlen])
		p += vlen
		if t.Kind() != base.KindSet {
			if !t.Kind().InLevelDB() {
				return badRow(at, "unknown kind %d", t.Kind())
			}
			b.allLiveSets = false
		}
		// Usually the first byte in which the keys differ gives their order.
		if !ascending || shared >= len(prev) || shared >= ulen || prev[shared] >= key[shared] {
			if err := b.order(i, at, prev, key, min(shared, len(prev), ulen), prevTrailer,
				t); err != nil {
				return err
			}
		}
		b.put(i, key, t, pos)
		prevPos = pos
		pos += ulen + vlen
		prev, prevTrailer = key, t
		b.maxTrailer = max(b.maxTrailer, t)
	}
	b.pos = pos
	*(*uint32)(unsafe.Add(b.p, b.keyOffs+uintptr(b.n)*4)) = uint32(pos)
	return nil
}

// wide is how many bytes copyWide copies.
const wide = 32

// copyWide copies wide bytes as words, which needs no call although dst and src may
// overlap.
func copyWide(dst, src []byte) {
	d, s := (*[wide]byte)(dst), (*[wide]byte)(src)
	w0 := binary.NativeEndian.Uint64(s[:])
	w1 := binary.NativeEndian.Uint64(s[8:])
	w2 := binary.NativeEndian.Uint64(s[16:])
	w3 := binary.NativeEndian.Uint64(s[24:])
	binary.NativeEndian.PutUint64(d[:], w0)
	binary.NativeEndian.PutUint64(d[8:], w1)
	binary.NativeEndian.PutUint64(d[16:], w2)
	binary.NativeEndian.PutUint64(d[24:], w3)
}

// copyKey writes an internal key that shares its first bytes, all but tail,
// with the one before.
func copyKey(dst, prev []byte, pt base.Trailer, tail []byte) {
	shared := len(dst) - len(tail)
	n := copy(dst[:shared], prev)
	for j := n; j < shared; j++ {
		dst[j] = byte(pt >> (8 * (j - n)))
	}
	copy(dst[shared:], tail)
}

// order checks that entry i, (key, t), sorts after the one before. The keys are
// known to share their first shared bytes.
func (b *rowBuilder) order(i, at int, prev, key []byte, shared int, pt, t base.Trailer) error {
	if i == 0 {
		return nil
	}
	if !b.cmp.HasAbbrev() {
		shared = 0 // only orders by bytes allow to leave out a common prefix
	}
	c := b.cmp.Cmp(prev[shared:], key[shared:])
	if c == 0 {
		b.allLiveSets = false
	}
	if c > 0 || c == 0 && pt <= t {
		return badRow(at, "keys do not ascend")
	}
	return nil
}

// put stores entry i's columns; its key lies at pos.
func (b *rowBuilder) put(i int, key []byte, t base.Trailer, pos int) {
	if b.flags&Fingerprints != 0 {
		*(*byte)(unsafe.Add(b.p, viewHeader+uintptr(i))) = Fingerprint(base.Hash(key))
	}
	*(*base.Trailer)(unsafe.Add(b.p, b.trailers+uintptr(i)*8)) = t
	*(*uint32)(unsafe.Add(b.p, b.keyOffs+uintptr(i)*4)) = uint32(pos)
	*(*uint32)(unsafe.Add(b.p, b.valOffs+uintptr(i)*4)) = uint32(pos + len(key))
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
