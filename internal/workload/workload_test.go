package workload

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"
)

// TestRand checks the recurrence against plain arithmetic and the 10,000th
// number after seed 1 that Park and Miller published.
func TestRand(t *testing.T) {
	r := NewRand(1)
	x, m := big.NewInt(1), big.NewInt(lehmerModulus)
	for i := 1; i <= 10000; i++ {
		x.Mul(x, big.NewInt(16807)).Mod(x, m)
		if got := r.Next(); int64(got) != x.Int64() {
			t.Fatalf("number %d is %d, want %v", i, got, x)
		}
	}
	if x.Int64() != 1043618065 {
		t.Fatalf("the 10,000th number is %v", x)
	}
	for _, seed := range []uint32{0, lehmerModulus, 1 << 31} {
		if r := NewRand(seed); r != NewRand(1) {
			t.Errorf("seed %d is not taken for 1", seed)
		}
	}
}

func TestUniform(t *testing.T) {
	r := NewRand(7)
	for _, n := range []uint64{1, 10, 1e6, lehmerModulus - 1, lehmerModulus, 1 << 40} {
		var low, high uint64 = 1 << 63, 0
		for range 2000 {
			v := r.Uniform(n)
			if v >= n {
				t.Fatalf("Uniform(%d) = %d", n, v)
			}
			low, high = min(low, v), max(high, v)
		}
		if n > 1e3 && (low > n/100 || high < n-n/100) {
			t.Errorf("Uniform(%d) stays within %d to %d", n, low, high)
		}
	}
}

// TestFoundAsLevelDB draws the keys of LevelDB's fillseq, fillsync, fillrandom,
// overwrite and readrandom over a million entries: its own benchmark reports
// "864322 of 1000000 found".
func TestFoundAsLevelDB(t *testing.T) {
	const n = 1_000_000
	var present [n]bool
	for _, seed := range []uint32{1003, 1004} {
		r := NewRand(seed)
		for range n {
			present[r.Uniform(n)] = true
		}
	}
	found, r := 0, NewRand(1005)
	for range n {
		if present[r.Uniform(n)] {
			found++
		}
	}
	if found != 864322 {
		t.Errorf("%d of %d found", found, n)
	}
}

func TestKeys(t *testing.T) {
	numbers := []uint64{0, 1, 9, 10, 99, 100, 12345678, 99999999, 100000000, 123456789012, 1e16 - 1,
		1e16, 1 << 62}
	for _, f := range []KeyFormat{{}, {Prefix: 5}, {Stride: 2}, {Style: Named},
		{Style: Named, Prefix: 2, Stride: 2}} {
		k := NewKeys(f)
		for _, n := range numbers {
			format, stride := f.Style.String(), uint64(max(f.Stride, 1))
			prefix := string(bytes.Repeat([]byte("a"), f.Prefix))
			if got, want := string(k.Present(n)), prefix+fmt.Sprintf(format,
				n*stride); got != want {
				t.Errorf("%+v: key %d is %q, want %q", f, n, got, want)
			}
			want := prefix + fmt.Sprintf(format, n) + "."
			if f.Stride == 2 {
				want = prefix + fmt.Sprintf(format, 2*n+1)
			}
			if got := string(k.Missing(n)); got != want {
				t.Errorf("%+v: missing key %d is %q, want %q", f, n, got, want)
			}
		}
		if f.Len() != len(k.Present(0)) {
			t.Errorf("%+v: Len is %d", f, f.Len())
		}
	}
}

// TestMissingWithin: a missing key sorts between two keys that are there.
func TestMissingWithin(t *testing.T) {
	for _, f := range []KeyFormat{{}, {Stride: 2}} {
		a, b, c := NewKeys(f), NewKeys(f), NewKeys(f)
		for n := range uint64(1000) {
			if x, y, z := a.Present(n), b.Missing(n), c.Present(n+1); bytes.Compare(x, y) >= 0 ||
				bytes.Compare(y, z) >= 0 {
				t.Fatalf("%+v: %q %q %q", f, x, y, z)
			}
		}
	}
}

// TestDigits tries every number of four digits in both halves.
func TestDigits(t *testing.T) {
	var b [8]byte
	for i := range uint32(10000) {
		for _, n := range []uint32{i, i * 10000, i*10000 + i, i*10000 + 9999 - i} {
			if putDigits8(b[:], n); string(b[:]) != fmt.Sprintf("%08d", n) {
				t.Fatalf("%d is %q", n, b)
			}
		}
	}
	for n := uint64(1); n < 1<<63; n = n*3 + 1 {
		for _, m := range []uint64{n, n - 1, n * 7} {
			if got := string(appendDecimal([]byte("x"), m)); got != fmt.Sprintf("x%d", m) {
				t.Fatalf("%d is %q", m, got)
			}
		}
	}
}

func TestKeyStyle(t *testing.T) {
	for _, s := range []KeyStyle{Padded, Named} {
		if got, err := ParseKeyStyle(s.String()); got != s || err != nil {
			t.Errorf("%v: %v %v", s, got, err)
		}
	}
	if _, err := ParseKeyStyle("%d"); err == nil {
		t.Error("took a bare number for a format")
	}
}

