package faults

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/loamdb/loam/replica/client"
)

// Options says what Run does.
type Options struct {
	Program string // loamd
	Dir     string // of the nodes, empty
	Seed    uint64
	Spaces  bool                       // each node has a network namespace, and is cut off, too
	Faults  int                        // how many
	Answers int64                      // between faults
	Log     func(string, ...any)       // takes what happens
	Limit   time.Duration              // after which it is an error that nothing goes on
	ids     []string                   // of the nodes
	now     context.Context            // ends by Limit
	kinds   []func(*run, string) error // of the faults
}

// Report is what a run was.
type Report struct{ Operations, Kept, Faults int }

// run is a running Run.
type run struct {
	o    *Options
	c    *cluster
	load load
}

// Run runs three nodes and eight clients, and makes faults.
func Run(ctx context.Context, o Options) (*Report, error) {
	var cancel context.CancelFunc
	o.now, cancel = context.WithTimeout(ctx, o.Limit)
	defer cancel()
	o.ids = []string{"a", "b", "c"}
	o.kinds = []func(*run, string) error{(*run).kill, (*run).freeze, (*run).restart}
	if o.Spaces {
		o.kinds = append(o.kinds, (*run).isolate, (*run).muffle, (*run).deafen)
	}
	c, err := newCluster(&o, o.ids...)
	if err != nil {
		return nil, err
	}
	r := &run{o: &o, c: c}
	defer c.close()
	for _, id := range o.ids {
		if err := c.start(id); err != nil {
			return nil, err
		}
	}
	if err := r.underLoad(); err != nil {
		return nil, err
	}
	if err := errors.Join(r.load.check(), r.same()); err != nil {
		return nil, fmt.Errorf("seed %d: %w", o.Seed, err)
	}
	return &Report{len(r.load.history), len(r.load.kept), o.Faults}, nil
}

// underLoad makes the faults while clients are busy.
func (r *run) underLoad() (err error) {
	working, stop := context.WithCancel(context.Background())
	var all []*client.Client
	defer func() {
		stop()
		r.load.clients.Wait()
		for _, db := range all {
			err = errors.Join(err, db.Close())
		}
	}()
	for id := range 8 {
		db, err := r.c.dial(client.Options{TryTimeout: 500 * time.Millisecond})
		if err != nil {
			return err
		}
		all = append(all, db)
		r.load.clients.Go(func() { r.load.run(working, db, id, r.o.Seed) })
	}
	rnd := rand.New(rand.NewPCG(r.o.Seed, 99))
	order := rnd.Perm(len(r.o.kinds))
	for i := range r.o.Faults {
		if err := r.answers(r.o.Answers); err != nil {
			return err
		}
		led, err := r.c.leader(r.o.now)
		if err != nil {
			return err
		}
		if i%4 == 3 { // a follower for once
			led = r.o.ids[(indexOf(r.o.ids, led)+1)%len(r.o.ids)]
		}
		if err := r.o.kinds[order[i%len(order)]](r, led); err != nil {
			return err
		}
	}
	return r.answers(r.o.Answers)
}

func indexOf(all []string, s string) int {
	for i := range all {
		if all[i] == s {
			return i
		}
	}
	return -1
}

// answers waits for further answers to clients.
func (r *run) answers(n int64) error {
	want := r.load.answered.Load() + n
	for t := time.NewTicker(5 * time.Millisecond); ; {
		select {
		case <-r.o.now.Done():
			return fmt.Errorf("%d of %d answers: %w", r.load.answered.Load(), want, r.o.now.Err())
		case <-t.C:
		}
		if r.load.answered.Load() >= want {
			t.Stop()
			return nil
		}
	}
}

// kill ends a node without a word, and starts it again when the others have gone on.
func (r *run) kill(id string) error {
	r.o.Log("kill -9 %s", id)
	if err := r.c.end(id, syscall.SIGKILL); err != nil {
		return err
	}
	if err := r.answers(r.o.Answers); err != nil {
		return err
	}
	return r.c.start(id)
}

