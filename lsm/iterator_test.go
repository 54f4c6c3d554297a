package lsm

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/loamdb/loam/internal/vfs"
)

func TestBlocksHoldAllEntriesInOrder(t *testing.T) {
	db := mustOpen(t, "db", small(Options{FS: vfs.NewMem()}))
	defer db.Close()
	const n = 5_000
	putKeys(t, db, n)
	it := db.Iter(nil)
	defer it.Close()
	read := func(block []byte, count int, each func(k, v []byte)) {
		t.Helper()
		for range count {
			k := int(binary.LittleEndian.Uint32(block))
			v := int(binary.LittleEndian.Uint32(block[4:]))
			each(block[8:8+k], block[8+k:8+k+v])
			block = block[8+k+v:]
		}
		if len(block) != 0 {
			t.Fatalf("%d bytes left over", len(block))
		}
	}
	i := 0
	it.First()
	for {
		block, count := it.NextBlock(nil, 100, 4096)
		if count == 0 {
			break
		}
		read(block, count, func(k, v []byte) {
			if !bytes.Equal(k, key(i)) || !bytes.Equal(v, value(i)) {
				t.Fatalf("at %d: %q %q", i, k, v)
			}
			i++
		})
	}
	if i != n || it.Err() != nil {
		t.Fatalf("forward: %d, %v", i, it.Err())
	}
	it.Last()
	for {
		block, count := it.PrevBlock(nil, 0, 1000)
		if count == 0 {
			break
		}
		read(block, count, func(k, v []byte) {
			i--
			if !bytes.Equal(k, key(i)) {
				t.Fatalf("at %d: %q", i, k)
			}
		})
	}
	if i != 0 || it.Err() != nil {
		t.Fatalf("backward: %d, %v", i, it.Err())
	}
}
