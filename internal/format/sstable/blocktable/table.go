// Package blocktable reads tables that consist of numbered data blocks and an index of
// them: the stages of a point read, sources, the way of a block from the file into the
// cache, the memory that takes, and the blocks that are damaged for good. A table format
// embeds a Table and says by a Block how its blocks are decoded and searched.
//
// A Table is safe for concurrent use, up to Close. A source belongs to one goroutine at
// a time.
package blocktable

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/filter"
	"github.com/loamdb/loam/internal/format/inplace"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Env is what a table is read with.
type Env struct {
	Name     string       // base name of the file, for errors
	Cache    *cache.Cache // nil: blocks are decoded anew for each read
	Comparer *base.Comparer
	// MaxDecoded bounds the memory of one decompressed block and of one view,
	// in bytes; 0 for block.DefaultMaxDecoded. A block that is not compressed
	// may have more, as far as the file has so many bytes on disk.
	MaxDecoded int64
	// FileNum is the number that the file has in the MANIFEST, 0 when unknown. A table
	// that knows its own number, and has another one, is damage.
	FileNum uint64
	// GlobalSeq is the sequence number of all entries and range tombstones of a table that was
	// ingested: its file says 0. 0: the file has them.
	GlobalSeq base.SeqNum
	// OnFault, which may be nil, is told why blocks are no longer read in place.
	OnFault func(error)
	// Pace, which may be nil, is called after a compaction has read so many bytes, and may sleep.
	Pace func(bytes int64)
	// EvictFrom is the length in the file of index and filter from which Cache loads and evicts
	// them even if they are whole, as far as the format can do that; 0: they stay in memory.
	EvictFrom uint64
}

// sparseFactor is how many times its bytes on disk, besides MaxDecoded, a table
// may have in bytes. No writer leaves holes, but copying tools make them of
// zeros in values.
const sparseFactor = 32

// Table is what the readers of all formats have in common. The format fills in the
// exported fields between Init and Start.
type Table struct {
	Src        vfs.ReadFile
	Env        Env
	Index      Index
	Properties sstable.Props
	// DataEnd is the end of the last data block in the file, Tail what OffsetOf gives
	// for keys after the last one.
	DataEnd, Tail uint64
	// MaxRaw is the length of the longest data block, decompressed.
	MaxRaw int64
	// Number is what the format knows its file by, 0 where it does not.
	Number uint64
	// Whole is the filter of all keys, if HasWhole; it lies in FilterMem.
	Whole     filter.Table
	HasWhole  bool
	FilterMem block.Buffer
	// Filter is cut where the index is, nil where there is none or it is whole.
	Filter PartFilter
	// Dict is what the format unpacks values with besides the block; nil for nothing.
	Dict any
	// InPlace says that blocks can be searched without a View.
	InPlace bool
	// Slots are the data blocks in the cache, nil without a cache.
	Slots *cache.Slots

	cmp      *base.Comparer
	maxRead  uint64 // longest block, as stored
	pool     *Pool
	mapped   *inplace.Blocks // nil: all blocks are read by system calls
	bad      badBlocks
	admitted admitted // keys, by the filter
	reserved int64
}

// Init begins to read the table in src, which must stay open until Close. It checks the
// size of the file: a footer takes at least so many bytes.
func (t *Table) Init(src vfs.ReadFile, env Env, pool *Pool, footer int64) error {
	if env.MaxDecoded <= 0 {
		env.MaxDecoded = block.DefaultMaxDecoded
	}
	t.Src, t.Env, t.cmp, t.pool = src, env, env.Comparer, pool
	pool.tables.Add(1)
	size := src.Size()
	if size < footer {
		return base.Corruptf("table footer", "file of %d bytes is too short", size).At(env.Name, 0,
			size)
	}
	stored := vfs.Stored(src, size)
	if (size-env.MaxDecoded)/sparseFactor > stored {
		return base.Corruptf("table file", "its %d bytes are a hole but for %d at most; if that "+
			"is right, raise max_decoded_block", size, stored).At(env.Name, 0, size)
	}
	t.maxRead = uint64(max(env.MaxDecoded, stored))
	return nil
}

