package manifest

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// keyspaceEdits are edits of a MANIFEST with keyspaces: its first one, and one of
// each kind.
func keyspaceEdits() []*Edit {
	first := fullEdit()
	first.MaxKeyspace, first.HasMaxKeyspace = 300, true
	first.SetFirstLog(3)
	create := &Edit{Keyspace: 300, NewKeyspace: &KeyspaceNames{Name: "users", Comparer: "c"}}
	create.SetFirstLog(200)
	create.Add(0, table(13, "a", "b"))
	change := &Edit{Keyspace: 1<<32 - 1}
	change.SetLogNum(4)
	change.Delete(0, 13)
	return []*Edit{first, create, change, {Keyspace: 7, DropKeyspace: true}}
}

func TestKeyspaceEditEncoding(t *testing.T) {
	plain := fullEdit().Encode(nil)
	for i, want := range []string{
		"e807 ffffffffffffffffffff01 ac02" + "ec07 03" + hex.EncodeToString(plain),
		"e907 ac02" + "ea07 05 7573657273 01 63" + "ec07 c801" + "07 00 0d c865 09 61 010d000000000000 09 62 010d000000000000",
		"e907 ffffffff0f" + "02 04" + "06 00 0d",
		"e907 07" + "eb07",
	} {
		want = strings.ReplaceAll(want, " ", "")
		e := keyspaceEdits()[i]
		got := e.Encode(nil)
		if hex.EncodeToString(got) != want {
			t.Errorf("edit %d\ngot  %x\nwant %s", i, got, want)
		}
		var d Edit
		if err := d.Decode(got, false); !errors.Is(err, base.ErrNotADatabase) || !strings.Contains(err.Error(), "has keyspaces") {
			t.Errorf("edit %d in LevelDB's format: %v", i, err)
		}
		if err := d.Decode(got, true); err != nil {
			t.Fatalf("edit %d: %v", i, err)
		}
		clear(got) // the edit keeps nothing of the record
		if again := d.Encode(nil); hex.EncodeToString(again) != want {
			t.Errorf("edit %d decoded and encoded again: %x", i, again)
		}
	}
}

// TestMarkStopsReaders: readers that skip unknown tags, like goleveldb's, take what
// follows for a tag; the mark is none of 64 bits.
func TestMarkStopsReaders(t *testing.T) {
	e := &Edit{HasMaxKeyspace: true, MaxKeyspace: 1}
	b := e.Encode(nil)
	tag, n := binary.Uvarint(b)
	if _, m := binary.Uvarint(b[n:]); tag != tagKeyspaces || m >= 0 {
		t.Errorf("tag %d, then %d", tag, m)
	}
	if tagFirstLog&foreignTagBit != 0 || tagKeyspaces&foreignTagBit != 0 {
		t.Error("RocksDB skips the tags")
	}
}

func TestKeyspaceEditRefusesDamage(t *testing.T) {
	for i, e := range keyspaceEdits() {
		whole := e.Encode(nil)
		for n := range whole {
			var d Edit
			if err := d.Decode(whole[:n], true); err != nil && !errors.Is(err, base.ErrCorruption) {
				t.Errorf("edit %d cut at %d: %v", i, n, err)
			}
		}
	}
	table := hex.EncodeToString((&Edit{Added: []AddedFile{{0, table(1, "a", "b")}}}).Encode(nil))
	for _, tc := range []struct{ name, hex, reason string }{
		{"mark with another filler", "e807 feffffffffffffffffff01 05", "tag 1000"},
		{"mark twice", "e807 ffffffffffffffffffff01 05" + "e807 ffffffffffffffffffff01 05", "tag 1000"},
		{"mark without ID", "e807 ffffffffffffffffffff01", "tag 1000"},
		{"default keyspace", "e907 00", "tag 1001"},
		{"keyspace above 32 bits", "e907 ffffffff1f", "tag 1001"},
		{"keyspace twice", "e907 01 e907 02", "tag 1001"},
		{"creation without comparer", "e907 01 ea07 01 61", "tag 1002"},
		{"creation twice", "e907 01 ea07 01 61 01 62 ea07 01 61 01 62", "tag 1002"},
		{"creation of the default", "ea07 01 61 01 62", "default keyspace"},
		{"drop of the default", "eb07", "default keyspace"},
		{"created and dropped", "e907 01 ea07 01 61 01 62 eb07", "that it drops"},
		{"dropped and changed", "e907 01 eb07 " + table, "that it drops"},
		{"dropped and flushed", "e907 01 eb07 ec07 01", "that it drops"},
		{"default's comparer", "e907 01 01 01 63", "comparer of the default"},
		{"log above 62 bits", "ec07 ffffffffffffffff7f", "tag 1004"},
		{"tag 999", "e707 00", "unknown tag 999"},
		{"tag 1005", "ed07 00", "unknown tag 1005"},
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(tc.hex, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		var e Edit
		if err := e.Decode(b, true); !errors.Is(err, base.ErrCorruption) || !strings.Contains(err.Error(), tc.reason) {
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
		return base.InternalKey{User: []byte(word()), Trailer: base.Trailer(rng.Uint64()>>8<<8) | base.Trailer(base.KindSet)}
	}
	if e.Keyspace != base.DefaultKeyspace && maybe() {
		e.DropKeyspace = true
		return e
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
		e.Add(rng.IntN(NumLevels), &FileMeta{Num: num(), Size: rng.Uint64() % (maxTableSize + 1), Smallest: key(), Largest: key()})
	}
	return e
}

// TestEditRoundTrip: any edit comes back as it was.
func TestEditRoundTrip(t *testing.T) {
	for seed := range uint64(3000) {
		e := randomEdit(rand.New(rand.NewPCG(seed, 1)))
		var d Edit
		if err := d.Decode(e.Encode(nil), true); err != nil {
			t.Fatalf("seed %d: %+v: %v", seed, e, err)
		}
		// An empty key is nil or not.
		for i := range d.CompactPointers {
			d.CompactPointers[i].Key.User = append([]byte{}, d.CompactPointers[i].Key.User...)
		}
		for i, a := range d.Added {
			if a.Meta.String() != e.Added[i].Meta.String() || a.Meta.Size != e.Added[i].Meta.Size || a.Level != e.Added[i].Level {
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
