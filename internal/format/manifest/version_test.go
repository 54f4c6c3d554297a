package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

// customOrder orders like bytes but has no abbreviations.
var customOrder = &base.Comparer{Name: "custom", Compare: bytes.Compare}

func TestLevelOrderIsChecked(t *testing.T) {
	split := table(8, "c", "e")
	split.Smallest = ikey("c", 2) // table 7 ends with c at 7
	tests := []struct {
		name  string
		level int
		files []*FileMeta
		bad   string // names in the error; "" for a good level
	}{
		{"empty", 1, nil, ""},
		{"apart", 1, []*FileMeta{table(9, "d", "e"), table(7, "a", "c")}, ""},
		{"one user key over two files", 1, []*FileMeta{split, table(7, "a", "c")}, ""},
		{"same key newer behind", 1, []*FileMeta{table(9, "c", "e"), table(7, "a", "c")},
			"000007.ldb 000009.ldb"},
		{"overlap", 6, []*FileMeta{table(9, "b", "e"), table(7, "a", "c")},
			"000007.ldb 000009.ldb"},
		{"contained", 2, []*FileMeta{table(9, "b", "b"), table(7, "a", "c")},
			"000007.ldb 000009.ldb"},
		{"overlap in level 0", 0, []*FileMeta{table(9, "b", "e"), table(7, "a", "c")}, ""},
		{"wrong way round", 0, []*FileMeta{table(9, "e", "b")}, "000009.ldb"},
		{"wrong way round", 3, []*FileMeta{table(9, "e", "b")}, "000009.ldb"},
	}
	for _, tc := range tests {
		var files [NumLevels][]*FileMeta
		files[tc.level] = tc.files
		_, err := NewVersion(base.Bytewise, files)
		check := func(how string, err error) {
			if tc.bad == "" && err != nil || tc.bad != "" && !errors.Is(err, base.ErrCorruption) {
				t.Errorf("%s, %s: %v", tc.name, how, err)
				return
			}
			for _, name := range strings.Fields(tc.bad) {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%s, %s: %s is not named: %v", tc.name, how, name, err)
				}
			}
		}
		check("new", err)
		// The same files one edit at a time, in either order.
		for _, reverse := range []bool{false, true} {
			v, err := NewVersion(base.Bytewise, [NumLevels][]*FileMeta{})
			order := slices.Clone(tc.files)
			if reverse {
				slices.Reverse(order)
			}
			for _, f := range order {
				var none, added [NumLevels][]*FileMeta
				added[tc.level] = []*FileMeta{f}
				var next *Version
				if next, err = v.derive(base.Bytewise, none, added); err != nil {
					break
				}
				v = next
			}
			check("derived", err)
		}
	}
}

func TestLevelZeroIsNewestFirst(t *testing.T) {
	seven := table(7, "c", "d")
	v, err := NewVersion(base.Bytewise,
		[NumLevels][]*FileMeta{{table(5, "a", "z"), table(9, "a", "b"), seven}})
	if err != nil {
		t.Fatal(err)
	}
	next, err := v.derive(base.Bytewise, [NumLevels][]*FileMeta{{seven}},
		[NumLevels][]*FileMeta{{table(8, "x", "y"), table(6, "x", "y")}})
	if err != nil {
		t.Fatal(err)
	}
	var nums []uint64
	for _, f := range next.Levels[0].Files {
		nums = append(nums, f.Num)
	}
	if fmt.Sprint(nums) != "[9 8 6 5]" {
		t.Errorf("order %v", nums)
	}
	if next.Size() != 28000 || next.NumFiles() != 4 || v.Size() != 21000 {
		t.Errorf("sizes %d, %d", next.Size(), v.Size())
	}
}

// TestSpliceAgainstRebuild derives levels by random changes and compares them
// with the level made from the same files at once.
func TestSpliceAgainstRebuild(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []*base.Comparer{base.Bytewise, base.ReverseBytewise, customOrder} {
		for range 40 {
			pool := randomLevel(rng, c, 20)
			in := make([]bool, len(pool))
			for _, level := range []int{0, 3} {
				v, err := NewVersion(c, [NumLevels][]*FileMeta{})
				if err != nil {
					t.Fatal(err)
				}
				clear(in)
				for range 20 {
					var removed, added, all [NumLevels][]*FileMeta
					for i, f := range pool {
						if rng.IntN(3) == 0 {
							if in[i] {
								removed[level] = append(removed[level], f)
							} else {
								added[level] = append(added[level], f)
							}
							in[i] = !in[i]
						}
						if in[i] {
							all[level] = append(all[level], f)
						}
					}
					rng.Shuffle(len(added[level]), func(i, j int) {
						added[level][i], added[level][j] = added[level][j], added[level][i]
					})
					if v, err = v.derive(c, removed, added); err != nil {
						t.Fatal(err)
					}
					want, err := NewVersion(c, all)
					if err != nil {
						t.Fatal(err)
					}
					got, exp := &v.Levels[level], &want.Levels[level]
					if !slices.Equal(got.Files, exp.Files) || got.Size != exp.Size ||
						!slices.Equal(got.abbrevs, exp.abbrevs) ||
						!bytes.Equal(got.prefix, exp.prefix) {
						t.Fatalf("%s, level %d: got %v, want %v", c.Name, level, got, exp)
					}
				}
			}
		}
	}
}

