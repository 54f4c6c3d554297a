package blocktable

import (
	"bytes"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/filter"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/vfs"
)

const (
	// MaxExpanded closes a block early whose keys and columns in a view come near what readers
	// accept; blocks of usual sizes never get there.
	MaxExpanded = block.DefaultMaxDecoded * 3 / 8
	ViewColumns = 25 // bytes of an entry's columns in a view
)

// MaxView is the most that a view of several entries takes, and the longest value, or block, that
// is compressed: half of what readers accept, so that a compaction has room for a block with its
// values packed and unpacked. A value that is not compressed may be longer, in a block of its own.
func MaxView(o *sstable.WriterOptions) int {
	if o.MaxDecoded == 0 {
		return block.DefaultMaxDecoded / 2
	}
	return int(min(o.MaxDecoded, block.DefaultMaxDecoded) / 2)
}

// Writer is what the writers of all formats have in common.
type Writer struct {
	Output
	Options  sstable.WriterOptions
	Meta     sstable.Meta
	Err      error // sticky
	Filtered bool  // a filter is wanted
	Finished bool
	// PrefixAt is where the hash of the last prefix lies among the hashes, -1 for none.
	PrefixAt int

	memory *memory // nil once finished
	hashes block.Buffer
	prefix []byte // of the last key that has one
	closed bool
}

// memory is that of a Writer.
type memory struct {
	sstable.Buffers // of the format
	out, hashes     block.Buffer
}

// Free frees the memory.
func (m *memory) Free() {
	m.Buffers.Free()
	m.out.Free()
	m.hashes.Free()
}

// Begin begins a table in f, which is empty and which Close closes. The result is the buffers of
// the format: those of a writer before, or what made makes.
func (w *Writer) Begin(f vfs.WriteFile, o sstable.WriterOptions, format string,
	made func() sstable.Buffers) sstable.Buffers {
	if o.BlockSize <= 0 {
		o.BlockSize = 4096
	}
	o.BloomBits = min(o.BloomBits, filter.MaxBitsPerKey)
	m, _ := o.Spare.Take().(*memory)
	if m == nil {
		m = &memory{Buffers: made()}
	}
	m.out.Truncate(0)
	m.hashes.Truncate(0)
	w.Options, w.memory, w.hashes, w.PrefixAt = o, m, m.hashes, -1
	w.Output = Output{File: f, Buf: m.out}
	w.Meta.Format = format
	if o.Comparer.EqualIsBytewise {
		w.Meta.Sample = base.NewKeySample(o.FineSample)
	}
	// Filters hash bytes, so they need a comparer under which equal means same.
	w.Filtered = o.BloomBits > 0 && o.Comparer.EqualIsBytewise
	if w.Filtered {
		w.Meta.FilterBits, w.Meta.PrefixLength = o.BloomBits, o.Prefixes()
	}
	return m.Buffers
}

// release gives the buffers back.
func (w *Writer) release() {
	if m := w.memory; m != nil {
		m.out, m.hashes = w.Buf, w.hashes
		w.Buf, w.hashes, w.memory = block.Buffer{}, block.Buffer{}, nil
		w.Options.Spare.Put(m)
	}
}

// Fail keeps the first error and reports whether there is one.
func (w *Writer) Fail(err error) bool {
	if w.Err == nil {
		w.Err = err
	}
	return w.Err != nil
}

// AddKey adds a key other than the last one to the filter and the sample. REQUIRES: the comparer's
// equality is bytewise.
func (w *Writer) AddKey(key []byte, tombstone bool) {
	hash := base.Hash(key)
	w.Meta.Sample.Add(hash, tombstone)
	if !w.Filtered {
		return
	}
	if n := w.Meta.PrefixLength; n > 0 && len(key) >= n && !bytes.Equal(key[:n], w.prefix) {
		w.prefix, w.PrefixAt = append(w.prefix[:0], key[:n]...), w.NumHashes()
		w.addHash(base.Hash(w.prefix))
	}
	w.addHash(hash)
}

func (w *Writer) addHash(hash uint64) {
	if w.Fail(w.hashes.Reserve(8)) {
		return
	}
	n := w.hashes.Len()
	b := w.hashes.Bytes()[:n+8]
	*(*uint64)(unsafe.Pointer(&b[n])) = hash
	w.hashes.Set(b)
}

// Hashes are those for the filter, in the order of the keys.
func (w *Writer) Hashes() []uint64 {
	return unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(w.hashes.Bytes()))),
		w.NumHashes())
}

// NumHashes is the number of Hashes.
func (w *Writer) NumHashes() int { return w.hashes.Len() / 8 }

// FilterSize is the length of the filter, 0 if none is wanted.
func (w *Writer) FilterSize() int {
	if !w.Filtered {
		return 0
	}
	return filter.Size(w.NumHashes(), w.Options.BloomBits)
}

// Entries is how many have been added, range tombstones left out.
func (w *Writer) Entries() uint64 { return w.Meta.Entries }

// FinishBy is Finish where rest writes what is left.
func (w *Writer) FinishBy(rest func() error) (sstable.Meta, error) {
	if w.Finished {
		w.Fail(base.Invalidf("table finished twice"))
	}
	if w.Err != nil || w.Fail(rest()) || w.Fail(w.Flush()) {
		return sstable.Meta{}, w.Err
	}
	if w.Fail(vfs.StartSync(w.File)) {
		return sstable.Meta{}, w.Err
	}
	w.release()
	w.Meta.Size, w.Meta.Checksum = w.Offset, w.Checksum
	return w.Meta, nil
}

// Sync makes the finished table durable.
func (w *Writer) Sync() error {
	if !w.Finished {
		w.Fail(base.Invalidf("sync of a table that is not finished"))
	}
	if w.Err == nil {
		w.Err = w.Output.Sync()
	}
	return w.Err
}

// Close closes the file and gives up the buffers.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	whole := w.Finished && w.Err == nil
	w.Fail(base.ErrClosed)
	w.release()
	if whole {
		return w.File.Close()
	}
	return vfs.Abandon(w.File)
}
