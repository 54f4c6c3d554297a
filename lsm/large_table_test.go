package lsm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"testing"
)

// Tables and blocks that are longer than MaxDecodedBlock are read, as long as
// their bytes are on disk: only what a compressed block declares is bounded.
func TestTablesBeyondMaxDecodedBlock(t *testing.T) {
	dir := t.TempDir()
	o := &Options{MaxDecodedBlock: 1 << 20, WriteBufferSize: 16 << 20, MaxOpenFiles: 4}
	db := mustOpen(t, dir, o)
	rng := rand.New(rand.NewSource(1))
	want := map[string][]byte{"one value": make([]byte, 3<<20)}
	rng.Read(want["one value"])
	for i := range 500 {
		v := make([]byte, 10<<10)
		rng.Read(v)
		want[fmt.Sprintf("k%04d", i)] = v
	}
	for k, v := range want {
		if err := db.Put([]byte(k), v, NoSync); err != nil {
			t.Fatal(err)
		}
	}
	look := func(db *DB, when string) {
		t.Helper()
		var longest uint64
		state := db.engine.Default().Tree.Acquire()
		defer state.Unref()
		for _, level := range state.Version.Levels {
			for _, m := range level.Files {
				longest = max(longest, m.Size)
			}
		}
		if longest <= 2<<20 {
			t.Fatalf("%s: the longest table has %d bytes: this test wants longer ones", when,
				longest)
		}
		for k, v := range want {
			if got, err := db.Get([]byte(k), nil); err != nil || !bytes.Equal(got, v) {
				t.Fatalf("%s: %q: %d bytes, %v; want %d", when, k, len(got), err, len(v))
			}
		}
		if n := scanned(t, db); n != len(want) {
			t.Fatalf("%s: a scan has %d of %d entries", when, n, len(want))
		}
	}
	mustFlush(t, db)
	look(db, "flushed")
	lookCompacted(t, db, dir, o, look)
}

// TestCompressibleBeyondMaxDecodedBlock writes what is small when it is compressed, and larger than
// MaxDecodedBlock otherwise: single values, blocks of many, and keys that share nearly all.
func TestCompressibleBeyondMaxDecodedBlock(t *testing.T) {
	for _, f := range []Format{FormatNative, FormatLevelDB} {
		for _, c := range []Compression{SnappyCompression, ZstdCompression} {
			dir := t.TempDir()
			o := &Options{MaxDecodedBlock: 1 << 20, BlockSize: 4 << 20, WriteBufferSize: 32 << 20,
				Format: f, Compression: c}
			db := mustOpen(t, dir, o)
			want := map[string]string{"a": strings.Repeat("abcd", 1<<19), "b": "", "c": "c"}
			lengths := []int{500, 900, 511 << 10, 512 << 10, 513 << 10, 1020 << 10, 1 << 20}
			for i, n := range lengths {
				want[fmt.Sprintf("d%d", i)] = strings.Repeat("d", n)
			}
			for i := range 400 {
				want[fmt.Sprintf("e%04d", i)] = strings.Repeat(fmt.Sprint(i%10), 10<<10)
				want[fmt.Sprintf("f%04d", i)] = strings.Repeat("abc", 100*(1+i%3))
				want[strings.Repeat("k", 20<<10)+fmt.Sprintf("%04d", i)] = "v"
			}
			for k, v := range want {
				if err := db.Put([]byte(k), []byte(v), NoSync); err != nil {
					t.Fatal(err)
				}
			}
			look := func(db *DB, when string) {
				t.Helper()
				for k, v := range want {
					if got, err := db.Get([]byte(k), nil); err != nil || string(got) != v {
						t.Fatalf("%v, %v, %s: %.20q: %d bytes, %v; want %d", f, c, when, k,
							len(got), err, len(v))
					}
				}
				if n := scanned(t, db); n != len(want) {
					t.Fatalf("%v, %v, %s: a scan has %d of %d entries", f, c, when, n, len(want))
				}
			}
			mustFlush(t, db)
			look(db, "flushed")
			if err := db.Put([]byte("c"), []byte("c"), NoSync); err != nil {
				t.Fatal(err)
			}
			lookCompacted(t, db, dir, o, look)
		}
	}
}

