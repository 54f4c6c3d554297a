package batchrepr

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

func sample() []byte {
	b := Init(nil)
	b = AppendPut(b, []byte("k"), []byte("v"))
	b = AppendDelete(b, []byte("gone"))
	b = AppendPut(b, nil, bytes.Repeat([]byte{0xff}, 300))
	SetSeq(b, 77)
	return b
}

// TestWireForm pins the bytes: they are LevelDB's.
func TestWireForm(t *testing.T) {
	b := Init([]byte("old content"))
	b = AppendPut(b, []byte("foo"), []byte("bar"))
	b = AppendDelete(b, []byte("box"))
	SetSeq(b, 100)
	want := "\x64\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00" + "\x01\x03foo\x03bar" + "\x00\x03box"
	if string(b) != want {
		t.Fatalf("got  %q\nwant %q", b, want)
	}
	if Seq(b) != 100 || Count(b) != 2 {
		t.Fatalf("seq %d count %d", Seq(b), Count(b))
	}
}

func TestIter(t *testing.T) {
	b := sample()
	b, ok := AppendBatch(b, b)
	if !ok || Count(b) != 6 {
		t.Fatalf("append: %v, count %d", ok, Count(b))
	}
	if err := Validate(b); err != nil {
		t.Fatal(err)
	}
	again := Init(nil)
	it := Read(b)
	for {
		kind, k, v, ok := it.Next()
		if !ok {
			break
		}
		if kind == base.KindSet {
			again = AppendPut(again, k, v)
		} else {
			if v != nil {
				t.Errorf("deletion has value %q", v)
			}
			again = AppendDelete(again, k)
		}
	}
	SetSeq(again, 77)
	if it.Err() != nil || !bytes.Equal(b, again) {
		t.Fatalf("copy differs: %v", it.Err())
	}
}

func TestAppendBatchOverflow(t *testing.T) {
	a, b := sample(), sample()
	SetCount(a, 1<<32-2)
	got, ok := AppendBatch(a, b)
	if ok || !bytes.Equal(got, a) {
		t.Fatal("count overflow accepted")
	}
}

func TestValidateRefuses(t *testing.T) {
	edit := func(f func(b []byte) []byte) []byte { return f(sample()) }
	for _, c := range []struct {
		name, reason string
		b            []byte
	}{
		{"empty", "too short for a header", nil},
		{"half a header", "too short for a header", make([]byte, HeaderLen-1)},
		{"count low", "more entries than the 2", edit(func(b []byte) []byte { SetCount(b, 2); return b })},
		{"count high", "counts 4 entries, found 3", edit(func(b []byte) []byte { SetCount(b, 4); return b })},
		{"count max", "counts 4294967295", edit(func(b []byte) []byte { SetCount(b, 1<<32-1); return b })},
		{"unknown kind", "unknown kind 2", edit(func(b []byte) []byte { b[HeaderLen] = 2; return b })},
		{"left over", "unknown kind 9", edit(func(b []byte) []byte { return append(b, 9) })},
		{"left over deletion", "key length", edit(func(b []byte) []byte { return append(b, 0) })},
		{"key beyond the end", "key length", edit(func(b []byte) []byte { b[HeaderLen+1] = 0x7f; b = b[:20]; return b })},
		{"key length of six bytes", "key length", append(make([]byte, HeaderLen), 1, 0xff, 0xff, 0xff, 0xff, 0xff, 1)},
		{"key length over 32 bits", "key length", append(make([]byte, HeaderLen), 1, 0xff, 0xff, 0xff, 0xff, 0x7f)},
		{"value beyond the end", "value length", edit(func(b []byte) []byte { return b[:len(b)-1] })},
		{"no value", "value length", append(make([]byte, HeaderLen), 1, 1, 'k')},
		{"sequence over 56 bits", "exceeds 56 bits", edit(func(b []byte) []byte { SetSeq(b, base.MaxSeqNum+1); return b })},
		{"last sequence over 56 bits", "exceeds 56 bits", edit(func(b []byte) []byte { SetSeq(b, base.MaxSeqNum-2); return b })},
	} {
		err := Validate(c.b)
		var co *base.Corruption
		if !errors.As(err, &co) || co.Offset < 0 || co.Offset > int64(len(c.b)) || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestDamage changes each byte to each value: a batch that validates reads to
// its end with as many entries as its header says.
func TestDamage(t *testing.T) {
	good := sample()
	for i := range good {
		for v := range 256 {
			b := bytes.Clone(good)
			b[i] = byte(v)
			check(t, b)
		}
		check(t, good[:i])
	}
}

func check(t *testing.T, b []byte) {
	t.Helper()
	err := Validate(b)
	if err != nil && !errors.Is(err, base.ErrCorruption) {
		t.Fatalf("%x: not a corruption: %v", b, err)
	}
	it := Read(b)
	n, size := 0, 0
	for {
		_, k, v, ok := it.Next()
		if !ok {
			break
		}
		n, size = n+1, size+len(k)+len(v)
	}
	if size > len(b) {
		t.Fatalf("%x: entries of %d bytes", b, size)
	}
	if err == nil && (it.Err() != nil || uint32(n) != Count(b)) {
		t.Fatalf("%x: valid, but read %d entries, %v", b, n, it.Err())
	}
}

func FuzzValidate(f *testing.F) {
	f.Add(sample())
	f.Add(Init(nil))
	f.Add(binary.AppendUvarint(append(make([]byte, HeaderLen), 1), 1<<40))
	f.Fuzz(func(t *testing.T, b []byte) { check(t, b) })
}

func TestAllocs(t *testing.T) {
	b := sample()
	if n := testing.AllocsPerRun(100, func() {
		if Validate(b) != nil {
			t.Error("invalid")
		}
		b = Init(b)
		b = AppendPut(b, []byte("k"), []byte("v"))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkIter(b *testing.B) {
	batch := Init(nil)
	for range 1000 {
		batch = AppendPut(batch, make([]byte, 16), make([]byte, 100))
	}
	for b.Loop() {
		it := Read(batch)
		for {
			if _, _, _, ok := it.Next(); !ok {
				break
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/entry")
}
