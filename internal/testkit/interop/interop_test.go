package interop

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/testkit/model"
)

// TestMain lets the test program be the Loam that is killed.
func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == "loam-peer" {
		if err := LoamMain(os.Args[1:], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// interpreter is the program to run a peer with, from the environment or found
// by a probe; a missing one fails the test where LOAM_INTEROP=all.
func interpreter(t *testing.T, env, fallback string, probe ...string) string {
	t.Helper()
	program := os.Getenv(env)
	if program == "" {
		program = fallback
	}
	cmd := exec.Command(program, probe...)
	cmd.Dir = "peers"
	if out, err := cmd.CombinedOutput(); err != nil {
		if os.Getenv("LOAM_INTEROP") == "all" {
			t.Fatalf("%s cannot run the peer: %v: %s", program, err, out)
		}
		t.Logf("without %s: %v", program, err)
		return ""
	}
	return program
}

func rounds(t *testing.T, fallback int) int {
	if n, err := strconv.Atoi(os.Getenv("LOAM_ROUNDS")); err == nil {
		return n
	}
	return fallback
}

// TestHandOver plays random histories in which every peer in turn goes on with
// the directory that another left, closed or killed, and all must agree with a
// model at every step.
func TestHandOver(t *testing.T) {
	python := interpreter(t, "LOAM_PYTHON", "python3", "-c", "import plyvel")
	node := interpreter(t, "LOAM_NODE", "node", "-e", "require('classic-level')")
	var loams []Peer
	for _, name := range slices.Sorted(maps.Keys(Options)) {
		loams = append(loams, loam{name})
	}
	peers := Peers(python, node)
	for round := range rounds(t, 6) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(round), 7))
			dir := filepath.Join(t.TempDir(), "db")
			want := model.New(base.Bytewise)
			for step := range 8 {
				p := peers[r.IntN(len(peers))]
				if step%2 == 0 {
					p = loams[r.IntN(len(loams))]
				}
				ops := history(r, want)
				if step%2 == 0 { // above all keys that there are: no table overlaps it
					op := Op{Name: []string{"ingest", "bulkload"}[r.IntN(2)],
						Key: append(bytes.Repeat([]byte{255}, 9), byte(step)), Value: []byte("in")}
					for _, e := range op.Entries() {
						want.Put(e.Key, e.Value)
					}
					ops = slices.Insert(ops, r.IntN(len(ops)+1), op)
				}
				kill := r.IntN(2) == 0
				got, err := p.Play(dir, ops, kill)
				if err != nil {
					t.Fatalf("step %d, %s: %v", step, p.Name(), err)
				}
				compare(t, fmt.Sprintf("step %d, %s", step, p.Name()), got,
					want.Scan(want.Now(), nil, nil))
			}
		})
	}
}

// history makes random operations and applies them to the model.
func history(r *rand.Rand, m *model.Model) []Op {
	var ops []Op
	for range 200 + r.IntN(3000) {
		key := fmt.Appendf(nil, "key%05d", r.IntN(4000))
		if r.IntN(50) == 0 {
			key = bytes.Repeat([]byte{byte(r.IntN(256))}, r.IntN(9))
		}
		switch n := r.IntN(1000); {
		case n < 2:
			ops = append(ops, Op{Name: "compact"})
		case n < 4:
			ops = append(ops, Op{Name: "reopen"})
		case n < 200:
			ops = append(ops, Op{Name: "del", Key: key})
			m.Delete(key)
		default:
			value := make([]byte, r.IntN(120))
			for i := range value {
				value[i] = byte(r.IntN(4))
			}
			if n > 997 {
				value = bytes.Repeat(value, 1000)
			}
			ops = append(ops, Op{Name: "put", Key: key, Value: value})
			m.Put(key, value)
		}
	}
	return ops
}

func compare(t *testing.T, where string, got []Pair, want []model.Pair) {
	t.Helper()
	for i, w := range want {
		if i >= len(got) || string(got[i].Key) != w.Key || string(got[i].Value) != w.Value {
			t.Fatalf("%s: entry %d of %d: want %q, got %d entries", where, i, len(want), w.Key,
				len(got))
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d entries, want %d", where, len(got), len(want))
	}
}
