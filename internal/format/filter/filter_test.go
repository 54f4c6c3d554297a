package filter

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/offheap"
)

func key(i int) []byte { return fmt.Appendf(nil, "key-%09d", i) }

func hashes(from, n int) []uint64 {
	hs := make([]uint64, n)
	for i := range hs {
		hs[i] = base.Hash(key(from + i))
	}
	return hs
}

func TestTable(t *testing.T) {
	for _, tc := range []struct {
		n, bits int
		maxRate float64
	}{
		{0, 10, 1e-9}, {1, 10, 0.01}, {100, 10, 0.03}, {100_000, 10, 0.0115},
		{100_000, 1, 0.65}, {100_000, 5, 0.12}, {100_000, 16, 0.0013}, {100_000, 30, 0.0003},
	} {
		b := Build([]byte("before"), hashes(0, tc.n), tc.bits)[len("before"):]
		if len(b) != Size(tc.n, tc.bits) {
			t.Errorf("%d keys: %d bytes, announced %d", tc.n, len(b), Size(tc.n, tc.bits))
		}
		f, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hashes(0, tc.n) {
			if !f.MayContain(h) {
				t.Fatal("a key that was added is denied")
			}
		}
		const asked = 200_000
		admitted := 0
		for _, h := range hashes(10_000_000, asked) {
			if f.MayContain(h) {
				admitted++
			}
		}
		rate := float64(admitted) / asked
		t.Logf("%d keys, %d bits: %.4f %%", tc.n, tc.bits, 100*rate)
		if rate > tc.maxRate {
			t.Errorf("%d keys, %d bits: %.4f of absent keys admitted, want at most %.4f", tc.n,
				tc.bits, rate, tc.maxRate)
		}
	}
}

