package lsm

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

func TestBlocksHoldAllEntriesInOrder(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	defer db.Close()
	const n = 5_000
	putKeys(t, db, n)
	it := db.Iter(nil)
	defer it.Close()
	// walk reads blocks until one is empty.
	walk := func(block func() ([]byte, int), each func(k, v []byte)) {
		t.Helper()
		for b, count := block(); count > 0; b, count = block() {
			for range count {
				k := int(binary.LittleEndian.Uint32(b))
				v := int(binary.LittleEndian.Uint32(b[4:]))
				each(b[8:8+k], b[8+k:8+k+v])
				b = b[8+k+v:]
			}
			if len(b) != 0 {
				t.Fatalf("%d bytes left over", len(b))
			}
		}
	}
	i := 0
	it.First()
	walk(func() ([]byte, int) { return it.NextBlock(nil, 100, 4096) }, func(k, v []byte) {
		if !bytes.Equal(k, key(i)) || !bytes.Equal(v, value(i)) {
			t.Fatalf("at %d: %q %q", i, k, v)
		}
		i++
	})
	if i != n || it.Err() != nil {
		t.Fatalf("forward: %d, %v", i, it.Err())
	}
	it.Last()
	walk(func() ([]byte, int) { return it.PrevBlock(nil, 0, 1000) }, func(k, v []byte) {
		i--
		if !bytes.Equal(k, key(i)) || !bytes.Equal(v, value(i)) {
			t.Fatalf("at %d: %q %q", i, k, v)
		}
	})
	if i != 0 || it.Err() != nil {
		t.Fatalf("backward: %d, %v", i, it.Err())
	}
}
