package native

import (
	"math"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/filter"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Reader reads one table.
type Reader struct {
	blocktable.Table
	parted    *filterParts // a filter in parts; nil: it is whole
	rangeDels *rangedel.List
}

var _ sstable.Reader = (*Reader)(nil)

// tailLen is how much is read of a table's end at first: it usually has the properties, too.
const tailLen = 1 << 10

// Open reads footer, properties, index and filter. The Reader does not close src,
// which must stay open until Close.
func Open(src vfs.ReadFile, env blocktable.Env) (*Reader, error) {
	r := &Reader{}
	opened := false
	defer func() { // also when the comparer panics
		if !opened {
			r.Close()
		}
	}()
	var end [FooterLen]byte
	err := r.Init(src, env, &pool, FooterLen)
	if err == nil {
		err = r.open(uint64(src.Size()), &end)
	}
	if err != nil {
		return nil, err
	}
	r.InPlace = true
	r.Start(int(r.rangeDels.Bytes()) + dictOf(&r.Table).Cap())
	r.Map(end[:])
	if r.parted != nil {
		r.Filter = r.parted
		if r.Env.Cache != nil {
			r.parted.slots = r.Env.Cache.NewSlots(len(r.parted.handles))
		}
	}
	opened = true
	return r, nil
}

func (r *Reader) open(size uint64, last *[FooterLen]byte) error {
	s := pool.Get()
	defer pool.Put(s)
	p, at, err := r.readProps(size, last, s)
	if err != nil {
		return err
	}
	if p.Comparer != r.Env.Comparer.Name {
		err := base.Corruptf("table properties", "keys are ordered by %.200q, not by %.200q",
			p.Comparer, r.Env.Comparer.Name)
		return r.Locate(blocktable.Final(err), at, size-FooterLen-at)
	}
	p.Size = size
	r.Properties = p.Props
	if seq := r.Env.GlobalSeq; seq > 0 {
		r.Properties.MinSeq, r.Properties.MaxSeq = seq, seq
	}
	return r.openParts(&p, at, s)
}

// ReadProps reads what a table records of itself, whatever its comparer is.
func ReadProps(src vfs.ReadFile, env blocktable.Env) (sstable.Props, error) {
	r := &Reader{}
	s := pool.Get()
	defer pool.Put(s)
	var end [FooterLen]byte
	defer r.Close() // also when the file system panics
	err := r.Init(src, env, &pool, FooterLen)
	var p properties
	if err == nil {
		p, _, err = r.readProps(uint64(src.Size()), &end, s)
	}
	return p.Props, err
}

// readProps reads the footer and the properties, which are at an offset.
func (r *Reader) readProps(size uint64, last *[FooterLen]byte,
	s *blocktable.Scratch) (p properties, at uint64, err error) {
	n := min(size, tailLen)
	tail, err := r.Read(&s.File, size-n, n)
	if err != nil {
		return p, 0, err
	}
	copy(last[:], tail[n-FooterLen:])
	f, err := parseFooter(last[:], size)
	if err == nil && r.Env.FileNum != 0 && f.fileNum != 0 && f.fileNum != r.Env.FileNum {
		err = base.Corruptf("table footer", "this is table %06d, not %06d", f.fileNum,
			r.Env.FileNum)
	}
	if err != nil {
		return p, 0, r.Locate(err, size-FooterLen, FooterLen)
	}
	r.Number = f.fileNum
	end := size - FooterLen
	stored := tail[:n-FooterLen]
	if f.props < size-n {
		if stored, err = r.Read(&s.File, f.props, end-f.props); err != nil {
			return p, 0, err
		}
	} else {
		stored = stored[f.props-(size-n):]
	}
	if p, err = r.openProps(stored, f.props); err != nil {
		return p, 0, r.Locate(err, f.props, end-f.props)
	}
	p.Outside, p.FileNum = f.fileNum == 0, f.fileNum
	if p.bodySum != 0 {
		p.Recorded = base.CRCUpdate(base.CRCUpdate(p.bodySum, stored), last[:])
	}
	return p, f.props, nil
}

func (r *Reader) openProps(stored []byte, off uint64) (properties, error) {
	b, err := openWhole(stored, kindProps, r.Number, off)
	if err != nil {
		return properties{}, err
	}
	p, err := parseProps(b)
	return p, blocktable.Final(err)
}

// openParts reads what the properties name. The parts of the file lie one behind the other,
// from the last data block to the properties at end.
func (r *Reader) openParts(p *properties, end uint64, s *blocktable.Scratch) error {
	r.MaxRaw = r.Env.MaxDecoded
	at := end
	for _, part := range []struct {
		handle block.Handle
		open   func(p *properties, h block.Handle, s *blocktable.Scratch) error
	}{{p.parts, r.openIndexOfParts}, {p.index, r.openIndex}, {p.rangeDels,
		r.openRangeDels}, {p.filter, r.openFilter}, {p.dict, r.openDict}} {
		h := part.handle
		if h.Size == 0 {
			continue
		}
		err := error(nil)
		if h.Offset > at || h.Size != at-h.Offset {
			err = base.Corruptf("table properties", "a part at %d of %d bytes does not end at %d",
				h.Offset, h.Size, at)
		} else {
			err = part.open(p, h, s)
		}
		if err != nil {
			return r.Locate(err, h.Offset, h.Size)
		}
		at = h.Offset
	}
	if r.DataEnd != at {
		return r.Locate(base.Corruptf("table properties",
			"the data ends at %d, the next part begins at %d", r.DataEnd, at), at, end-at)
	}
	return nil
}

// readColumns reads a frame of columns into a View in memory of alloc.
func (r *Reader) readColumns(h block.Handle, kind byte, s *blocktable.Scratch,
	alloc func(int) ([]byte, error)) (v block.View, err error) {
	stored, err := r.Read(&s.File, h.Offset, h.Size)
	if err != nil {
		return v, err
	}
	return r.openColumns(h.Offset, stored, kind, s, alloc)
}

// openColumns makes a View of a frame of columns in memory of alloc.
func (r *Reader) openColumns(off uint64, stored []byte, kind byte, s *blocktable.Scratch,
	alloc func(int) ([]byte, error)) (v block.View, err error) {
	b, err := openWhole(stored, kind, r.Number, off)
	if err != nil {
		return v, err
	}
	return r.viewOf(b, s, alloc)
}

// viewOf makes a View of columns in memory of alloc.
func (r *Reader) viewOf(b []byte, s *blocktable.Scratch,
	alloc func(int) ([]byte, error)) (v block.View, err error) {
	c, err := colblk.Open(b, r.Env.Comparer)
	if err != nil {
		return v, blocktable.Final(err)
	}
	// The entries of short keys take more for their columns than for all else; no block has more
	// entries than bytes.
	limit := viewLimit(r.MaxIndex(), len(b)) + blocktable.ViewColumns*int64(c.Len())
	shape, err := c.Measure(limit)
	if err != nil {
		return v, blocktable.Final(err)
	}
	mem, err := alloc(shape.ViewSize(block.Abbreviations))
	if err != nil {
		return v, err
	}
	v, err = c.BuildView(mem, shape, r.Env.Comparer, block.Abbreviations, nil, &s.Raw)
	if err == nil {
		err = checkOrder(&v, r.Env.Comparer)
	}
	return v, blocktable.Final(err)
}

// viewLimit is what a View of a block of n bytes may take. Large values are stored as they are;
// what they take is bounded by the file.
func viewLimit(maxDecoded int64, n int) int64 {
	return min(max(maxDecoded, 4*int64(n)), math.MaxUint32)
}

func (r *Reader) openIndex(p *properties, h block.Handle, s *blocktable.Scratch) (err error) {
	if p.parts.Size != 0 {
		return r.setParts(p)
	}
	if r.Index.View, err = r.readColumns(h, kindIndex, s, r.Index.Alloc); err != nil {
		return err
	}
	if r.DataEnd, err = r.Index.Check(h.Offset, 0, true); err != nil {
		return blocktable.Final(err)
	}
	r.Tail = r.DataEnd
	if from := r.Env.EvictFrom; from > 0 && h.Size+p.filter.Size >= from && r.Index.Len() > 0 {
		return r.makePart(p, h, s)
	}
	return nil
}

func (r *Reader) openFilter(_ *properties, h block.Handle, _ *blocktable.Scratch) error {
	bytewise := r.Env.Comparer.EqualIsBytewise
	if r.parted != nil {
		err := r.checkFilterParts(h)
		if !bytewise {
			r.parted = nil
		}
		return err
	}
	stored, err := r.Read(&r.FilterMem, h.Offset, h.Size)
	if err != nil {
		return err
	}
	if r.Whole, err = r.parseFilter(stored, h.Offset); err != nil {
		return err
	}
	r.HasWhole = bytewise
	offheap.AdviseHuge(stored)
	return nil
}

// parseFilter checks a frame with a filter.
func (r *Reader) parseFilter(stored []byte, off uint64) (filter.Table, error) {
	b, err := openWhole(stored, kindFilter, r.Number, off)
	if err != nil {
		return filter.Table{}, err
	}
	f, err := filter.Parse(b)
	return f, blocktable.Final(err)
}

func (r *Reader) openDict(_ *properties, h block.Handle, s *blocktable.Scratch) error {
	stored, err := r.Read(&s.File, h.Offset, h.Size)
	if err != nil {
		return err
	}
	d, err := r.parseDict(stored, h.Offset)
	r.Dict = d
	return err
}

// parseDict checks a frame with a dictionary.
func (r *Reader) parseDict(stored []byte, off uint64) (*colblk.Dict, error) {
	b, err := openWhole(stored, kindDict, r.Number, off)
	if err != nil {
		return nil, err
	}
	d, err := colblk.NewDict(b)
	return d, blocktable.Final(err)
}

// Close frees the memory; it does not close the file.
func (r *Reader) Close() error {
	if r.parted != nil && r.parted.slots != nil {
		r.parted.slots.Free()
	}
	r.parted, r.rangeDels = nil, nil
	return r.Table.Close()
}