func TestDamagedTable(t *testing.T) {
	good := Build(nil, hashes(0, 100), 10)
	n := len(good)
	change := func(at int, to byte) []byte {
		b := append([]byte(nil), good...)
		b[at] = to
		return b
	}
	for name, b := range map[string][]byte{
		"empty": nil, "footer only": good[n-8:], "cut": good[64:], "count": change(n-8, 77),
		"version": change(n-3, 2), "no probes": change(n-4, 0), "probes": change(n-4, 8),
		"zeros": change(n-1, 1),
	} {
		if _, err := Parse(b); !errors.Is(err, base.ErrCorruption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The values are those that LevelDB's own test of its hash pins.
func TestLevelDBHash(t *testing.T) {
	for in, want := range map[string]uint32{
		"":                 0xbc9f1d34,
		"\x62":             0xef1345c4,
		"\xc3\x97":         0x5b663814,
		"\xe2\x99\xa5":     0x323c078f,
		"\xe1\x80\xb9\x32": 0xed21633a,
	} {
		if got := levelDBHash([]byte(in)); got != want {
			t.Errorf("%q: %#x, want %#x", in, got, want)
		}
	}
}

func TestLevelDBFilter(t *testing.T) {
	// Blocks at uneven offsets: two in one stretch, an empty stretch, a far one.
	offsets := []uint64{0, 1500, 2100, 9000, 50_000}
	b := NewLevelDBBuilder(10)
	for i, o := range offsets {
		b.StartBlock(o)
		for k := range 300 {
			b.Add(key(i*1000 + k))
		}
	}
	size := b.Size()
	data := b.Finish()
	if len(data) > size+16 {
		t.Errorf("%d bytes, announced %d", len(data), size)
	}
	f, err := ParseLevelDB(data)
	if err != nil {
		t.Fatal(err)
	}
	admitted := 0
	for i, o := range offsets {
		for k := range 300 {
			if !f.MayContain(o, key(i*1000+k)) {
				t.Fatalf("block at %d: key %d is denied", o, k)
			}
			if f.MayContain(o, key(7_000_000+k)) {
				admitted++
			}
		}
	}
	if admitted > 60 {
		t.Errorf("%d of 1500 absent keys admitted", admitted)
	}
	if f.MayContain(20_000, key(0)) {
		t.Error("a stretch without keys admits one")
	}
	if !f.MayContain(1<<40, key(0)) {
		t.Error("an offset without filter must admit every key")
	}
}

func TestDamagedLevelDBFilter(t *testing.T) {
	b := NewLevelDBBuilder(10)
	for i := range 3 {
		b.StartBlock(uint64(i) * 2048)
		b.Add(key(i))
	}
	good := b.Finish()
	n := len(good)
	change := func(at int, to uint32) []byte {
		d := append([]byte(nil), good...)
		binary.LittleEndian.PutUint32(d[at:], to)
		return d
	}
	lg := append([]byte(nil), good...)
	lg[n-1] = 63
	for name, d := range map[string][]byte{
		"empty": nil, "short": good[:4], "start": change(n-5, 1<<31),
		"uneven start": change(n-5, 2), "offset outside": change(n-9, 1<<20),
		"offsets descend": change(n-13, 1<<10), "lg": lg,
	} {
		if _, err := ParseLevelDB(d); !errors.Is(err, base.ErrCorruption) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f, err := ParseLevelDB([]byte{0, 0, 0, 0, 11}); err != nil || !f.MayContain(0, nil) {
		t.Error("a filter block without filters admits every key", err)
	}
}

func FuzzFilters(f *testing.F) {
	lb := NewLevelDBBuilder(10)
	lb.Add(key(1))
	f.Add(lb.Finish(), []byte("key"), uint64(0))
	f.Add(Build(nil, hashes(0, 5), 10), []byte("key"), uint64(4096))
	f.Fuzz(func(t *testing.T, b, key []byte, offset uint64) {
		if tab, err := Parse(b); err == nil {
			tab.MayContain(base.Hash(key))
			tab.MayContain(offset)
		} else if !errors.Is(err, base.ErrCorruption) {
			t.Fatal(err)
		}
		if l, err := ParseLevelDB(b); err == nil {
			l.MayContain(offset, key)
			l.MayContain(offset>>40, key)
		} else if !errors.Is(err, base.ErrCorruption) {
			t.Fatal(err)
		}
	})
}

// TestLevelDBFilterOfHalfAGigabyte: its bits, counted in 32 bits, are none.
func TestLevelDBFilterOfHalfAGigabyte(t *testing.T) {
	const n = 1 << 29
	b, err := offheap.Alloc(n + 1 + 4 + 5)
	if err != nil {
		t.Skip(err)
	}
	defer offheap.Free(b)
	b[n] = 6 // probes
	binary.LittleEndian.PutUint32(b[n+5:], n+1)
	b[n+9] = baseLg
	f, err := ParseLevelDB(b)
	if err != nil {
		t.Fatal(err)
	}
	if !f.MayContain(0, []byte("key")) {
		t.Error("the filter denies a key that it cannot know")
	}
}

func BenchmarkBuild(b *testing.B) {
	hs := hashes(0, 1<<20)
	var dst []byte
	for b.Loop() {
		dst = Build(dst[:0], hs, 10)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(hs)), "ns/key")
}

func BenchmarkMayContain(b *testing.B) {
	for _, n := range []int{1 << 10, 1 << 23} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			f, err := Parse(Build(nil, hashes(0, n), 10))
			if err != nil {
				b.Fatal(err)
			}
			h, admitted := uint64(1), 0
			for b.Loop() {
				h = h*0x9e3779b97f4a7c15 + 12345
				if f.MayContain(h) {
					admitted++
				}
			}
			b.ReportMetric(100*float64(admitted)/float64(b.N), "%admitted")
		})
	}
}

func BenchmarkLevelDBMayContain(b *testing.B) {
	lb := NewLevelDBBuilder(10)
	for i := range 40 {
		lb.Add(key(i))
	}
	f, _ := ParseLevelDB(lb.Finish())
	k := key(39)
	for b.Loop() {
		if !f.MayContain(0, k) {
			b.Fatal("denied")
		}
	}
}
