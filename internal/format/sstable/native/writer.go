package native

import (
	"bytes"
	"fmt"
	"math"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/filter"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/os/vfs"
)

const (
	// maxExpanded closes a block early that comes near what readers accept in memory;
	// blocks of usual sizes never get there.
	maxExpanded = block.DefaultMaxDecoded * 3 / 8
	viewColumns = 25 // bytes of an entry's columns in a view
)

// Writer writes one table.
type Writer struct {
	o   sstable.WriterOptions
	err error // sticky
	out blocktable.Output

	*buffers // nil once finished
	packing  colblk.Options
	maxIndex int // an index that takes more memory is cut into parts
	partLen  int // of about so many bytes
	open     dataBlock
	ratio    float64 // bytes of the last blocks as stored, by raw ones
	columns  float64 // bytes of an entry of the last block besides its value
	padded   uint64  // bytes of padding so far

	last     base.InternalKey // added; User lies in lastKey
	sep      []byte
	meta     sstable.Meta
	firstDel base.InternalKey // where the first range tombstone starts
	lastDel  struct {
		start base.InternalKey
		limit []byte // nil: there is none
	}
	delsLen  int // about the bytes of the range tombstones
	finished bool
	closed   bool
	filtered bool // a filter is wanted

	prefix   []byte // of the last key that has one
	prefixAt int    // where its hash lies in hashes, -1 for none
}

// buffers is the memory of a Writer.
type buffers struct {
	data, dels, index colblk.Writer
	out               block.Buffer // of the Output, between writers
	hashes            block.Buffer // u64 per user key, for the filter
	lastKey           block.Buffer
	blocks            blockList
}

// Free frees the memory.
func (b *buffers) Free() {
	b.data.Free()
	b.dels.Free()
	b.index.Free()
	b.out.Free()
	b.hashes.Free()
	b.lastKey.Free()
	b.blocks.free()
}

// takeBuffers returns empty buffers.
func takeBuffers(s *sstable.Spare) *buffers {
	b, _ := s.Take().(*buffers)
	if b == nil {
		return new(buffers)
	}
	b.out.Truncate(0)
	b.hashes.Truncate(0)
	b.blocks.reset()
	return b
}

// release gives the buffers back.
func (w *Writer) release() {
	if w.buffers != nil {
		w.buffers.out, w.out.Buf = w.out.Buf, block.Buffer{}
		w.o.Spare.Put(w.buffers)
		w.buffers = nil
	}
}

// NewWriter returns a writer of a table in f, which is empty and which it
// closes. Options that cannot be met are reported by Add and Finish.
func NewWriter(f vfs.WriteFile, o sstable.WriterOptions) *Writer {
	if o.BlockSize <= 0 {
		o.BlockSize = 4096
	}
	o.BloomBits = min(o.BloomBits, filter.MaxBitsPerKey)
	w := &Writer{o: o, buffers: takeBuffers(o.Spare)}
	w.out = blocktable.Output{File: f, Buf: w.buffers.out, Summed: true}
	w.buffers.out = block.Buffer{}
	w.packing = Packing(&o)
	w.maxIndex, w.partLen = maxIndex, partLen
	w.ratio = 0.6
	if w.packing.Packing == colblk.PackNone {
		w.ratio = 1
	}
	plain := colblk.Options{Comparer: o.Comparer}
	w.fail(w.data.Reset(w.packing))
	w.fail(w.dels.Reset(plain))
	w.fail(w.index.Reset(plain))
	// Filters hash bytes, so they need a comparer under which equal means same.
	w.filtered = o.BloomBits > 0 && o.Comparer.EqualIsBytewise
	if w.filtered {
		w.meta.FilterBits, w.meta.PrefixLength = o.BloomBits, o.Prefixes()
	}
	w.prefixAt = -1
	w.meta.Outside, w.meta.FileNum = o.FileNum == 0, o.FileNum
	w.meta.Format, w.meta.Comparer = format, o.Comparer.Name
	w.meta.Keyspace, w.meta.KeyspaceName, w.meta.FirstLog = o.Keyspace, o.KeyspaceName, o.FirstLog
	if o.Comparer.EqualIsBytewise {
		w.meta.Sample = new(base.KeySample)
	}
	return w
}

// Packing is how the values of a table are packed.
func Packing(o *sstable.WriterOptions) colblk.Options {
	p := colblk.Options{Comparer: o.Comparer, Packing: colblk.PackAuto,
		Codec: base.Codec(o.Compression), Level: o.ZstdLevel, Dict: true,
		MaxUnpacked: math.MaxInt64}
	if o.Compression == sstable.NoCompression {
		p.Packing = colblk.PackNone
	}
	return p
}

// fail keeps the first error and reports whether there is one.
func (w *Writer) fail(err error) bool {
	if w.err == nil {
		w.err = err
	}
	return w.err != nil
}

