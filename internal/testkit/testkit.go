// Package testkit is what the engine's large tests share: batches that follow
// from a seed, and seeds that are printed and can be set again. Its subpackages
// script (data-driven tests) and model (the oracle) serve small tests too. The
// others are the large tests themselves: metamorphic (random histories against
// the model), crash (states that a power cut, an I/O error or damage leaves),
// kill (real processes), history (concurrent clients), leak (what must not
// grow), and soak, a command that runs them for as long as one likes.
//
// Nothing here is safe for concurrent use unless it says so.
package testkit

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// Environment variables that steer the randomized tests.
const (
	SeedEnv = "LOAM_SEED" // run with this seed instead of a fresh one
	FullEnv = "LOAM_T2"   // 1: the long version of each test
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

// Seed returns the seed of a randomized test: SeedEnv when set, otherwise a
// fresh one. It is in the test's log, with the way to set it again.
func Seed(t testing.TB) int64 {
	t.Helper()
	if s := os.Getenv(SeedEnv); s != "" {
		v, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", SeedEnv, err)
		}
		return v
	}
	seed := time.Now().UnixNano() & (1<<40 - 1)
	t.Logf("seed %d; again with %s=%d", seed, SeedEnv, seed)
	return seed
}
