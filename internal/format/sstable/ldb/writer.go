package ldb

import (
	"bytes"
	"fmt"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/filter"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/os/vfs"
)

const (
	// maxExpanded closes a block early whose keys and columns in a view come
	// near what readers accept; blocks of usual sizes never get there.
	maxExpanded = block.DefaultMaxDecoded * 3 / 8
	viewColumns = 25 // bytes of an entry's columns in a view
)

// Writer writes one table.
type Writer struct {
	out  blocktable.Output
	o    sstable.WriterOptions
	err  error // sticky
	pack *block.Compressor

	*buffers              // nil once finished
	expanded int          // bytes of keys and columns that data's view will have
	pending  bool         // the handle waits for the key that follows, to find a short separator
	handle   block.Handle // of the last data block

	ldbFilter  *filter.LevelDBBuilder
	sep        []byte
	meta       sstable.Meta
	finished   bool
	closed     bool
	wantFilter bool
	prefix     []byte // of the last key that has one
}

// buffers is the memory of a Writer.
type buffers struct {
	data, index block.RowBuilder
	out         block.Buffer // of the Output, between writers
	hashes      block.Buffer // u64 per user key, for the whole-table filter
}

// Free frees the memory.
func (b *buffers) Free() {
	b.data.Free()
	b.index.Free()
	b.out.Free()
	b.hashes.Free()
}

// takeBuffers returns empty buffers.
func takeBuffers(s *sstable.Spare) *buffers {
	b, _ := s.Take().(*buffers)
	if b == nil {
		return new(buffers)
	}
	b.data.Reset()
	b.index.Reset()
	b.out.Truncate(0)
	b.hashes.Truncate(0)
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
	if o.RestartInterval <= 0 {
		o.RestartInterval = 16
	}
	o.BloomBits = min(o.BloomBits, filter.MaxBitsPerKey)
	w := &Writer{o: o, buffers: takeBuffers(o.Spare)}
	w.out = blocktable.Output{File: f, Buf: w.buffers.out}
	w.buffers.out = block.Buffer{}
	w.data.Interval, w.index.Interval = o.RestartInterval, 1
	w.pack, w.err = block.NewCompressor(block.Codec(o.Compression), o.ZstdLevel)
	// Filters hash bytes, so they need a comparer under which equal means same.
	w.wantFilter = o.BloomBits > 0 && o.Comparer.EqualIsBytewise
	if w.wantFilter {
		w.meta.FilterBits, w.meta.PrefixLength = o.BloomBits, o.Prefixes()
		if o.LevelDBFilter {
			w.ldbFilter = filter.NewLevelDBBuilder(o.BloomBits)
			w.ldbFilter.StartBlock(0)
		}
	}
	w.meta.Format = format
	if o.Comparer.EqualIsBytewise {
		w.meta.Sample = new(base.KeySample)
	}
	return w
}

// Add appends an entry.
func (w *Writer) Add(key []byte, t base.Trailer, codec base.Codec, value []byte) error {
	if w.err != nil {
		return w.err
	}
	if codec != base.CodecRaw || !t.Kind().InLevelDB() || w.finished {
		return fmt.Errorf("%w: entry of kind %d and codec %d for a table", base.ErrInvalidArgument,
			t.Kind(), codec)
	}
	sameKey := false
	if w.meta.Entries > 0 {
		last, _ := base.DecodeInternalKey(w.data.Last())
		c := w.o.Comparer.Cmp(last.User, key)
		sameKey = c == 0
		if c > 0 || sameKey && last.Trailer <= t {
			return fmt.Errorf("%w: entries of a table must ascend", base.ErrInvalidArgument)
		}
		if w.pending {
			w.addIndex(w.separator(last, key))
		}
	} else {
		w.meta.Smallest = base.InternalKey{User: bytes.Clone(key), Trailer: t}
	}
	if w.o.Comparer.EqualIsBytewise {
		w.addHash(key, sameKey, t.Kind().IsTombstone())
	}
	if w.err == nil {
		w.err = w.data.Add(key, t, value)
	}
	if w.err != nil {
		return w.err
	}
	w.meta.Entries++
	if t.Kind().IsTombstone() {
		w.meta.Deletes++
	}
	w.meta.RawKeys += uint64(len(key) + base.TrailerLen)
	w.meta.RawValues += uint64(len(value))
	w.expanded += len(key) + viewColumns
	if w.data.Size() >= w.o.BlockSize || w.expanded >= maxExpanded {
		w.flush()
	}
	return w.err
}