// TestIndexesOfLongKeys writes tables whose separators take more memory than MaxDecodedBlock,
// although an index stores once what they share: an index that is whole, and one in parts, of which
// the index takes as much.
func TestIndexesOfLongKeys(t *testing.T) {
	for _, f := range []Format{FormatNative, FormatLevelDB} {
		for _, n := range []int{60, 200} {
			testIndexOfLongKeys(t, f, n)
		}
	}
}

func testIndexOfLongKeys(t *testing.T, f Format, n int) {
	dir := t.TempDir()
	o := &Options{Format: f, MaxDecodedBlock: 1 << 20, WriteBufferSize: 64 << 20}
	db := mustOpen(t, dir, o)
	for i := range n {
		if err := db.Put(longKey(i), fmt.Append(nil, i), NoSync); err != nil {
			t.Fatal(err)
		}
	}
	look := func(db *DB, when string) {
		t.Helper()
		for i := range n {
			if got, err := db.Get(longKey(i), nil); err != nil || string(got) != fmt.Sprint(i) {
				t.Fatalf("%v, %d keys, %s: key %d: %q, %v", f, n, when, i, got, err)
			}
		}
		if got := scanned(t, db); got != n {
			t.Fatalf("%v, %s: a scan has %d of %d entries", f, when, got, n)
		}
	}
	mustFlush(t, db)
	look(db, "flushed")
	lookCompacted(t, db, dir, o, look)
}

// TestEvictedIndexesOfLongKeys reads indexes that are one part each, since memory is short.
func TestEvictedIndexesOfLongKeys(t *testing.T) {
	r := NewResources(ResourcesOptions{Memory: 24 << 20})
	defer r.Close()
	db := mustOpen(t, t.TempDir(), &Options{Resources: r, MaxDecodedBlock: 1 << 20,
		DisableCompaction: true})
	defer db.Close()
	const n, tables = 240, 4
	for k := range tables { // which overlap: so all but one are in level 0, where indexes are whole
		for i := k; i < n; i += tables {
			if err := db.Put(longKey(i), fmt.Append(nil, i), NoSync); err != nil {
				t.Fatal(err)
			}
		}
		mustFlush(t, db)
	}
	for i := range n {
		if got, err := db.Get(longKey(i), nil); err != nil || string(got) != fmt.Sprint(i) {
			t.Fatalf("key %d: %q, %v", i, got, err)
		}
	}
	if got := scanned(t, db); got != n {
		t.Fatalf("a scan has %d of %d entries", got, n)
	}
}

// lookCompacted compacts a database and opens it again; look is called behind each. The database
// is closed at the end.
func lookCompacted(t *testing.T, db *DB, dir string, o *Options, look func(*DB, string)) {
	t.Helper()
	mustCompact(t, db)
	look(db, "compacted")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = mustOpen(t, dir, o)
	look(db, "opened again")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// longKey is a key that shares 64 KiB with all others.
func longKey(i int) []byte { return fmt.Appendf(bytes.Repeat([]byte("k"), 64<<10), "%06d", i) }

// scanned counts the entries of a database.
func scanned(t *testing.T, db *DB) (n int) {
	t.Helper()
	var err error
	for range db.All(nil, nil, &err) {
		n++
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestManyRangeDeletesOfShortKeys writes range tombstones whose columns in a View take several
// times their bytes, and more than MaxDecodedBlock.
func TestManyRangeDeletesOfShortKeys(t *testing.T) {
	needsNative(t)
	dir := t.TempDir()
	o := &Options{MaxDecodedBlock: 1 << 20, DisableCompaction: true}
	db := mustOpen(t, dir, o)
	key := func(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }
	const n = 60_000
	var puts, deletes Batch
	for i := range n {
		puts.Put(key(2*i), nil)
		puts.Put(key(2*i+1), nil)
		deletes.DeleteRange(key(2*i), key(2*i+1))
	}
	for _, b := range []*Batch{&puts, &deletes} {
		if err := db.Write(b, NoSync); err != nil {
			t.Fatal(err)
		}
		mustFlush(t, db)
	}
	if got := scanned(t, db); got != n {
		t.Fatalf("a scan has %d of %d entries", got, n)
	}
	if _, err := db.Get(key(2*n-2), nil); !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
