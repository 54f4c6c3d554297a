package ldb

import (
	"bytes"
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/filter"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Writer writes one table.
type Writer struct {
	blocktable.Writer
	pack *block.Compressor

	*buffers
	expanded int          // bytes of keys and columns that data's view will have
	values   int          // of data
	pending  bool         // the handle waits for the key that follows, to find a short separator
	handle   block.Handle // of the last data block

	ldbFilter *filter.LevelDBBuilder
	sep       []byte
}

// buffers is the memory of a Writer.
type buffers struct{ data, index block.RowBuilder }

// Free frees the memory.
func (b *buffers) Free() {
	b.data.Free()
	b.index.Free()
}

// NewWriter returns a writer of a table in f, which is empty and which it
// closes. Options that cannot be met are reported by Add and Finish.
func NewWriter(f vfs.WriteFile, o sstable.WriterOptions) *Writer {
	if o.RestartInterval <= 0 {
		o.RestartInterval = 16
	}
	w := &Writer{}
	w.buffers = w.Begin(f, o, format, func() sstable.Buffers { return new(buffers) }).(*buffers)
	w.data.Reset()
	w.index.Reset()
	w.data.Interval, w.index.Interval = o.RestartInterval, 1
	if w.pack, w.Err = block.NewCompressor(block.Codec(o.Compression), o.ZstdLevel); w.Err == nil {
		w.pack.Max = blocktable.MaxView(&o)
	}
	if w.Filtered && o.LevelDBFilter {
		w.ldbFilter = filter.NewLevelDBBuilder(w.Options.BloomBits)
		w.ldbFilter.StartBlock(0)
	}
	return w
}

// Add appends an entry.
func (w *Writer) Add(key []byte, t base.Trailer, codec base.Codec, value []byte) error {
	if w.Err != nil {
		return w.Err
	}
	if codec != base.CodecRaw || !t.Kind().InLevelDB() || w.Finished {
		return base.Invalidf("entry of kind %d and codec %d for a table", t.Kind(), codec)
	}
	sameKey := false
	if w.Meta.Entries > 0 {
		last, _ := base.DecodeInternalKey(w.data.Last())
		c := w.Options.Comparer.Cmp(last.User, key)
		sameKey = c == 0
		if c > 0 || sameKey && last.Trailer <= t {
			return base.Invalidf("entries of a table must ascend")
		}
		if w.data.Count() > 0 && w.expanded+len(key)+blocktable.ViewColumns+w.values+len(value) >
			w.pack.Max {
			w.flush()
		}
		if w.pending {
			w.addIndex(w.separator(last, key))
		}
	} else {
		w.Meta.Smallest = base.InternalKey{User: bytes.Clone(key), Trailer: t}
	}
	if w.ldbFilter != nil {
		w.ldbFilter.Add(key)
	}
	if w.Options.Comparer.EqualIsBytewise && !sameKey {
		w.AddKey(key, t.Kind().IsTombstone())
	}
	if w.Err == nil {
		w.Err = w.data.Add(key, t, value)
	}
	if w.Err != nil {
		return w.Err
	}
	w.Meta.Entries++
	if t.Kind().IsTombstone() {
		w.Meta.Deletes++
	}
	w.Meta.RawKeys += uint64(len(key) + base.TrailerLen)
	w.Meta.RawValues += uint64(len(value))
	w.expanded += len(key) + blocktable.ViewColumns
	w.values += len(value)
	if w.data.Size() >= w.Options.BlockSize || w.expanded >= blocktable.MaxExpanded {
		w.flush()
	}
	return w.Err
}

// shortTrailer stands behind a short key in the index, which no entry has:
// LevelDB's largest sequence number and kValueTypeForSeek.
const shortTrailer = base.Trailer(uint64(base.MaxSeqNum)<<8 | uint64(base.KindSet))

// separator returns an internal key at or after last and before every entry of
// key, short if the comparer knows one.
func (w *Writer) separator(last base.InternalKey, key []byte) base.InternalKey {
	c := w.Options.Comparer
	w.sep = c.AppendSeparator(w.sep[:0], last.User, key)
	if len(w.sep) < len(last.User) && c.Cmp(last.User, w.sep) < 0 && c.Cmp(w.sep, key) < 0 {
		return base.InternalKey{User: w.sep, Trailer: shortTrailer}
	}
	return last
}

func (w *Writer) successor(last base.InternalKey) base.InternalKey {
	c := w.Options.Comparer
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
		if w.Options.Comparer.CompareInternal(last.User, last.Trailer, sep.User, sep.Trailer) >= 0 {
			w.Fail(base.Invalidf("blocks of a table must ascend"))
			return
		}
	}
	w.Fail(w.index.Add(sep.User, sep.Trailer, block.AppendHandle(h[:0], w.handle)))
}

