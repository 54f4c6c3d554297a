// Package testkit is what the engine's large tests share: batches that follow from a seed, and
// seeds that are printed and can be set again. Its subpackages script (data-driven tests) and model
// (the oracle) serve small tests too. The others are the large tests themselves: metamorphic
// (random histories against the model), crash (states that a power cut, an I/O error or damage
// leaves), kill (real processes), strangers (other programs in the same directories), history
// (concurrent clients), leak (what must not grow), and soak, a command that runs them for as long
// as one likes.
//
// These functions are not safe for concurrent use unless they say so.
package testkit

import (
	"testing"

	"github.com/loamdb/loam/internal/testkit/seed"
)

// Environment variables that steer the randomized tests.
const (
	SeedEnv = seed.Env     // run with this seed, or with fresh ones if it is "random"
	FullEnv = seed.FullEnv // 1: the long version of each test, with fresh seeds
)

// Full is seed.Full.
func Full() bool { return seed.Full() }

// Scale is seed.Scale.
func Scale(short, usual, full int) int { return seed.Scale(short, usual, full) }

// Brief is seed.Brief.
func Brief(usual, full int) int { return seed.Brief(usual, full) }

// Seed returns the seed of a randomized test, see seed.Of.
func Seed(t testing.TB) int64 {
	t.Helper()
	return seed.Of(t)
}