func TestValues(t *testing.T) {
	for _, ratio := range []float64{0.01, 0.3, 0.5, 1} {
		d := NewValueData(ratio, 1000)
		raw := int(100 * ratio)
		for i := 0; i+100 <= len(d.data); i += 100 {
			piece := d.data[i : i+100]
			for j, c := range piece {
				if c < ' ' || c > '~' || c != piece[j%raw] {
					t.Fatalf("ratio %v: %q does not repeat its first %d", ratio, piece, raw)
				}
			}
		}
		v := d.Values()
		a := slices.Clone(v.Next(100))
		if !bytes.Equal(a, d.data[:100]) || !bytes.Equal(v.Next(50), d.data[100:150]) {
			t.Errorf("ratio %v: not from the beginning", ratio)
		}
		for range 3 * len(d.data) / 1000 {
			if got := v.Next(1000); len(got) != 1000 || cap(got) != 1000 {
				t.Fatalf("%d bytes of 1000, capacity %d", len(got), cap(got))
			}
		}
	}
	if d := NewValueData(0.5, 3<<20); !d.Fits(3<<20) || NewValueData(0.5, 10).Fits(1<<20) {
		t.Errorf("a pool of %d bytes", len(d.data))
	}
}

func TestNoAllocation(t *testing.T) {
	k, named, m := NewKeys(KeyFormat{}), NewKeys(KeyFormat{Style: Named, Stride: 2}), NewNames(
		"value")
	v, r := NewValueData(0.5, 100).Values(), NewRand(1)
	var sink int
	if n := testing.AllocsPerRun(1000, func() {
		i := r.Uniform(1e6)
		sink += len(k.Present(i)) + len(k.Missing(i)) + len(named.Present(i)) +
			len(named.Missing(i)) + len(m.Name(i)) + len(v.Next(100))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSpecs(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Specs {
		if seen[s.Name] || s.Name == "" || s.Doc == "" {
			t.Errorf("%+v: no name, no text, or twice", s)
		}
		seen[s.Name] = true
	}
	for _, n := range DefaultSteps {
		if _, ok := Find(n); !ok {
			t.Errorf("no benchmark %s", n)
		}
	}
	if len(DefaultSteps) != 18 {
		t.Errorf("%d default steps", len(DefaultSteps))
	}
	for name, want := range map[string]int64{
		"fillseq": 20000, "fillsync": 20, "fill100K": 20, "readrandom": 500, "readrandomsmall": 1,
		"open": 2, "compact": 1,
	} {
		if s, _ := Find(name); s.Ops(20000, 500) != want {
			t.Errorf("%s: %d operations, want %d", name, s.Ops(20000, 500), want)
		}
	}
}

func BenchmarkKey(b *testing.B) {
	k, r := NewKeys(KeyFormat{}), NewRand(1)
	for b.Loop() {
		k.Present(r.Uniform(1e6))
	}
}

func BenchmarkUniform(b *testing.B) {
	r := NewRand(1)
	for b.Loop() {
		r.Uniform(1e6)
	}
}

func BenchmarkValue(b *testing.B) {
	v := NewValueData(0.5, 100).Values()
	for b.Loop() {
		v.Next(100)
	}
}

// TestPermutation: every number once, and in no order.
func TestPermutation(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 4, 5, 16, 17, 1000, 65537} {
		for _, seed := range []uint32{1, 1001} {
			p, seen, fixed := NewPermutation(n, seed), make([]bool, n), 0
			for i := range n {
				j := p.At(i)
				if j >= n || seen[j] {
					t.Fatalf("n %d: %d goes to %d, out of range or twice", n, i, j)
				}
				seen[j] = true
				if i == j {
					fixed++
				}
			}
			if n > 100 && fixed > 10 {
				t.Errorf("n %d: %d numbers stay", n, fixed)
			}
		}
	}
}

// TestZipf compares the share of the first ranks with 1/(i^0.99 zeta(n)).
func TestZipf(t *testing.T) {
	const n, draws = 10000, 400000
	z, r := NewZipf(n), NewRand(7)
	var count [n]int
	for range draws {
		count[z.Next(&r)]++
	}
	for i, want := range map[int]float64{0: 1, 1: math.Pow(2, -0.99)} {
		want /= zeta(n)
		if got := float64(count[i]) / draws; math.Abs(got-want) > 0.05*want {
			t.Errorf("rank %d: share %.4f, want %.4f", i, got, want)
		}
	}
	half := 0
	for _, c := range count[:100] {
		half += c
	}
	if share := float64(half) / draws; math.Abs(share-zeta(100)/zeta(n)) > 0.02 {
		t.Errorf("first hundred: share %.4f, want %.4f", share, zeta(100)/zeta(n))
	}
	if exact, far := zeta(1<<20), zeta(1<<20+1); far <= exact || far-exact > 1e-5 {
		t.Errorf("zeta jumps where the integral begins: %v %v", exact, far)
	}
}

func TestMixer(t *testing.T) {
	for _, name := range []string{"ycsba", "ycsbd", "ycsbe", "ycsbf", "readrandomwriterandom"} {
		spec, ok := Find(name)
		if !ok {
			t.Fatal(name)
		}
		const num, ops = 1000, 20000
		x, r := NewMixer(spec.Mix, num, 1, 2), NewRand(3)
		var count [ModifyAction + 1]int
		for range ops {
			inserted := x.Inserted(1)
			a, n, length := x.Next(&r)
			count[a]++
			if a == InsertAction && n != num+1+2*inserted || a != InsertAction &&
				n > num+1+2*inserted || (length > 0) != (a == ScanAction) || length > MostScanned {
				t.Fatalf("%s: action %d key %d length %d after %d inserts", name, a, n, length,
					inserted)
			}
		}
		m := spec.Mix
		for a, want := range []int{m.Read, m.Update, m.Insert, m.Scan, m.ReadModifyWrite} {
			if got := count[a] * 100 / ops; got < want-2 || got > want+2 {
				t.Errorf("%s: %d %% of action %d, want %d", name, got, a, want)
			}
		}
	}
}
