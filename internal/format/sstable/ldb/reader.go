package ldb

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/filter"
	"github.com/loamdb/loam/internal/format/rangedel"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Env is what a Reader works with.
type Env = blocktable.Env

// Reader reads one table.
type Reader struct {
	blocktable.Table
	ldbFilter filter.LevelDB
	hasLDB    bool // ldbFilter, in place of a whole one
}

var _ sstable.Reader = (*Reader)(nil)

// Open reads footer, index and filter. The Reader does not close src, which
// must stay open until Close.
func Open(src vfs.ReadFile, env Env) (*Reader, error) {
	r := &Reader{}
	opened := false
	defer func() { // also when the comparer panics
		if !opened {
			r.Close()
		}
	}()
	var footer [FooterLen]byte
	err := r.Init(src, env, &pool, FooterLen)
	if err == nil {
		err = r.open(src.Size(), &footer)
	}
	if err != nil {
		return nil, err
	}
	// Rows are searched by what neighbours share.
	r.InPlace = env.Comparer.HasAbbrev()
	r.Start(0)
	r.Map(footer[:])
	opened = true
	return r, nil
}

func (r *Reader) open(size int64, footer *[FooterLen]byte) error {
	s := pool.Get()
	defer pool.Put(s)
	r.MaxRaw = r.Env.MaxDecoded
	end := uint64(size) - FooterLen
	b, err := r.Read(&s.File, end, FooterLen)
	if err != nil {
		return err
	}
	copy(footer[:], b)
	metaindex, index, err := parseFooter(b)
	if err == nil && (metaindex.End() > end || index.End() > end) {
		err = base.Corruptf("table footer", "index or metaindex lies outside the file of %d bytes",
			size)
	}
	if err != nil {
		return r.Locate(err, end, FooterLen)
	}
	r.Properties = sstable.Props{Size: uint64(size), Format: format}
	r.Tail = metaindex.Offset
	if err := r.openIndex(index, min(metaindex.Offset, index.Offset), s); err != nil {
		return r.Locate(err, index.Offset, index.Size)
	}
	return r.openMeta(metaindex, end, s)
}

// openIndex builds the index's view and checks every handle in it.
func (r *Reader) openIndex(h block.Handle, limit uint64, s *blocktable.Scratch) error {
	raw, viewLimit, err := r.contents(h, s)
	if err != nil {
		return err
	}
	shape, err := block.Measure(raw, viewLimit)
	if err != nil {
		return blocktable.Final(err)
	}
	mem, err := r.Index.Alloc(shape.ViewSize(block.Abbreviations))
	if err != nil {
		return err
	}
	if r.Index.View, err = block.BuildView(mem, raw, shape, r.Env.Comparer,
		block.Abbreviations); err != nil {
		return blocktable.Final(err)
	}
	r.DataEnd, err = r.Index.Check(limit, block.TrailerLen, false)
	return blocktable.Final(err)
}

// openMeta reads the blocks that the metaindex names and that are of use.
func (r *Reader) openMeta(h block.Handle, end uint64, s *blocktable.Scratch) error {
	at := func(err error, h block.Handle) error { return r.Locate(err, h.Offset, h.Size) }
	raw, _, err := r.contents(h, s)
	if err != nil {
		return at(err, h)
	}
	blocks := map[string]block.Handle{}
	err = block.EachRow(raw, func(name, value []byte) error {
		switch string(name) {
		case levelDBFilterKey, filterKey, propsKey:
		default:
			return nil
		}
		b, n := block.DecodeHandle(value)
		if n == 0 || b.End() > end {
			return base.Corruptf("table metaindex", "malformed handle of %s", name)
		}
		blocks[string(name)] = b
		return nil
	})
	if err != nil {
		return at(err, h)
	}
	if h, ok := blocks[propsKey]; ok {
		b, err := r.plain(h, &s.File)
		if err == nil {
			err = parseProps(b, &r.Properties)
		}
		if err != nil {
			return at(err, h)
		}
		r.MaxRaw = maxRaw(&r.Properties, r.Env.MaxDecoded)
	}
	if !r.Env.Comparer.EqualIsBytewise {
		return nil
	}
	if h, ok := blocks[filterKey]; ok {
		b, err := r.plain(h, &r.FilterMem)
		if err == nil {
			r.Whole, err = filter.Parse(b)
		}
		if err != nil {
			return at(err, h)
		}
		r.HasWhole = true
		offheap.AdviseHuge(b)
		return nil
	}
	if h, ok := blocks[levelDBFilterKey]; ok {
		b, err := r.plain(h, &r.FilterMem)
		if err == nil {
			r.ldbFilter, err = filter.ParseLevelDB(b)
		}
		if err != nil {
			return at(err, h)
		}
		r.hasLDB = true
	}
	return nil
}

