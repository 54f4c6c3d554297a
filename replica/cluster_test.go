package replica

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/internal/wire"
)

// TestFollowerGetsASnapshot cuts a follower off until the leader's log lacks what it needs. A
// snapshot of its own state that a reader holds stays as it is.
func TestFollowerGetsASnapshot(t *testing.T) {
	var mu sync.Mutex
	restored := map[string]int{}
	c := newCluster(t, func(cfg *Config) {
		cfg.TrailingEntries = 1
		events := cfg.Events
		cfg.Events = func(e Event) {
			if e.Kind == Restored {
				mu.Lock()
				restored[cfg.ID]++
				mu.Unlock()
			}
			events(e)
		}
	}, "a", "b", "c")
	led := c.leader()
	id := c.follower(led)
	put(t, c.nodes[led], "k", "1")
	c.caughtUp(id, led)
	s := c.nodes[id].run.Load()
	old, err := s.snapshot()
	must(t, err)
	c.isolate(id)
	away := c.nodes[id]
	delete(c.nodes, id)
	led = c.leader()
	for i := range 50 {
		put(t, c.nodes[led], "k", fmt.Sprint(i))
	}
	must(t, c.nodes[led].run.Load().raft.Snapshot().Error())
	put(t, c.nodes[led], "l", "2")
	c.nodes[id] = away
	c.net.heal()
	c.caughtUp(id, led)
	has(t, away, "k", "49")
	has(t, away, "l", "2")
	mu.Lock()
	if restored[id] == 0 {
		t.Errorf("%s got no snapshot", id)
	}
	mu.Unlock()
	if v, err := old.Get(t.Context(), []byte("k")); err != nil || string(v) != "1" {
		t.Errorf("the snapshot of before: %q, %v", v, err)
	}
	must(t, old.Close())
	c.kill(id, crashfs.DropUnsynced, 1)
	c.net.heal()
	c.start(id)
	c.caughtUp(id, led)
	has(t, c.nodes[id], "k", "49")
}

// TestLogBeginsBehindSnapshot: of a log without the entry that the snapshot ends with, Raft learns
// that entry's term, and of no other that is missing.
func TestLogBeginsBehindSnapshot(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.TrailingEntries = 1 }, "a")
	n := c.nodes[c.leader()]
	for i := range 10 {
		put(t, n, "k", fmt.Sprint(i))
	}
	s := n.run.Load()
	must(t, s.raft.Snapshot().Error())
	put(t, n, "k", "10")
	list, err := s.disk.List()
	must(t, err)
	at := list[0].Index
	first, err := s.log.FirstIndex()
	must(t, err)
	must(t, s.log.DeleteRange(min(first, at), at))
	var l raft.Log
	if err := s.log.GetLog(at, &l); err != nil || l.Index != at || l.Term != list[0].Term ||
		l.Type != raft.LogNoop {
		t.Errorf("the snapshot's entry %d is %+v, %v", at, l, err)
	}
	if err := s.log.GetLog(at-1, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("the entry before: %v", err)
	}
}

// TestOnceOnAllNodes has all nodes try the same change, at once and again after restarts.
func TestOnceOnAllNodes(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	key := []byte("counter")
	add := func(n *Node, once string) {
		must(t, n.Once(once).Update(t.Context(), func(x *Txn) error {
			v, err := x.Get(t.Context(), key)
			if err != nil && !errors.Is(err, lsm.ErrNotFound) {
				return err
			}
			i, _ := strconv.Atoi(string(v))
			x.Put(key, fmt.Append(nil, i+1))
			return nil
		}))
	}
	var all sync.WaitGroup
	for id, n := range c.nodes {
		all.Go(func() {
			for i := range 5 {
				add(n, "shared")
				add(n, fmt.Sprint(id, i))
			}
		})
	}
	all.Wait()
	if v, err := c.nodes["a"].Get(t.Context(), key); err != nil || string(v) != "16" {
		t.Errorf("counter = %s, %v, not 16", v, err)
	}
	for _, id := range []string{"a", "b", "c"} {
		c.kill(id, crashfs.DropUnsynced, 1)
	}
	c.net.heal()
	for _, id := range []string{"a", "b", "c"} {
		c.start(id)
	}
	add(c.nodes["b"], "shared")
	if v, err := c.nodes["b"].Get(t.Context(), key); err != nil || string(v) != "16" {
		t.Errorf("after restarts counter = %s, %v, not 16", v, err)
	}
}

// TestCompareAndSwap swaps by way of a follower.
func TestCompareAndSwap(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	n := c.nodes[c.follower(c.leader())]
	for i, step := range []struct {
		old, value []byte
		want       bool
	}{
		{nil, []byte("1"), true}, {nil, []byte("2"), false}, {[]byte("2"), []byte("3"), false},
		{[]byte("1"), []byte{}, true}, {nil, []byte("4"), false}, {[]byte{}, nil, true},
		{[]byte{}, nil, false}, {nil, []byte("5"), true},
	} {
		got, err := n.Once(fresh()).CompareAndSwap(t.Context(), []byte("k"), step.old, step.value)
		if got != step.want || err != nil {
			t.Errorf("step %d: %v, %v", i, got, err)
		}
	}
	if v, err := n.Get(t.Context(), []byte("k")); err != nil || string(v) != "5" {
		t.Errorf("in the end: %q, %v", v, err)
	}
}

