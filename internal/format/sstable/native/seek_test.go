package native

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/sstable"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/os/vfs"
)

// versions is a table's entry i: keys have up to five versions, which may go over into the next
// block.
func versions(i int) entry {
	e := recordEntry(i)
	e.key = fmt.Sprintf("%06d", i/5*2)
	e.t = base.MakeTrailer(base.SeqNum(100-i%5), base.KindSet)
	if i%17 == 0 {
		e.t, e.value = base.MakeTrailer(base.SeqNum(100-i%5), base.KindDelete), []byte{}
	}
	return e
}

// TestSeekAndWalk seeks and walks from there in both directions, in tables that are mapped or not,
// with no cache, with one that is full, and with one that takes all. A seek hands out a part of a
// block, from which the walk goes on.
func TestSeekAndWalk(t *testing.T) {
	const n = 3000
	for name, at := range map[string]func(i int) entry{"records": recordEntry, "versions": versions,
		"db_bench": benchEntry} {
		b, _ := write(t, options(), n, at)
		path := filepath.Join(t.TempDir(), "000007.loam")
		w, err := vfs.Default.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		w.Close()
		mapped, err := vfs.Default.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer mapped.Close()
		for i, src := range []vfs.ReadFile{mapped, fileOf(b)} {
			for _, size := range []int64{0, 40 << 10, 8 << 20} {
				t.Run(fmt.Sprintf("%s/mapped=%v/cache=%d", name, i == 0, size), func(t *testing.T) {
					env := testEnv
					if size > 0 {
						env.Cache = cache.New(size)
						defer env.Cache.Unref()
					}
					r, err := Open(src, env)
					if err != nil {
						t.Fatal(err)
					}
					defer r.Close()
					walk(t, r, n, at)
				})
			}
		}
	}
}

func walk(t *testing.T, r *Reader, n int, at func(i int) entry) {
	const seed = 11
	rng := rand.New(rand.NewPCG(seed, 1))
	parts := 0
	for round := range 300 {
		src := r.NewSource([]sstable.ReadFlags{0, sstable.Scan, sstable.Scan |
			sstable.NoFill}[round%3])
		var e base.Chunk
		for range 1 + rng.IntN(3) {
			want := rng.IntN(n)
			x := at(want)
			i, err := src.SeekGE([]byte(x.key), x.t, &e)
			if err != nil || i < 0 {
				t.Fatalf("seed %d: %d, %v", seed, i, err)
			}
			if e.Len() < 4 {
				parts++
			}
			for range rng.IntN(3) * 60 {
				x := at(want)
				if string(e.Key(i)) != x.key || e.Trailers[i] != x.t ||
					!bytes.Equal(e.Value(i), x.value) || e.MaxSeq < x.t.Seq() || e.AllLiveSets &&
					x.t.Kind() != base.KindSet {
					t.Fatalf("seed %d: entry %d is %q %v %q", seed, want, e.Key(i), e.Trailers[i],
						e.Value(i))
				}
				ok := true
				if rng.IntN(8) > 2 {
					want++
					if i++; i == e.Len() {
						i = 0
						ok, err = src.Next(&e)
					}
				} else {
					want--
					if i--; i < 0 {
						ok, err = src.Prev(&e)
						i = e.Len() - 1
					}
				}
				if err != nil || ok != (want >= 0 && want < n) {
					t.Fatalf("seed %d: entry %d: %v, %v", seed, want, ok, err)
				}
				if !ok {
					break
				}
			}
		}
		src.Close()
	}
	if parts == 0 && r.Env.Cache == nil {
		t.Error("no seek handed out a part of a block")
	}
}

// TestSeekAfterTheEnd: a key behind the last one, and one between blocks.
func TestSeekAfterTheEnd(t *testing.T) {
	b, _ := write(t, options(), 500, func(i int) entry {
		return set(fmt.Sprintf("%08d", 10*i), 1, benchEntry(i).value)
	})
	r := open(t, b)
	src := r.NewSource(0)
	defer src.Close()
	var e base.Chunk
	for i := range 500 {
		at, err := src.SeekGE(fmt.Appendf(nil, "%08d", 10*i+1), base.MaxTrailer, &e)
		switch {
		case err != nil:
			t.Fatal(err)
		case i == 499 && (at != -1 || e.Len() != 0):
			t.Errorf("behind the end is %d of %d entries", at, e.Len())
		case i < 499 && (at < 0 || string(e.Key(at)) != fmt.Sprintf("%08d", 10*i+10)):
			t.Errorf("after %d is entry %d", 10*i, at)
		}
	}
}