// addHash adds a key to the filters and the sample.
func (w *Writer) addHash(key []byte, sameKey, tombstone bool) {
	if w.ldbFilter != nil {
		w.ldbFilter.Add(key)
	}
	if sameKey {
		return
	}
	hash := base.Hash(key)
	w.meta.Sample.Add(hash, tombstone)
	if !w.wantFilter {
		return
	}
	if n := w.meta.PrefixLength; n > 0 && len(key) >= n && !bytes.Equal(key[:n], w.prefix) {
		w.prefix = append(w.prefix[:0], key[:n]...)
		w.filterHash(base.Hash(w.prefix))
	}
	w.filterHash(hash)
}

// filterHash adds a hash to the whole-table filter.
func (w *Writer) filterHash(hash uint64) {
	if w.fail(w.hashes.Room(8)) {
		return
	}
	n := w.hashes.Len()
	b := w.hashes.Bytes()[:n+8]
	*(*uint64)(unsafe.Pointer(&b[n])) = hash
	w.hashes.Set(b)
}

// shortTrailer stands behind a short key in the index, which no entry has:
// LevelDB's largest sequence number and kValueTypeForSeek.
const shortTrailer = base.Trailer(uint64(base.MaxSeqNum)<<8 | uint64(base.KindSet))

// separator returns an internal key at or after last and before every entry of
// key, short if the comparer knows one.
func (w *Writer) separator(last base.InternalKey, key []byte) base.InternalKey {
	c := w.o.Comparer
	w.sep = c.AppendSeparator(w.sep[:0], last.User, key)
	if len(w.sep) < len(last.User) && c.Cmp(last.User, w.sep) < 0 && c.Cmp(w.sep, key) < 0 {
		return base.InternalKey{User: w.sep, Trailer: shortTrailer}
	}
	return last
}

func (w *Writer) successor(last base.InternalKey) base.InternalKey {
	c := w.o.Comparer
	w.sep = c.AppendSuccessor(w.sep[:0], last.User)
	if len(w.sep) < len(last.User) && c.Cmp(last.User, w.sep) < 0 {
		return base.InternalKey{User: w.sep, Trailer: shortTrailer}
	}
	return last
}

func (w *Writer) addIndex(sep base.InternalKey) {
	var h [block.MaxHandleLen]byte
	w.pending = false
	if w.index.Count() > 0 {
		// Neighbouring entries ascend; with a comparer that is no order that says
		// nothing of blocks.
		last, _ := base.DecodeInternalKey(w.index.Last())
		if w.o.Comparer.CompareInternal(last.User, last.Trailer, sep.User, sep.Trailer) >= 0 {
			w.fail(fmt.Errorf("%w: blocks of a table must ascend", base.ErrInvalidArgument))
			return
		}
	}
	w.fail(w.index.Add(sep.User, sep.Trailer, block.AppendHandle(h[:0], w.handle)))
}

// flush ends the data block.
func (w *Writer) flush() {
	raw, err := w.data.Finish()
	if w.fail(err) {
		return
	}
	w.handle = w.writeBlock(raw)
	w.data.Reset()
	w.expanded = 0
	w.pending = true
	w.meta.Blocks++
	if w.ldbFilter != nil {
		w.ldbFilter.StartBlock(w.out.Offset)
	}
}

// fail keeps the first error and reports whether there is one.
func (w *Writer) fail(err error) bool {
	if w.err == nil {
		w.err = err
	}
	return w.err != nil
}

// writeBlock compresses raw into the output, when that pays, and seals it.
func (w *Writer) writeBlock(raw []byte) block.Handle {
	if w.fail(w.out.Buf.Room(w.pack.Bound(len(raw)) + block.TrailerLen)) {
		return block.Handle{}
	}
	n := w.out.Buf.Len()
	p, codec := w.pack.Compress(w.out.Buf.Bytes()[n:], raw)
	return w.writeStored(p, codec)
}