// Start ends the opening: the table's blocks go into the cache from now on. other is the
// memory that the format holds for the table besides index and filter.
func (t *Table) Start(other int) {
	t.Properties.Blocks = t.Index.Len()
	t.reserved = int64(t.Index.mem.Cap() + t.FilterMem.Cap() + other)
	if c := t.Env.Cache; c != nil {
		t.Slots = c.NewSlots(t.Index.Len())
		if n := len(t.Index.parts); n > 0 {
			t.Index.slots = c.NewSlots(n)
		}
		c.Reserve(t.reserved)
	}
}

// MaxIndex bounds the View of an index, of a part, or of an index of parts, in bytes. None of its
// keys is longer than the last one of a data block, which stores that key: so a View that takes no
// more than the file has on disk is no bomb, however much the keys share.
func (t *Table) MaxIndex() int64 { return int64(t.maxRead) }

// Read fills buf with n bytes of the file. They have been checked to lie
// inside it, so that too few are damage.
func (t *Table) Read(buf *block.Buffer, off, n uint64) ([]byte, error) {
	return t.readFrom(t.Src, buf, off, n)
}

func (t *Table) readFrom(src vfs.ReadFile, buf *block.Buffer, off, n uint64) ([]byte, error) {
	if n > t.maxRead {
		err := base.Corruptf("table", "a block of %d bytes in a file with %d on disk; if that is "+
			"right, raise max_decoded_block", n, vfs.Stored(t.Src, t.Src.Size()))
		return nil, base.LocateCorruption(err, t.Env.Name, int64(off), int64(n))
	}
	b, err := buf.Resize(int(n))
	if err != nil {
		return nil, err
	}
	got, err := src.ReadAt(b, int64(off))
	if got == len(b) {
		return b, nil
	}
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = base.Corruptf("table", "file ends after %d of %d bytes", got, n)
		return nil, base.LocateCorruption(err, t.Env.Name, int64(off), int64(n))
	}
	return nil, fmt.Errorf("reading table %s at %d: %w", t.Env.Name, off, err)
}

// stored reads data block i, located in s, as stored, with what its format puts around it.
func (t *Table) stored(i int, s *Scratch) ([]byte, error) {
	if err := t.bad.find(i); err != nil {
		return nil, err
	}
	h := s.place.Handle
	if b, err := t.copyMapped(i, h, s); err == nil {
		return b, nil
	}
	return t.Read(&s.File, h.Offset, h.Length)
}

// Locate gives damage found in a part of the file its place.
func (t *Table) Locate(err error, off, n uint64) error {
	return base.LocateCorruption(err, t.Env.Name, int64(off), int64(n))
}

// Final marks damage that was found under a right checksum.
func Final(err error) error {
	if err == nil {
		return nil
	}
	var c *base.Corruption
	if errors.As(err, &c) {
		c.Final = true
	}
	return err
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

// damaged locates the damage found in data block i. Where the checksum is wrong another
// read may give other bytes; all else is remembered.
func (t *Table) damaged(i int, s *Scratch, err error) error {
	h := s.place
	err = t.Locate(err, h.Offset, h.Length)
	var c *base.Corruption
	if !errors.As(err, &c) || !c.Final {
		return err
	}
	t.bad.mu.Lock()
	defer t.bad.mu.Unlock()
	if t.bad.err == nil {
		t.bad.err = make(map[int]error)
	}
	t.bad.err[i] = err
	t.bad.any.Store(true)
	return err
}

// MemoryUsage is the bytes of index, filter and cache slots held.
func (t *Table) MemoryUsage() int64 {
	n := t.reserved
	if t.Slots != nil {
		n += t.Slots.MemoryUsage()
	}
	if t.Index.slots != nil {
		n += t.Index.slots.MemoryUsage()
	}
	return n
}

// Props describes the table.
func (t *Table) Props() sstable.Props { return t.Properties }

// Close frees the memory; it does not close the file. It may follow an Init that failed.
func (t *Table) Close() error {
	if t.Slots != nil {
		t.Slots.Free()
		t.Env.Cache.Reserve(-t.reserved)
		t.Slots = nil
	}
	err := t.mapped.Close()
	t.mapped = nil
	t.Whole, t.HasWhole, t.Filter = filter.Table{}, false, nil
	t.FilterMem.Free()
	t.Index.free()
	t.pool.tableClosed()
	return err
}
