package ldb

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/block"
	"github.com/loamdb/loam/internal/cache"
	"github.com/loamdb/loam/internal/filter"
	"github.com/loamdb/loam/internal/offheap"
	"github.com/loamdb/loam/internal/sstable"
	"github.com/loamdb/loam/internal/vfs"
)

// Env is what a Reader works with.
type Env struct {
	Name     string       // base name of the file, for errors
	Cache    *cache.Cache // nil: blocks are decoded anew for each read
	Comparer *base.Comparer
	// MaxDecoded bounds the memory of one decompressed block and of one view,
	// in bytes; 0 for block.DefaultMaxDecoded. A block that is not compressed
	// may have more, as far as the file has so many bytes on disk.
	MaxDecoded int64
}

// sparseFactor is how many times its bytes on disk, besides MaxDecoded, a table
// may have in bytes. No writer leaves holes, but copying tools make them of
// zeros in values.
const sparseFactor = 32

// Reader reads one table.
type Reader struct {
	src vfs.ReadFile
	env Env
	cmp *base.Comparer

	index    block.View // separator key -> handle
	indexMem block.Buffer
	dataEnd  uint64 // no data block ends after it
	maxRead  uint64 // longest block, as stored
	maxRaw   int64  // longest data block, decompressed
	metaOff  uint64 // of the metaindex

	filter    filter.Table
	ldbFilter filter.LevelDB
	hasFilter bool // filter
	hasLDB    bool // ldbFilter
	filterMem block.Buffer

	slots *cache.Slots
	props sstable.Props
	bad   badBlocks
}

var _ sstable.Reader = (*Reader)(nil)

// Open reads footer, index and filter. The Reader does not close src, which
// must stay open until Close.
func Open(src vfs.ReadFile, env Env) (*Reader, error) {
	if env.MaxDecoded <= 0 {
		env.MaxDecoded = block.DefaultMaxDecoded
	}
	r := &Reader{src: src, env: env, cmp: env.Comparer}
	openReaders.Add(1)
	s := getScratch()
	err := r.open(s)
	putScratch(s)
	if err != nil {
		r.free()
		return nil, err
	}
	if c := env.Cache; c != nil {
		r.slots = c.NewSlots(r.index.Len())
		c.Reserve(r.reserved())
	}
	return r, nil
}

func (r *Reader) open(s *scratch) error {
	size := r.src.Size()
	if size < FooterLen {
		return base.LocateCorruption(base.Corruptf("table footer", "file of %d bytes is too short", size), r.env.Name, 0, size)
	}
	stored := vfs.Stored(r.src, size)
	if (size-r.env.MaxDecoded)/sparseFactor > stored {
		return base.LocateCorruption(base.Corruptf("table file", "its %d bytes are a hole but for %d at most; if that is right, raise max_decoded_block", size, stored), r.env.Name, 0, size)
	}
	r.maxRead = uint64(max(r.env.MaxDecoded, stored))
	r.maxRaw = r.env.MaxDecoded
	end := uint64(size) - FooterLen
	b, err := r.read(&s.file, end, FooterLen)
	if err != nil {
		return err
	}
	metaindex, index, err := parseFooter(b)
	if err == nil && (metaindex.End() > end || index.End() > end) {
		err = base.Corruptf("table footer", "index or metaindex lies outside the file of %d bytes", size)
	}
	if err != nil {
		return base.LocateCorruption(err, r.env.Name, int64(end), FooterLen)
	}
	r.props = sstable.Props{Size: uint64(size), Format: format}
	r.metaOff = metaindex.Offset
	r.dataEnd = min(metaindex.Offset, index.Offset)
	if err := r.openIndex(index, s); err != nil {
		return base.LocateCorruption(err, r.env.Name, int64(index.Offset), int64(index.Size))
	}
	return r.openMeta(metaindex, end, s)
}

// openIndex builds the index's view and checks every handle in it.
func (r *Reader) openIndex(h block.Handle, s *scratch) error {
	raw, shape, err := r.contents(h, s)
	if err != nil {
		return err
	}
	mem, err := r.indexMem.Resize(shape.ViewSize(block.Abbreviations))
	if err != nil {
		return err
	}
	if r.index, err = block.BuildView(mem, raw, shape, r.cmp, block.Abbreviations); err != nil {
		return final(err)
	}
	r.props.Blocks = r.index.Len()
	end := uint64(0)
	for i := range r.index.Len() {
		v := r.index.Value(i)
		b, n := block.DecodeHandle(v)
		switch {
		case n == 0 || n != len(v):
			return final(base.Corruptf("table index", "malformed handle of block %d", i))
		case b.Size == 0:
			return final(base.Corruptf("table index", "block %d is empty", i))
		case b.Offset < end:
			return final(base.Corruptf("table index", "block %d at %d overlaps the one before", i, b.Offset))
		case b.End() > r.dataEnd:
			return final(base.Corruptf("table index", "block %d at %d, length %d, lies outside the data", i, b.Offset, b.Size))
		}
		end = b.End()
	}
	r.dataEnd = end
	return nil
}