// writeStored appends a block as stored. p may lie behind the end of the output; then
// there is room for it and its trailer, so that the output does not move.
func (w *Writer) writeStored(p []byte, c block.Codec) block.Handle {
	h := block.Handle{Offset: w.out.Offset, Size: uint64(len(p))}
	t := block.Trailer(p, c)
	if w.err == nil && !w.fail(w.out.Through(p)) {
		w.fail(w.out.Through(t[:]))
	}
	return h
}

// Entries is how many entries have been added.
func (w *Writer) Entries() uint64 { return w.meta.Entries }

// EstimatedSize is the size of the file if it were finished now.
func (w *Writer) EstimatedSize() uint64 {
	if w.finished {
		return w.out.Offset
	}
	n := w.out.Offset + uint64(w.index.Size()) + FooterLen
	if w.data.Count() > 0 {
		n += uint64(w.data.Size())
	}
	if w.wantFilter {
		n += uint64(filter.Size(w.hashes.Len()/8, w.o.BloomBits))
	}
	if w.ldbFilter != nil {
		n += uint64(w.ldbFilter.Size())
	}
	return n
}

// Finish writes what is left.
func (w *Writer) Finish() (sstable.Meta, error) {
	if w.finished {
		w.fail(fmt.Errorf("%w: table finished twice", base.ErrInvalidArgument))
	}
	if w.err == nil && w.data.Count() > 0 {
		w.flush()
	}
	if w.err != nil {
		return sstable.Meta{}, w.err
	}
	w.finished = true
	metaindex := w.writeMeta()
	if w.meta.Entries > 0 {
		last, _ := base.DecodeInternalKey(w.data.Last())
		w.meta.Largest = last.Clone()
		w.addIndex(w.successor(last))
	}
	if w.err == nil && w.index.Count() != w.meta.Blocks {
		w.fail(fmt.Errorf("the index of a table of %d blocks has %d", w.meta.Blocks,
			w.index.Count()))
	}
	raw, err := w.index.Finish()
	if w.fail(err) {
		return sstable.Meta{}, w.err
	}
	index := w.writeBlock(raw)
	var foot [FooterLen]byte
	if w.err == nil && !w.fail(w.out.Through(appendFooter(foot[:0], metaindex, index))) {
		w.fail(w.out.Flush())
	}
	if w.err != nil {
		return sstable.Meta{}, w.err
	}
	vfs.StartSync(w.out.File)
	w.release()
	w.meta.Size = w.out.Offset
	return w.meta, nil
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

// writeMeta writes filters, properties and the metaindex, whose handle it
// returns.
func (w *Writer) writeMeta() block.Handle {
	mi := block.RowBuilder{Interval: w.o.RestartInterval}
	defer mi.Free()
	var buf [block.MaxHandleLen]byte
	add := func(name string, h block.Handle) {
		w.fail(mi.AddRaw([]byte(name), block.AppendHandle(buf[:0], h)))
	}
	if w.ldbFilter != nil {
		add(levelDBFilterKey, w.writeStored(w.ldbFilter.Finish(), block.None))
	}
	if w.wantFilter {
		add(filterKey, w.writeFilter())
	}
	add(propsKey, w.writeStored(appendProps(nil, &w.meta.Props), block.None))
	raw, err := mi.Finish()
	if w.fail(err) {
		return block.Handle{}
	}
	return w.writeBlock(raw)
}

// writeFilter builds the whole-table filter in place, behind the end of out.
func (w *Writer) writeFilter() block.Handle {
	b := w.hashes.Bytes()
	hashes := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8)
	if w.fail(w.out.Buf.Room(filter.Size(len(hashes), w.o.BloomBits) + block.TrailerLen)) {
		return block.Handle{}
	}
	n := w.out.Buf.Len()
	return w.writeStored(filter.Build(w.out.Buf.Bytes()[n:], hashes, w.o.BloomBits), block.None)
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
