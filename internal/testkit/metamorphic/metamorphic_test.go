package metamorphic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit"
)

// TestHistories runs 80,000 operations in the usual size: histories of
// 20,000 operations, each under 4 option sets.
func TestHistories(t *testing.T) {
	seed := testkit.Seed(t)
	const length = 20_000
	histories := testkit.Scale(1, 1, 75)
	setups := testkit.Scale(4, 4, 8)
	t.Run("histories", func(t *testing.T) {
		for i := range histories {
			s := seed + int64(i)
			t.Run(fmt.Sprint(s), func(t *testing.T) {
				t.Parallel()
				if err := Run(s, length, setups, 20*time.Second); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
	t.Logf("%d operations", histories*setups*length)
}

// TestSeveral runs three databases with one cache side by side, one of them on
// a disk that blocks.
func TestSeveral(t *testing.T) {
	seed := testkit.Seed(t)
	ops, blocks := 0, 0
	for i := range testkit.Scale(1, 2, 150) {
		n, err := Several(seed+int64(i), 5000)
		if err != nil {
			t.Fatalf("%s=%d: %v", testkit.SeedEnv, seed+int64(i), err)
		}
		ops, blocks = ops+3*5000, blocks+n
	}
	t.Logf("%d operations, the disk blocked %d times", ops, blocks)
}

// TestSeedIsTheHistory wants the same history from the same seed, and every
// kind of operation in some history.
func TestSeedIsTheHistory(t *testing.T) {
	var seen [numKinds]bool
	for seed := range int64(20) {
		a, _ := generate(seed, 2000)
		b, _ := generate(seed, 2000)
		for i := range a {
			if a[i].String() != b[i].String() {
				t.Fatalf("seed %d: operation %d differs: %v, %v", seed, i, a[i], b[i])
			}
			seen[a[i].kind] = true
		}
	}
	for k, ok := range seen {
		if !ok {
			t.Errorf("%s never comes up", kindNames[k])
		}
	}
}

// TestShrink shrinks a history that fails when it has three given operations
// in order.
func TestShrink(t *testing.T) {
	ops, _ := generate(1, 500)
	need := []string{ops[50].String(), ops[200].String(), ops[301].String()}
	fails := func(h []op) error {
		found := 0
		for i := range h {
			if found < len(need) && h[i].String() == need[found] {
				if found++; found == len(need) {
					return &Failure{Index: i, Op: h[i].String(), Err: errors.New("planted")}
				}
			}
		}
		return nil
	}
	short, err := shrink(ops, fails(ops), time.Minute, fails)
	if len(short) != 3 || err == nil {
		t.Errorf("shrunk to %d operations, %v", len(short), err)
	}
}

// TestShapes: a queue's deletions follow its puts in their order, a stack's go back, windows are
// batches of deletions, and the generator draws all of them.
func TestShapes(t *testing.T) {
	runs := map[shape]int{} // of eight deletions or more side by side, in the order of the keys
	for s := range numShapes {
		g := &generator{rng: rand.New(rand.NewPCG(uint64(s), 1)), cmp: base.Bytewise,
			keySpace: 1000, weights: weights}
		for _, w := range weights {
			g.total += w
		}
		if s != anywhere {
			g.beginShape(s)
		}
		var last []byte
		run := 0
		delete := func(key []byte) {
			if string(key) > string(last) {
				run++
			} else {
				run = 1
			}
			if last = key; run == 8 {
				runs[s]++
			}
		}
		for range 20000 {
			switch o := g.op(); o.kind {
			case opDelete:
				delete(o.key)
			case opBatch:
				for _, w := range o.sub {
					if w.kind == opDelete {
						delete(w.key)
					}
				}
			}
		}
	}
	if runs[queue] < 50 || runs[windows] < 50 || runs[anywhere] > 10 || runs[stack] > 50 {
		t.Errorf("ascending runs of deletions by shape: %v", runs)
	}
}
