// Package inplace reads blocks of a table file where the system keeps them, in a
// mapping of the file, without a system call and without a copy.
//
// A block is read in place from the second time on. Before that its checksum has to be
// verified, once per open file, and its pages may not be in memory; so the first time it
// is read by pread, which lets Go's scheduler run others meanwhile, and the reader calls
// SetVerified. The system may take the pages back later, when it has no other memory. A
// processor that touches such a page waits for the disk, and Go's scheduler does not know.
// So one read in place in 128 looks whether the process had to wait for pages lately; as
// long as it had to, each read asks first whether the pages are there (see watch).
//
// # Faults
//
// Reading a mapping may fail: of a bad sector, a bad memory cell, or a file that another
// program cut off. The system reports that by a signal, which Go makes a panic where
// debug.SetPanicOnFault asks for it. Blocks.Catch recovers, gives the mapping up, and says
// base.ErrWouldBlock: the caller reads the block by pread, which answers with an error, or
// with the bytes if it can. All other panics in a search go the same way: if the bytes were
// not their cause, they come again.
//
// A file that is cut off in the middle of a page reads as zeros from there to the end
// of the page, without a fault. But then the end of the file is gone, too: Intact compares it.
// So a caller copies what it needs out of the block, calls Intact, and then uses the copy.
package inplace

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/invariants"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Blocks reads the blocks of one open file in place. A nil *Blocks reads none. All methods
// up to Close are safe for concurrent use.
type Blocks struct {
	mapping  *vfs.Mapping
	data     []byte          // the file
	end      uint64          // no block after it is read in place
	verified []atomic.Uint64 // a bit for each block
	tail     [tailLen]byte   // the last bytes of the file when it was opened
	onFault  func(error)     // may be nil
	name     string          // of the file, for onFault
	gone     atomic.Bool     // the mapping was given up
	closed   atomic.Bool
}

// tailLen is how many bytes at the end of a file are compared by Intact.
const tailLen = 16

// Open maps src, a table of that name with n blocks, which ends with footer. It returns nil where
// the file cannot be mapped, or is too small to be read in place.
// onFault, which may be nil, is told why the mapping was given up.
func Open(src vfs.ReadFile, name string, n int, footer []byte, onFault func(error)) *Blocks {
	size := src.Size()
	// The last page has the end of the file, which tells whether the rest is there.
	end := (size - tailLen) &^ int64(os.Getpagesize()-1)
	if end <= 0 || n <= 0 || n > math.MaxInt32 || len(footer) < tailLen {
		return nil
	}
	m, err := vfs.Map(src, size)
	if err != nil {
		return nil
	}
	b := &Blocks{mapping: m, data: m.Bytes(), end: uint64(end), onFault: onFault, name: name}
	b.verified = make([]atomic.Uint64, (n+63)/64)
	copy(b.tail[:], footer[len(footer)-tailLen:])
	return b
}

// SetVerified notes that the bytes of block i, which came from the file, are right.
func (b *Blocks) SetVerified(i int) {
	if b == nil || uint(i)/64 >= uint(len(b.verified)) {
		return
	}
	if w, bit := &b.verified[i/64], uint64(1)<<(i%64); w.Load()&bit == 0 {
		w.Or(bit)
	}
}

func (b *Blocks) isVerified(i int) bool {
	return uint(i)/64 < uint(len(b.verified)) && b.verified[i/64].Load()&(1<<(i%64)) != 0
}

// Block returns the n bytes of block i, at off, and starts loading the first of them into the
// processor's cache. It reports false when they are to be read from the file.
func (b *Blocks) Block(i int, off, n uint64) ([]byte, bool) {
	if b == nil || !b.isVerified(i) {
		return nil, false
	}
	if off > b.end || n > b.end-off || b.gone.Load() {
		return nil, false
	}
	p := b.data[off : off+n : off+n]
	if !watch.mayTouch(p) {
		return nil, false
	}
	if err := b.mapping.Touch(int64(off), int64(n)); err != nil {
		b.giveUp(off, err)
		return nil, false
	}
	offheap.Prefetch(unsafe.Pointer(unsafe.SliceData(p)), int(min(n, searched)))
	return p, true
}

// Prefetch starts loading what a search of block i looks at into the processor's cache. It
// reports false if the block is going to be read from the file.
func (b *Blocks) Prefetch(i int, off, n uint64) bool {
	if b == nil || !b.isVerified(i) || off > b.end || n > b.end-off || b.gone.Load() {
		return false
	}
	offheap.Prefetch(unsafe.Pointer(&b.data[off]), int(min(n, searched)))
	return true
}

// searched bytes at the beginning of a block are usually enough for a search.
const searched = 1024

// Begin makes faults of the calling goroutine panics. It returns what Catch needs to know.
func Begin() (before bool) { return debug.SetPanicOnFault(true) }

// Catch ends a read in place. It must be deferred, with the result of Begin. After a panic
// it sets *err to base.ErrWouldBlock.
func (b *Blocks) Catch(before bool, err *error) {
	debug.SetPanicOnFault(before)
	if r := recover(); r != nil {
		*err = b.caught(r)
	}
}

// caught gives the mapping up.
func (b *Blocks) caught(r any) error {
	if invariants.Enabled {
		invariants.Check(!b.closed.Load(), "inplace: %s is read after its mapping was closed: %v",
			b.name, r)
	}
	off, cause := uint64(0), fmt.Errorf("%v", r)
	if f, ok := r.(interface{ Addr() uintptr }); ok {
		if offheap.Unmap {
			offheap.CheckFault(f.Addr())
		}
		off = uint64(f.Addr() - uintptr(unsafe.Pointer(unsafe.SliceData(b.data))))
		if off < uint64(len(b.data)) {
			cause = syscall.EIO
		}
	}
	b.giveUp(off, cause)
	return base.ErrWouldBlock
}

// giveUp has all blocks read from the file from now on.
func (b *Blocks) giveUp(off uint64, cause error) {
	if b.gone.Swap(true) || b.onFault == nil {
		return
	}
	b.onFault(fmt.Errorf("reading table %s in place at %d; reading it by system calls from "+
		"now on: %w", b.name, off, cause))
}

// Intact reports whether the file is as long as it was, and ends with the same bytes. What
// was read in place before the call is not to be used otherwise. It is called between Begin
// and Catch.
func (b *Blocks) Intact() bool {
	if bytes.Equal(b.data[len(b.data)-tailLen:], b.tail[:]) {
		return true
	}
	b.giveUp(uint64(len(b.data)-tailLen), syscall.EIO)
	return false
}

// Close unmaps the file. Nobody may be reading.
func (b *Blocks) Close() error {
	if b == nil || b.closed.Swap(true) {
		return nil
	}
	return b.mapping.Close()
}
