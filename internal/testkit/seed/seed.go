// Package seed chooses the seeds and the sizes of tests, those of the packages that
// testkit imports included. It is safe for concurrent use.
package seed

import (
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

const (
	// Env is a seed for all tests, or Random.
	Env = "LOAM_SEED"
	// Random gives each test a fresh seed.
	Random = "random"
	// FullEnv is 1 in long runs, which have fresh seeds too.
	FullEnv = "LOAM_T2"
)

// Full reports whether the long versions were asked for.
func Full() bool { return os.Getenv(FullEnv) == "1" }

// Scale returns the size of a test for this run: short under -short, full
// when Full, usual otherwise.
func Scale(short, usual, full int) int {
	switch {
	case testing.Short():
		return short
	case Full():
		return full
	}
	return usual
}

// Brief returns the size of a test under -short, for Scale: usual in usual runs, full when Full.
func Brief(usual, full int) int {
	if Full() {
		return full
	}
	return usual
}

// limit keeps seeds short enough to be typed.
const limit = 1 << 40

// Of returns the seed of a test: that of Env; a fresh one if Env is Random, or unset in a
// long run; otherwise one that follows from the test's name, so that usual runs try the
// same. It is in the test's log, with the way to set it again.
func Of(t testing.TB) int64 {
	t.Helper()
	var seed int64
	switch s := os.Getenv(Env); {
	case s == Random || s == "" && Full():
		seed = rand.Int64N(limit)
	case s == "":
		h := fnv.New64a()
		_, _ = h.Write([]byte(t.Name()))
		seed = int64(h.Sum64() % limit)
	default:
		var err error
		if seed, err = strconv.ParseInt(s, 10, 64); err != nil {
			t.Fatalf("%s: %v; want a number or %q", Env, err, Random)
		}
	}
	t.Logf("seed %d; again with %s=%d", seed, Env, seed)
	return seed
}
