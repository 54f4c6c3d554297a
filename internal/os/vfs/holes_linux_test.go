package vfs

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A file without holes counts in full where the file system has not counted its
// blocks yet, or never does. One with holes does not.
func TestStoredBytes(t *testing.T) {
	const size = 1 << 20
	for _, test := range []struct {
		name   string
		write  int // bytes at the beginning
		blocks int64
		want   int64
		holes  bool
	}{
		{"written", size, size / 512, size, false},
		{"written, not counted", size, 0, size, false},
		{"written, one block counted", size, 1, size, false},
		{"a hole", 0, 0, 0, true},
		{"a hole behind data", size / 2, size / 2 / 512, size / 2, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "file"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.Write(bytes.Repeat([]byte{1}, test.write)); err != nil {
				t.Fatal(err)
			}
			if err := f.Truncate(size); err != nil {
				t.Fatal(err)
			}
			fd := int(f.Fd())
			if test.holes && hasNoHole(fd, size) {
				t.Skip("this file system knows no holes")
			}
			n, holes := storedBytes(fd, &unix.Stat_t{Size: size, Blocks: test.blocks})
			if mayCompress(fd) && test.holes {
				test.want = min(test.want*storedFactor, size)
			}
			if n != test.want || holes != test.holes {
				t.Errorf("%d bytes are stored, holes: %v; want %d, %v", n, holes, test.want,
					test.holes)
			}
		})
	}
}
