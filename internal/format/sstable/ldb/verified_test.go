package ldb

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/os/vfs"
)

// openFile opens a table in a file of the operating system, which is mapped where that works.
func openFile(t *testing.T, b []byte) (*Reader, error) {
	name := filepath.Join(t.TempDir(), "000007.ldb")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := vfs.OS{MapAnywhere: true}.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	r, err := Open(f, Env{Name: filepath.Base(name), Comparer: base.Bytewise})
	if err == nil {
		t.Cleanup(func() { r.Close() })
	}
	return r, err
}

// TestDamagedIndexAfterReadsInPlace: a table is opened with the scratch of a read in place, which
// verifies no checksum. Those of the index and the metaindex are verified all the same.
func TestDamagedIndexAfterReadsInPlace(t *testing.T) {
	const n = 2000
	whole := coldTable(t, n)
	r, err := openFile(t, whole)
	if err != nil {
		t.Fatal(err)
	}
	meta, index, err := parseFooter(whole[len(whole)-FooterLen:])
	if err != nil {
		t.Fatal(err)
	}
	readInPlace := func() {
		var dst []byte
		for range 3 { // in place from the second time on
			l := base.MakeLookup(base.Bytewise, coldKey(nil, 1), base.MaxSeqNum)
			if _, _, found, err := r.Get(l, 0, dst[:0]); !found || err != nil {
				t.Fatal(found, err)
			}
		}
	}
	for name, h := range map[string]block.Handle{"index": index, "metaindex": meta} {
		for off := h.Offset; off < h.Offset+h.Size+block.TrailerLen; off++ {
			b := append([]byte(nil), whole...)
			b[off] ^= 1
			readInPlace()
			if _, err := openFile(t, b); !errors.Is(err, base.ErrCorruption) {
				t.Fatalf("byte %d of the %s is changed: %v", off-h.Offset, name, err)
			}
		}
	}
}