// openMeta reads the blocks that the metaindex names and that are of use.
func (r *Reader) openMeta(h block.Handle, end uint64, s *scratch) error {
	at := func(err error, h block.Handle) error {
		return base.LocateCorruption(err, r.env.Name, int64(h.Offset), int64(h.Size))
	}
	stored, err := r.read(&s.file, h.Offset, h.Size+block.TrailerLen)
	if err != nil {
		return err
	}
	raw, _, err := r.unpack(stored, s)
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
		b, err := r.plain(h, &s.file)
		if err == nil {
			err = parseProps(b, &r.props)
		}
		if err != nil {
			return at(err, h)
		}
		r.maxRaw = maxRaw(&r.props, r.env.MaxDecoded)
	}
	if !r.cmp.EqualIsBytewise {
		return nil
	}
	if h, ok := blocks[filterKey]; ok {
		b, err := r.plain(h, &r.filterMem)
		if err == nil {
			r.filter, err = filter.Parse(b)
		}
		if err != nil {
			return at(err, h)
		}
		r.hasFilter = true
		offheap.AdviseHuge(b)
		return nil
	}
	if h, ok := blocks[levelDBFilterKey]; ok {
		b, err := r.plain(h, &r.filterMem)
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
	stored, err := r.read(buf, h.Offset, h.Size+block.TrailerLen)
	if err != nil {
		return nil, err
	}
	b, codec, err := block.Open(stored)
	if err != nil {
		return nil, err
	}
	if codec != block.None {
		return nil, base.Corruptf("table filter", "is compressed (codec %d)", codec)
	}
	return b, nil
}

// read fills buf with n bytes of the file. They have been checked to lie
// inside it, so that too few are damage.
func (r *Reader) read(buf *block.Buffer, off, n uint64) ([]byte, error) {
	if n > r.maxRead {
		err := base.Corruptf("table", "a block of %d bytes in a file with %d on disk; if that is right, raise max_decoded_block", n, vfs.Stored(r.src, r.src.Size()))
		return nil, base.LocateCorruption(err, r.env.Name, int64(off), int64(n))
	}
	b, err := buf.Resize(int(n))
	if err != nil {
		return nil, err
	}
	got, err := r.src.ReadAt(b, int64(off))
	if got == len(b) {
		return b, nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = base.Corruptf("table", "file ends after %d of %d bytes", got, n)
		return nil, base.LocateCorruption(err, r.env.Name, int64(off), int64(n))
	}
	return nil, fmt.Errorf("reading table %s at %d: %w", r.env.Name, off, err)
}

// unpack checks and decompresses a block. limit is what its view may take.
func (r *Reader) unpack(stored []byte, s *scratch) (raw []byte, limit int64, err error) {
	p, codec, err := block.Open(stored)
	if err != nil {
		return nil, 0, err
	}
	limit = r.env.MaxDecoded
	if codec == block.None {
		// Large values are stored raw; what they take is bounded by the file.
		limit = max(limit, 4*int64(len(p)))
	}
	raw, err = block.Decompress(&s.raw, p, codec, r.maxRaw)
	return raw, limit, final(err)
}

// final marks damage that was found under a right checksum.
func final(err error) error {
	if err == nil {
		return nil
	}
	var c *base.Corruption
	if errors.As(err, &c) {
		c.Final = true
	}
	return err
}

// measure is unpack of a block whose rows have internal keys.
func (r *Reader) measure(stored []byte, s *scratch) ([]byte, block.Shape, error) {
	raw, limit, err := r.unpack(stored, s)
	if err != nil {
		return nil, block.Shape{}, err
	}
	shape, err := block.Measure(raw, limit)
	return raw, shape, final(err)
}

func (r *Reader) contents(h block.Handle, s *scratch) ([]byte, block.Shape, error) {
	stored, err := r.read(&s.file, h.Offset, h.Size+block.TrailerLen)
	if err != nil {
		return nil, block.Shape{}, err
	}
	return r.measure(stored, s)
}

// handle returns where data block i lies.
func (r *Reader) handle(i int) block.Handle {
	h, _ := block.DecodeHandle(r.index.Value(i))
	return h
}

// blockError locates damage found in data block i.
func (r *Reader) blockError(i int, err error) error {
	h := r.handle(i)
	return base.LocateCorruption(err, r.env.Name, int64(h.Offset), int64(h.Size))
}

// badBlocks are the data blocks that are damaged for good: their checksums are
// right. Unpacking such a block may be much work, which is done once.
type badBlocks struct {
	any atomic.Bool
	mu  sync.Mutex
	err map[int]error
}

// find returns why block i cannot be read, or nil when that is not known.
func (b *badBlocks) find(i int) error {
	if !b.any.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err[i]
}

