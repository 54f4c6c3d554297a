package manifest

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

func ikey(user string, seq base.SeqNum) base.InternalKey {
	return base.InternalKey{User: []byte(user), Trailer: base.MakeTrailer(seq, base.KindSet)}
}

func table(num uint64, smallest, largest string) *FileMeta {
	return &FileMeta{Num: num, Size: num * 1000, Smallest: ikey(smallest, base.SeqNum(num)),
		Largest: ikey(largest, base.SeqNum(num))}
}

func fullEdit() *Edit {
	e := &Edit{}
	e.SetComparer("leveldb.BytewiseComparator")
	e.SetLogNum(4)
	e.SetPrevLogNum(0)
	e.SetNextFile(300)
	e.SetLastSeq(1 << 40)
	e.CompactPointers = []CompactPointer{{1, ikey("p", 7)}, {6, ikey("", 0)}}
	e.Delete(2, 9)
	e.Delete(0, 200)
	e.Delete(0, 5)
	e.Add(0, table(12, "", "z"))
	e.Add(3, table(11, "a", "a"))
	return e
}

func TestEditEncoding(t *testing.T) {
	// Fields and their order as LevelDB's VersionEdit::EncodeTo has them.
	want := strings.Join([]string{
		"01 1a 6c6576656c64622e4279746577697365436f6d70617261746f72",
		"02 04", "09 00", "03 ac02", "04 808080808020",
		"05 01 09 70 0107000000000000", "05 06 08 0100000000000000",
		"06 00 05", "06 00 c801", "06 02 09",
		"07 00 0c e05d 08 010c000000000000 09 7a 010c000000000000",
		"07 03 0b f855 09 61 010b000000000000 09 61 010b000000000000",
	}, "")
	want = strings.ReplaceAll(want, " ", "")
	e := fullEdit()
	before := append([]DeletedFile(nil), e.Deleted...)
	got := e.Encode([]byte("x"), base.LevelDB)[1:]
	if hex.EncodeToString(got) != want {
		t.Errorf("got  %x\nwant %s", got, want)
	}
	if !reflect.DeepEqual(before, e.Deleted) {
		t.Error("Encode changed the edit")
	}
	var d Edit
	if err := d.Decode(got, base.LevelDB); err != nil {
		t.Fatal(err)
	}
	clear(got) // the edit keeps nothing of the record
	if again := d.Encode(nil, base.LevelDB); hex.EncodeToString(again) != want {
		t.Errorf("decoded and encoded again: %x", again)
	}
}

func TestEditRefusesDamage(t *testing.T) {
	whole := fullEdit().Encode(nil, base.LevelDB)
	// Where a cut leaves whole fields, the rest is a valid edit.
	fields := map[int]bool{0: true}
	for n := range whole {
		var e Edit
		if e.Decode(whole[:n], base.LevelDB) == nil {
			fields[n] = true
		}
	}
	if len(fields) != 12 {
		t.Errorf("%d prefixes decode, want one for each field", len(fields))
	}
	tests := []struct{ name, hex, reason string }{
		{"level 7", "060701", "level"},
		{"level huge", "06ffffffff0f01", "level"},
		{"short key", "050101ff", "key"},
		{"key past the end", "0500ff01", "key"},
		{"number above 62 bits", "02ffffffffffffffff7f", "number"},
		{"number above 64 bits", "02ffffffffffffffffffff01", "number"},
		{"sequence above 56 bits", "0480808080808080808001", "sequence"},
		{"size above 63 bits", "070001ffffffffffffffffff01" +
			"080100000000000000080100000000000000", "number"},
		{"tag 0", "00", "unknown tag 0"},
		{"tag 8", "0800", "unknown tag 8"},
		{"tag huge", "ffffffff0f", "unknown tag 4294967295"},
		{"tag malformed", "ffffffffff7f", "malformed tag"},
	}
	for _, tc := range tests {
		b, err := hex.DecodeString(tc.hex)
		if err != nil {
			t.Fatal(err)
		}
		var e Edit
		err = e.Decode(b, base.LevelDB)
		if !errors.Is(err, base.ErrCorruption) || !strings.Contains(err.Error(), tc.reason) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestEditNamesForeignEngines(t *testing.T) {
	for _, h := range []string{"6400", "6700", "c80101", "0a05", "ac0201", "8140 00", "6900"} {
		b, err := hex.DecodeString(strings.ReplaceAll(h, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		var e Edit
		err = e.Decode(append([]byte{tagComparer, 1, 'c'}, b...), base.LevelDB)
		if !errors.Is(err, base.ErrNotADatabase) || errors.Is(err, base.ErrCorruption) ||
			!strings.Contains(err.Error(), "RocksDB") {
			t.Errorf("%s: %v", h, err)
		}
	}
}

func FuzzEdit(f *testing.F) {
	f.Add(fullEdit().Encode(nil, base.LevelDB))
	f.Add([]byte{})
	for _, e := range keyspaceEdits() {
		f.Add(e.Encode(nil, base.Native))
	}
	f.Add([]byte{tagNewFile, 1, 1, 1, 8, 1, 0, 0, 0, 0, 0, 0, 0, 8})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, format := range []base.Format{base.LevelDB, base.Native} {
			var e, again Edit
			if err := e.Decode(b, format); err != nil {
				newer := errors.Is(err, base.ErrNewerFormat)
				if !errors.Is(err, base.ErrCorruption) && !errors.Is(err, base.ErrNotADatabase) &&
					!newer || newer && format != base.Native {
					t.Fatal(err)
				}
				continue
			}
			if format == base.LevelDB && (e.Keyspace != base.DefaultKeyspace || e.HasMaxKeyspace ||
				e.HasFirstLog || e.FormatVersion != 0) {
				t.Fatalf("LevelDB's format has native fields: %+v", e)
			}
			enc := e.Encode(nil, format)
			if err := again.Decode(enc, format); err != nil {
				t.Fatalf("%x: %v", enc, err)
			}
			if !bytes.Equal(enc, again.Encode(nil, format)) {
				t.Fatal("not stable")
			}
			for i, a := range e.Added {
				if a.Meta.Facts != again.Added[i].Meta.Facts || format == base.LevelDB &&
					a.Meta.Facts != (Facts{}) {
					t.Fatalf("%v: facts %+v, then %+v", format, a.Meta.Facts,
						again.Added[i].Meta.Facts)
				}
			}
		}
	})
}
