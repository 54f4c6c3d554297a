package base

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
)

func TestParseFileName(t *testing.T) {
	for _, c := range []struct {
		name string
		kind FileType
		num  uint64
	}{
		{"000001.log", FileLog, 1}, {"000007.ldb", FileTable, 7}, {"000007.sst", FileTable, 7},
		{"MANIFEST-000012", FileManifest, 12}, {"CURRENT", FileCurrent, 0}, {"LOCK", FileLock, 0},
		{"LOG", FileInfoLog, 0}, {"LOG.old", FileInfoLog, 0}, {"000003.dbtmp", FileTemp, 3},
		{"9223372036854775807.log", FileLog, 1<<63 - 1}, {"1234567.ldb", FileTable, 1234567},
		{"18446744073709551615.log", FileLog, 1<<64 - 1}, {"18446744073709551616.log", FileUnknown,
			0},
		{"MANIFEST-18446744073709551615", FileManifest, 1<<64 - 1},
		{"99999999999999999999999.ldb", FileUnknown, 0},
		{"2.log", FileUnknown, 0}, {"00002.log", FileUnknown, 0}, {"0000002.log", FileUnknown, 0},
		{"01234567.ldb", FileUnknown, 0}, {"MANIFEST-5", FileUnknown, 0},
		{"MANIFEST-0000005", FileUnknown, 0}, {"00000x.ldb", FileUnknown, 0},
		{"000007.LDB", FileUnknown, 0}, {"000007.", FileUnknown, 0}, {"000007", FileUnknown, 0},
		{"000007.ldb.ldb", FileUnknown, 0}, {"000000.sst", FileTable, 0},
		{"+1.log", FileUnknown, 0}, {"-1.log", FileUnknown, 0}, {"MANIFEST-", FileUnknown, 0},
		{"MANIFEST-3x", FileUnknown, 0}, {"MANIFEST-../x", FileUnknown, 0}, {"", FileUnknown, 0},
		{".log", FileUnknown, 0}, {"000001.log.lost", FileUnknown, 0},
		{"x/000001.log", FileUnknown, 0},
	} {
		if kind, num := LevelDB.ParseFileName(c.name); kind != c.kind || num != c.num {
			t.Errorf("%q: %d %d, want %d %d", c.name, kind, num, c.kind, c.num)
		}
	}
}

func TestParseNativeFileName(t *testing.T) {
	for _, c := range []struct {
		name string
		kind FileType
		num  uint64
	}{
		{"CURRENT", FileCurrent, 0}, {"LOCK", FileLock, 0}, {"LOG", FileUnknown, 0},
		{"000007.loam", FileTable, 7}, {"000007.wal", FileLog, 7},
		{"000007.manifest", FileManifest, 7}, {"1234567.loam", FileTable, 1_234_567},
		{"000007.ldb", FileUnknown, 0}, {"000007.sst", FileUnknown, 0},
		{"000007.log", FileUnknown, 0}, {"000007.dbtmp", FileUnknown, 0},
		{"MANIFEST-000007", FileUnknown, 0}, {"7.loam", FileUnknown, 0},
		{"000007.LOAM", FileUnknown, 0}, {"manifest", FileUnknown, 0},
	} {
		if kind, num := Native.ParseFileName(c.name); kind != c.kind || num != c.num {
			t.Errorf("%q: %d %d, want %d %d", c.name, kind, num, c.kind, c.num)
		}
	}
}

// Every name that counts is the one that FileName or TableNaming.Name gives, and no
// numbered name counts in both formats.
func TestNamesAreCanonical(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	known := [2]int{}
	extensions := []string{".log", ".ldb", ".sst", ".dbtmp", ".wal", ".loam", ".manifest"}
	for range 400_000 {
		digits := make([]byte, r.IntN(22))
		for i := range digits {
			digits[i] = '0' + byte(r.IntN(10))*byte(r.IntN(2))
		}
		name := string(digits) + extensions[r.IntN(len(extensions))]
		if r.IntN(8) == 0 {
			name = "MANIFEST-" + string(digits)
		}
		counts := 0
		for _, f := range []Format{LevelDB, Native} {
			kind, num := f.ParseFileName(name)
			if kind == FileUnknown {
				continue
			}
			known[f]++
			counts++
			if f.FileName(kind, num) != name && (kind != FileTable || NamedSST.Name(num) != name) {
				t.Fatalf("%q counts as %d %d", name, kind, num)
			}
		}
		if counts > 1 {
			t.Fatalf("%q counts in both formats", name)
		}
	}
	if min(known[0], known[1]) < 10_000 {
		t.Errorf("only %d names were known", known)
	}
	for _, f := range []Format{LevelDB, Native} {
		for _, n := range []uint64{0, 1, 99_999, 999_999, 1_000_000, 1 << 62, 1<<64 - 1} {
			for _, kind := range []FileType{FileLog, FileTable, FileManifest} {
				if k, m := f.ParseFileName(f.FileName(kind, n)); k != kind || m != n {
					t.Errorf("%s: %d %d", f.FileName(kind, n), k, m)
				}
			}
			if f.TableNamings()[0].Name(n) != f.FileName(FileTable, n) {
				t.Errorf("%v: table %d is named %s", f, n, f.TableNamings()[0].Name(n))
			}
		}
	}
}

