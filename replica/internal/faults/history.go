package faults

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica/client"
)

// call is an operation of a client on one key.
type call struct {
	kind       string // get, put or swap
	key        string
	old, value string
}

// answer is what the client was told.
type answer struct {
	value   string // of get
	held    bool   // of swap
	unknown bool
}

// registers is the model: the value of each key by itself, "" for none.
var registers = porcupine.Model{
	Partition: func(all []porcupine.Operation) (by [][]porcupine.Operation) {
		keys := map[string][]porcupine.Operation{}
		for _, o := range all {
			k := o.Input.(call).key
			keys[k] = append(keys[k], o)
		}
		for _, of := range keys {
			by = append(by, of)
		}
		return by
	},
	Init: func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		s, c, a := state.(string), input.(call), output.(answer)
		switch c.kind {
		case "get":
			return s == a.value, s
		case "put":
			return true, c.value
		default:
			held := s == c.old
			if held {
				s = c.value
			}
			return a.unknown || a.held == held, s
		}
	},
	Equal: func(a, b any) bool { return a == b },
	DescribeOperation: func(input, output any) string {
		return fmt.Sprintf("%+v -> %+v", input, output)
	},
}

// callLimit bounds a call. Whatever ends by it is unknown, which decides nothing.
const callLimit = 2 * time.Second

// on makes a call. happened is false where it had no effect for sure.
func (c call) on(ctx context.Context, db *client.Client) (a answer, happened bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	switch c.kind {
	case "get":
		var v []byte
		if v, err = db.Get(ctx, []byte(c.key)); errors.Is(err, lsm.ErrNotFound) {
			err = nil
		}
		a.value = string(v)
	case "put":
		err = db.Put(ctx, []byte(c.key), []byte(c.value))
	case "swap":
		var old []byte
		if c.old != "" {
			old = []byte(c.old)
		}
		a.held, err = db.CompareAndSwap(ctx, []byte(c.key), old, []byte(c.value))
	}
	switch {
	case err == nil:
		return a, true, nil
	case c.kind == "get" && errors.Is(err, client.ErrUnavailable):
		return answer{}, false, nil
	case errors.Is(err, client.ErrUnknown):
		return answer{unknown: true}, true, nil
	case errors.Is(err, client.ErrNotApplied) && (errors.Is(err, client.ErrUnavailable) ||
		errors.Is(err, context.DeadlineExceeded)):
		return answer{}, false, nil
	}
	return answer{}, false, fmt.Errorf("%+v: %w", c, err)
}

// load is the clients.
type load struct {
	clock, answered atomic.Int64
	clients         sync.WaitGroup

	mu      sync.Mutex
	history []porcupine.Operation
	kept    []string // keys that were acknowledged
	failed  error
}

// keys is how many keys have registers.
const keys = 4

// run is one client, until the context is done.
func (l *load) run(ctx context.Context, db *client.Client, id int, seed uint64) {
	r := rand.New(rand.NewPCG(seed, uint64(id)))
	last := "" // what this client saw last, for swaps that hold
	for i := 0; ctx.Err() == nil; i++ {
		x := call{kind: []string{"get", "get", "put", "swap"}[r.IntN(4)],
			key: fmt.Sprint("register ", r.IntN(keys)), old: last, value: fmt.Sprint(id, ".", i)}
		begin := l.clock.Add(1)
		a, happened, err := x.on(context.WithoutCancel(ctx), db)
		end := l.clock.Add(1)
		if last = x.value; x.kind == "get" {
			last = a.value
		}
		if a.unknown {
			end = math.MaxInt64
		}
		own := fmt.Sprint("kept ", id, " ", i)
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
		put := db.Put(limited, []byte(own), []byte(own))
		cancel()
		l.mu.Lock()
		if happened {
			l.history = append(l.history, porcupine.Operation{ClientId: id, Input: x, Call: begin,
				Output: a, Return: end})
		}
		if put == nil {
			l.kept = append(l.kept, own)
		}
		l.failed = errors.Join(l.failed, err)
		l.mu.Unlock()
		if happened && !a.unknown {
			l.answered.Add(1)
		}
	}
}

// check looks for an order that explains the history.
func (l *load) check() error {
	unknown := 0
	for i := range l.history { // a client goes on after an unknown answer: as another one
		if l.history[i].Return == math.MaxInt64 {
			unknown++
			l.history[i].ClientId = 1000 + unknown
		}
	}
	if l.failed == nil && !porcupine.CheckOperations(registers, l.history) {
		return fmt.Errorf("no order explains the history of %d operations", len(l.history))
	}
	return l.failed
}
