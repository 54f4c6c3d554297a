package directio

import (
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

// compared is how many bytes of a file have one sum.
const compared = 512 << 10

// Durable makes a file durable that nobody writes, and reports whether it is. A sync alone does not
// tell: Linux takes pages that it could not write for written ones, fails one sync, perhaps of a
// process that has ended, and answers reads from these pages afterwards. So the file is read a
// second time, from the disk, without these pages. O_DIRECT would not do: some files are read
// through the page cache all the same, such as encrypted ones of ext4 and compressed ones of btrfs.
// Where pages stay, as in tmpfs, the answer is no. Other systems are taken at the sync's word, and
// so are other file systems than the system's, unless their files have a method OnDisk.
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
	fd, ok := vfs.Descriptor(f)
	if !ok || !keepsUnwritten {
		return true
	}
	before, err := sums(f)
	if err != nil || !uncached(fd, f.Size()) {
		return false
	}
	after, err := sums(f)
	return err == nil && slices.Equal(before, after)
}

// sums reads a file, and returns the sum of each part.
func sums(f vfs.ReadFile) (sums []uint64, err error) {
	buf := make([]byte, compared)
	for off, size := int64(0), f.Size(); off < size; off += compared {
		part := buf[:min(compared, size-off)]
		if err := base.ReadFull(f, part, off); err != nil {
			return nil, err
		}
		sums = append(sums, xxhash.Sum64(part))
	}
	return sums, nil
}
