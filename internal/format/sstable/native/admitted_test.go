package native

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/cache"
)

// TestGetFiltered looks up mostly present keys, then mostly missing keys, then both: the
// filter is used before the index and after it. The answers are the same.
func TestGetFiltered(t *testing.T) {
	const n = 2000
	seed := rand.Uint64()
	b, _ := write(t, options(), n, recordEntry)
	env := testEnv
	env.Cache = cache.New(8 << 20)
	defer env.Cache.Unref()
	r, err := Open(fileOf(b), env)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !r.HasWhole {
		t.Fatal("the table has no filter")
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	get := func(present bool) {
		t.Helper()
		e := recordEntry(rng.IntN(n))
		key := e.key
		if !present {
			key += fmt.Sprint("-", rng.IntN(1000)) // between two keys of the table
		}
		value, _, found, err := r.Get(base.MakeLookup(base.Bytewise, []byte(key), base.MaxSeqNum),
			0, []byte("dst"))
		if err != nil || found != present {
			t.Fatalf("seed %d: Get(%q) found %v, %v", seed, key, found, err)
		}
		if want := "dst" + string(e.value); present && string(value) != want {
			t.Fatalf("seed %d: Get(%q) = %q, want %q", seed, key, value, want)
		}
		if !present && string(value) != "dst" {
			t.Fatalf("seed %d: Get(%q) left %q", seed, key, value)
		}
	}
	for range 3 {
		for _, share := range []int{100, 50, 0, 50} { // percent that are there
			for range 2000 {
				get(rng.IntN(100) < share)
			}
		}
	}
}