func TestSeparatorAndSuccessor(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		a, b := randomKey(r), randomKey(r)
		if bytes.Compare(a, b) > 0 {
			a, b = b, a
		}
		if s := Bytewise.AppendSuccessor(nil, a); bytes.Compare(s, a) < 0 {
			t.Fatalf("successor of %q is %q", a, s)
		}
		if bytes.Equal(a, b) {
			continue
		}
		s := Bytewise.AppendSeparator(nil, a, b)
		if bytes.Compare(a, s) > 0 || bytes.Compare(s, b) >= 0 || len(s) > len(a) {
			t.Fatalf("separator of %q and %q is %q", a, b, s)
		}
	}
}

func randomKey(r *rand.Rand) []byte {
	k := make([]byte, r.IntN(12))
	for i := range k {
		k[i] = []byte{0, 1, 'a', 'b', 0xfe, 0xff}[r.IntN(6)]
	}
	return k
}

func TestAbbrevAgreesWithCompare(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range []*Comparer{Bytewise, ReverseBytewise} {
		for range 100_000 {
			a, b := randomKey(r), randomKey(r)
			skip := SharedPrefixLen(a, b)
			if skip > 0 {
				skip = r.IntN(skip + 1)
			}
			if c.Abbrev(a, skip) < c.Abbrev(b, skip) && c.Cmp(a, b) >= 0 {
				t.Fatalf("%s: %q and %q after %d", c.Name, a, b, skip)
			}
		}
	}
}

func TestCorruptionKeepsItsPlace(t *testing.T) {
	inner := Corruptf("table block", "checksum mismatch")
	err := LocateCorruption(fmt.Errorf("reading: %w", inner), "000005.ldb", 100, 42)
	var c *Corruption
	if !errors.As(err, &c) || c.File != "000005.ldb" || c.Offset != 100 || c.Length != 42 {
		t.Fatalf("got %v", err)
	}
	if again := LocateCorruption(err, "other", 7, 7); again != err {
		t.Fatalf("a located corruption was moved: %v", again)
	}
	if !errors.Is(fmt.Errorf("x: %w", err), ErrCorruption) {
		t.Fatal("errors.Is does not see it")
	}
	plain := errors.New("input/output error")
	if LocateCorruption(plain, "f", 0, 0) != plain {
		t.Fatal("an I/O error was touched")
	}
}

func TestCRCMask(t *testing.T) {
	for _, v := range []uint32{0, 1, 0xffffffff, 0xa282ead8, CRC([]byte("foo"))} {
		if UnmaskCRC(MaskCRC(v)) != v || MaskCRC(v) == v {
			t.Errorf("mask of %#x", v)
		}
	}
	// RFC 3720, B.4: 32 bytes of zeros.
	if got := CRC(make([]byte, 16), make([]byte, 16)); got != 0x8a9136aa {
		t.Errorf("crc32c of zeros: %#x", got)
	}
}

// idbKey builds keys of database 1, object store 1.
func idbKey(index byte, rest ...byte) []byte {
	return append([]byte{0, 1, 1, index}, rest...)
}

func TestIndexedDBOrder(t *testing.T) {
	double := func(bits ...byte) []byte { return append([]byte{3}, bits...) }
	one := double(0, 0, 0, 0, 0, 0, 0xf0, 0x3f)   // 1.0
	two := double(0, 0, 0, 0, 0, 0, 0, 0x40)      // 2.0
	minus := double(0, 0, 0, 0, 0, 0, 0xf0, 0xbf) // -1.0
	str := func(s string) []byte {
		out := []byte{1, byte(len(s))}
		for _, c := range []byte(s) {
			out = append(out, 0, c)
		}
		return out
	}
	array := func(items ...[]byte) []byte {
		out := []byte{4, byte(len(items))}
		for _, it := range items {
			out = append(out, it...)
		}
		return out
	}
	ascending := [][]byte{
		{0, 0, 0, 0, 0}, // global: schema version
		{0, 0, 0, 0, 1}, // global: largest database
		// incomplete name: only compared with others by its type
		append([]byte{0, 0, 0, 0, 201}, str("a")[1:]...),
		{0, 1, 0, 0, 0},        // database 1: name
		{0, 1, 0, 0, 50, 1, 0}, // database 1: store 1
		{0, 1, 0, 0, 50, 1, 2},
		{0, 1, 0, 0, 50, 2, 0},
		idbKey(1, 5), // minimum comes first
		idbKey(1, minus...),
		idbKey(1, one...),
		idbKey(1, two...),
		idbKey(1, str("a")...),
		idbKey(1, str("ab")...),
		idbKey(1, str("b")...),
		idbKey(1, array()...),
		idbKey(1, array(one)...),
		idbKey(1, array(one, one)...),
		idbKey(1, array(array(one), one)...),
		idbKey(1, 0),
		// index: value, sequence, primary key
		idbKey(30, append(append(append([]byte{}, one...), 0), one...)...),
		idbKey(30, append(append(append([]byte{}, one...), 0), two...)...),
		idbKey(30, append(append(append([]byte{}, one...), 7), two...)...),
		idbKey(30, append(append(append([]byte{}, two...), 0), one...)...),
		{0x20, 1, 1, 1, 1, 5}, // database 257
	}
	// "array(one, one)" < "array(array(one), one)": arrays sort behind numbers.
	for i, a := range ascending {
		for j, b := range ascending {
			got := IndexedDB.Compare(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("compare(%x, %x) = %d at %d, %d", a, b, got, i, j)
			}
		}
	}
}