// flush ends the data block.
func (w *Writer) flush() {
	raw, err := w.data.Finish()
	if w.Fail(err) {
		return
	}
	w.handle = w.writeBlock(raw)
	w.data.Reset()
	w.expanded, w.values = 0, 0
	w.pending = true
	w.Meta.Blocks++
	if w.ldbFilter != nil {
		w.ldbFilter.StartBlock(w.Offset)
	}
}

// writeBlock compresses raw into the output, when that pays, and seals it.
func (w *Writer) writeBlock(raw []byte) block.Handle {
	if w.Fail(w.Buf.Reserve(w.pack.Bound(len(raw)) + block.TrailerLen)) {
		return block.Handle{}
	}
	n := w.Buf.Len()
	p, codec := w.pack.Compress(w.Buf.Bytes()[n:], raw)
	return w.writeStored(p, codec)
}

// writeStored appends a block as stored. p may lie behind the end of the output; then
// there is room for it and its trailer, so that the output does not move.
func (w *Writer) writeStored(p []byte, c block.Codec) block.Handle {
	h := block.Handle{Offset: w.Offset, Size: uint64(len(p))}
	t := block.Trailer(p, c)
	if w.Err == nil && !w.Fail(w.Through(p)) {
		w.Fail(w.Through(t[:]))
	}
	return h
}

// EstimatedSize is the size of the file if it were finished now.
func (w *Writer) EstimatedSize() uint64 {
	if w.Finished {
		return w.Offset
	}
	n := w.Offset + uint64(w.index.Size()) + FooterLen
	if w.data.Count() > 0 {
		n += uint64(w.data.Size())
	}
	n += uint64(w.FilterSize())
	if w.ldbFilter != nil {
		n += uint64(w.ldbFilter.Size())
	}
	return n
}

// Finish writes what is left.
func (w *Writer) Finish() (sstable.Meta, error) { return w.FinishBy(w.finish) }

func (w *Writer) finish() error {
	if w.data.Count() > 0 {
		w.flush()
	}
	if w.Err != nil {
		return w.Err
	}
	w.Finished = true
	metaindex := w.writeMeta()
	if w.Meta.Entries > 0 {
		last, _ := base.DecodeInternalKey(w.data.Last())
		w.Meta.Largest = last.Clone()
		w.addIndex(w.successor(last))
	}
	if w.Err == nil && w.index.Count() != w.Meta.Blocks {
		w.Fail(fmt.Errorf("the index of a table of %d blocks has %d", w.Meta.Blocks,
			w.index.Count()))
	}
	raw, err := w.index.Finish()
	if w.Fail(err) {
		return w.Err
	}
	index := w.writeBlock(raw)
	var foot [FooterLen]byte
	if w.Err == nil {
		w.Fail(w.Through(appendFooter(foot[:0], metaindex, index)))
	}
	return w.Err
}

// writeMeta writes filters, properties and the metaindex, whose handle it
// returns.
func (w *Writer) writeMeta() block.Handle {
	mi := block.RowBuilder{Interval: w.Options.RestartInterval}
	defer mi.Free()
	var buf [block.MaxHandleLen]byte
	add := func(name string, h block.Handle) {
		w.Fail(mi.AddRaw([]byte(name), block.AppendHandle(buf[:0], h)))
	}
	if w.ldbFilter != nil {
		add(levelDBFilterKey, w.writeStored(w.ldbFilter.Finish(), block.None))
	}
	if w.Filtered {
		add(filterKey, w.writeFilter())
	}
	add(propsKey, w.writeStored(appendProps(nil, &w.Meta.Props), block.None))
	raw, err := mi.Finish()
	if w.Fail(err) {
		return block.Handle{}
	}
	return w.writeBlock(raw)
}

// writeFilter builds the whole-table filter in place, behind the end of out.
func (w *Writer) writeFilter() block.Handle {
	if w.Fail(w.Buf.Reserve(w.FilterSize() + block.TrailerLen)) {
		return block.Handle{}
	}
	n := w.Buf.Len()
	b := filter.Build(w.Buf.Bytes()[n:], w.Hashes(), w.Options.BloomBits)
	return w.writeStored(b, block.None)
}
