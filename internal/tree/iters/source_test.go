package iters

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/model"
)

// newTestSource returns a source of sorted entries in random chunks, some of which
// do not say AllLiveSets although they could.
func newTestSource(t testing.TB, cmp *base.Comparer, es []model.Entry, rng *rand.Rand,
	maxChunk int) *model.Source {
	s := model.NewSource(t, cmp, es, model.RandomChunks(rng, len(es), maxChunk))
	s.Adjust = func(c *base.Chunk) {
		if rng.IntN(8) == 0 {
			c.AllLiveSets = false
		}
	}
	return s
}

// randomKey draws from a small universe with many shared prefixes, including
// the empty key and keys that are prefixes of others.
func randomKey(rng *rand.Rand, style int) []byte {
	switch style {
	case 0:
		return fmt.Appendf(nil, "%016d", rng.IntN(300))
	case 1:
		const letters = "aAbB\x00\xff"
		k := make([]byte, rng.IntN(4))
		for i := range k {
			k[i] = letters[rng.IntN(len(letters))]
		}
		return k
	case 2:
		k := bytes.Repeat([]byte("p"), rng.IntN(30))
		return append(k, byte(rng.IntN(4)), byte(rng.IntN(4)))
	}
	return fmt.Appendf(nil, "%c", 'a'+rng.IntN(3))
}
