package lsm

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// emptyBetween has the empty key between others, where m is.
func emptyBetween() *Comparer {
	at := func(k []byte) []byte {
		if len(k) == 0 {
			return []byte("m")
		}
		return k
	}
	return &Comparer{Name: "test.middle", EqualIsBytewise: true,
		Compare: func(a, b []byte) int { return bytes.Compare(at(a), at(b)) }}
}

// TestTableUpToTheEmptyKey reads a table that ends with the empty key, which a comparer has between
// others. Its range tombstones hide older keys, also after an iterator was behind the table.
func TestTableUpToTheEmptyKey(t *testing.T) {
	needsNative(t)
	db := mustOpen(t, t.TempDir(), &Options{Comparer: emptyBetween(), DisableCompaction: true})
	defer db.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range []string{"b", "c", "p", "q"} {
		must(db.Put([]byte(k), nil, NoSync))
	}
	mustFlush(t, db)
	must(db.DeleteRange([]byte("a"), []byte("d"), NoSync))
	must(db.Put(nil, nil, NoSync))
	mustFlush(t, db)
	it := db.Iter(nil)
	defer it.Close()
	for _, behind := range []string{"o", "p"} {
		it.SeekGE([]byte(behind))
		var forward, backward []string
		for ok := it.First(); ok; ok = it.Next() {
			forward = append(forward, string(it.Key()))
		}
		for ok := it.Last(); ok; ok = it.Prev() {
			backward = append(backward, string(it.Key()))
		}
		must(it.Err())
		if fmt.Sprintf("%q, %q", forward, backward) != `["" "p" "q"], ["q" "p" ""]` {
			t.Errorf("behind a seek to %s: %q, and back %q", behind, forward, backward)
		}
	}
}

// TestTableFromTheEmptyKeyOn compacts operands of the empty key, which a comparer has between
// others, where a table ends before it and a range tombstone spans it.
func TestTableFromTheEmptyKeyOn(t *testing.T) {
	needsNative(t)
	middle := emptyBetween()
	for n := 15; n < 50; n++ { // in one of these rounds the table is full there
		db := mustOpen(t, "db", &Options{FS: vfs.NewMem(), Comparer: middle,
			MergeOperator: MergeOperatorNamed("append"), MaxFileSize: 64 << 10,
			WriteBufferSize: 1 << 20, CacheSize: 1 << 20, Compression: NoCompression,
			DisableCompaction: true})
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%d keys: %v", n, err)
			}
		}
		must(db.Put([]byte("d"), []byte("old"), NoSync))
		must(db.Put([]byte("x"), []byte("old"), NoSync))
		must(db.Put(nil, []byte("a"), NoSync))
		must(db.CompactRange(nil, nil))
		s := db.Snapshot()
		must(db.DeleteRange([]byte("c"), []byte("y"), NoSync))
		for i := range n {
			must(db.Put(fmt.Appendf(nil, "l%03d", i), make([]byte, 2000), NoSync))
		}
		must(db.Merge(nil, []byte("operand"), NoSync))
		must(db.Put([]byte("n"), []byte("n"), NoSync))
		must(db.CompactRange(nil, nil))
		for key, want := range map[string]string{"": "operand", "n": "n"} {
			if got, err := db.Get([]byte(key), nil); err != nil || string(got) != want {
				t.Errorf("%d keys: %q is %q, %v", n, key, got, err)
			}
		}
		if got := scanned(t, db); got != n+2 {
			t.Errorf("a scan has %d of %d entries", got, n+2)
		}
		s.Close()
		must(db.Close())
	}
}
