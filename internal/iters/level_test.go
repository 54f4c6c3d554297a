package iters

import (
	"github.com/loamdb/loam/internal/base"
	"math/rand/v2"
	"testing"
)

func levelOf(t testing.TB, cmp *base.Comparer, es []entry, rng *rand.Rand, maxStretch int) base.Source {
	return newTestSource(t, cmp, es, rng, maxStretch)
}
