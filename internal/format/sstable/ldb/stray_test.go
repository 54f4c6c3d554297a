package ldb

import (
	"bytes"
	"errors"
	"math"
	"math/rand"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/block"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestStrays compares the search by sums with one that tries every beginning with every end.
func TestStrays(t *testing.T) {
	rnd := rand.New(rand.NewSource(seed.Of(t)))
	met := 0
	for range 200 {
		var b []byte
		for range rnd.Intn(6) {
			part := make([]byte, rnd.Intn(300))
			switch rnd.Intn(3) {
			case 0:
				rnd.Read(part)
			case 1: // zeros
			case 2:
				for i := range part {
					part[i] = byte(rnd.Intn(3))
				}
				for range 1 + rnd.Intn(3) { // each next one ends a block that begins here, too
					trailer := block.Trailer(part, block.Codec(rnd.Intn(5)))
					part = append(part, trailer[:]...)
				}
			}
			b = append(b, part...)
		}
		if rnd.Intn(20) == 0 {
			b = append(make([]byte, walkStray-rnd.Intn(200)), b...)
		}
		n := rnd.Intn(min(len(b), 600) + 1)
		wantAt, wantLen := n, 0
		steps := int64(math.MaxInt64)
		for i := range n {
			if length := blockLen(b[i:min(len(b), i+walkStray)], &steps); length > 0 {
				wantAt, wantLen = i, length
				break
			}
		}
		var x strays
		at, length := x.find(b, n, &steps)
		if at != wantAt || length != wantLen {
			t.Fatalf("%d bytes, %d beginnings: %d bytes at %d, want %d at %d\n%x", len(b), n,
				length, at, wantLen, wantAt, b)
		}
		met += min(1, wantLen)
	}
	if met < 50 {
		t.Errorf("only %d blocks", met)
	}
}

// TestSalvageBehindGarbage finds the blocks of a table behind a megabyte of zeros, of garbage, and
// of bytes that look like the ends of blocks.
func TestSalvageBehindGarbage(t *testing.T) {
	rows := block.RowBuilder{Interval: 1}
	defer rows.Free()
	must(t, rows.Add([]byte("key"), base.MakeTrailer(1, base.KindSet), []byte("value")))
	data, err := rows.Finish()
	must(t, err)
	trailer := block.Trailer(data, block.None)
	data = append(bytes.Clone(data), trailer[:]...)
	garbage := make([]byte, 1<<20)
	rand.New(rand.NewSource(seed.Of(t))).Read(garbage)
	for name, before := range map[string][]byte{"zeros": append([]byte{1}, make([]byte, 1<<20)...),
		"garbage": garbage,
		"codecs":  bytes.Repeat([]byte{1, 0, 0, 1}, 1<<18)} {
		f := openBytes(t, append(bytes.Clone(before), data...))
		found := 0
		must(t, Salvage(f, Env{Comparer: base.Bytewise, MaxDecoded: 1 << 20}, sstable.Salvage{
			Add: func(key []byte, _ base.Trailer, _ base.Codec, value []byte) error {
				if string(key) == "key" && string(value) == "value" {
					found++
				}
				return nil
			},
			Lost: func(sstable.Lost) {}}))
		if found != 1 {
			t.Errorf("%s: %d entries", name, found)
		}
	}
}

// TestSalvageOfTheIndexAlone has a table without footer whose data blocks are all lost: its index,
// which has the form of data, is none.
func TestSalvageOfTheIndexAlone(t *testing.T) {
	lost := make([]byte, 3000)
	rows := block.RowBuilder{Interval: 1}
	defer rows.Free()
	for i := range uint64(3) {
		h := block.AppendHandle(nil, block.Handle{Offset: i * 1000, Size: 1000 - block.TrailerLen})
		must(t, rows.Add([]byte{'a' + byte(i)}, base.MakeTrailer(9, base.KindSet), h))
	}
	index, err := rows.Finish()
	must(t, err)
	trailer := block.Trailer(index, block.None)
	f := openBytes(t, append(append(lost, index...), trailer[:]...))
	told := 0
	must(t, Salvage(f, Env{Comparer: base.Bytewise, MaxDecoded: 1 << 20}, sstable.Salvage{
		Add: func(key []byte, _ base.Trailer, _ base.Codec, value []byte) error {
			t.Errorf("entry %q with the value %x", key, value)
			return nil
		},
		Lost: func(l sstable.Lost) {
			if l.Offset == int64(len(lost)) {
				told++
			}
		}}))
	if told != 1 {
		t.Errorf("the index is reported %d times", told)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// openBytes is a file that has b.
func openBytes(t *testing.T, b []byte) vfs.ReadFile {
	t.Helper()
	mem := vfs.NewMem()
	w, err := mem.Create("table")
	must(t, err)
	_, err = w.Write(b)
	must(t, errors.Join(err, w.Close()))
	f, err := mem.Open("table")
	must(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}
