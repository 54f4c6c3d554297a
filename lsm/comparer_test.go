package lsm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/os/vfs"
	"github.com/loamdb/loam/internal/testkit/fstest"
	"github.com/loamdb/loam/internal/testkit/seed"
)

// TestComparerOfTheSameName opens a database in turn with a built-in comparer and with one of the
// program's that has its name and its order: both read what either wrote.
func TestComparerOfTheSameName(t *testing.T) {
	for _, builtIn := range []*Comparer{BytewiseComparer, ReverseBytewiseComparer} {
		t.Run(builtIn.Name, func(t *testing.T) {
			own := &Comparer{Name: builtIn.Name, Compare: builtIn.Compare, EqualIsBytewise: true}
			testSameName(t, builtIn, []*Comparer{builtIn, own})
		})
	}
}

func testSameName(t *testing.T, c *Comparer, both []*Comparer) {
	rng := rand.New(rand.NewPCG(uint64(seed.Of(t)), 1))
	o := small(Options{FS: vfs.NewMem(), Format: FormatNative, DisableCompaction: true})
	must(t, o.FS.MkdirAll("out"))
	want := map[string]string{}
	for round := range 8 {
		o.Comparer = both[round%2]
		db := mustOpen(t, "db", o)
		checkSameName(t, rng, db, c, want)
		for range 300 {
			k, v := fmt.Sprintf("key%05d", rng.IntN(3000)), fmt.Sprint(round, rng.Uint64())
			want[k] = v
			must(t, db.Put([]byte(k), []byte(v), NoSync))
		}
		if round%3 == 1 {
			from, to := fmt.Appendf(nil, "key%05d", rng.IntN(3000)), fmt.Appendf(nil, "key%05d",
				rng.IntN(3000))
			if c.Compare(from, to) > 0 {
				from, to = to, from
			}
			maps.DeleteFunc(want, func(k, _ string) bool {
				return c.Compare([]byte(k), from) >= 0 && c.Compare([]byte(k), to) < 0
			})
			must(t, db.DeleteRange(from, to, NoSync))
		}
		key := fmt.Sprintf("ingested%d", round)
		table := writeTable(t, "out/"+key, &Options{FS: o.FS, Format: FormatNative,
			Comparer: both[1-round%2]}, key, "")
		must(t, db.Ingest(context.Background(), nil, table))
		want[key] = ""
		mustFlush(t, db)
		if round == 5 {
			mustCompact(t, db)
		}
		checkSameName(t, rng, db, c, want)
		must(t, db.Verify(context.Background(), nil))
		mustClose(t, db)
	}
	for _, o.Comparer = range both {
		manifests, err := fstest.Find(o.FS, "db", base.FileManifest)
		must(t, err)
		for _, name := range manifests {
			must(t, o.FS.Remove(name))
		}
		if _, err := Repair("db", o); err != nil {
			t.Fatal(err)
		}
		db := mustOpen(t, "db", o)
		checkSameName(t, rng, db, c, want)
		mustClose(t, db)
	}
}

// checkSameName compares all that a database reads with want.
func checkSameName(t *testing.T, rng *rand.Rand, db *DB, c *Comparer, want map[string]string) {
	t.Helper()
	var keys []string
	for k := range want {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int { return c.Compare([]byte(a), []byte(b)) })
	at := 0
	it := db.Iter(nil)
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		if at >= len(keys) || string(it.Key()) != keys[at] || string(it.Value()) != want[keys[at]] {
			t.Fatalf("entry %d is %q", at, it.Key())
		}
		at++
	}
	for ok := it.Last(); ok; ok = it.Prev() {
		if at--; at < 0 || string(it.Key()) != keys[at] {
			t.Fatalf("backward, entry %d is %q", at, it.Key())
		}
	}
	if at != 0 || it.Err() != nil {
		t.Fatalf("%d entries are missing, %v", at, it.Err())
	}
	for range 300 {
		key := fmt.Appendf(nil, "key%05d", rng.IntN(3000))
		v, err := db.Get(key, nil)
		value, there := want[string(key)]
		if there && (err != nil || string(v) != value) || !there && !errors.Is(err, ErrNotFound) {
			t.Fatalf("Get(%s): %q, %v; want %q, %v", key, v, err, value, there)
		}
		i, _ := slices.BinarySearchFunc(keys, key, func(a string, b []byte) int {
			return c.Compare([]byte(a), b)
		})
		if it.SeekGE(key) != (i < len(keys)) || i < len(keys) && !bytes.Equal(it.Key(),
			[]byte(keys[i])) {
			t.Fatalf("SeekGE(%s): %s", key, it.Key())
		}
	}
}