// randomLevel makes files that share a prefix, some of them with the user key
// of their neighbour.
func randomLevel(rng *rand.Rand, c *base.Comparer, n int) []*FileMeta {
	prefix := strings.Repeat("p", rng.IntN(12))
	keys := make(map[string]bool)
	for len(keys) < 2*n {
		k := prefix
		for range rng.IntN(12) {
			k += string(rune('a' + rng.IntN(3)))
		}
		keys[k] = true
	}
	sorted := make([]string, 0, len(keys))
	for k := range keys {
		sorted = append(sorted, k)
	}
	slices.SortFunc(sorted, func(a, b string) int { return c.Compare([]byte(a), []byte(b)) })
	files := make([]*FileMeta, n)
	for i := range files {
		files[i] = table(uint64(100+i), sorted[2*i], sorted[2*i+1])
		if i > 0 && rng.IntN(3) == 0 {
			files[i].Smallest = base.InternalKey{User: files[i-1].Largest.User,
				Trailer: files[i-1].Largest.Trailer - 256}
		}
	}
	return files
}

func TestFindAndOverlapsAgainstScan(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, c := range []*base.Comparer{base.Bytewise, base.ReverseBytewise, customOrder} {
		for range 60 {
			var files [NumLevels][]*FileMeta
			files[1] = randomLevel(rng, c, rng.IntN(40)+1)
			files[0] = files[1]
			v, err := NewVersion(c, files)
			if err != nil {
				t.Fatal(err)
			}
			probe := func() []byte {
				f := files[1][rng.IntN(len(files[1]))]
				k := slices.Clone([][]byte{f.Smallest.User, f.Largest.User}[rng.IntN(2)])
				switch rng.IntN(4) {
				case 0:
					k = append(k, byte(rng.IntN(256)))
				case 1:
					k = k[:rng.IntN(len(k)+1)]
				}
				return k
			}
			for range 50 {
				checkFind(t, c, &v.Levels[1], probe(), base.MakeTrailer(base.SeqNum(rng.IntN(200)),
					base.KindForSeek))
				lo, hi := probe(), probe()
				if rng.IntN(8) == 0 {
					lo = nil
				}
				if rng.IntN(8) == 0 {
					hi = nil
				}
				for i := range 2 {
					checkOverlaps(t, c, &v.Levels[i], lo, hi)
				}
			}
		}
	}
}

func checkFind(t *testing.T, c *base.Comparer, l *Level, key []byte, tr base.Trailer) {
	t.Helper()
	first := func(ok func(f *FileMeta) bool) int {
		for i, f := range l.Files {
			if ok(f) {
				return i
			}
		}
		return len(l.Files)
	}
	want := first(func(f *FileMeta) bool { return c.Compare(f.Largest.User, key) >= 0 })
	if got := l.FindAt(c, key, base.MaxTrailer); got != want {
		t.Fatalf("%s: Find(%q) = %d, want %d", c.Name, key, got, want)
	}
	want = first(func(f *FileMeta) bool {
		return c.CompareInternal(f.Largest.User, f.Largest.Trailer, key, tr) >= 0
	})
	if got := l.FindAt(c, key, tr); got != want {
		t.Fatalf("%s: FindAt(%q, %d) = %d, want %d", c.Name, key, tr.Seq(), got, want)
	}
}

func checkOverlaps(t *testing.T, c *base.Comparer, l *Level, lo, hi []byte) {
	t.Helper()
	var want []*FileMeta
	for _, f := range l.Files {
		if (lo == nil || c.Compare(f.Largest.User, lo) >= 0) &&
			(hi == nil || c.Compare(f.Smallest.User, hi) <= 0) {
			want = append(want, f)
		}
	}
	got := l.Overlaps(c, lo, hi)
	if lo != nil && hi != nil && c.Compare(lo, hi) > 0 && len(got) == 0 {
		return // an empty range
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%s: Overlaps(%q, %q) = %v, want %v", c.Name, lo, hi, got, want)
	}
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var files [NumLevels][]*FileMeta
			for i := range n {
				files[1] = append(files[1], table(uint64(i), fmt.Sprintf("%016d", i*10),
					fmt.Sprintf("%016d", i*10+9)))
			}
			v, err := NewVersion(base.Bytewise, files)
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			keys := make([][]byte, 1024)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "%016d", rng.IntN(n*10))
			}
			i := 0
			for b.Loop() {
				v.Levels[1].FindAt(base.Bytewise, keys[i&1023], base.MaxTrailer)
				i++
			}
		})
	}
}

func BenchmarkDerive(b *testing.B) {
	const n = 5000
	var files [NumLevels][]*FileMeta
	for i := range n {
		files[6] = append(files[6], table(uint64(i+1), fmt.Sprintf("%016d", i*10),
			fmt.Sprintf("%016d", i*10+9)))
	}
	v, err := NewVersion(base.Bytewise, files)
	if err != nil {
		b.Fatal(err)
	}
	for _, level := range []int{0, 6} {
		b.Run(fmt.Sprintf("level=%d", level), func(b *testing.B) {
			var removed, added [NumLevels][]*FileMeta
			if level == 6 {
				removed[6] = v.Levels[6].Files[2499:2500]
			}
			added[level] =
				[]*FileMeta{table(9000, fmt.Sprintf("%016d", 24990), fmt.Sprintf("%016d", 24995))}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.derive(base.Bytewise, removed, added); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
