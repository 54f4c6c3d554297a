package batchrepr

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

func sample() []byte {
	b := Init(nil)
	b = AppendEntry(b, base.DefaultKeyspace, base.KindSet, []byte("k"), []byte("v"))
	b = AppendEntry(b, base.DefaultKeyspace, base.KindDelete, []byte("gone"), nil)
	b = AppendEntry(b, base.DefaultKeyspace, base.KindSet, nil, bytes.Repeat([]byte{0xff}, 300))
	SetSeq(b, 77)
	return b
}

// TestWireForm pins the bytes: they are LevelDB's.
func TestWireForm(t *testing.T) {
	b := Init([]byte("old content"))
	b = AppendEntry(b, base.DefaultKeyspace, base.KindSet, []byte("foo"), []byte("bar"))
	b = AppendEntry(b, base.DefaultKeyspace, base.KindDelete, []byte("box"), nil)
	SetSeq(b, 100)
	want := "\x64\x00\x00\x00\x00\x00\x00\x00" + "\x02\x00\x00\x00" + "\x01\x03foo\x03bar" +
		"\x00\x03box"
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
	if err := Validate(b, nil); err != nil {
		t.Fatal(err)
	}
	again := Init(nil)
	it := Read(b)
	for {
		keyspace, kind, k, v, ok := it.Next()
		if !ok {
			break
		}
		if keyspace != base.DefaultKeyspace {
			t.Errorf("keyspace %d", keyspace)
		}
		if kind == base.KindSet {
			again = AppendEntry(again, base.DefaultKeyspace, base.KindSet, k, v)
		} else {
			if v != nil {
				t.Errorf("deletion has value %q", v)
			}
			again = AppendEntry(again, base.DefaultKeyspace, base.KindDelete, k, nil)
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

// TestForeignKinds has each kind that LevelDB's format does not: the batch is
// refused.
func TestForeignKinds(t *testing.T) {
	for kind := range 256 {
		b := sample()
		b[HeaderLen] = byte(kind)
		err := Validate(b, nil)
		switch base.Kind(kind) {
		case base.KindSet:
			if err != nil {
				t.Error(err)
			}
		case base.KindDelete: // its value is no entry
			if !errors.Is(err, base.ErrCorruption) {
				t.Error(err)
			}
		default:
			// With the bit named set, what follows is read as a keyspace.
			reason := fmt.Sprintf("unknown kind %d", kind)
			if !errors.Is(err, base.ErrCorruption) || kind < named &&
				!strings.Contains(err.Error(), reason) {
				t.Errorf("kind %d: %v", kind, err)
			}
		}
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
		{"count low", "more entries than the 2", edit(func(b []byte) []byte {
			SetCount(b, 2)
			return b
		})},
		{"count high", "counts 4 entries, found 3", edit(func(b []byte) []byte {
			SetCount(b, 4)
			return b
		})},
		{"count max", "counts 4294967295", edit(func(b []byte) []byte {
			SetCount(b, 1<<32-1)
			return b
		})},
		{"keyspace", "unknown kind 129", AppendEntry(Init(nil), 1, base.KindSet, []byte("k"),
			[]byte("v"))},
		{"keyspace, deletion", "unknown kind 128", AppendEntry(sample(), 1<<32-1, base.KindDelete,
			[]byte("k"), nil)},
		{"unknown kind", "unknown kind 2", edit(func(b []byte) []byte {
			b[HeaderLen] = 2
			return b
		})},
		{"left over", "unknown kind 9", edit(func(b []byte) []byte { return append(b, 9) })},
		{"left over deletion", "key length", edit(func(b []byte) []byte { return append(b, 0) })},
		{"key beyond the end", "key length", edit(func(b []byte) []byte {
			b[HeaderLen+1] = 0x7f
			b = b[:20]
			return b
		})},
		{"key length of six bytes", "key length", append(make([]byte, HeaderLen), 1, 0xff, 0xff,
			0xff, 0xff, 0xff, 1)},
		{"key length over 32 bits", "key length", append(make([]byte, HeaderLen), 1, 0xff, 0xff,
			0xff, 0xff, 0x7f)},
		{"value beyond the end", "value length", edit(func(b []byte) []byte {
			return b[:len(b)-1]
		})},
		{"no value", "value length", append(make([]byte, HeaderLen), 1, 1, 'k')},
		{"sequence over 56 bits", "exceeds 56 bits", edit(func(b []byte) []byte {
			SetSeq(b, base.MaxSeqNum+1)
			return b
		})},
		{"last sequence over 56 bits", "exceeds 56 bits", edit(func(b []byte) []byte {
			SetSeq(b, base.MaxSeqNum-2)
			return b
		})},
	} {
		err := Validate(c.b, nil)
		var co *base.Corruption
		if !errors.As(err, &co) || co.Offset < 0 || co.Offset > int64(len(c.b)) ||
			!strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// all knows every keyspace.
func all(base.KeyspaceID) bool { return true }

// several is a batch over several keyspaces.
func several() []byte {
	b := AppendEntry(Init(nil), 3, base.KindSet, []byte("k"), []byte("v"))
	b = AppendEntry(b, base.DefaultKeyspace, base.KindSet, []byte("k"), nil)
	b = AppendEntry(b, 300, base.KindDelete, []byte("gone"), nil)
	b = AppendEntry(b, 1<<32-1, base.KindDelete, nil, nil)
	SetSeq(b, 9)
	return b
}

func TestKeyspaces(t *testing.T) {
	b := several()
	want := "\x09\x00\x00\x00\x00\x00\x00\x00" + "\x04\x00\x00\x00" +
		"\x81\x03\x01k\x01v" + "\x01\x01k\x00" + "\x80\xac\x02\x04gone" +
		"\x80\xff\xff\xff\xff\x0f\x00"
	if string(b) != want {
		t.Fatalf("got  %q\nwant %q", b, want)
	}
	var got []string
	it := Read(b)
	for {
		keyspace, kind, k, v, ok := it.Next()
		if !ok {
			break
		}
		got = append(got, fmt.Sprintf("%d %d %s=%s", keyspace, kind, k, v))
	}
	if s := strings.Join(got, ", "); it.Err() != nil || s != "3 1 k=v, 0 1 k=, 300 0 gone=, "+
		"4294967295 0 =" {
		t.Errorf("read %s, %v", s, it.Err())
	}
	if err := Validate(b, all); err != nil {
		t.Error(err)
	}
	err := Validate(b, func(id base.KeyspaceID) bool { return id != 300 })
	var c *base.Corruption
	if !errors.As(err, &c) || c.Offset != int64(strings.Index(want, "\x80\xac")) ||
		!strings.Contains(err.Error(), "unknown keyspace 300") {
		t.Errorf("one of them is unknown: %v", err)
	}
}

// TestDraft reads a batch before it is written, when entries without a keyspace are on any and
// the default one may be named. A log has no such entry.
func TestDraft(t *testing.T) {
	b := AppendNamed(Init(nil), base.DefaultKeyspace, base.KindSet, []byte("k"), []byte("v"))
	b = AppendEntry(b, base.DefaultKeyspace, base.KindDelete, []byte("k"), nil)
	b = AppendNamed(b, 300, base.KindDelete, []byte("k"), nil)
	want := "\x81\x00\x01k\x01v" + "\x00\x01k" + "\x80\xac\x02\x01k"
	if string(b[HeaderLen:]) != want || Count(b) != 3 {
		t.Fatalf("got %q", b)
	}
	has, err := ValidateDraft(b, all)
	if err != nil || !has.Unnamed || !has.NamesDefault || has.Kinds != 1<<base.KindSet|
		1<<base.KindDelete {
		t.Errorf("%+v, %v", has, err)
	}
	for _, named := range []base.KeyspaceID{base.DefaultKeyspace, 300} {
		alone := AppendNamed(Init(nil), named, base.KindSet, []byte("k"), nil)
		has, err := ValidateDraft(alone, all)
		if err != nil || has.Unnamed || has.NamesDefault != (named == base.DefaultKeyspace) {
			t.Errorf("%d: %+v, %v", named, has, err)
		}
		if _, err := ValidateDraft(alone, nil); (err == nil) != (named == base.DefaultKeyspace) {
			t.Errorf("%d in LevelDB's format: %v", named, err)
		}
	}
	if err := Validate(b, all); !errors.Is(err, base.ErrCorruption) {
		t.Errorf("in a log: %v", err)
	}
	long := append(Init(nil), "\x81\x80\x00\x01k\x01v"...)
	SetCount(long, 1)
	if _, err := ValidateDraft(long, all); !errors.Is(err, base.ErrCorruption) {
		t.Errorf("the default keyspace in two bytes: %v", err)
	}
	for home, want := range map[base.KeyspaceID]string{
		base.DefaultKeyspace: "\x01\x01k\x01v" + "\x00\x01k" + "\x80\xac\x02\x01k",
		5:                    "\x01\x01k\x01v" + "\x80\x05\x01k" + "\x80\xac\x02\x01k",
	} {
		got, ok := AppendDraft(Init(nil), b, home, AppendEntry)
		if !ok || string(got[HeaderLen:]) != want || Count(got) != 3 {
			t.Errorf("written to %d: %q", home, got)
		}
		if err := Validate(got, all); err != nil {
			t.Error(err)
		}
	}
	full := Init(nil)
	SetCount(full, 1<<32-3)
	if got, ok := AppendDraft(full, b, 5, AppendEntry); ok || len(got) != HeaderLen {
		t.Error("count overflow accepted")
	}
}

// TestReservedKinds has entries of the kinds that the native format reserves: they are
// read to their ends, refused by name if a batch may not have them, and damage in
// LevelDB's format.
func TestReservedKinds(t *testing.T) {
	for _, kind := range []base.Kind{base.KindMerge, base.KindRangeDelete, base.KindValueHandle,
		base.KindSetExpiring} {
		for _, keyspace := range []base.KeyspaceID{base.DefaultKeyspace, 5} {
			b := AppendEntry(Init(nil), keyspace, kind, []byte("k"), []byte("value"))
			it := Read(b)
			if id, got, k, v, ok := it.Next(); !ok || id != keyspace || got != kind ||
				string(k) != "k" || string(v) != "value" {
				t.Errorf("%v: read %d %v %s=%s, %v", kind, id, got, k, v, it.Err())
			}
			switch err := Validate(b, all); {
			case kind.InBatch():
				if err != nil {
					t.Errorf("%v: %v", kind, err)
				}
			case !errors.Is(err, base.ErrNewerFormat) ||
				!strings.Contains(err.Error(), kind.String()):
				t.Errorf("%v: %v", kind, err)
			}
			if err := Validate(b, nil); !errors.Is(err, base.ErrCorruption) {
				t.Errorf("%v in LevelDB's format: %v", kind, err)
			}
		}
	}
}

func TestDeadlineIsThere(t *testing.T) {
	b := AppendEntry(Init(nil), 5, base.KindSetExpiring, []byte("k"), []byte("soon"))
	if err := Validate(b, all); !errors.Is(err, base.ErrCorruption) ||
		!strings.Contains(err.Error(), "says not when") {
		t.Error(err)
	}
}

func TestValidateRefusesKeyspaces(t *testing.T) {
	entry := func(s string) []byte {
		b := append(Init(nil), s...)
		SetCount(b, 1)
		return b
	}
	for _, c := range []struct{ name, reason, entry string }{
		{"the default, named", "keyspace", "\x81\x00\x01k\x01v"},
		{"the default, named at length", "keyspace", "\x81\x80\x00\x01k\x01v"},
		{"no keyspace", "keyspace", "\x80"},
		{"keyspace cut off", "keyspace", "\x80\x80"},
		{"keyspace over 32 bits", "keyspace", "\x80\xff\xff\xff\xff\x7f\x00"},
		{"unknown kind", "unknown kind 131", "\x83\x01\x01k\x01v"},
		{"no key", "key length", "\x80\x01"},
		{"no value", "value length", "\x81\x01\x01k"},
	} {
		if err := Validate(entry(c.entry), all); !errors.Is(err, base.ErrCorruption) ||
			!strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestDamage changes each byte to each value: a batch that validates reads to
// its end with as many entries as its header says.
func TestDamage(t *testing.T) {
	good := append(sample(), several()[HeaderLen:]...)
	SetCount(good, Count(good)+Count(several()))
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
	err := Validate(b, all)
	newer := errors.Is(err, base.ErrNewerFormat)
	if err != nil && !errors.Is(err, base.ErrCorruption) && !newer {
		t.Fatalf("%x: not a corruption: %v", b, err)
	}
	it := Read(b)
	n, size, native := 0, 0, false
	for {
		keyspace, kind, k, v, ok := it.Next()
		if !ok {
			break
		}
		n, size = n+1, size+len(k)+len(v)
		native = native || keyspace != base.DefaultKeyspace || !kind.InLevelDB()
	}
	if plain := Validate(b, nil); (plain == nil) != (err == nil && !native) && !newer {
		t.Fatalf("%x: only for the native format: %v, valid: %v, valid in LevelDB's format: %v", b,
			native, err, plain)
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
	f.Add(several())
	f.Add(Init(nil))
	f.Add(binary.AppendUvarint(append(make([]byte, HeaderLen), 1), 1<<40))
	f.Fuzz(func(t *testing.T, b []byte) { check(t, b) })
}

func TestAllocs(t *testing.T) {
	b := sample()
	if n := testing.AllocsPerRun(100, func() {
		if Validate(b, nil) != nil {
			t.Error("invalid")
		}
		b = Init(b)
		b = AppendEntry(b, base.DefaultKeyspace, base.KindSet, []byte("k"), []byte("v"))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkIter(b *testing.B) {
	batch := Init(nil)
	for range 1000 {
		batch = AppendEntry(batch, base.DefaultKeyspace, base.KindSet, make([]byte, 16),
			make([]byte, 100))
	}
	for b.Loop() {
		it := Read(batch)
		for {
			if _, _, _, _, ok := it.Next(); !ok {
				break
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/entry")
}
