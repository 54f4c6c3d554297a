package directio

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/memory/offheap"
	"github.com/loamdb/loam/internal/os/vfs"
)

// directDir is a directory of a file system with direct I/O.
func directDir(t *testing.T) string {
	dir := t.TempDir()
	f, err := vfs.Default.Create(filepath.Join(dir, "probe"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := NewWriter(f)
	if err != nil {
		_ = f.Close()
		t.Skipf("no direct I/O in %s: %v", dir, err)
	}
	_, err = w.Write(make([]byte, writeLen))
	if err = errors.Join(err, w.Sync()); err != nil || w.file.cached.Load() {
		t.Skipf("direct I/O in %s goes through the page cache: %v", dir, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// write writes data in pieces of any size and returns the first error.
func write(rng *rand.Rand, w *Writer, data []byte) error {
	for len(data) > 0 {
		n := min(1+rng.IntN(1<<(1+rng.IntN(21))), len(data))
		if _, err := w.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	w.StartSync()
	return w.Sync()
}

// TestRoundTrip writes files of any length in pieces of any size, and reads any parts of them.
func TestRoundTrip(t *testing.T) {
	dir, before := directDir(t), offheap.InUse()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for round, n := range []int{0, 1, Align - 1, Align, Align + 1, writeLen, writeLen + 1,
		3*writeLen - 5, 2<<20 + rng.IntN(5<<20)} {
		data, name := random(rng, n), filepath.Join(dir, string(rune('a'+round)))
		f, err := vfs.Default.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := NewWriter(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(write(rng, w, data), w.Close()); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("a file of %d bytes came out with %d, %v", n, len(got), err)
		}
		readAll(t, rng, name, data)
	}
	if after := offheap.InUse(); after != before {
		t.Errorf("%d bytes off the heap before, %d after", before, after)
	}
}

// readAll reads parts of a file, some of them after a hint, at its end too.
func readAll(t *testing.T, rng *rand.Rand, name string, data []byte) {
	f, err := vfs.Default.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Size() != int64(len(data)) {
		t.Fatalf("size %d of %d", r.Size(), len(data))
	}
	next := 0
	for range 200 {
		off := rng.IntN(len(data) + 1)
		if rng.IntN(3) > 0 {
			off = min(next, len(data)) // in order, mostly
		}
		n := rng.IntN(1 << (1 + rng.IntN(19)))
		want := data[off:min(off+n, len(data))]
		if rng.IntN(2) == 0 {
			r.Prefetch(int64(off+n), int64(rng.IntN(1<<18)))
		}
		p := make([]byte, n)
		got, err := r.ReadAt(p, int64(off))
		if got != len(want) || !bytes.Equal(p[:got], want) || (err == nil) != (got == n) {
			t.Fatalf("%d bytes at %d of %d: %d, %v", n, off, len(data), got, err)
		}
		next = off + n
	}
	if r.file.cached.Load() {
		t.Error("reads went through the page cache")
	}
	if _, err := r.ReadAt(make([]byte, 1), int64(len(data))); err != io.EOF {
		t.Errorf("behind the end: %v", err)
	}
}

// TestFaults fails writes in all places and in all ways: the file has bytes that the writer did not
// report.
func TestFaults(t *testing.T) {
	dir, before := directDir(t), offheap.InUse()
	rng := rand.New(rand.NewPCG(3, 3))
	data := random(rng, 3*writeLen+100)
	for fail := 1; fail <= 6; fail++ {
		for _, tc := range []struct {
			err   error
			short int
			heals bool // through the page cache
		}{{syscall.ENOSPC, 0, false}, {syscall.ENOSPC, 5000, false}, {syscall.EIO, 1 << 19,
			false}, {syscall.EINVAL, 0, true}, {syscall.EINVAL, 5 * Align, true}} {
			writes := 0
			fsys := vfs.NewFault(vfs.Default, func(op vfs.Op) vfs.Outcome {
				if op.Kind == vfs.OpWrite {
					if writes++; writes == fail {
						return vfs.Outcome{Err: tc.err, Short: tc.short}
					}
				}
				return vfs.Outcome{}
			})
			name := filepath.Join(dir, "f")
			f, err := fsys.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			w, err := NewWriter(f)
			if err != nil {
				t.Fatal(err)
			}
			err = write(rng, w, data)
			want := error(nil)
			if writes >= fail && (!tc.heals || fail == 4) { // the fourth is no direct one
				want = tc.err
			}
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("write %d fails with %v after %d bytes: %v", fail, tc.err, tc.short, err)
			}
			if _, again := w.Write([]byte("x")); again == nil {
				t.Error("a write after the end succeeds")
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			got, rerr := os.ReadFile(name)
			if rerr != nil || err == nil && !bytes.Equal(got, data) {
				t.Errorf("write %d fails with %v after %d bytes: %d of %d bytes are right, %v",
					fail, tc.err, tc.short, len(got), len(data), rerr)
			}
			if err := os.Remove(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if after := offheap.InUse(); after != before {
		t.Errorf("%d bytes off the heap before, %d after", before, after)
	}
}

// TestReadFaults fails reads, hints among them.
func TestReadFaults(t *testing.T) {
	dir := directDir(t)
	rng := rand.New(rand.NewPCG(4, 4))
	data, name := random(rng, 1<<20), filepath.Join(dir, "f")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, fail := range []error{syscall.EIO, syscall.EINVAL} {
		for at := 1; at <= 4; at++ {
			reads := make(chan int, 1)
			reads <- 0
			fsys := vfs.NewFault(vfs.Default, func(op vfs.Op) vfs.Outcome {
				if op.Kind == vfs.OpRead {
					n := <-reads + 1
					reads <- n
					if n == at {
						return vfs.Outcome{Err: fail, Short: Align}
					}
				}
				return vfs.Outcome{}
			})
			f, err := fsys.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			r, err := NewReader(f)
			if err != nil {
				t.Fatal(err)
			}
			failures := 0
			for off := 0; off < len(data); off += 1 << 18 {
				r.Prefetch(int64(off+1<<18), 1<<18)
				p := make([]byte, 1<<18)
				switch n, err := r.ReadAt(p, int64(off)); {
				case err != nil && !errors.Is(err, fail):
					t.Fatal(err)
				case err != nil:
					failures++
				case !bytes.Equal(p[:n], data[off:off+n]):
					t.Fatalf("other bytes at %d", off)
				}
			}
			if fail == syscall.EINVAL && (failures > 0 || !r.file.cached.Load()) {
				t.Errorf("%d reads failed that the page cache serves", failures)
			}
			r.Close()
		}
	}
}

// TestRefused: file systems without direct I/O leave the file as it was.
func TestRefused(t *testing.T) {
	mem := vfs.NewMem()
	f, err := mem.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewWriter(f); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a file in memory: %v", err)
	}
	if _, err := f.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	r, err := mem.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewReader(r); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a file in memory: %v", err)
	}
}
