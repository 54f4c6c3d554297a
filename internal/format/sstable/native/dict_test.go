package native

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/colblk"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
)

// recordEntry is a small document that looks like others and not like itself.
func recordEntry(i int) entry {
	rng := rand.New(rand.NewPCG(3, uint64(i)))
	return set(fmt.Sprintf("%08d", i), base.SeqNum(i+1),
		fmt.Appendf(nil,
			`{"id":%d,"owner":"user%04d","city":"Rotterdam","visits":%d,"premium":%v,`+
				`"created_at":"2024-%02d-%02dT10:00:00Z"}`,
			rng.Uint32(), rng.IntN(10000), rng.IntN(50), rng.IntN(2) == 0, 1+rng.IntN(12),
			1+rng.IntN(28)))
}

func recordEntries(n int) (es []entry) {
	for i := range n {
		es = append(es, recordEntry(i))
	}
	return es
}

const records = 4000

// dictFrame is where the frame of the dictionary lies.
func dictFrame(t testing.TB, b []byte) int {
	t.Helper()
	at := bytes.Index(b, []byte(marker+string(rune(kindDict)))) - frameMarker
	if at < 0 {
		t.Fatal("the table has no dictionary")
	}
	return at
}

// TestDictionary reads a table with a dictionary in all ways, and salvages it.
func TestDictionary(t *testing.T) {
	for _, z := range []sstable.Compression{sstable.Snappy, sstable.Zstd} {
		o := options()
		o.Compression = z
		b, meta := write(t, o, records, recordEntry)
		dictFrame(t, b)
		t.Logf("compression %d: %.1f bytes an entry", z, float64(meta.Size)/records)
		for _, size := range []int64{0, 8 << 20} {
			env := testEnv
			if size > 0 {
				env.Cache = cache.New(size)
			}
			r, err := Open(fileOf(b), env)
			if err != nil {
				t.Fatal(err)
			}
			for i := range records {
				e := recordEntry(i)
				value, _, found, err :=
					r.Get(base.MakeLookup(base.Bytewise, []byte(e.key), base.MaxSeqNum), 0, nil)
				if err != nil || !found || !bytes.Equal(value, e.value) {
					t.Fatalf("%s is %q, %v, %v", e.key, value, found, err)
				}
			}
			n := 0
			src := r.NewSource(0)
			if err := base.Scan(src, func(e *base.Chunk) error {
				for i := range e.Len() {
					if want := recordEntry(n); string(e.Key(i)) != want.key ||
						!bytes.Equal(e.Value(i), want.value) {
						t.Fatalf("entry %d is %q %q", n, e.Key(i), e.Value(i))
					}
					n++
				}
				return nil
			}); err != nil || n != records {
				t.Fatal(n, err)
			}
			src.Close()
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if size > 0 {
				env.Cache.Unref()
			}
		}
		salvaged(t, b, recordEntries(records))
		cut := bytes.Clone(b) // the salvage needs no footer
		clear(cut[len(cut)-FooterLen:])
		n := 0
		if err := Salvage(fileOf(cut), testEnv, sstable.Salvage{
			Add: func(key []byte, _ base.Trailer, codec base.Codec, value []byte) error {
				value, err := colblk.AppendUnpacked(nil, value, codec, nil, 1<<20)
				if !bytes.Equal(value, recordEntry(n).value) {
					t.Fatalf("entry %d is %q: %v", n, value, err)
				}
				n++
				return nil
			},
			Lost: func(sstable.Lost) {},
		}); err != nil || n != records {
			t.Errorf("%d entries: %v", n, err)
		}
	}
}

// TestDamagedDictionary: the table is not opened; a salvage loses the blocks that need the
// dictionary, says so, and hands out no wrong value.
func TestDamagedDictionary(t *testing.T) {
	b, _ := write(t, options(), records, recordEntry)
	b[dictFrame(t, b)+headerLen+100] ^= 1
	if r, err := Open(fileOf(b), testEnv); !errors.Is(err, base.ErrCorruption) {
		r.Close()
		t.Errorf("opened: %v", err)
	}
	got, lost := 0, 0
	if err := Salvage(fileOf(b), testEnv, sstable.Salvage{
		Add: func(key []byte, _ base.Trailer, codec base.Codec, value []byte) error {
			value, err := colblk.AppendUnpacked(nil, value, codec, nil, 1<<20)
			if !bytes.Equal(value, recordEntry(got).value) {
				t.Fatalf("%s is %q: %v", key, value, err)
			}
			got++
			return nil
		},
		Lost: func(sstable.Lost) { lost++ },
	}); err != nil || got == 0 || got > records/10 || lost < 50 {
		t.Errorf("%d entries, %d parts lost: %v", got, lost, err)
	}
}

// TestDictionaryIsNeeded: properties without the dictionary do not make a table that gives values.
func TestDictionaryIsNeeded(t *testing.T) {
	b, _ := write(t, options(), records, recordEntry)
	b = remake(t, b, func(p []byte) []byte {
		props, err := parseProps(p)
		if err != nil || props.dict.Size == 0 {
			t.Fatal(err, props.dict)
		}
		props.dict.Size = 0
		return props.append(nil)
	}, version)
	if r, err := Open(fileOf(b), testEnv); !errors.Is(err, base.ErrCorruption) {
		r.Close()
		t.Errorf("opened: %v", err)
	}
}
