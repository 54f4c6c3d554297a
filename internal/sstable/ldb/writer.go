package ldb

import (
	"bytes"
	"fmt"
	"io"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/block"
	"github.com/loamdb/loam/internal/filter"
	"github.com/loamdb/loam/internal/sstable"
	"github.com/loamdb/loam/internal/vfs"
)

const (
	// chunk is what goes to the file in one write: large pieces become large
	// pages of the page cache.
	chunk = 2 << 20
	// maxExpanded closes a block early whose keys and columns in a view come
	// near what readers accept; blocks of usual sizes never get there.
	maxExpanded = block.DefaultMaxDecoded * 3 / 8
	viewColumns = 25 // bytes of an entry's columns in a view
)

// Writer writes one table.
type Writer struct {
	f    vfs.WriteFile
	o    sstable.WriterOptions
	err  error // sticky
	pack *block.Compressor

	data, index block.RowBuilder
	expanded    int          // bytes of keys and columns that data's view will have
	pending     bool         // the handle waits for the key that follows, to find a short separator
	handle      block.Handle // of the last data block

	out    block.Buffer // not yet in the file
	offset uint64       // of the end of out in the file

	hashes     block.Buffer // u64 per user key, for the whole-table filter
	ldbFilter  *filter.LevelDBBuilder
	sep        []byte
	meta       sstable.Meta
	finished   bool
	closed     bool
	wantFilter bool
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
	w := &Writer{f: f, o: o}
	w.data.Interval, w.index.Interval = o.RestartInterval, 1
	w.pack, w.err = block.NewCompressor(block.Codec(o.Compression), o.ZstdLevel)
	// Filters hash bytes, so they need a comparer under which equal means same.
	w.wantFilter = o.BloomBits > 0 && o.Comparer.EqualIsBytewise
	if w.wantFilter {
		w.meta.FilterBits = o.BloomBits
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
		return fmt.Errorf("%w: entry of kind %d and codec %d for a table", base.ErrInvalidArgument, t.Kind(), codec)
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
	if !w.wantFilter || w.fail(w.hashes.Room(8)) {
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
		w.ldbFilter.StartBlock(w.offset)
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
	if w.fail(w.out.Room(w.pack.Bound(len(raw)) + block.TrailerLen)) {
		return block.Handle{}
	}
	n := w.out.Len()
	p, codec := w.pack.Compress(w.out.Bytes()[n:], raw)
	return w.writeStored(p, codec)
}

// writeStored appends a block as stored. p may lie behind the end of out; then
// there is room for it and its trailer, so that out does not move.
func (w *Writer) writeStored(p []byte, c block.Codec) block.Handle {
	h := block.Handle{Offset: w.offset, Size: uint64(len(p))}
	if len(p) >= chunk {
		w.drain(0)
		w.write(p)
		t := block.Trailer(p, c)
		w.fail(w.out.Append(t[:]))
	} else if from := w.out.Len(); !w.fail(w.out.Room(len(p) + block.TrailerLen)) {
		w.out.Set(block.AppendTrailer(append(w.out.Bytes(), p...), from, c))
	}
	if w.err != nil {
		return h
	}
	w.offset += h.Size + block.TrailerLen
	w.drain(chunk)
	return h
}

// drain writes out in whole chunks while it holds at least min bytes; with 0,
// all of it.
func (w *Writer) drain(min int) {
	b := w.out.Bytes()
	for len(b) > 0 && len(b) >= min {
		n := len(b)
		if min > 0 {
			n = min
		}
		w.write(b[:n])
		b = b[n:]
	}
	w.out.Truncate(copy(w.out.Bytes(), b))
}

func (w *Writer) write(p []byte) {
	if w.err != nil {
		return
	}
	n, err := w.f.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.err = fmt.Errorf("writing a table: %w", err)
	}
}

// Entries is how many entries have been added.
func (w *Writer) Entries() uint64 { return w.meta.Entries }

// EstimatedSize is the size of the file if it were finished now.
func (w *Writer) EstimatedSize() uint64 {
	if w.finished {
		return w.offset
	}
	n := w.offset + uint64(w.index.Size()) + FooterLen
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

// Finish writes what is left and syncs the file.
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
		w.fail(fmt.Errorf("the index of a table of %d blocks has %d", w.meta.Blocks, w.index.Count()))
	}
	raw, err := w.index.Finish()
	if w.fail(err) {
		return sstable.Meta{}, w.err
	}
	index := w.writeBlock(raw)
	var foot [FooterLen]byte
	w.fail(w.out.Append(appendFooter(foot[:0], metaindex, index)))
	w.offset += FooterLen
	w.drain(0)
	if w.err == nil {
		if err := w.f.Sync(); err != nil {
			w.err = fmt.Errorf("syncing a table: %w", err)
		}
	}
	if w.err != nil {
		return sstable.Meta{}, w.err
	}
	w.meta.Size = w.offset
	return w.meta, nil
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
	if w.fail(w.out.Room(filter.Size(len(hashes), w.o.BloomBits) + block.TrailerLen)) {
		return block.Handle{}
	}
	n := w.out.Len()
	return w.writeStored(filter.Build(w.out.Bytes()[n:], hashes, w.o.BloomBits), block.None)
}

// Close closes the file and frees the buffers.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	w.fail(base.ErrClosed)
	w.data.Free()
	w.index.Free()
	w.out.Free()
	w.hashes.Free()
	return w.f.Close()
}
