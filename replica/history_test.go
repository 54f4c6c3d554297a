package replica

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/loamdb/loam/internal/testkit/seed"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
	"github.com/loamdb/loam/lsm/kv"
)

// call is an operation of a client on the keys of a history.
type call struct {
	kind       string // get, local, put, swap, batch or move
	key, to    int
	old, value string
}

// answer is what the client was told.
type answer struct {
	value   string // of get and of move: what was read
	held    bool   // of swap
	unknown bool
}

const historyKeys = 3

// registers is the model: the values of all keys, "" for none.
var registers = porcupine.Model{
	Init: func() any { return [historyKeys]string{} },
	Step: func(state, input, output any) (bool, any) {
		s, c, a := state.([historyKeys]string), input.(call), output.(answer)
		switch c.kind {
		case "get":
			return a.unknown || s[c.key] == a.value, s
		case "put":
			s[c.key] = c.value
			return true, s
		case "swap":
			held := s[c.key] == c.old
			if held {
				s[c.key] = c.value
			}
			return a.unknown || a.held == held, s
		case "batch":
			s[c.key], s[c.to] = c.value, c.value
			return true, s
		default: // move
			if !a.unknown && s[c.key] != a.value {
				return false, s
			}
			s[c.to], s[c.key] = s[c.key], c.value
			return true, s
		}
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v -> %+v", input, output)
	},
}

// on makes a call. happened is false where it had no effect for sure.
func (c call) on(t *testing.T, n *Node) (a answer, happened bool) {
	// A call to a node that is cut off ends by it. Whatever ends how decides nothing.
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	key, to := []byte{byte('a' + c.key)}, []byte{byte('a' + c.to)}
	value := func(r kv.Reader) error {
		v, err := r.Get(ctx, key)
		if errors.Is(err, lsm.ErrNotFound) {
			err = nil
		}
		a.value = string(v)
		return err
	}
	var err error
	switch c.kind {
	case "get":
		err = n.View(ctx, func(v *View) error { return value(v) })
	case "put":
		err = n.Put(ctx, key, []byte(c.value))
	case "swap":
		var old []byte
		if c.old != "" {
			old = []byte(c.old)
		}
		a.held, err = n.CompareAndSwap(ctx, key, old, []byte(c.value))
	case "batch":
		b := kv.NewBatch()
		b.Put(key, []byte(c.value))
		b.Put(to, []byte(c.value))
		err = n.Write(ctx, b)
	case "move":
		err = n.Update(ctx, func(x *Txn) error {
			v, err := x.Get(ctx, key)
			if err != nil && !errors.Is(err, lsm.ErrNotFound) {
				return conclude(err) // Update returns it as it is: the node may be closed meanwhile
			}
			if a.value = string(v); err != nil {
				x.Delete(to)
			} else {
				x.Put(to, v)
			}
			x.Put(key, []byte(c.value))
			return nil
		})
	}
	switch {
	case err == nil:
		return a, true
	case errors.Is(err, ErrUnknown):
		return answer{unknown: true}, true
	case c.kind == "get", errors.Is(err, ErrNotApplied):
		if !errors.Is(err, ErrClosed) && !errors.Is(err, ErrUnavailable) &&
			!errors.Is(err, ErrHalted) && !errors.Is(err, ErrNotApplied) {
			t.Errorf("%+v: %v", c, err)
		}
		return answer{}, false
	}
	t.Errorf("%+v: %v is neither", c, err)
	return answer{}, false
}

// live are the running nodes, for clients.
type live struct {
	mu    sync.Mutex
	nodes []*Node
}

func (l *live) set(c *cluster) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nodes = nil
	for _, n := range c.nodes {
		l.nodes = append(l.nodes, n)
	}
}

func (l *live) any(r *rand.Rand) *Node {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nodes[r.IntN(len(l.nodes))]
}

// TestLinearizable has clients read and write on all nodes while leaders lose their power, nodes
// are cut off in one direction or both, connections break, and messages take longer; and looks for
// an order of their operations that explains every answer.
func TestLinearizable(t *testing.T) {
	from := uint64(seed.Of(t))
	for i := range uint64(seed.Scale(1, 1, 20)) {
		linearizable(t, from+i, seed.Scale(60, 100, 600))
	}
}

