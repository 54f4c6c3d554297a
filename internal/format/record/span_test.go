package record

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestSpans reads parts of records of a chained log by their places alone.
func TestSpans(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 0))
	fs := vfs.NewMem()
	log, err := fs.CreateLog("log", 0)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(log)
	if err := w.Begin(Begin{Num: 7}); err != nil {
		t.Fatal(err)
	}
	type span struct {
		off  int64
		want []byte
	}
	var spans []span
	for range 60 {
		n := []int{1, 100, chainRoom, blockSize, 5 * blockSize, 1<<20 + 5}[rng.IntN(6)]
		rec := make([]byte, n+rng.IntN(50))
		if rng.IntN(3) == 0 { // a record that begins near the end of a block, or at it
			left := blockSize - int(w.Size()%blockSize)
			if pad := left - chainHeaderLen - rng.IntN(2*chainHeaderLen); pad > chainHeaderLen {
				if err := w.Append(make([]byte, pad-chainHeaderLen)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range rec {
			rec[i] = byte(rng.Uint32())
		}
		begin := w.Size()
		if err := w.AppendParts(rec[:len(rec)/3], rec[len(rec)/3:]); err != nil {
			t.Fatal(err)
		}
		first := blockSize - chainHeaderLen - int(begin%blockSize) // bytes in the first chunk
		for _, from := range []int{0, rng.IntN(len(rec)), first, first - 1,
			first + blockSize - chainHeaderLen} {
			if from < 0 || from >= len(rec) {
				continue
			}
			for _, m := range []int{1, len(rec) - from, 1 + rng.IntN(len(rec)-from)} {
				spans = append(spans, span{SpanAt(begin, int64(from)), rec[from : from+m]})
			}
		}
	}
	f, err := fs.Open("log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, s := range spans {
		got, err := AppendSpan([]byte("dst"), f, s.off, int64(len(s.want)))
		if err != nil || !bytes.Equal(got[3:], s.want) || string(got[:3]) != "dst" {
			t.Fatalf("span at %d of %d bytes: %d, %v", s.off, len(s.want), len(got), err)
		}
	}
	if _, err := AppendSpan(nil, f, w.Size()-1, 100); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("beyond the end: %v", err)
	}
	if _, err := AppendSpan(nil, f, blockSize+5, 100); !errors.Is(err, base.ErrCorruption) {
		t.Errorf("in a header: %v", err)
	}
}
