package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/testkit"
)

// choices makes a random source of a fuzzer's bytes: each is one choice. Behind
// the end it goes on by itself.
type choices struct {
	left []byte
	rest *rand.PCG
}

func (c *choices) Uint64() uint64 {
	if len(c.left) == 0 {
		return c.rest.Uint64()
	}
	b := c.left[0]
	c.left = c.left[1:]
	return uint64(b) * 0x0101010101010101
}

// FuzzHistory runs short histories made of the input against the model.
func FuzzHistory(f *testing.F) {
	for seed := range uint64(4) {
		source := rand.NewPCG(seed, 3)
		b := make([]byte, 300)
		for i := range b {
			b[i] = byte(source.Uint64())
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		n := min(len(b)/4, 300)
		ops, cmp := draw(rand.New(&choices{b, rand.NewPCG(1, 1)}), n)
		for i := range ops {
			for j := range ops[i].sub {
				ops[i].sub[j].value.size %= 4000 // small inputs, quick runs
			}
			ops[i].value.size %= 4000
		}
		for _, s := range []Setup{{Name: "small", seed: 1, Format: testkit.Format(0)},
			{Name: "random", seed: int64(len(b)) + 2, Format: testkit.Format(int64(len(b)))},
			{Name: "three trees", seed: 1, Keyspaces: true}} {
			if err := run(ops, cmp, s); err != nil {
				var list string
				for _, o := range ops {
					list += fmt.Sprintf("\n\t%v", o)
				}
				t.Fatalf("%s: %v%s", s.Name, err, list)
			}
		}
	})
}