// TestUpdateFails gives up a transaction, and one whose reads are always changed.
func TestUpdateFails(t *testing.T) {
	c := newCluster(t, nil, "a")
	n := c.nodes["a"]
	own := errors.New("own")
	err := n.Update(t.Context(), func(x *Txn) error {
		x.Put([]byte("k"), nil)
		return own
	})
	if err != own {
		t.Errorf("an error of the function: %v", err)
	}
	has(t, n, "k", "")
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err = n.Update(ctx, func(x *Txn) error {
		if _, err := x.Get(ctx, []byte("k")); err != nil && !errors.Is(err, lsm.ErrNotFound) {
			return err
		}
		x.Put([]byte("l"), []byte("1"))
		x.Delete([]byte("l"))
		if _, err := x.Get(ctx, []byte("l")); !errors.Is(err, lsm.ErrNotFound) {
			t.Errorf("an own deletion: %v", err)
		}
		if tries++; tries == 3 {
			cancel()
		}
		put(t, n, "k", fmt.Sprint(tries))
		return nil
	})
	if !errors.Is(err, ErrNotApplied) || tries != 3 {
		t.Errorf("after %d tries: %v", tries, err)
	}
}

// TestMembers has nodes enter and leave.
func TestMembers(t *testing.T) {
	c := newCluster(t, nil, "a")
	put(t, c.nodes["a"], "k", "1")
	c.config("b").Join = []string{addr("nobody"), addr("a")}
	c.start("b")
	c.config("r")
	c.start("r")
	must(t, c.nodes["a"].AddReader(t.Context(), "r", addr("r")))
	put(t, c.nodes["r"], "l", "2") // forwarded
	for _, id := range []string{"b", "r"} {
		if v, err := c.nodes[id].Get(t.Context(), []byte("k")); err != nil || string(v) != "1" {
			t.Errorf("%s: %q, %v", id, v, err)
		}
	}
	c.until("b is a member", func() bool { return len(c.nodes["a"].Status().Members) == 3 })
	voters := 0
	for _, m := range c.nodes["r"].Status().Members {
		if m.Addr != addr(m.ID) {
			t.Errorf("member %v", m)
		}
		if m.Voter {
			voters++
		}
	}
	if voters != 2 {
		t.Errorf("%d voters", voters)
	}
	c.until("b leads", func() bool {
		_ = c.nodes["a"].TransferLeader(t.Context(), "b") // a try may fail, as an election may
		return c.nodes["b"].Status().State == "Leader"
	})
	must(t, c.nodes["r"].Remove(t.Context(), "a")) // by way of the leader, b
	c.stop("a")
	put(t, c.nodes["r"], "k", "3")
	has(t, c.nodes["b"], "k", "3") // the leader applied it
	err := c.nodes["r"].AddVoter(t.Context(), "x", "nowhere")
	if !errors.Is(err, lsm.ErrInvalidArgument) {
		t.Errorf("a member without a port: %v", err)
	}
	err = c.nodes["r"].TransferLeader(t.Context(), "x")
	if !errors.Is(err, lsm.ErrInvalidArgument) {
		t.Errorf("a leader that is no member: %v", err)
	}
}

// TestJoinRefused: a new node takes no member's place, neither its name nor its address.
func TestJoinRefused(t *testing.T) {
	c := newCluster(t, nil, "a", "b")
	put(t, c.nodes["a"], "k", "1")
	lone := c.config("x")
	refused := make(chan error, 1)
	lone.ID, lone.Join = "b", []string{addr("a")}
	lone.Events = func(e Event) {
		if e.Kind == Refused {
			select {
			case refused <- e.Err:
			default:
			}
		}
	}
	c.start("x")
	if err := <-refused; !errors.Is(err, ErrRefused) ||
		!strings.Contains(err.Error(), `a node of this name already, with another directory`) {
		t.Error(err)
	}
	if err := c.nodes["a"].AddReader(t.Context(), "y", addr("b")); !errors.Is(err, ErrNotApplied) ||
		!strings.Contains(err.Error(), `node "b" of the cluster has the address b:1 already`) {
		t.Error(err)
	}
	other := c.config("z")
	other.Cluster, other.Join, other.Events = "other", []string{addr("a")}, lone.Events
	c.start("z")
	if err := <-refused; !errors.Is(err, ErrRefused) {
		t.Error(err)
	}
	for _, m := range c.nodes["a"].Status().Members {
		if m.Addr != addr(m.ID) {
			t.Errorf("member %v", m)
		}
	}
}

