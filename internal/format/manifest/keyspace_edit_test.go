package manifest

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/foreign"
	"github.com/loamdb/loam/internal/format/record"
)

// keyspaceEdits are edits of a MANIFEST with keyspaces: its first one, and one of
// each kind.
func keyspaceEdits() []*Edit {
	first := fullEdit()
	first.FormatVersion, first.MaxKeyspace, first.HasMaxKeyspace = 1, 300, true
	first.SetFirstLog(3)
	create := &Edit{Keyspace: 300, NewKeyspace: &KeyspaceNames{Name: "users", Comparer: "c"}}
	create.SetFirstLog(200)
	create.MergeOperator = "add"
	create.Add(0, table(13, "a", "b"))
	create.Added[0].Meta.Facts = Facts{Format: base.Native, Checksum: 5, HasChecksum: true,
		Leftovers: true, Entries: 300, Deletes: 7,
		RangeDels: 1, Kinds: 1<<15 | 3, MinExpiry: 9, MaxExpiry: 1 << 40}
	change := &Edit{Keyspace: 1<<32 - 1}
	change.SetLogNum(4)
	change.Delete(0, 13)
	change.Clock = 300
	return []*Edit{first, create, change, {Keyspace: 7, DropKeyspace: true}}
}

func TestKeyspaceEditEncoding(t *testing.T) {
	plain := fullEdit().Encode(nil, base.LevelDB)
	native := fullEdit().Encode(nil, base.Native) // with the facts of each table
	if bytes.Equal(native, plain) {
		t.Error("a native edit is no other than LevelDB's")
	}
	for i, want := range []string{
		"e807 01" + "ed07 ac02" + "ec07 03" + hex.EncodeToString(native),
		"e907 ac02" + "ea07 05 7573657273 01 63" + "ec07 c801" + "f107 03 616464" +
			"07 00 0d c865 09 61 010d000000000000 09 62 010d000000000000" +
			"ee07 ff03 01 05 01 ac02 07 01 838002 09 808080808020",
		"f207 ac02" + "e907 ffffffff0f" + "02 04" + "06 00 0d",
		"e907 07" + "eb07",
	} {
		want = strings.ReplaceAll(want, " ", "")
		e := keyspaceEdits()[i]
		got := e.Encode(nil, base.Native)
		if hex.EncodeToString(got) != want {
			t.Errorf("edit %d\ngot  %x\nwant %s", i, got, want)
		}
		var d Edit
		if err := d.Decode(got, base.LevelDB); !errors.Is(err, base.ErrNotADatabase) ||
			!strings.Contains(err.Error(), "native") {
			t.Errorf("edit %d in LevelDB's format: %v", i, err)
		}
		if err := d.Decode(got, base.Native); err != nil {
			t.Fatalf("edit %d: %v", i, err)
		}
		clear(got) // the edit keeps nothing of the record
		if again := d.Encode(nil, base.Native); hex.EncodeToString(again) != want {
			t.Errorf("edit %d decoded and encoded again: %x", i, again)
		}
	}
}

// TestNativeTagsAreNotSkipped: RocksDB skips unknown tags with a certain bit.
func TestNativeTagsAreNotSkipped(t *testing.T) {
	for tag := tagVersion; tag <= tagMerge; tag++ {
		if err := foreign.CheckTag(uint32(tag)); err != nil {
			t.Error(err)
		}
	}
}

// TestNewerVersionIsRefused: whatever follows, the version alone decides.
func TestNewerVersionIsRefused(t *testing.T) {
	first := keyspaceEdits()[0]
	first.FormatVersion = 2
	b := first.Encode(nil, base.Native)
	var e Edit
	for _, b := range [][]byte{b, b[:3], append(b[:3:3], 0xff)} {
		err := e.Decode(b, base.Native)
		if !errors.Is(err, base.ErrNewerFormat) || errors.Is(err, base.ErrCorruption) ||
			!strings.Contains(err.Error(), "version 2") {
			t.Errorf("%x: %v", b, err)
		}
	}
}

