package blocktable

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
)

// Block is a data block of some format, as far as decoding goes without a View. Each
// Scratch has one, which is opened again and again.
type Block interface {
	// Open checks a block as stored at off, of table t, and decodes it into s, which has
	// this Block. size is about what its View takes. The bytes of stored are used until
	// the next Open.
	Open(t *Table, off uint64, stored []byte, s *Scratch) (size int, err error)
	// Search looks l up, appends the value to dst and says which keys the block begins
	// and ends with. It may use s.View. REQUIRES: t.InPlace.
	Search(t *Table, l base.Lookup, s *Scratch, dst []byte) (value []byte, trailer base.Trailer,
		found bool, ends Ends, err error)
	// ViewSize is the memory that BuildView needs.
	ViewSize(t *Table, cols block.Columns) (int, error)
	// BuildView builds the View in dst. It may use s.Raw.
	BuildView(t *Table, s *Scratch, dst []byte, cols block.Columns) (block.View, error)
}

// PackedBlock is a Block that compactions read without a View, values packed.
type PackedBlock interface {
	Block
	// Chunk makes e the whole block, in s.View.
	Chunk(t *Table, s *Scratch, e *base.Chunk) error
	// SeekGE returns the index of the first entry at or after (key, trailer).
	SeekGE(t *Table, key []byte, trailer base.Trailer) int
}

// PartBlock is a Block of which a few entries can be had for less than all of them.
type PartBlock interface {
	Block
	// Len is the number of entries.
	Len() int
	// Part makes e the first entries at or after (key, trailer), which begin at entry lo; none
	// where lo is Len. They lie in s.Few. It says which keys the block begins and ends with
	// where s was not Verified; those may lie in s.View.
	Part(t *Table, key []byte, trailer base.Trailer, s *Scratch, e *base.Chunk) (lo int, ends Ends,
		err error)
}

// Scratch is the memory that decoding a stored block takes: the bytes of the file, the
// decompressed block, and, for views that do not go into the cache, the view.
type Scratch struct {
	File, Raw, View, Few block.Buffer
	Block                Block
	// Verified says that what Open gets was verified before and is only going to be
	// searched: Open need not check it. It may have changed since, so Search must not
	// write, nor hand out bytes of another place, whatever it holds.
	Verified bool

	place      place        // of the block being read
	separators block.Buffer // of place, where the index has parts

	// The part of an index that was read last, where it is not in the cache.
	partFile, partMem block.Buffer
	partBlock         Block  // made by Pool.NewPart when it is needed
	partTable         *Table // nil: none
	part              int
	partView          block.View
}

// What a scratch keeps while nobody uses it.
const (
	keepFile = 2 * readAhead
	keepRaw  = 64 << 10
	maxIdle  = 16
)

// Pool holds the scratches of a format between uses, as long as any of its tables is
// open.
type Pool struct {
	// New makes the Block of a scratch.
	New func() Block
	// NewPart makes a Block for parts of an index; nil where the format has none.
	NewPart func() Block

	tables atomic.Int64
	own    [ownScratches]struct {
		atomic.Pointer[Scratch]
		_ [120]byte // a pair of cache lines for each
	}
	mu   sync.Mutex
	idle []*Scratch
}

// ownScratches is a power of two.
const ownScratches = 16

// place is where the goroutine looks for a scratch first, so that goroutines which run at the
// same time seldom meet. The address of the stack stands for the goroutine.
func (p *Pool) place() *atomic.Pointer[Scratch] {
	var local byte
	h := uint64(uintptr(unsafe.Pointer(&local))>>11) * 0x9e3779b97f4a7c15
	return &p.own[h>>32%ownScratches].Pointer
}

// Get returns a scratch, to be given back by Put.
func (p *Pool) Get() *Scratch {
	if s := p.place().Swap(nil); s != nil {
		return s
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.idle); n > 0 {
		s := p.idle[n-1]
		p.idle = p.idle[:n-1]
		return s
	}
	return &Scratch{Block: p.New()}
}

// Put takes back a scratch of Get.
func (p *Pool) Put(s *Scratch) {
	s.File.Trim(keepFile)
	s.Raw.Trim(keepRaw)
	s.View.Trim(keepRaw)
	s.Few.Trim(keepRaw)
	s.separators.Trim(keepRaw)
	s.partFile.Trim(keepRaw)
	s.partMem.Trim(keepRaw)
	s.partTable, s.place, s.Verified = nil, place{}, false
	if own := p.place(); own.CompareAndSwap(nil, s) {
		if p.tables.Load() > 0 {
			return
		}
		if s = own.Swap(nil); s == nil { // tableClosed has it, or another Get
			return
		}
	}
	p.mu.Lock()
	if len(p.idle) < maxIdle && p.tables.Load() > 0 {
		p.idle = append(p.idle, s)
		s = nil
	}
	p.mu.Unlock()
	if s != nil {
		s.free()
	}
}

func (s *Scratch) free() {
	s.File.Free()
	s.Raw.Free()
	s.View.Free()
	s.Few.Free()
	s.separators.Free()
	s.partFile.Free()
	s.partMem.Free()
}

// tableClosed frees the idle scratches with the last table.
func (p *Pool) tableClosed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tables.Add(-1) > 0 {
		return
	}
	for i := range p.own {
		if s := p.own[i].Swap(nil); s != nil {
			s.free()
		}
	}
	for _, s := range p.idle {
		s.free()
	}
	p.idle = nil
}