// TestForeigners refuses nodes of another cluster, and directories of another node.
func TestForeigners(t *testing.T) {
	c := newCluster(t, nil, "a")
	c.config("b").Cluster = "other"
	b := c.start("b")
	_, _, err := b.run.Load().peers.call(t.Context(), addr("a"), opIndex, nil)
	if !errors.Is(err, ErrRefused) {
		t.Errorf("a call of another cluster: %v", err)
	}
	c.stop("b")
	for what, change := range map[string]func(*Config){
		"cluster": func(cfg *Config) { cfg.Cluster = "third" },
		"node":    func(cfg *Config) { cfg.ID = "c" },
	} {
		cfg := *c.configs["b"]
		change(&cfg)
		if n, err := Open("/b", cfg); !errors.Is(err, ErrForeign) {
			t.Errorf("the directory of another %s: %v, %v", what, n, err)
		}
	}
	for _, cfg := range []Config{
		{}, {ID: "a"}, {ID: "a", Addr: "a"},
		{ID: "a", Addr: "a:1", Peers: map[string]string{"b": "b:1"}},
		{ID: "a", Addr: "a:1", Peers: map[string]string{"a": "a:1", "b": "a:1"}},
		{ID: "a", Addr: "a:1", Database: &lsm.Options{Format: lsm.FormatLevelDB}},
		{ID: "a", Addr: "a:1", Database: &lsm.Options{DefaultTTL: 1}},
		{ID: "a", Addr: "a:1", ElectionTimeout: 1},
	} {
		if _, err := Open("/none", cfg); !errors.Is(err, lsm.ErrInvalidArgument) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// TestCheckpoint backs a node up.
func TestCheckpoint(t *testing.T) {
	c := newCluster(t, nil, "a")
	put(t, c.nodes["a"], "k", "1")
	must(t, c.nodes["a"].Checkpoint(t.Context(), "/copy"))
	db, err := lsm.Open("/copy", c.configs["a"].Database)
	must(t, err)
	if v, err := db.Get([]byte("k"), nil); err != nil || string(v) != "1" {
		t.Errorf("the copy has %q, %v", v, err)
	}
	must(t, db.Close())
}

// TestChangeOfAnEndedSession: a change that waits when the session ends did not happen, and whoever
// forwarded it asks the next leader.
func TestChangeOfAnEndedSession(t *testing.T) {
	s := &session{group: group{underWay: maxUnderWay}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	s.cancel(fmt.Errorf("replica: %w", ErrClosed))
	_, err := s.apply(t.Context(), []byte("a change"))
	_, err = decodeAnswer(encodeAnswer(nil, err)) // as the node that forwarded it has it
	if !errors.Is(err, errNotLeader) || errors.Is(err, ErrUnknown) {
		t.Errorf("it fails with %v", err)
	}
	if len(s.group.waiting) > 0 {
		t.Error("it waits still")
	}
}

// TestApplyAll has changes applied together: each has its own outcome, on every node. A leader that
// reaches nobody does not know what became of them, also where it tried again.
func TestApplyAll(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	led := c.leader()
	n := c.nodes[led]
	encoded := func(x *wire.Change, key string) []byte {
		b := kv.NewBatch()
		b.Put([]byte(key), []byte("1"))
		x.Batch = b.Bytes()
		out, err := x.Encode()
		must(t, err)
		return out
	}
	all := func(ctx context.Context, n *Node, changes ...[]byte) (out []string) {
		out = make([]string, len(changes))
		var mu sync.Mutex
		n.ApplyAll(ctx, changes, func(i int, held bool, err error) {
			mu.Lock()
			defer mu.Unlock()
			for _, known := range []error{ErrNotApplied, ErrUnknown, lsm.ErrInvalidArgument} {
				if errors.Is(err, known) {
					out[i] += known.Error() + ";"
				}
			}
			out[i] += fmt.Sprint(held, " ", err == nil)
		})
		return out
	}
	for id, n := range c.nodes {
		old := wire.ConditionOf([]byte(id), []byte("0"))
		got := all(t.Context(), n, encoded(&wire.Change{}, id+"1"), []byte{9},
			encoded(&wire.Change{Conditions: []wire.Condition{old}}, id), encoded(&wire.Change{
				Once: []byte(fresh())}, id+"2"))
		if got[0] != "true true" || got[1] == "false true" || got[2] != "false true" ||
			got[3] != "true true" {
			t.Errorf("%s: %q", id, got)
		}
		must(t, n.View(t.Context(), func(v *View) error {
			values, err := v.MultiGet(t.Context(), [][]byte{[]byte(id), []byte(id + "1"),
				[]byte(id + "2")})
			if err == nil && (values[0] != nil || values[1] == nil || values[2] == nil) {
				t.Errorf("%s has %q", id, values)
			}
			return err
		}))
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	plain, again := encoded(&wire.Change{}, "k"), encoded(&wire.Change{Once: []byte(fresh())}, "k")
	notApplied := ErrNotApplied.Error() + ";false false"
	if got := all(over, n, plain, again); got[0] != notApplied || got[1] != notApplied {
		t.Errorf("no time: %q", got)
	}
	c.isolate(led)
	log := n.run.Load().log
	before, err := log.LastIndex()
	must(t, err)
	got := all(shortly(t), n, plain, again)
	after, err := log.LastIndex()
	must(t, err)
	if want := ErrUnknown.Error() + ";false false"; after > before &&
		(got[0] != want || got[1] != want) {
		t.Errorf("a leader that reaches nobody: %q", got)
	}
}
