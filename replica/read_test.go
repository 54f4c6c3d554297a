package replica

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/lsm/kv"
)

// shortly bounds a read that cannot succeed. A wrong one that answers within it is found; a right
// one fails however slow the machine is.
func shortly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

// never wants a linearizable read of a key to fail or to have the value, and no other one.
func never(t *testing.T, n *Node, key, other string) {
	t.Helper()
	for _, read := range []func(context.Context, []byte) ([]byte, error){n.Get, n.viewed} {
		v, err := read(shortly(t), []byte(key))
		if err == nil && string(v) != other {
			t.Errorf("%s answers %q = %q, not %q", n.cfg.ID, key, v, other)
		}
		if err != nil && !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", n.cfg.ID, err)
		}
	}
}

// viewed is Get by View.
func (n *Node) viewed(ctx context.Context, key []byte) (out []byte, err error) {
	err = n.View(ctx, func(v *View) error {
		out, err = v.Get(ctx, key)
		return err
	})
	return out, err
}

// TestNewLeaderReadsWhatTheOldOneAcknowledged has a leader acknowledge a write of which the next
// one has the entry, and does not know that it is committed. Messages with entries of the new term
// are lost, heartbeats arrive: the new leader is acknowledged, and still must not read the older
// state.
func TestNewLeaderReadsWhatTheOldOneAcknowledged(t *testing.T) {
	var mu sync.Mutex
	var hold, quiet bool // no entries; no commit index
	lost := errors.New("lost")
	c := newCluster(t, func(cfg *Config) {
		cfg.sent = func(_ raft.ServerAddress, r *raft.AppendEntriesRequest) error {
			mu.Lock()
			defer mu.Unlock()
			if quiet && r.LeaderCommitIndex > 0 {
				r.LeaderCommitIndex = min(r.LeaderCommitIndex, r.PrevLogEntry)
			}
			if hold && len(r.Entries) > 0 {
				return lost
			}
			return nil
		}
	}, "a", "b", "c")
	set := func(h, q bool) {
		mu.Lock()
		hold, quiet = h, q
		mu.Unlock()
	}
	old := c.leader()
	put(t, c.nodes[old], "k", "1")
	for id := range c.nodes {
		c.caughtUp(id, old)
	}
	set(false, true)
	put(t, c.nodes[old], "k", "2")
	set(true, true)
	c.isolate(old)
	led := ""
	c.until("another leader", func() bool {
		for id, n := range c.nodes {
			if id != old && n.run.Load().raft.State() == raft.Leader {
				led = id
			}
		}
		return led != ""
	})
	never(t, c.nodes[led], "k", "2")
	set(false, false)
	if v, err := c.nodes[led].Get(t.Context(), []byte("k")); err != nil || string(v) != "2" {
		t.Errorf("in the end: %q, %v", v, err)
	}
}

// TestDeposedLeaderReadsNothing cuts a leader off, and has the others go on.
func TestDeposedLeaderReadsNothing(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	old := c.leader()
	put(t, c.nodes[old], "k", "1")
	c.isolate(old)
	deposed := c.nodes[old]
	if v, err := deposed.Get(shortly(t), []byte("k")); err == nil {
		t.Errorf("a leader that reaches nobody answers %q", v)
	}
	delete(c.nodes, old)
	put(t, c.nodes[c.leader()], "k", "2")
	never(t, deposed, "k", "2")
	has(t, deposed, "k", "1") // by Local
	err := deposed.View(shortly(t), func(*View) error { return nil }, Local(time.Nanosecond))
	if !errors.Is(err, ErrTooOld) {
		t.Errorf("Local of a nanosecond: %v", err)
	}
	if err := deposed.Put(shortly(t), []byte("k"), []byte("3")); !errors.Is(err, ErrUnknown) &&
		!errors.Is(err, ErrNotApplied) {
		t.Errorf("a write there: %v", err)
	}
	c.nodes[old] = deposed
	c.net.heal()
	if v, err := deposed.Get(t.Context(), []byte("k")); err != nil || string(v) == "1" {
		t.Errorf("in the end: %q, %v", v, err)
	}
}

// TestLostLeaderKnowsNothing writes on a leader that reaches nobody. Where its log got the entry,
// the outcome is unknown: another leader may commit it.
func TestLostLeaderKnowsNothing(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	led := c.leader()
	n := c.nodes[led]
	put(t, n, "k", "1")
	c.isolate(led)
	log := n.run.Load().log
	before, err := log.LastIndex()
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err = n.Put(ctx, []byte("k"), []byte("2"))
	after, err2 := log.LastIndex()
	must(t, err2)
	if err == nil || after > before && !errors.Is(err, ErrUnknown) ||
		errors.Is(err, ErrUnknown) == errors.Is(err, ErrNotApplied) {
		t.Errorf("the log grew from %d to %d: %v", before, after, err)
	}
}

// TestReadsWaitForWhatIsApplied has a follower that got entries and cannot apply them.
func TestReadsWaitForWhatIsApplied(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	leader := c.leader()
	id := c.follower(leader)
	put(t, c.nodes[leader], "k", "1")
	c.caughtUp(id, leader)
	met := c.disks[id].block("/db-")
	put(t, c.nodes[leader], "k", "2")
	<-met
	never(t, c.nodes[id], "k", "2")
	has(t, c.nodes[id], "k", "1")
	c.disks[id].open()
	if v, err := c.nodes[id].Get(t.Context(), []byte("k")); err != nil || string(v) != "2" {
		t.Errorf("in the end: %q, %v", v, err)
	}
}

