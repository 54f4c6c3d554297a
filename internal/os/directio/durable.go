package directio

import (
	"bytes"
	"runtime"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// compared is how many bytes Durable compares at a time.
const compared = 512 << 10

// Durable makes a file durable that nobody writes, and reports whether it is. A sync alone does not
// tell: Linux takes pages that it could not write for written ones, fails one sync, perhaps of a
// process that has ended, and answers reads from these pages afterwards. So the file is read past
// the page cache, too. Linux has file systems where that is not possible: there the answer is no.
// Other systems are taken at the sync's word, and so are other file systems than the system's,
// unless their files have a method OnDisk.
func Durable(fsys vfs.FS, name string) bool {
	f, err := fsys.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	s, ok := f.(interface{ Sync() error })
	if !ok || s.Sync() != nil {
		return false
	}
	if d, ok := f.(interface{ OnDisk() bool }); ok {
		return d.OnDisk()
	}
	if _, ok := vfs.Descriptor(f); !ok || runtime.GOOS != "linux" {
		return true
	}
	d, err := fsys.Open(name)
	if err != nil {
		return false
	}
	r, err := NewReader(d)
	if err != nil {
		_ = d.Close()
		return false
	}
	defer r.Close()
	return sameBytes(f, r) && !r.file.cached.Load()
}

// sameBytes reports whether both files have the same bytes, and all of them can be read.
func sameBytes(f vfs.ReadFile, r *Reader) bool {
	a, b := make([]byte, compared), make([]byte, compared)
	for off, size := int64(0), f.Size(); off < size; off += compared {
		n := min(compared, size-off)
		if off+n < size {
			r.Prefetch(off+n, min(compared, size-off-n))
		}
		if base.ReadFull(f, a[:n], off) != nil || base.ReadFull(r, b[:n], off) != nil ||
			!bytes.Equal(a[:n], b[:n]) {
			return false
		}
	}
	return true
}
