//go:build unix

package offheap

import (
	"errors"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The Go runtime ends the process when it cannot map memory for itself, as under
// RLIMIT_AS. So this package never takes the last addresses: it keeps some
// reserved, and gives them up when the system first refuses. It maps nothing more
// until it has its reserve back.

// reserveBytes are for the runtime's own structures and a thread's stack.
const reserveBytes = 16 << 20

var reserve struct {
	missing atomic.Bool // given up
	once    sync.Once
	mu      sync.Mutex
	at      unsafe.Pointer // nil: none; guarded by mu
}

// takeReserve is called before memory is mapped, and fails while there is no
// reserve.
func takeReserve() error {
	r := &reserve
	r.once.Do(func() { r.missing.Store(true) })
	if !r.missing.Load() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at != nil {
		return nil
	}
	p, err := unix.MmapPtr(-1, 0, nil, reserveBytes, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return err
	}
	r.at = p
	r.missing.Store(false)
	return nil
}

// refused is told why memory could not be mapped.
func refused(err error) {
	if !errors.Is(err, unix.ENOMEM) {
		return
	}
	r := &reserve
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at != nil && unix.MunmapPtr(r.at, reserveBytes) == nil {
		r.at = nil
		r.missing.Store(true)
	}
}
