package inplace

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
)

const (
	blockLen  = 4096
	numBlocks = 32
	footer    = "the footer of a table file"
)

// content is blocks of which each has its own byte, and the footer.
func content() []byte {
	var b []byte
	for i := range numBlocks {
		b = append(b, bytes.Repeat([]byte{byte(i + 1)}, blockLen)...)
	}
	return append(b, footer...)
}

// open writes b as a file of fsys and maps it. told are the faults.
func open(t testing.TB, fsys vfs.FS, name string, b []byte) (blocks *Blocks, told *[]error) {
	t.Helper()
	w, err := fsys.Create(name)
	if err == nil {
		_, err = w.Write(b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	told = new([]error)
	blocks = Open(f, "000007.ldb", numBlocks, []byte(footer), func(err error) {
		*told = append(*told, err)
	})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if blocks == nil {
		t.Skip("files are not mapped on this system")
	}
	t.Cleanup(func() {
		if err := blocks.Close(); err != nil {
			t.Error(err)
		}
	})
	return blocks, told
}

// read reads block i in place, as a table does. Pages that the process waited for before, in
// another test or because the machine is busy, do not matter.
func read(b *Blocks, i int) (got []byte, err error) {
	watch.asking.Store(0)
	p, ok := b.Block(i, uint64(i)*blockLen, blockLen)
	if !ok {
		return nil, base.ErrWouldBlock
	}
	defer b.Catch(Begin(), &err)
	got = append(got, p...)
	if !b.Intact() {
		err = base.ErrWouldBlock
	}
	return got, err
}

func check(t *testing.T, b *Blocks, i int) {
	t.Helper()
	got, err := read(b, i)
	if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(i + 1)}, blockLen)) {
		t.Fatalf("block %d: %d bytes, %v", i, len(got), err)
	}
}

func refused(t *testing.T, b *Blocks, i int) {
	t.Helper()
	if got, err := read(b, i); !errors.Is(err, base.ErrWouldBlock) {
		t.Fatalf("block %d: %d bytes, %v", i, len(got), err)
	}
}

// TestBlocks: a block is read in place once it is verified, unless the end of the file is in
// its page.
func TestBlocks(t *testing.T) {
	b, told := open(t, vfs.NewMem(), "t", content())
	for i := range numBlocks {
		if b.Prefetch(i, uint64(i)*blockLen, blockLen) {
			t.Fatalf("block %d is prefetched in place before it was verified", i)
		}
		refused(t, b, i)
		b.SetVerified(i)
		b.SetVerified(i)
		check(t, b, i)
		if !b.Prefetch(i, uint64(i)*blockLen, blockLen) {
			t.Fatalf("block %d is not prefetched", i)
		}
	}
	b.SetVerified(-1)
	b.SetVerified(numBlocks)
	b.SetVerified(1 << 40)
	for _, c := range []struct{ off, n uint64 }{
		{numBlocks*blockLen - 1, 2}, {numBlocks * blockLen, 1}, {1 << 63, 1}, {0, 1 << 63},
		{1, 1<<64 - 1},
	} {
		if _, ok := b.Block(0, c.off, c.n); ok || b.Prefetch(0, c.off, c.n) {
			t.Errorf("%d bytes at %d are read in place", c.n, c.off)
		}
	}
	for _, i := range []int{-1, 64, 1 << 40} {
		if _, ok := b.Block(i, 0, 1); ok {
			t.Errorf("block %d is read in place", i)
		}
	}
	if len(*told) != 0 {
		t.Error(*told)
	}
}

