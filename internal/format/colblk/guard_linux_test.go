package colblk

import (
	"errors"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/testkit/model"
)

// newGuard returns a function that copies bytes to the end of a page before an unreadable one, so
// that a read past them ends the test.
func newGuard(t testing.TB, most int) func(b []byte) []byte {
	page := unix.Getpagesize()
	n := (most + page - 1) / page * page
	mem, err := unix.Mmap(-1, 0, n+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|
		unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mprotect(mem[n:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(mem); err != nil {
			t.Error(err)
		}
	})
	return func(b []byte) []byte {
		p := mem[n-len(b) : n : n]
		copy(p, b)
		return p
	}
}

// TestTooLarge adds a value that no block can hold: an error, and the block goes on without it.
func TestTooLarge(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("needs more than 4 GiB of addresses")
	}
	huge, err := unix.Mmap(-1, 0, 1<<32, unix.PROT_READ, unix.MAP_ANON|unix.MAP_PRIVATE|
		unix.MAP_NORESERVE)
	if err != nil {
		t.Skip(err)
	}
	defer func() {
		if err := unix.Munmap(huge); err != nil {
			t.Error(err)
		}
	}()
	for _, o := range packings {
		w := benchWriter(t, o)
		es := []model.Entry{model.Set("a", 1, "first"), model.Set("c", 2, "last")}
		for i, e := range es {
			if err := w.Add(e.Key, e.Trailer, base.CodecRaw, e.Value); err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				break
			}
			for _, codec := range []base.Codec{base.CodecRaw, base.CodecShort} {
				if err := w.Add([]byte("b"), 1, codec, huge); !errors.Is(err, base.ErrTooLarge) {
					t.Fatalf("4 GiB in codec %d: %v", codec, err)
				}
			}
		}
		var buf, heap block.Buffer
		compare(t, es, appendEntries(t, nil, finish(t, w, w.Len()), &buf, &heap))
		buf.Free()
		heap.Free()
	}
}