// TestFollowerAsks has a follower ask a leader that reaches nobody: the two are a majority, so that
// the question is an acknowledgement. It counts in its term, of a voter.
func TestFollowerAsks(t *testing.T) {
	const tries = 10
	for range tries {
		if followerAsks(t) {
			return
		}
	}
	t.Errorf("the leader ceased to lead in %d tries", tries)
}

// followerAsks is false if the leader ceased to lead, as it may where the processors are busy.
func followerAsks(t *testing.T) bool {
	c := newCluster(t, nil, "a", "b", "c")
	led := c.leader()
	put(t, c.nodes[led], "k", "1")
	s := c.nodes[led].run.Load()
	term, id := s.raft.CurrentTerm(), raft.ServerID(c.follower(led))
	members, err := s.configuration()
	must(t, err)
	for _, q := range []question{{term: term - 1, last: 9}, {term: term + 1, last: 9},
		{term: term, last: 4}, {term: term, last: 9, applied: 5}} {
		if q.id = id; s.sayCommitted(&q, members, 5) {
			t.Errorf("%+v: the leader says that entry 5 is committed", q)
		}
	}
	c.isolate(led)
	_, err = s.answerIndex(t.Context(), (&question{term: term, id: id}).encode())
	if err != nil && s.raft.State() != raft.Leader {
		return false // it ceased to lead before the question, or in spite of it
	} else if err != nil {
		t.Error(err)
	}
	for _, q := range []question{{term: term - 1, id: id}, {term: term + 1, id: id},
		{term: term, id: "d"}} {
		if _, err := s.answerIndex(shortly(t), q.encode()); err == nil {
			t.Errorf("%+v: the leader answers though it reaches nobody", q)
		}
	}
	if _, err := s.answerIndex(shortly(t), nil); err == nil {
		t.Error("the leader answers a node of an older version though it reaches nobody")
	}
	return true
}

// TestFollowerReadsWhatWasWritten reads on a follower right after a write, where the leader says
// only once an hour by itself what is committed.
func TestFollowerReadsWhatWasWritten(t *testing.T) {
	c := newCluster(t, func(cfg *Config) {
		cfg.commitTimeout, cfg.Timeout = time.Hour, 30*time.Second
	}, "a", "b", "c")
	led := c.leader()
	for id, n := range c.nodes {
		put(t, c.nodes[led], "k", id)
		if v, err := n.Get(t.Context(), []byte("k")); err != nil || string(v) != id {
			t.Fatalf("%s: %q, %v", id, v, err)
		}
	}
}

// TestAcks wants acknowledgements of messages that were sent after the moment, in the term, by
// voters.
func TestAcks(t *testing.T) {
	var a acks
	a.init()
	voters := []raft.Server{{ID: "a"}, {ID: "b"}, {ID: "c"}, {ID: "r", Suffrage: raft.Nonvoter}}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	refused := func(why string, after uint64) {
		t.Helper()
		if a.wait(over, "a", voters, after, 7) == nil {
			t.Error(why)
		}
	}
	early := a.begin()
	after := a.begin()
	refused("nobody acknowledged", after)
	a.note("b", early, 7)
	refused("a message of before counts", after)
	a.note("b", a.begin(), 6)
	refused("another term counts", after)
	a.note("r", a.begin(), 7)
	if a.wait(over, "a", []raft.Server{voters[0], voters[1], voters[3]}, after, 7) == nil {
		t.Error("a reader counts")
	}
	waits := make(chan error)
	go func() { waits <- a.wait(t.Context(), "a", voters, after, 7) }()
	a.note("c", a.begin(), 7)
	must(t, <-waits)
	a.note("c", early, 7) // an answer that comes late
	must(t, a.wait(over, "a", voters, after, 7), a.wait(over, "a", voters[:1], after, 7))
	refused("the answer of before counts for a later read", a.begin())
}

// TestViews reads with every consistency.
func TestViews(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	leader := c.leader()
	id := c.follower(leader)
	n := c.nodes[id]
	put(t, n, "k", "1")
	for _, how := range []Consistency{Linearizable, Local(time.Hour), Local(0)} {
		must(t, n.View(t.Context(), func(v *View) error {
			put(t, n, "k", "2")
			got, err := v.Get(t.Context(), []byte("k"))
			if string(got) != "1" || v.Index == 0 || v.Age != 0 && how == Linearizable {
				t.Errorf("%v: %q at %d, %v old", how, got, v.Index, v.Age)
			}
			return err
		}, how))
		put(t, n, "k", "1")
		if _, err := n.Get(t.Context(), []byte("k")); err != nil {
			t.Error(err)
		}
	}
	// what was read outlives the view, but not the node
	var it kv.Iterator
	must(t, n.View(t.Context(), func(v *View) (err error) {
		it, err = v.Iter(t.Context(), nil)
		return err
	}))
	if !it.First() || string(it.Value()) != "1" {
		t.Errorf("an iterator of a view that has ended: %v", it.Err())
	}
	must(t, it.Close())
}