// Add appends an entry.
func (w *Writer) Add(key []byte, t base.Trailer, codec base.Codec, value []byte) error {
	if w.err != nil {
		return w.err
	}
	if key == nil {
		key = []byte{} // nil is no key, see cut
	}
	if w.finished || !t.Kind().InNative() || codec == base.CodecZstdDict ||
		codec > base.CodecShort {
		return fmt.Errorf("%w: entry of kind %d and codec %d for a table", base.ErrInvalidArgument,
			t.Kind(), codec)
	}
	if w.meta.Kinds == 0 {
		w.meta.MinSeq = t.Seq()
	}
	sameKey := false
	if t.Kind() == base.KindRangeDelete {
		w.fail(w.addRangeDel(key, t, codec, value))
		return w.err
	}
	if w.meta.Entries > 0 {
		c := w.o.Comparer.Cmp(w.last.User, key)
		sameKey = c == 0
		if c > 0 || sameKey && w.last.Trailer <= t {
			return fmt.Errorf("%w: entries of a table must ascend", base.ErrInvalidArgument)
		}
	} else {
		w.meta.Smallest = base.InternalKey{User: bytes.Clone(key), Trailer: t}
	}
	if w.fail(w.addEntry(key, t, codec, value, sameKey)) {
		return w.err
	}
	if t.Kind() == base.KindSetExpiring && w.fail(w.countExpiry(codec, value)) {
		return w.err
	}
	w.meta.Entries++
	w.count(key, t)
	b, err := w.lastKey.Resize(len(key))
	if w.fail(err) {
		return w.err
	}
	copy(b, key)
	w.last = base.InternalKey{User: b, Trailer: t}
	return nil
}

// count notes an entry or a range tombstone in the properties.
func (w *Writer) count(key []byte, t base.Trailer) {
	w.meta.Kinds |= 1 << t.Kind()
	w.meta.MinSeq, w.meta.MaxSeq = min(w.meta.MinSeq, t.Seq()), max(w.meta.MaxSeq, t.Seq())
	w.meta.RawKeys += uint64(len(key) + base.TrailerLen)
}

// countExpiry notes the deadline of a value in the properties.
func (w *Writer) countExpiry(codec base.Codec, value []byte) (err error) {
	if codec != base.CodecRaw {
		if value, err = colblk.AppendUnpacked(nil, value, codec, nil, math.MaxInt64); err != nil {
			return err
		}
	}
	_, deadline, ok := base.CutDeadline(value)
	if !ok {
		return fmt.Errorf("%w: %w", base.ErrInvalidArgument, base.NoDeadline())
	}
	if w.meta.MinExpiry == 0 || deadline < w.meta.MinExpiry {
		w.meta.MinExpiry = max(deadline, 1)
	}
	w.meta.MaxExpiry = max(w.meta.MaxExpiry, deadline, 1)
	return nil
}

// addEntry adds an entry to the data block.
func (w *Writer) addEntry(key []byte, t base.Trailer, codec base.Codec, value []byte,
	sameKey bool) error {
	if w.open.full {
		if err := w.cut(w.data.Len(), key); err != nil {
			return err
		}
	}
	if w.data.Len() == 0 {
		if err := w.beginBlock(); err != nil {
			return err
		}
	}
	if err := w.data.Add(key, t, codec, value); err != nil {
		return err
	}
	raw := w.data.LastRaw()
	if n := w.data.Len(); n > 1 && w.overflows() {
		if err := w.cut(n-1, key); err != nil {
			return err
		}
		if err := w.beginBlock(); err != nil {
			return err
		}
	}
	w.open.count(len(key), raw)
	if w.o.Comparer.EqualIsBytewise && !sameKey {
		if err := w.addHash(key, t.Kind().IsTombstone()); err != nil {
			return err
		}
	}
	if t.Kind().IsTombstone() {
		w.meta.Deletes++
	}
	w.meta.RawValues += uint64(raw)
	return nil
}

// addHash adds a key to the filter and the sample.
func (w *Writer) addHash(key []byte, tombstone bool) error {
	hash := base.Hash(key)
	w.meta.Sample.Add(hash, tombstone)
	if !w.filtered {
		return nil
	}
	if n := w.meta.PrefixLength; n > 0 && len(key) >= n && !bytes.Equal(key[:n], w.prefix) {
		w.prefix, w.prefixAt = append(w.prefix[:0], key[:n]...), w.hashes.Len()/8
		if err := w.filterHash(base.Hash(w.prefix)); err != nil {
			return err
		}
	}
	return w.filterHash(hash)
}

// filterHash adds a hash to the filter.
func (w *Writer) filterHash(hash uint64) error {
	if err := w.hashes.Room(8); err != nil {
		return err
	}
	n := w.hashes.Len()
	b := w.hashes.Bytes()[:n+8]
	*(*uint64)(unsafe.Pointer(&b[n])) = hash
	w.hashes.Set(b)
	return nil
}