// TestNotMapped: what cannot be mapped, and files of one page, are not read in place.
func TestNotMapped(t *testing.T) {
	m := vfs.NewMem()
	w, err := m.Create("t")
	if err == nil {
		_, err = w.Write([]byte(footer))
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Open("t")
	if err != nil {
		t.Fatal(err)
	}
	if Open(f, "t", 1, []byte(footer), nil) != nil {
		t.Error("a file of one page is mapped")
	}
	var none *Blocks
	none.SetVerified(0)
	if _, ok := none.Block(0, 0, 1); ok || none.Prefetch(0, 0, 1) || none.Close() != nil {
		t.Error("there are blocks in nothing")
	}
}

// TestFault: a block that fails is read from the file from then on, as all others; the reason
// is told once, with the file and the offset.
func TestFault(t *testing.T) {
	boom := errors.New("boom")
	fail := false
	b, told := open(t, vfs.NewFault(vfs.NewMem(), func(op vfs.Op) (out vfs.Outcome) {
		if op.Kind == vfs.OpTouch && fail {
			out.Err = boom
		}
		return out
	}), "t", content())
	b.SetVerified(3)
	b.SetVerified(4)
	check(t, b, 3)
	fail = true
	refused(t, b, 3)
	fail = false
	refused(t, b, 3)
	refused(t, b, 4)
	if len(*told) != 1 || !errors.Is((*told)[0], boom) ||
		!strings.Contains((*told)[0].Error(), "000007.ldb in place at 12288") {
		t.Error(*told)
	}
}

// TestPanicInSearch: a panic of the reading function is an answer, too.
func TestPanicInSearch(t *testing.T) {
	b, told := open(t, vfs.NewMem(), "t", content())
	b.SetVerified(3)
	search := func() (err error) {
		defer b.Catch(Begin(), &err)
		var none []byte
		_ = none[len(*told)]
		return nil
	}
	if err := search(); !errors.Is(err, base.ErrWouldBlock) {
		t.Error(err)
	}
	refused(t, b, 3)
	if len(*told) != 1 || !strings.Contains((*told)[0].Error(), "out of range") {
		t.Error(*told)
	}
}

// onDisk runs a test in a directory of each kind that there is.
func onDisk(t *testing.T, test func(t *testing.T, dir string)) {
	t.Run("disk", func(t *testing.T) { test(t, t.TempDir()) })
	t.Run("tmpfs", func(t *testing.T) {
		dir, err := os.MkdirTemp("/dev/shm", "inplace")
		if err != nil {
			t.Skip(err)
		}
		defer os.RemoveAll(dir)
		test(t, dir)
	})
}

// TestCutFile: of a file that another program cuts off, neither a fault nor the zeros in its
// last page come out.
func TestCutFile(t *testing.T) {
	onDisk(t, func(t *testing.T, dir string) {
		for cut := int64(0); cut < numBlocks*blockLen; cut += 3000 {
			name := filepath.Join(dir, "t")
			b, told := open(t, vfs.OS{MapAnywhere: true}, name, content())
			for i := range numBlocks {
				b.SetVerified(i)
				check(t, b, i)
			}
			if err := os.Truncate(name, cut); err != nil {
				t.Fatal(err)
			}
			// The block with the cut comes first, then those that are gone, then all.
			for i := range numBlocks {
				refused(t, b, (int(cut)/blockLen+i)%numBlocks)
			}
			if len(*told) != 1 ||
				!strings.Contains((*told)[0].Error(), "000007.ldb in place at ") ||
				!errors.Is((*told)[0], syscall.EIO) {
				t.Fatalf("cut to %d: %v", cut, *told)
			}
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestReplacedFile: a file that was cut off and written again is another file.
func TestReplacedFile(t *testing.T) {
	onDisk(t, func(t *testing.T, dir string) {
		for _, size := range []int64{numBlocks*blockLen + int64(len(footer)),
			numBlocks * blockLen * 2} {
			name := filepath.Join(dir, "t")
			b, told := open(t, vfs.OS{MapAnywhere: true}, name, content())
			b.SetVerified(5)
			check(t, b, 5)
			if err := errors.Join(os.Truncate(name, 5*blockLen+100),
				os.Truncate(name, size)); err != nil {
				t.Fatal(err)
			}
			refused(t, b, 5)
			if len(*told) != 1 {
				t.Error(*told)
			}
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// BenchmarkCatch is what a read in place costs besides the reading.
func BenchmarkCatch(b *testing.B) {
	blocks, _ := open(b, vfs.OS{MapAnywhere: true}, filepath.Join(b.TempDir(), "t"), content())
	blocks.SetVerified(3)
	read := func() (n byte, err error) {
		p, ok := blocks.Block(3, 3*blockLen, blockLen)
		if !ok {
			return 0, base.ErrWouldBlock
		}
		defer blocks.Catch(Begin(), &err)
		n = p[0]
		if !blocks.Intact() {
			err = base.ErrWouldBlock
		}
		return n, err
	}
	for b.Loop() {
		if n, err := read(); n != 4 || err != nil {
			b.Fatal(n, err)
		}
	}
}
