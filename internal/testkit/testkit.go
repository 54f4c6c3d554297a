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
	"os"
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

// MemoryDir returns a directory that is removed after the test. It lies in memory where the system
// has a place for that, as a sync takes no time there; in long runs it lies on the disk.
func MemoryDir(t testing.TB) string {
	t.Helper()
	if !Full() {
		if dir, err := os.MkdirTemp("/dev/shm", "loam"); err == nil {
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			return dir
		}
	}
	return t.TempDir()
}

// Seed returns the seed of a randomized test, see seed.Of.
func Seed(t testing.TB) int64 {
	t.Helper()
	return seed.Of(t)
}