func TestKeyspaceEditRefusesDamage(t *testing.T) {
	for i, e := range keyspaceEdits() {
		whole := e.Encode(nil, base.Native)
		for n := range whole {
			var d Edit
			if err := d.Decode(whole[:n], base.Native); err != nil &&
				!errors.Is(err, base.ErrCorruption) {
				t.Errorf("edit %d cut at %d: %v", i, n, err)
			}
		}
	}
	table := &Edit{Added: []AddedFile{{0, table(1, "a", "b")}}}
	bare, whole := hex.EncodeToString(table.Encode(nil, base.LevelDB)), hex.EncodeToString(
		table.Encode(nil, base.Native))
	for _, tc := range []struct{ name, hex, reason string }{
		{"version 0", "e807 00", "tag 1000"},
		{"version twice", "e807 01" + "e807 01", "tag 1000"},
		{"no version", "e807", "tag 1000"},
		{"largest ID twice", "ed07 05" + "ed07 05", "tag 1005"},
		{"largest ID above 32 bits", "ed07 ffffffff1f", "tag 1005"},
		{"default keyspace", "e907 00", "tag 1001"},
		{"keyspace above 32 bits", "e907 ffffffff1f", "tag 1001"},
		{"keyspace twice", "e907 01 e907 02", "tag 1001"},
		{"creation without comparer", "e907 01 ea07 01 61", "tag 1002"},
		{"creation twice", "e907 01 ea07 01 61 01 62 ea07 01 61 01 62", "tag 1002"},
		{"creation of the default", "ea07 01 61 01 62", "default keyspace"},
		{"drop of the default", "eb07", "default keyspace"},
		{"created and dropped", "e907 01 ea07 01 61 01 62 eb07", "that it drops"},
		{"dropped and changed", "e907 01 eb07 " + whole, "that it drops"},
		{"dropped and flushed", "e907 01 eb07 ec07 01", "that it drops"},
		{"default's comparer", "e907 01 01 01 63", "comparer of the default"},
		{"log above 62 bits", "ec07 ffffffffffffffff7f", "tag 1004"},
		{"tag 999", "e707 00", "unknown tag 999"},
		{"facts of no table", "ee07 00", "tag 1006"},
		{"facts twice", bare + "ee07 00" + "ee07 00", "tag 1006"},
		{"facts without mask", bare + "ee07", "tag 1006"},
		{"facts without a field", bare + "ee07 03 01", "tag 1006"},
		{"checksum above 32 bits", bare + "ee07 02 ffffffff1f", "tag 1006"},
		{"leftovers neither true nor false", bare + "ee07 04 02", "tag 1006"},
		{"files below 0", "ef07 00", "tag 1007"},
		{"files below, twice", "ef07 05 ef07 05", "tag 1007"},
		{"files below, above 62 bits", "ef07 ffffffffffffffff7f", "tag 1007"},
		{"durable of no log", "f007 00 05", "tag 1008"},
		{"durable twice", "f007 03 05 f007 03 05", "tag 1008"},
		{"durable without an offset", "f007 03", "tag 1008"},
		{"durable above 62 bits", "f007 03 ffffffffffffffff7f", "tag 1008"},
		{"merge operator without a name", "f107 00", "tag 1009"},
		{"merge operator twice", "f107 01 61 f107 01 61", "tag 1009"},
		{"clock that says nothing", "f207 00", "tag 1010"},
		{"clock twice", "f207 05 f207 05", "tag 1010"},
		{"clock above 39 bits", "f207 808080808010", "tag 1010"},
		{"tag 1011", "f307 00", "unknown tag 1011"},
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(tc.hex, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		var e Edit
		if err := e.Decode(b, base.Native); !errors.Is(err, base.ErrCorruption) ||
			!strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

// randomEdit makes an edit that Decode accepts.
func randomEdit(rng *rand.Rand) *Edit {
	e := &Edit{Keyspace: base.KeyspaceID(rng.Uint64() >> (32 + rng.IntN(32)))}
	maybe := func() bool { return rng.IntN(3) == 0 }
	num := func() uint64 { return rng.Uint64() >> (2 + rng.IntN(62)) }
	word := func() string {
		b := make([]byte, rng.IntN(20))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return string(b)
	}
	key := func() base.InternalKey {
		return base.InternalKey{User: []byte(word()), Trailer: base.Trailer(rng.Uint64()>>8<<8) |
			base.Trailer(base.KindSet)}
	}
	if e.Keyspace != base.DefaultKeyspace && maybe() {
		e.DropKeyspace = true
		return e
	}
	if maybe() {
		e.FormatVersion = 1
	}
	if maybe() {
		e.LevelDBBelow = max(num(), 1)
	}
	if maybe() {
		e.Durable = record.LogEnd{Num: max(num(), 1), End: int64(num())}
	}
	if maybe() {
		e.MaxKeyspace, e.HasMaxKeyspace = base.KeyspaceID(rng.Uint32()), true
	}
	if e.Keyspace != base.DefaultKeyspace && maybe() {
		e.NewKeyspace = &KeyspaceNames{Name: word(), Comparer: word()}
	}
	if e.Keyspace == base.DefaultKeyspace && maybe() {
		e.SetComparer(word())
	}
	if maybe() {
		e.SetFirstLog(num())
	}
	if maybe() {
		e.SetLogNum(num())
	}
	if maybe() {
		e.SetPrevLogNum(num())
	}
	if maybe() {
		e.SetNextFile(num())
	}
	if maybe() {
		e.SetLastSeq(base.SeqNum(rng.Uint64() >> (8 + rng.IntN(56))))
	}
	for maybe() {
		e.CompactPointers = append(e.CompactPointers, CompactPointer{rng.IntN(NumLevels), key()})
	}
	for d := uint64(0); maybe(); d++ { // in the order in which Encode writes them
		e.Delete(3, 100+d)
	}
	for maybe() {
		e.Add(rng.IntN(NumLevels), &FileMeta{Num: num(), Size: rng.Uint64() % (maxTableSize + 1),
			Smallest: key(), Largest: key(), Facts: randomFacts(rng)})
	}
	return e
}

func randomFacts(rng *rand.Rand) (f Facts) {
	if rng.IntN(2) == 0 {
		f.Format = base.Native
	}
	if rng.IntN(2) == 0 {
		f.HasChecksum, f.Checksum = true, rng.Uint32()
	}
	f.Leftovers = rng.IntN(2) == 0
	f.GlobalSeq = base.SeqNum(rng.Uint64() >> (8 + rng.IntN(57)))
	for _, p := range []*uint64{&f.Entries, &f.Deletes, &f.RangeDels, &f.Kinds, &f.MinExpiry,
		&f.MaxExpiry} {
		*p = rng.Uint64() >> rng.IntN(65)
	}
	return f
}

// TestUnknownFacts: a reader passes over fields that it does not know, unless they are
// needed.
func TestUnknownFacts(t *testing.T) {
	bare := (&Edit{Added: []AddedFile{{0, table(1, "a", "b")}}}).Encode(nil, base.LevelDB)
	for _, c := range []struct {
		name   string
		fields []uint64
		newer  bool
	}{
		{"above the known ones", []uint64{1<<factEntries | 1<<numFacts | 1<<(firstNeeded-1), 5, 77,
			78}, false},
		{"needed", []uint64{1<<factEntries | 1<<(firstNeeded+numNeeded), 5, 77}, true},
		{"table format", []uint64{1 << factFormat, 2}, true},
	} {
		b := binary.AppendUvarint(slices.Clone(bare), tagFacts)
		for _, v := range c.fields {
			b = binary.AppendUvarint(b, v)
		}
		b = append(binary.AppendUvarint(b, tagFirstLog), 9)
		var e Edit
		err := e.Decode(b, base.Native)
		if c.newer {
			if !errors.Is(err, base.ErrNewerFormat) || errors.Is(err, base.ErrCorruption) {
				t.Errorf("%s: %v", c.name, err)
			}
		} else if err != nil || e.FirstLog != 9 || e.Added[0].Meta.Facts != (Facts{Entries: 5}) {
			t.Errorf("%s: %v, %+v", c.name, err, e.Added)
		}
	}
}

// TestEditRoundTrip: any edit comes back as it was.
func TestEditRoundTrip(t *testing.T) {
	for seed := range uint64(3000) {
		e := randomEdit(rand.New(rand.NewPCG(seed, 1)))
		var d Edit
		if err := d.Decode(e.Encode(nil, base.Native), base.Native); err != nil {
			t.Fatalf("seed %d: %+v: %v", seed, e, err)
		}
		// An empty key is nil or not.
		for i := range d.CompactPointers {
			d.CompactPointers[i].Key.User = append([]byte{}, d.CompactPointers[i].Key.User...)
		}
		for i, a := range d.Added {
			if a.Meta.String() != e.Added[i].Meta.String() || a.Meta.Size != e.Added[i].Meta.Size ||
				a.Level != e.Added[i].Level || a.Meta.Facts != e.Added[i].Meta.Facts {
				t.Fatalf("seed %d: table %v became %v", seed, e.Added[i].Meta, a.Meta)
			}
		}
		if len(d.Added) != len(e.Added) {
			t.Fatalf("seed %d: %d tables became %d", seed, len(e.Added), len(d.Added))
		}
		d.Added, e.Added = nil, nil
		if !reflect.DeepEqual(&d, e) {
			t.Fatalf("seed %d:\n%+v became\n%+v", seed, e, d)
		}
	}
}
