//go:build linux || darwin

package vfs

import (
	"errors"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/filelock"
)

// maxMappings bounds the files that the process has mapped. Linux allows 65,530
// mappings (vm.max_map_count), and a Go program that gets no more ends.
const maxMappings = 16 << 10

var mappings atomic.Int64

// Map maps a file of a local file system, and of another one with OS.MapAnywhere.
func (r *osReadFile) Map(n int64) (*Mapping, error) {
	const maxMapped = 1 << 44 // of one file; addresses have 47 bits
	fd := int(r.f.Fd())
	if strconv.IntSize < 64 || n > maxMapped || !r.anywhere && !filelock.IsLocal(fd) {
		return nil, pathError("mmap", r.f.Name(), errors.ErrUnsupported)
	}
	if mappings.Add(1) > maxMappings {
		mappings.Add(-1)
		return nil, pathError("mmap", r.f.Name(), errors.ErrUnsupported)
	}
	mem, err := unix.Mmap(fd, 0, int(n), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		mappings.Add(-1)
		return nil, base.Classify(pathError("mmap", r.f.Name(), err))
	}
	// Or page faults read ahead: where memory is short, half as many bytes again are read.
	_ = unix.Madvise(mem, unix.MADV_RANDOM)
	return &Mapping{bytes: mem, unmap: unmapFile}, nil
}

func unmapFile(b []byte) error {
	mappings.Add(-1)
	if offheap.Unmap {
		return offheap.Retire(b)
	}
	return unix.Munmap(b)
}
