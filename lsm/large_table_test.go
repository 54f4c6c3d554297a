package lsm

import (
	"bytes"
	"fmt"
	"math/rand"
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
	look := func(when string) {
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
		var err error
		n := 0
		for range db.All(nil, nil, &err) {
			n++
		}
		if n != len(want) || err != nil {
			t.Fatalf("%s: a scan has %d of %d entries, %v", when, n, len(want), err)
		}
	}
	mustFlush(t, db)
	look("flushed")
	mustCompact(t, db)
	look("compacted")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = mustOpen(t, dir, o)
	look("opened again")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