// freeze stops a node until the others have gone on: when it goes on it believes that it leads.
func (r *run) freeze(id string) error {
	r.o.Log("stop %s", id)
	p := r.c.running[id].Process
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err := r.answers(r.o.Answers)
	return errors.Join(err, p.Signal(syscall.SIGCONT))
}

// restart ends a node in order, and starts it again.
func (r *run) restart(id string) error {
	r.o.Log("restart %s", id)
	if err := r.c.end(id, syscall.SIGTERM); err != nil {
		return err
	}
	return r.c.start(id)
}

// isolate cuts a node off from the others, but not from clients, until they have gone on.
func (r *run) isolate(id string) error {
	return r.cut("isolate", id, append(r.ways(id, true), r.ways(id, false)...))
}

// muffle drops what a node sends to the others, and deafen what they send to it.
func (r *run) muffle(id string) error { return r.cut("muffle", id, r.ways(id, true)) }

func (r *run) deafen(id string) error { return r.cut("deafen", id, r.ways(id, false)) }

// ways are those from a node to each other one, or from each to it.
func (r *run) ways(id string, from bool) (all [][2]string) {
	for _, other := range r.o.ids {
		switch {
		case other == id:
		case from:
			all = append(all, [2]string{id, other})
		default:
			all = append(all, [2]string{other, id})
		}
	}
	return all
}

// cut drops what goes these ways, until clients got further answers.
func (r *run) cut(what, id string, ways [][2]string) (err error) {
	r.o.Log("%s %s", what, id)
	for _, w := range ways {
		err = errors.Join(err, r.c.spaces.mute(w[0], w[1]))
	}
	if err == nil {
		err = r.answers(r.o.Answers)
	}
	for _, w := range ways {
		err = errors.Join(err, r.c.spaces.unmute(w[0], w[1]))
	}
	return err
}

// same waits until all nodes have the same entries, and compares what they hold. What was
// acknowledged is in it.
func (r *run) same() error {
	db, err := r.c.dial(client.Options{})
	if err != nil {
		return err
	}
	err = db.Once("the end").Put(r.o.now, []byte("the end"), nil)
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := r.equalIndex(); err != nil {
		return err
	}
	var first string
	for _, id := range r.o.ids {
		sum, err := r.hash(id)
		if err != nil {
			return err
		}
		if first == "" {
			first = sum
		}
		if sum != first {
			return fmt.Errorf("node %s holds %s, and node %s %s", id, sum, r.o.ids[0], first)
		}
	}
	return nil
}

// equalIndex waits until all nodes have applied the same entry, the last one.
func (r *run) equalIndex() error {
	for r.o.now.Err() == nil {
		var at []uint64
		for _, id := range r.o.ids {
			s, err := r.c.status(r.o.now, id)
			if err != nil {
				return err
			}
			at = append(at, s.Applied, s.Commit)
		}
		equal := true
		for _, x := range at {
			equal = equal && x == at[0]
		}
		if equal {
			return nil
		}
	}
	return fmt.Errorf("the nodes never have the same entries: %w", r.o.now.Err())
}

// hash is the sum over all keys and values of a node's own state.
func (r *run) hash(id string) (sum string, err error) {
	db, err := r.c.dial(client.Options{}, id)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	it, err := db.Local(0).Iter(r.o.now, nil)
	if err != nil {
		return "", err
	}
	h, there := sha256.New(), map[string]bool{}
	for ok := it.First(); ok; ok = it.Next() {
		fmt.Fprintf(h, "%q %q\n", it.Key(), it.Value())
		there[string(it.Key())] = true
	}
	if err := it.Close(); err != nil {
		return "", err
	}
	for _, k := range r.load.kept {
		if !there[k] {
			return "", fmt.Errorf("node %s lost %q, which was acknowledged", id, k)
		}
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
