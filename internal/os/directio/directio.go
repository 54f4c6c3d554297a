// Package directio reads and writes files past the page cache of the operating system
// (O_DIRECT), for passes over much data that nobody asks for again: what others have in the
// page cache stays there.
//
// A Writer and a Reader take any sizes and offsets, and move whole pages of aligned memory.
// Where a file system refuses that only when it is tried, they go on through the page cache.
//
// A Writer and a Reader belong to one goroutine at a time. Each has one transfer under way
// beside that goroutine.
package directio

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
)

// Align is the unit of sizes, offsets and addresses: a multiple of the sectors of all usual
// devices.
const Align = 4096

// file is a file whose descriptor does or does not go through the page cache.
type file struct {
	fd     uintptr
	cached atomic.Bool
}

// begin turns the page cache off for a file that nobody else uses. It fails with
// errors.ErrUnsupported where that is not possible.
func (f *file) begin(of any) error {
	fd, ok := vfs.Descriptor(of)
	if !ok {
		return fmt.Errorf("%w: not a file of the operating system", errors.ErrUnsupported)
	}
	if err := setDirect(fd, true); err != nil {
		return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
	}
	f.fd = fd
	return nil
}

// end turns the page cache on again.
func (f *file) end() error {
	if f.cached.Swap(true) {
		return nil
	}
	return setDirect(f.fd, false)
}

// refused reports whether a transfer may have failed because it was a direct one.
func refused(err error) bool { return errors.Is(err, syscall.EINVAL) }

// buffer is aligned memory.
type buffer struct {
	mem []byte // as it was allocated
	b   []byte // of whole pages
}

// alloc gives b room for n bytes, a multiple of Align.
func (b *buffer) alloc(n int) error {
	if len(b.b) >= n {
		return nil
	}
	b.free()
	mem, err := offheap.Alloc(n + Align)
	if err != nil {
		return err
	}
	skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))) & (Align - 1)
	b.mem, b.b = mem, mem[skip:skip+n]
	return nil
}

func (b *buffer) free() {
	offheap.Free(b.mem)
	*b = buffer{}
}

// transfer is one read or write beside the caller.
type transfer struct {
	done chan outcome // nil: none is under way
}

type outcome struct {
	n   int
	err error
}

// start calls move on another goroutine.
func (t *transfer) start(move func() (int, error)) {
	done := make(chan outcome, 1)
	t.done = done
	go func() {
		var o outcome
		base.Always(func() (err error) {
			o.n, err = move()
			return err
		}, func(err error) {
			o.err = err
			done <- o
		})
	}()
}

// wait waits for the transfer that is under way, if any.
func (t *transfer) wait() (n int, err error) {
	if t.done == nil {
		return 0, nil
	}
	o := <-t.done
	t.done = nil
	return o.n, o.err
}
