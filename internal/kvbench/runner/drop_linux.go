package runner

import (
	"os"

	"golang.org/x/sys/unix"
)

// DropCache takes the files in dir out of the page cache. They must be closed:
// what is mapped stays. Pages not written back stay too, so that comes first.
func DropCache(dir string) error {
	return eachFile(dir, func(f *os.File) error {
		if err := f.Sync(); err != nil {
			return err
		}
		return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	})
}
