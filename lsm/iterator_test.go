package lsm

import (
	"bytes"
	"encoding/binary"
	"errors"
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

// Under an order that does not keep the keys of a prefix together behind it, a scan of a prefix
// would be empty, or have other keys: it fails.
func TestPrefixNeedsItsOrder(t *testing.T) {
	for _, c := range []*Comparer{ReverseBytewiseComparer, IndexedDBComparer, {
		Name: "descending", Compare: func(a, b []byte) int { return bytes.Compare(b, a) },
	}} {
		db := mustOpen(t, "db", small(Options{FS: vfs.NewMem(), Comparer: c}))
		defer db.Close()
		for _, prefix := range []string{"a", "\xff", "\x00"} {
			it := db.Iter(&IterOptions{Prefix: []byte(prefix)})
			if it.First() || it.Last() || it.SeekGE([]byte("a")) || it.Next() ||
				!errors.Is(it.Err(), ErrInvalidArgument) {
				t.Errorf("%s: prefix %q: %v", c.Name, prefix, it.Err())
			}
			if err := it.Close(); !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("%s: prefix %q: Close: %v", c.Name, prefix, err)
			}
		}
		key := []byte{0, 0, 0, 0, 50} // in IndexedDB's order a key by its parts
		if err := db.Put(key, nil, NoSync); err != nil {
			t.Fatal(err)
		}
		it := db.Iter(&IterOptions{Prefix: []byte{}})
		if !it.First() || it.Next() {
			t.Errorf("%s: the empty prefix is a restriction: %v", c.Name, it.Err())
		}
		if err := it.Close(); err != nil {
			t.Error(err)
		}
	}
}