// idbGarbage makes keys that share long beginnings and go wrong anywhere.
func idbGarbage(r *rand.Rand) []byte {
	starts := [][]byte{{0, 1, 1, 1}, {0, 1, 1, 30}, {0, 1, 1, 30, 5}, {0, 0, 0, 0}, {0, 1, 0, 0},
		{0x20, 1, 1, 1, 1}, nil}
	key := bytes.Clone(starts[r.IntN(len(starts))])
	for range r.IntN(4) {
		switch r.IntN(7) {
		case 0:
			key = append(key, 3, 0, 0, 0, 0, 0, 0, byte(r.IntN(2))*0xf0, 0x3f|byte(r.IntN(2))<<7)
		case 1:
			key = append(key, 1, 1, 0, byte('a'+r.IntN(2)))
		case 2:
			key = append(key, 4, byte(r.IntN(3)))
		case 3:
			key = append(key, []byte{50, 100, 150, 151, 200, 201}[r.IntN(6)])
		case 4:
			key = append(key, 0x80|byte(r.IntN(2)), byte(r.IntN(2)))
		case 5:
			key = append(key, byte(r.IntN(8)))
		case 6:
			key = append(key, 3, 0, 0, 0, 0, 0, 0, 0xf8, 0x7f) // not a number
		}
	}
	if r.IntN(3) == 0 {
		key = key[:r.IntN(len(key)+1)]
	}
	return key
}

// TestIndexedDBOrderIsTotal sorts keys, most of them malformed, and compares all
// pairs: a sorted sequence of a strict weak order has no pair the wrong way round,
// and what is equal to a key's equal is equal to the key.
func TestIndexedDBOrderIsTotal(t *testing.T) {
	r := rand.New(rand.NewPCG(17, 3))
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	for range rounds {
		keys := make([][]byte, 120)
		for i := range keys {
			keys[i] = idbGarbage(r)
		}
		slices.SortFunc(keys, IndexedDB.Compare)
		group := make([]int, len(keys)) // of equal neighbours
		for i := 1; i < len(keys); i++ {
			group[i] = group[i-1]
			if IndexedDB.Compare(keys[i-1], keys[i]) != 0 {
				group[i]++
			}
		}
		for i, a := range keys {
			for j, b := range keys {
				if got, want := IndexedDB.Compare(a, b), cmp.Compare(group[i],
					group[j]); cmp.Compare(got, 0) != want {
					t.Fatalf("compare(%x, %x) = %d, sorted it is %d", a, b, got, want)
				}
			}
		}
	}
}

// TestCopiedComparer checks that a copy of a comparer with another Compare has the
// order of that one.
func TestCopiedComparer(t *testing.T) {
	for _, of := range []*Comparer{Bytewise, ReverseBytewise} {
		c := *of
		c.Compare = func(a, b []byte) int { return -of.Compare(a, b) }
		if got := c.Cmp([]byte("a"), []byte("b")); got != -of.Cmp([]byte("a"), []byte("b")) {
			t.Errorf("%s: the copy compares a and b as %d", of.Name, got)
		}
		if c.HasAbbrev() || c.Abbrev([]byte("a"), 0) != c.Abbrev([]byte("b"), 0) {
			t.Errorf("%s: the copy has the original's abbreviations", of.Name)
		}
	}
}

func FuzzIndexedDBCompare(f *testing.F) {
	f.Add(idbKey(1, 5), idbKey(30, 4, 4, 4))
	f.Add([]byte{}, bytes.Repeat([]byte{4, 1}, 1000))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if x, y := IndexedDB.Compare(a, b), IndexedDB.Compare(b, a); (x < 0) != (y > 0) ||
			(x == 0) != (y == 0) {
			t.Errorf("not antisymmetric: %x %x: %d %d", a, b, x, y)
		}
		if IndexedDB.Compare(a, a) != 0 {
			t.Errorf("%x differs from itself", a)
		}
	})
}

func TestSharedPrefixLen(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 20_000 {
		a, b := randomKey(r), randomKey(r)
		want := sort.Search(min(len(a), len(b)), func(i int) bool {
			return !bytes.Equal(a[:i+1], b[:i+1])
		})
		if got := SharedPrefixLen(a, b); got != want {
			t.Fatalf("%q %q: %d, want %d", a, b, got, want)
		}
	}
}
