package ldb

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
)

// memory is a file that is written, then read.
type memory struct{ bytes.Buffer }

func (*memory) Sync() error  { return nil }
func (*memory) Close() error { return nil }

// watched records the sizes of reads and the ranges asked for ahead.
type watched struct {
	bytesFile
	t     *testing.T
	reads []int
	ahead int64
}

func (w *watched) ReadAt(p []byte, off int64) (int, error) {
	w.reads = append(w.reads, len(p))
	return w.bytesFile.ReadAt(p, off)
}

func (w *watched) Prefetch(off, n int64) {
	if off < 0 || n <= 0 || off+n > w.Size() {
		w.t.Errorf("prefetch of [%d, +%d) in a file of %d bytes", off, n, w.Size())
	}
	w.ahead += n
}

// noiseTable has n entries of about 1 KiB that do not compress.
func noiseTable(t *testing.T, c *base.Comparer, n int) []byte {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 1))
	var f memory
	w := NewWriter(&f, sstable.WriterOptions{Comparer: c, BlockSize: 4096, RestartInterval: 16})
	value := make([]byte, 1000)
	for i := range n {
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		if err := w.Add(fmt.Appendf(nil, "key%06d", i), base.MakeTrailer(1, base.KindSet), 0,
			value); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return f.Bytes()
}

// TestReadPattern: compactions read 256 KiB at a time, scans by windows that
// double, other cursors block by block; all the file once.
func TestReadPattern(t *testing.T) {
	b := noiseTable(t, base.Bytewise, 2000)
	blocks := 400 // of five entries
	for _, tc := range []struct {
		name      string
		flags     sstable.ReadFlags
		backward  bool
		minReads  int
		maxReads  int
		wantAhead bool
	}{
		{"private", sstable.Private, false, 8, 9, true},
		{"private backward", sstable.Private, true, 8, 9, true},
		{"scan", sstable.Scan, false, 11, 14, true},
		{"scan backward", sstable.Scan, true, 11, 14, true},
		{"plain", 0, false, blocks, blocks, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &watched{bytesFile: fileOf(b), t: t}
			r, err := Open(f, Env{Name: "x", Comparer: base.Bytewise})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			f.reads = nil
			src := r.NewSource(tc.flags)
			defer src.Close()
			var e base.Chunk
			n := 0
			start, move := src.First, src.Next
			if tc.backward {
				start, move = src.Last, src.Prev
			}
			i, err := start(&e)
			for ok := i >= 0; ok; ok, err = move(&e) {
				n += e.Len()
			}
			if n != 2000 || err != nil {
				t.Fatal(n, err)
			}
			total := 0
			for _, n := range f.reads {
				total += n
				if n > 256<<10 {
					t.Errorf("a read of %d bytes", n)
				}
			}
			if got := len(f.reads); got < tc.minReads || got > tc.maxReads ||
				total > len(b)+len(f.reads)*5100 {
				t.Errorf("%d reads of %d bytes in all, for %d", got, total, len(b))
			}
			if (f.ahead > 0) != tc.wantAhead {
				t.Errorf("%d bytes asked for ahead", f.ahead)
			}
		})
	}
}

// A comparer whose short keys are wrong makes a larger index, not a wrong one.
func TestUnruly(t *testing.T) {
	for name, short := range map[string]func(dst, a, b []byte) []byte{
		"limit":  func(dst, a, b []byte) []byte { return append(dst, b...) },
		"past":   func(dst, a, b []byte) []byte { return append(dst, 'z') },
		"before": func(dst, a, b []byte) []byte { return append(dst, 'a') },
		"empty":  func(dst, a, b []byte) []byte { return dst },
	} {
		c := &base.Comparer{Name: "unruly", Compare: bytes.Compare, EqualIsBytewise: true,
			Separator: short,
			Successor: func(dst, a []byte) []byte { return short(dst, a, a) }}
		if n, err := drain(noiseTable(t, c, 30), Env{Name: "x", Comparer: c}); n != 30 ||
			err != nil {
			t.Errorf("%s: %d entries, %v", name, n, err)
		}
	}
}