// VerifyMeta checks the blocks that the metaindex names, filters of other engines among them.
func (r *Reader) VerifyMeta() error {
	var other block.Buffer
	defer other.Free()
	_, _, err := r.metaBlocks(func(_ string, h block.Handle) error {
		stored, err := r.Read(&other, h.Offset, h.Size+block.TrailerLen)
		if err == nil {
			_, _, err = block.Verify(stored)
		}
		return r.Locate(err, h.Offset, h.Size+block.TrailerLen)
	})
	return err
}

// metaBlocks calls do for the blocks that the metaindex names, and returns where metaindex and
// index lie.
func (r *Reader) metaBlocks(do func(name string, h block.Handle) error) (meta, index block.Handle,
	err error) {
	s := pool.Get()
	defer pool.Put(s)
	end := r.Properties.Size - FooterLen
	b, err := r.Read(&s.File, end, FooterLen)
	if err != nil {
		return meta, index, err
	}
	if meta, index, err = parseFooter(b); err != nil {
		return meta, index, r.Locate(err, end, FooterLen)
	}
	raw, _, err := r.contents(meta, s)
	if err != nil {
		return meta, index, r.Locate(err, meta.Offset, meta.Size)
	}
	return meta, index, block.EachRow(raw, func(name, value []byte) error {
		h, n := block.DecodeHandle(value)
		if n == 0 || h.End() > end { // nothing that is ever read
			return nil
		}
		return do(string(name), h)
	})
}

// maxRaw bounds the length of a data block, before compression, by what all the
// entries of the table take: each has three lengths and perhaps a restart point.
func maxRaw(p *sstable.Props, limit int64) int64 {
	const perEntry, perBlock = 3*5 + 4, 8
	most := uint64(max(limit, 0))
	if max(p.RawKeys, p.RawValues, p.Entries) >= most {
		return limit
	}
	return int64(min(p.RawKeys+p.RawValues+perEntry*p.Entries+perBlock, most))
}

// plain reads a block that is never compressed into buf.
func (r *Reader) plain(h block.Handle, buf *block.Buffer) ([]byte, error) {
	stored, err := r.Read(buf, h.Offset, h.Size+block.TrailerLen)
	if err != nil {
		return nil, err
	}
	b, codec, err := block.Verify(stored)
	if err != nil {
		return nil, err
	}
	if codec != block.None {
		return nil, base.Corruptf("table filter", "is compressed (codec %d)", codec)
	}
	return b, nil
}

// open is block.Verify, which bytes that were verified before need not pass again.
func open(stored []byte, verified bool) ([]byte, block.Codec, error) {
	if n := len(stored) - block.TrailerLen; verified && n >= 0 {
		return stored[:n], block.Codec(stored[n]), nil
	}
	return block.Verify(stored)
}

// unpack checks and decompresses a block into s.Raw. limit is what its view may take.
func unpack(stored []byte, s *blocktable.Scratch, maxRaw,
	maxDecoded int64) (raw []byte, limit int64, err error) {
	p, codec, err := open(stored, s.Verified)
	if err != nil {
		return nil, 0, err
	}
	limit = maxDecoded
	if codec == block.None {
		// Large values are stored raw; what they take is bounded by the file.
		limit = max(limit, 4*int64(len(p)))
	}
	raw, err = block.Decompress(&s.Raw, p, codec, maxRaw)
	return raw, limit, blocktable.Final(err)
}

// contents reads and decompresses a block other than a data block. limit is what its view may take.
func (r *Reader) contents(h block.Handle, s *blocktable.Scratch) (raw []byte, limit int64,
	err error) {
	stored, err := r.Read(&s.File, h.Offset, h.Size+block.TrailerLen)
	if err != nil {
		return nil, 0, err
	}
	return unpack(stored, s, r.Env.MaxDecoded, r.Env.MaxDecoded)
}

// Get appends the newest visible value of the key to dst. With
// base.ErrWouldBlock, GetAt goes on from hit.Position.
func (r *Reader) Get(l base.Lookup, flags sstable.ReadFlags,
	dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	if !r.hasLDB {
		return r.Table.Get(l, flags, dst)
	}
	p, ok := r.Find(l)
	if !ok || !r.ldbFilter.MayContain(r.Index.Handle(int(p)).Offset, l.Key()) {
		return dst, sstable.Hit{}, false, nil
	}
	return r.GetAt(p, l, flags, dst)
}

// MayContain reports whether the filter, if any, admits the key.
func (r *Reader) MayContain(l base.Lookup) bool {
	if !r.hasLDB {
		return r.Table.MayContain(l)
	}
	// The block of the newest version holds the key if any block does.
	key := l.Key()
	b := r.Index.SeekGE(r.Env.Comparer, key, base.MaxTrailer)
	return b < r.Index.Len() && r.ldbFilter.MayContain(r.Index.Handle(b).Offset, key)
}

// RangeDels is nil: the format has no range tombstones.
func (r *Reader) RangeDels() *rangedel.List { return nil }