// addRangeDel adds a range tombstone from key up to value: one of the last fragment, or of one
// behind it (package rangedel).
func (w *Writer) addRangeDel(key []byte, t base.Trailer, codec base.Codec, value []byte) error {
	cmp := w.o.Comparer
	if codec != base.CodecRaw || cmp.Cmp(key, value) >= 0 {
		return fmt.Errorf("%w: a range tombstone from %q to %q", base.ErrInvalidArgument, key,
			value)
	}
	if last := &w.lastDel; last.limit != nil {
		same := cmp.Cmp(last.start.User, key) == 0 && cmp.Cmp(last.limit, value) == 0 &&
			last.start.Trailer > t
		if !same && cmp.Cmp(last.limit, key) > 0 {
			return fmt.Errorf("%w: range tombstones of a table are fragments, and ascend",
				base.ErrInvalidArgument)
		}
	}
	if err := w.dels.Add(key, t, codec, value); err != nil {
		return err
	}
	if w.meta.RangeDels == 0 {
		w.firstDel = base.InternalKey{User: bytes.Clone(key), Trailer: t}
	}
	w.lastDel.start.User, w.lastDel.start.Trailer = append(w.lastDel.start.User[:0], key...), t
	w.lastDel.limit = append(w.lastDel.limit[:0], value...)
	if w.lastDel.limit == nil {
		w.lastDel.limit = []byte{}
	}
	w.meta.RangeDels++
	w.meta.RawValues += uint64(len(value))
	w.delsLen += len(key) + len(value) + viewColumns
	w.count(key, t)
	return nil
}

// Entries is how many have been added, range tombstones left out.
func (w *Writer) Entries() uint64 { return w.meta.Entries }

// EstimatedSize is the size of the file if it were finished now.
func (w *Writer) EstimatedSize() uint64 {
	n := w.out.Offset
	if w.finished {
		return n
	}
	n += FooterLen + 256 + uint64(w.blocks.size()) + w.open.size(&w.data) + uint64(w.delsLen)
	if w.isCut() {
		parts := min(w.blocks.memory()/w.partLen+1, w.blocks.len())
		n += uint64(parts) * uint64(partOverhead+w.blocks.keys.Len()/w.blocks.len())
	}
	if w.filtered {
		n += uint64(filter.Size(w.hashes.Len()/8, w.o.BloomBits))
	}
	return n
}

// Finish writes what is left.
func (w *Writer) Finish() (sstable.Meta, error) {
	if w.finished {
		w.fail(fmt.Errorf("%w: table finished twice", base.ErrInvalidArgument))
	}
	if w.err == nil {
		w.fail(w.finish())
	}
	if w.err != nil {
		return sstable.Meta{}, w.err
	}
	vfs.StartSync(w.out.File)
	w.release()
	return w.meta, nil
}

func (w *Writer) finish() error {
	if n := w.data.Len(); n > 0 {
		if err := w.cut(n, nil); err != nil {
			return err
		}
	}
	w.finished = true
	p := properties{packing: uint64(w.data.Packing()), codec: uint64(w.packing.Codec)}
	if w.meta.Entries > 0 {
		w.meta.Largest = w.last.Clone()
	}
	w.boundRangeDels()
	w.meta.Blocks = w.blocks.len()
	p.Props = w.meta.Props
	if err := w.writeParts(&p); err != nil {
		return err
	}
	if w.meta.Outside { // others are told by their numbers
		p.bodySum = base.CRCUpdate(w.out.Checksum, w.out.Buf.Bytes())
	}
	props, err := w.writeFrame(kindProps, p.append(nil))
	if err != nil {
		return err
	}
	f := footer{props: props.Offset, fileNum: w.o.FileNum, size: w.out.Offset + FooterLen}
	if err := w.out.Buf.Append(f.append(nil)); err != nil {
		return err
	}
	if err := w.out.Advance(FooterLen); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}
	w.meta.Size, w.meta.Checksum = w.out.Offset, w.out.Checksum
	if w.meta.Outside {
		w.meta.Recorded = w.meta.Checksum
	}
	return nil
}

// boundRangeDels extends the table's bounds by those of its range tombstones. The trailer of
// an end is one that no entry has: the end itself is not deleted.
func (w *Writer) boundRangeDels() {
	if w.meta.RangeDels == 0 {
		return
	}
	first, end := w.firstDel, base.InternalKey{User: bytes.Clone(w.lastDel.limit),
		Trailer: base.RangeDelEnd}
	m, c := &w.meta, w.o.Comparer
	if m.Entries == 0 || c.CompareInternal(first.User, first.Trailer, m.Smallest.User,
		m.Smallest.Trailer) < 0 {
		m.Smallest = first
	}
	if m.Entries == 0 || c.CompareInternal(m.Largest.User, m.Largest.Trailer, end.User,
		end.Trailer) < 0 {
		m.Largest = end
	}
}

// Sync makes the finished table durable.
func (w *Writer) Sync() error {
	if w.err == nil && !w.finished {
		w.fail(fmt.Errorf("%w: sync of a table that is not finished", base.ErrInvalidArgument))
	}
	if w.err == nil {
		w.err = w.out.Sync()
	}
	return w.err
}

// Close closes the file and gives up the buffers.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.fail(base.ErrClosed)
	w.release()
	return w.out.File.Close()
}