func linearizable(t *testing.T, from uint64, steps int) {
	c := newCluster(t, func(cfg *Config) {
		cfg.TrailingEntries = 20
	}, "a", "b", "c")
	c.leader()
	var now live
	now.set(c)
	var mu sync.Mutex
	var history []porcupine.Operation
	var clock, answered atomic.Int64
	var clients sync.WaitGroup
	over := make(chan struct{})
	for client := range 5 {
		r := rand.New(rand.NewPCG(from, uint64(client)))
		clients.Go(func() {
			last := "" // what this client saw last, for swaps that hold
			for i := 0; ; i++ {
				select {
				case <-over:
					return
				default:
				}
				x := call{kind: []string{"get", "get", "put", "swap", "batch", "move"}[r.IntN(6)],
					key: r.IntN(historyKeys), old: last, value: fmt.Sprint(client, ".", i)}
				x.to = (x.key + 1) % historyKeys
				begin := clock.Add(1)
				a, happened := x.on(t, now.any(r))
				end := clock.Add(1)
				if answered.Add(1); !happened {
					continue
				}
				if last = x.value; x.kind == "get" {
					last = a.value
				}
				if a.unknown {
					end = math.MaxInt64
				}
				mu.Lock()
				history = append(history, porcupine.Operation{ClientId: client,
					Input: x, Call: begin,
					Output: a, Return: end})
				mu.Unlock()
				if t.Failed() {
					return
				}
			}
		})
	}
	faults := c.faults(t, from, &now, &answered, int64(steps))
	close(over)
	clients.Wait()
	unknown := 0
	for i := range history { // a client goes on after an unknown answer: as another one
		if history[i].Return == math.MaxInt64 {
			unknown++
			history[i].ClientId = 5 + unknown
		}
	}
	if !porcupine.CheckOperations(registers, history) {
		t.Errorf("seed %d: no order explains the history of %d operations", from, len(history))
		for _, o := range history {
			t.Logf("%3d-%3d %d: %+v -> %+v", o.Call, o.Return, o.ClientId, o.Input, o.Output)
		}
	}
	t.Logf("seed %d: %d operations, %d of them unknown; %s", from, len(history), unknown, faults)
	c.same(t)
	c.close()
}

// faults makes faults one after the other. Behind each it waits for some answers.
func (c *cluster) faults(t *testing.T, from uint64, now *live, answered *atomic.Int64,
	steps int64) string {
	r := rand.New(rand.NewPCG(from, 99))
	var made []string
	wait := func(n int64) {
		want := answered.Load() + n
		c.until("answers", func() bool { return answered.Load() >= want || t.Failed() })
	}
	ids := []string{"a", "b", "c"}
	r.Shuffle(3, func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	order := []string{"kill", "isolate", "sever", "drop", "delay"}
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	for _, fault := range order {
		wait(steps / 5)
		led := c.leader()
		other := c.follower(led)
		made = append(made, fault)
		switch fault {
		case "kill":
			gone := c.nodes[led]
			delete(c.nodes, led)
			now.set(c)
			c.nodes[led] = gone
			c.kill(led, crashfs.Loss(r.IntN(4)), from)
			c.leader()
			wait(steps / 10)
			c.reconnect(led)
			c.start(led)
			now.set(c)
		case "isolate":
			c.isolate(led)
			wait(steps / 10)
		case "sever":
			c.net.sever(addr(led), addr(other))
			wait(steps / 10)
		case "drop":
			for _, id := range ids {
				c.net.drop(addr(led), addr(id))
				c.net.drop(addr(id), addr(led))
			}
		case "delay":
			c.net.slow(addr(led), addr(other))
			wait(steps / 20)
		}
		c.net.heal()
	}
	c.leader()
	wait(steps / 5)
	return strings.Join(made, ", ")
}

// same wants the same in all nodes' databases.
func (c *cluster) same(t *testing.T) {
	t.Helper()
	led := c.leader()
	put(t, c.nodes[led], "the end", "")
	content := map[string]string{}
	for id, n := range c.nodes {
		c.caughtUp(id, led)
		must(t, n.View(t.Context(), func(v *View) error {
			it, err := v.Iter(t.Context(), nil)
			if err != nil {
				return err
			}
			for ok := it.First(); ok; ok = it.Next() {
				content[id] += fmt.Sprintf("%q=%q ", it.Key(), it.Value())
			}
			return it.Close()
		}, Local(0)))
		if content[id] != content[led] && content[led] != "" {
			t.Errorf("%s has %s, %s has %s", id, content[id], led, content[led])
		}
	}
}
