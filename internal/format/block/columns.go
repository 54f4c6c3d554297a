package block

import (
	"unsafe"

	"github.com/loamdb/loam/internal/base"
)

// ViewColumns is a View being built from entries that are in columns already.
type ViewColumns struct {
	Fingerprints []byte   // of base.Hash, see Fingerprint; nil without the column
	Abbrevs      []uint64 // nil without the column
	Trailers     []base.Trailer
	KeyOff       []uint32 // one more than entries
	ValOff       []uint32
	Data         []byte
	view         View
}

// ViewSize is the memory of a View of n entries whose keys and values have data bytes.
func ViewSize(n int, data uint64, cols Columns) uint64 {
	var v View
	return uint64(v.layout(n, cols)) + data + Slack
}

// NewViewColumns lays out a View in dst, which has the size that ViewSize says and begins
// on a multiple of eight. Columns that do not work with cmp are left out. The caller
// fills the columns and the data, and calls Finish.
func NewViewColumns(dst []byte, n int, cmp *base.Comparer, cols Columns) ViewColumns {
	cols = cols.valid(cmp)
	v := View{p: unsafe.Pointer(unsafe.SliceData(dst))}
	dataOff := v.layout(n, cols)
	c := ViewColumns{
		Trailers: unsafe.Slice((*base.Trailer)(unsafe.Add(v.p, v.trailers)), n),
		KeyOff:   unsafe.Slice((*uint32)(unsafe.Add(v.p, v.keyOffs)), n+1),
		ValOff:   unsafe.Slice((*uint32)(unsafe.Add(v.p, v.valOffs)), n),
		Data:     dst[dataOff:],
	}
	if cols&Fingerprints != 0 {
		c.Fingerprints = dst[viewHeader : viewHeader+n]
	}
	if cols&Abbreviations != 0 {
		c.Abbrevs = v.abbrevColumn()
	}
	c.view = v
	return c
}

// Finish ends the View: its first dataLen bytes of data are in use, abbreviations begin after the
// first prefixLen bytes of each key. allLiveSets is that of base.Chunk. exact says that all keys
// have one length, and end with their abbreviations.
func (c *ViewColumns) Finish(prefixLen, dataLen int, allLiveSets, exact bool,
	maxSeq base.SeqNum) View {
	v := &c.view
	v.data = c.Data[:dataLen]
	if allLiveSets {
		v.flags |= viewAllLiveSets
	}
	if exact && v.flags&Abbreviations != 0 && v.n > 0 {
		v.flags |= viewExact
	}
	v.putHeader(prefixLen, maxSeq)
	return *v
}

// putHeader writes the header of a view whose columns are laid out and whose data is
// known.
func (v *View) putHeader(prefixLen int, maxSeq base.SeqNum) {
	*(*uint32)(v.p) = uint32(v.n)
	*(*uint32)(unsafe.Add(v.p, hdrFlags)) = uint32(v.flags)
	*(*uint32)(unsafe.Add(v.p, hdrPrefix)) = uint32(prefixLen)
	*(*uint32)(unsafe.Add(v.p, hdrSize)) = uint32(v.valOffs) + 4*uint32(v.n) + uint32(len(v.data))
	*(*uint64)(unsafe.Add(v.p, hdrMaxSeq)) = uint64(maxSeq)
}

// Fingerprint is the byte of a key's hash, of base.Hash, that the fingerprint column
// holds.
func Fingerprint(hash uint64) byte { return byte(hash >> 24) }
