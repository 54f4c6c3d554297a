package native

import (
	"bytes"
	"math"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/record"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/format/sstable/blocktable"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Writer writes one table.
type Writer struct {
	blocktable.Writer

	*buffers
	packing  colblk.Options
	maxIndex int // an index that takes more memory is cut into parts
	partLen  int // of about so many bytes
	open     dataBlock
	ratio    float64 // bytes of the last blocks as stored, by raw ones
	columns  float64 // bytes of an entry of the last block besides its value
	padded   uint64  // bytes of padding so far

	last     base.InternalKey // added; User lies in lastKey
	sep      []byte
	firstDel base.InternalKey // where the first range tombstone starts
	lastDel  struct {
		start base.InternalKey
		limit []byte // nil: there is none
	}
	delsLen int // about the bytes of the range tombstones
}

// buffers is the memory of a Writer.
type buffers struct {
	data, dels, index colblk.Writer
	lastKey           block.Buffer
	blocks            blockList
}

// Free frees the memory.
func (b *buffers) Free() {
	b.data.Free()
	b.dels.Free()
	b.index.Free()
	b.lastKey.Free()
	b.blocks.free()
}

// NewWriter returns a writer of a table in f, which is empty and which it
// closes. Options that cannot be met are reported by Add and Finish.
func NewWriter(f vfs.WriteFile, o sstable.WriterOptions) *Writer {
	w := &Writer{packing: Packing(&o), maxIndex: maxIndex, partLen: partLen, ratio: 0.6}
	w.buffers = w.Begin(f, o, format, func() sstable.Buffers { return new(buffers) }).(*buffers)
	w.blocks.reset()
	w.Summed = true
	if w.packing.Packing == colblk.PackNone {
		w.ratio = 1
	}
	plain := colblk.Options{Comparer: o.Comparer}
	w.Fail(w.data.Reset(w.packing))
	w.Fail(w.dels.Reset(plain))
	w.Fail(w.index.Reset(plain))
	w.Meta.Outside, w.Meta.FileNum, w.Meta.Comparer = o.FileNum == 0, o.FileNum, o.Comparer.Name
	w.Meta.Keyspace, w.Meta.KeyspaceName = o.Keyspace, o.KeyspaceName
	if o.ForRepair != nil {
		w.Meta.FirstLog = o.ForRepair.FirstLog
	}
	return w
}

// Packing is how the values of a table are packed.
func Packing(o *sstable.WriterOptions) colblk.Options {
	p := colblk.Options{Comparer: o.Comparer, Packing: colblk.PackAuto,
		Codec: base.Codec(o.Compression), Level: o.ZstdLevel, Dict: true,
		MaxUnpacked: math.MaxInt64, MaxPacked: blocktable.MaxView(o)}
	if o.Compression == sstable.NoCompression {
		p.Packing = colblk.PackNone
	}
	return p
}

// Add appends an entry.
func (w *Writer) Add(key []byte, t base.Trailer, codec base.Codec, value []byte) error {
	if w.Err != nil {
		return w.Err
	}
	if key == nil {
		key = []byte{} // nil is no key, see cut
	}
	if w.Finished || !t.Kind().Known() || codec == base.CodecZstdDict ||
		codec > base.CodecShort {
		return base.Invalidf("entry of kind %d and codec %d for a table", t.Kind(), codec)
	}
	if w.Meta.Kinds == 0 {
		w.Meta.MinSeq = t.Seq()
	}
	sameKey := false
	if t.Kind() == base.KindRangeDelete {
		w.Fail(w.addRangeDel(key, t, codec, value))
		return w.Err
	}
	if w.Meta.Entries > 0 {
		c := w.Options.Comparer.Cmp(w.last.User, key)
		sameKey = c == 0
		if c > 0 || sameKey && w.last.Trailer <= t {
			return base.Invalidf("entries of a table must ascend")
		}
	} else {
		w.Meta.Smallest = base.InternalKey{User: bytes.Clone(key), Trailer: t}
	}
	if w.Fail(w.addEntry(key, t, codec, value, sameKey)) {
		return w.Err
	}
	if t.Kind() >= base.KindValueHandle && w.Fail(w.countPlaced(t.Kind(), codec, value)) {
		return w.Err
	}
	w.Meta.Entries++
	w.count(key, t)
	b, err := w.lastKey.Resize(len(key))
	if w.Fail(err) {
		return w.Err
	}
	copy(b, key)
	w.last = base.InternalKey{User: b, Trailer: t}
	return nil
}

// count notes an entry or a range tombstone in the properties.
func (w *Writer) count(key []byte, t base.Trailer) {
	w.Meta.Kinds |= 1 << t.Kind()
	w.Meta.MinSeq, w.Meta.MaxSeq = min(w.Meta.MinSeq, t.Seq()), max(w.Meta.MaxSeq, t.Seq())
	w.Meta.RawKeys += uint64(len(key) + base.TrailerLen)
}

// countPlaced notes what the value of an entry of a native kind says: where the value lies, or when
// it expires.
func (w *Writer) countPlaced(kind base.Kind, codec base.Codec, value []byte) (err error) {
	if codec != base.CodecRaw {
		if value, err = colblk.AppendUnpacked(nil, value, codec, nil, math.MaxInt64); err != nil {
			return err
		}
	}
	if kind.Expires() {
		err = w.countExpiry(value)
	}
	if err == nil && kind.Refers() {
		err = w.countHandle(kind.Handle(value))
	}
	return err
}

// countHandle notes a reference.
func (w *Writer) countHandle(value []byte) error {
	h, err := base.DecodeValueHandle(value)
	if err != nil {
		return base.Invalidf("%w", err)
	}
	w.Meta.ValueLogs = base.AddValueLog(w.Meta.ValueLogs, base.ValueLog{Log: h.Log, Values: 1,
		InFile: h.InFile, Bytes: uint64(h.Len), End: uint64(record.ValueEnd(h))})
	return nil
}

// countExpiry notes the deadline of a value in the properties.
func (w *Writer) countExpiry(value []byte) error {
	_, deadline, ok := base.CutDeadline(value)
	if !ok {
		return base.Invalidf("%w", base.NoDeadline())
	}
	if w.Meta.MinExpiry == 0 || deadline < w.Meta.MinExpiry {
		w.Meta.MinExpiry = max(deadline, 1)
	}
	w.Meta.MaxExpiry = max(w.Meta.MaxExpiry, deadline, 1)
	return nil
}

// addEntry adds an entry to the data block.
func (w *Writer) addEntry(key []byte, t base.Trailer, codec base.Codec, value []byte,
	sameKey bool) error {
	if w.data.Len() > 0 && w.open.full(w.Options.BlockSize) {
		if err := w.cut(w.data.Len(), key); err != nil {
			return err
		}
	}
	if w.data.Len() == 0 {
		if err := w.planBlock(); err != nil {
			return err
		}
	}
	if err := w.data.Add(key, t, codec, value); err != nil {
		return err
	}
	raw, before := w.data.LastRaw(), w.open
	w.open.count(&w.data, len(key), raw)
	if n := w.data.Len(); n > 1 && (w.open.splits(&before) || w.overflows() ||
		w.open.view+w.open.values > w.packing.MaxPacked) {
		w.open = before
		if err := w.cut(n-1, key); err != nil {
			return err
		}
		if err := w.planBlock(); err != nil {
			return err
		}
		w.open.count(&w.data, len(key), raw)
	}
	if w.Options.Comparer.EqualIsBytewise && !sameKey {
		w.AddKey(key, t.Kind().IsTombstone())
	}
	if t.Kind().IsTombstone() {
		w.Meta.Deletes++
	}
	w.Meta.RawValues += uint64(raw)
	return nil
}

// addRangeDel adds a range tombstone from key up to value: one of the last fragment, or of one
// behind it (package rangedel).
func (w *Writer) addRangeDel(key []byte, t base.Trailer, codec base.Codec, value []byte) error {
	cmp := w.Options.Comparer
	if codec != base.CodecRaw || cmp.Cmp(key, value) >= 0 {
		return base.Invalidf("a range tombstone from %q to %q", key, value)
	}
	if last := &w.lastDel; last.limit != nil {
		same := cmp.Cmp(last.start.User, key) == 0 && cmp.Cmp(last.limit, value) == 0 &&
			last.start.Trailer > t
		if !same && cmp.Cmp(last.limit, key) > 0 {
			return base.Invalidf("range tombstones of a table are fragments, and ascend")
		}
	}
	if err := w.dels.Add(key, t, codec, value); err != nil {
		return err
	}
	if w.Meta.RangeDels == 0 {
		w.firstDel = base.InternalKey{User: bytes.Clone(key), Trailer: t}
	}
	w.lastDel.start.User, w.lastDel.start.Trailer = append(w.lastDel.start.User[:0], key...), t
	w.lastDel.limit = append(w.lastDel.limit[:0], value...)
	if w.lastDel.limit == nil {
		w.lastDel.limit = []byte{}
	}
	w.Meta.RangeDels++
	w.Meta.RawValues += uint64(len(value))
	w.delsLen += len(key) + len(value) + blocktable.ViewColumns
	w.count(key, t)
	return nil
}

// EstimatedSize is the size of the file if it were finished now.
func (w *Writer) EstimatedSize() uint64 {
	n := w.Offset
	if w.Finished {
		return n
	}
	n += FooterLen + 256 + uint64(w.blocks.size()) + w.open.size(&w.data) + uint64(w.delsLen)
	if w.isCut() {
		parts := min(w.blocks.memory()/w.partLen+1, w.blocks.len())
		n += uint64(parts) * uint64(partOverhead+w.blocks.keys.Len()/w.blocks.len())
	}
	return n + uint64(w.FilterSize())
}

// Finish writes what is left.
func (w *Writer) Finish() (sstable.Meta, error) {
	m, err := w.FinishBy(w.finish)
	if m.Outside {
		m.Recorded = m.Checksum
	}
	return m, err
}

func (w *Writer) finish() error {
	if n := w.data.Len(); n > 0 {
		if err := w.cut(n, nil); err != nil {
			return err
		}
	}
	w.Finished = true
	p := properties{packing: uint64(w.data.Packing()), codec: uint64(w.packing.Codec)}
	if w.Meta.Entries > 0 {
		w.Meta.Largest = w.last.Clone()
	}
	w.boundRangeDels()
	w.Meta.Blocks = w.blocks.len()
	if r := w.Options.ForRepair; r != nil && r.Ingested != nil {
		w.Meta.Ingested = r.Ingested()
	}
	p.Props = w.Meta.Props
	if err := w.writeParts(&p); err != nil {
		return err
	}
	if w.Meta.Outside { // others are told by their numbers
		p.bodySum = base.CRCUpdate(w.Checksum, w.Buf.Bytes())
	}
	props, err := w.writeFrame(kindProps, p.append(nil))
	if err != nil {
		return err
	}
	f := footer{props: props.Offset, fileNum: w.Options.FileNum, size: w.Offset + FooterLen}
	if err := w.Buf.Append(f.append(nil)); err != nil {
		return err
	}
	return w.Advance(FooterLen)
}

// boundRangeDels extends the table's bounds by those of its range tombstones. The trailer of
// an end is one that no entry has: the end itself is not deleted.
func (w *Writer) boundRangeDels() {
	if w.Meta.RangeDels == 0 {
		return
	}
	first, end := w.firstDel, base.InternalKey{User: bytes.Clone(w.lastDel.limit),
		Trailer: base.RangeDelEnd}
	m, c := &w.Meta, w.Options.Comparer
	if m.Entries == 0 || c.CompareInternal(first.User, first.Trailer, m.Smallest.User,
		m.Smallest.Trailer) < 0 {
		m.Smallest = first
	}
	if m.Entries == 0 || c.CompareInternal(m.Largest.User, m.Largest.Trailer, end.User,
		end.Trailer) < 0 {
		m.Largest = end
	}
}