// badBlock locates the damage found in data block i, stored as given. Where the
// checksum is wrong another read may give other bytes; all else is remembered.
func (r *Reader) badBlock(i int, stored []byte, err error) error {
	err = r.blockError(i, err)
	if _, _, crc := block.Open(stored); crc != nil || !errors.Is(err, base.ErrCorruption) {
		return err
	}
	r.bad.mu.Lock()
	defer r.bad.mu.Unlock()
	if r.bad.err == nil {
		r.bad.err = make(map[int]error)
	}
	r.bad.err[i] = err
	r.bad.any.Store(true)
	return err
}

// build makes the view of data block i in mem and checks it against the index.
func (r *Reader) build(i int, mem, raw []byte, shape block.Shape, cols block.Columns) (block.View, error) {
	v, err := block.BuildView(mem, raw, shape, r.cmp, cols)
	if err != nil {
		return v, err
	}
	var ends block.RowSearch
	if ends.Count = v.Len(); ends.Count > 0 {
		last := ends.Count - 1
		ends.First, ends.FirstTrailer = v.Key(0), v.Trailer(0)
		ends.Last, ends.LastTrailer = v.Key(last), v.Trailer(last)
	}
	return v, r.checkBounds(i, &ends)
}

// checkBounds checks data block i against the index: its entries lie after the separator
// before it and not after its own.
func (r *Reader) checkBounds(i int, b *block.RowSearch) error {
	if b.Count == 0 {
		return base.Corruptf("table block", "has no entries")
	}
	if r.cmp.CompareInternal(b.Last, b.LastTrailer, r.index.Key(i), r.index.Trailer(i)) > 0 {
		return base.Corruptf("table block", "last key lies after the block's key in the index")
	}
	if i > 0 && r.cmp.CompareInternal(b.First, b.FirstTrailer, r.index.Key(i-1), r.index.Trailer(i-1)) <= 0 {
		return base.Corruptf("table block", "first key does not lie after the block before")
	}
	return nil
}

// buildPrivate makes the view of data block i, stored as given, in s.
func (r *Reader) buildPrivate(i int, stored []byte, s *scratch, cols block.Columns) (block.View, error) {
	raw, shape, err := r.measure(stored, s)
	if err == nil {
		var mem []byte
		if mem, err = s.view.Resize(shape.ViewSize(cols)); err == nil {
			var v block.View
			if v, err = r.build(i, mem, raw, shape, cols); err == nil {
				return v, nil
			}
		}
	}
	return block.View{}, r.badBlock(i, stored, err)
}

// buildCached makes the view of data block i in a frame and puts it into the
// cache. Where there is no memory for a frame, the frame is not Valid, and the view
// lies in s.
func (r *Reader) buildCached(i int, stored []byte, s *scratch) (cache.Frame, block.View, error) {
	f, err := r.buildFrame(i, stored, s)
	switch {
	case err != nil:
		return cache.Frame{}, block.View{}, err
	case !f.Valid():
		v, err := r.buildPrivate(i, stored, s, 0)
		return f, v, err
	}
	return f, block.OpenView(f.Bytes()), nil
}

func (r *Reader) buildFrame(i int, stored []byte, s *scratch) (cache.Frame, error) {
	raw, limit, err := r.unpack(stored, s)
	if err != nil {
		return cache.Frame{}, r.badBlock(i, stored, err)
	}
	return r.frameOf(i, stored, raw, limit)
}

// frameOf is buildFrame of a block that is decompressed: raw and limit come from unpack.
func (r *Reader) frameOf(i int, stored, raw []byte, limit int64) (cache.Frame, error) {
	shape, err := block.Measure(raw, limit)
	if err != nil {
		return cache.Frame{}, r.badBlock(i, stored, final(err))
	}
	f := r.env.Cache.Alloc(shape.ViewSize(block.PointLookup))
	if !f.Valid() {
		return f, nil
	}
	if _, err := r.build(i, f.Bytes(), raw, shape, block.PointLookup); err != nil {
		f.Release()
		return cache.Frame{}, r.badBlock(i, stored, err)
	}
	return r.slots.Publish(i, f), nil
}

// reserved is what index and filter hold.
func (r *Reader) reserved() int64 {
	return int64(r.indexMem.Cap()) + int64(r.filterMem.Cap())
}

// MemoryUsage is the bytes of index, filter and cache slots held.
func (r *Reader) MemoryUsage() int64 {
	n := r.reserved()
	if r.slots != nil {
		n += r.slots.MemoryUsage()
	}
	return n
}

// Props describes the table.
func (r *Reader) Props() sstable.Props { return r.props }

// Close frees the memory; it does not close the file.
func (r *Reader) Close() error {
	if r.slots != nil {
		r.slots.Free()
		r.env.Cache.Reserve(-r.reserved())
		r.slots = nil
	}
	r.free()
	return nil
}

func (r *Reader) free() {
	r.index = block.View{}
	r.filter, r.ldbFilter, r.hasFilter, r.hasLDB = filter.Table{}, filter.LevelDB{}, false, false
	r.indexMem.Free()
	r.filterMem.Free()
	readerClosed()
}
