package replica

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loamdb/loam/lsm/crashfs"
	"github.com/loamdb/loam/replica/internal/directory"
	"github.com/loamdb/loam/replica/internal/meeting"
)

// lose takes the directory of a stopped node away.
func (c *cluster) lose(id string) {
	c.disks[id] = &gate{FS: crashfs.New()}
	c.configs[id].Database.FS, c.configs[id].Log.Database.FS = c.disks[id], c.disks[id]
}

// TestLostDirectory: a member that comes back without its directory is refused by the members that
// it met, and they ask nothing of it: its vote could undo entries that it acknowledged. After its
// removal a node with its name is a new one.
func TestLostDirectory(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	led := c.leader()
	id := c.follower(led)
	put(t, c.nodes[led], "k", "1")
	for from, n := range c.nodes {
		for to := range c.nodes {
			c.until(from+" has met "+to, func() bool {
				return from == to || n.run.Load().disk.hasMet(to)
			})
		}
	}
	c.stop(id)
	c.start(id) // with its directory
	c.caughtUp(id, led)
	c.stop(id)
	c.lose(id)
	refused := make(chan error, 9)
	events := c.configs[id].Events
	c.configs[id].Events = func(e Event) {
		if e.Kind == Refused {
			select {
			case refused <- e.Err:
			default:
			}
		}
		events(e)
	}
	c.start(id)
	if err := <-refused; !errors.Is(err, ErrRefused) || !errors.Is(err, meeting.ErrOther) ||
		!strings.Contains(err.Error(), "remove \""+id+"\"") {
		t.Error(err)
	}
	for from, n := range c.nodes {
		_, _, err := n.run.Load().peers.call(shortly(t), addr(id), opPing, nil)
		if from != id && !errors.Is(err, meeting.ErrOther) {
			t.Errorf("%s calls the node without its directory: %v", from, err)
		}
	}
	c.stop(id)
	c.lose(id)
	must(t, c.nodes[c.leader()].Remove(t.Context(), id))
	c.configs[id].Peers, c.configs[id].Join = nil, []string{addr(c.leader())}
	back := c.start(id)
	c.until(id+" is a member", func() bool {
		return slices.ContainsFunc(back.Status().Members, func(m Member) bool { return m.ID == id })
	})
	if v, err := back.Get(t.Context(), []byte("k")); err != nil || string(v) != "1" {
		t.Errorf("%q, %v", v, err)
	}
}

// TestStanding: a change of the membership is refused after which nothing could be changed: a voter
// that does not answer, or another node at its address, and the removal of one without which too
// few are left.
func TestStanding(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.Timeout = 10 * time.Second }, "a", "b", "c")
	led := c.leader()
	n, gone := c.nodes[led], c.follower(led)
	other := "abc"[3-strings.Index("abc", led)-strings.Index("abc", gone):][:1]
	c.net.mu.Lock()
	c.net.at[addr("y")] = c.net.at[addr(other)]
	c.net.mu.Unlock()
	refused := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrNotApplied) || !errors.Is(err, ErrUnavailable) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	refused("a voter that is not there", n.AddVoter(t.Context(), "x", addr("x")))
	refused("another node's address", n.AddVoter(t.Context(), "y", addr("y")))
	c.stop(gone)
	refused("the last one but one", n.Remove(t.Context(), other))
	if all := n.Status().Members; len(all) != 3 {
		t.Errorf("members %v", all)
	}
	must(t, n.Remove(t.Context(), gone))
	put(t, n, "k", "1")
}

// TestAddressOfAnother: what is said to a member reaches no other node that has got its address:
// the answers would count for the member.
func TestAddressOfAnother(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	led := c.leader()
	gone := c.follower(led)
	c.stop(gone)
	other := c.follower(led)
	c.net.mu.Lock()
	c.net.at[addr(gone)] = c.net.at[addr(other)]
	c.net.mu.Unlock()
	c.until("the other node is found there", func() bool {
		_, _, err := c.nodes[led].run.Load().peers.call(shortly(t), addr(gone), opPing, nil)
		if err == nil {
			t.Fatal("the other node answers")
		}
		// the connection of before may have to end first
		return strings.Contains(err.Error(), `the node "`+other+`" is there`)
	})
	put(t, c.nodes[led], "k", "1")
}

// TestLostLog: a directory with databases and without its Raft log is refused, and keeps them.
func TestLostLog(t *testing.T) {
	c := newCluster(t, nil, "a")
	put(t, c.nodes["a"], "k", "1")
	c.stop("a")
	must(t, directory.RemoveAll(c.disks["a"], "/a/raft"))
	for range 2 {
		if n, err := Open("/a", *c.configs["a"]); !errors.Is(err, ErrForeign) {
			t.Errorf("%v, %v", n, err)
		}
		if names, err := c.disks["a"].List("/a"); err != nil || !slices.Contains(names, "db-1") {
			t.Errorf("files %q, %v", names, err)
		}
	}
}

// TestNamesOfOthers: what a crash left goes at the next opening, and a directory that the node did
// not make stays, as a copy that somebody put beside.
func TestNamesOfOthers(t *testing.T) {
	c := newCluster(t, nil, "a")
	c.stop("a")
	kept := []string{"db-old", "db-1.copy", "db-", "db-01", "snap-1x", "snap-+7"}
	for _, name := range append([]string{"db-77", "snap-78"}, kept...) {
		must(t, c.disks["a"].MkdirAll("/a/"+name))
	}
	c.start("a")
	names, err := c.disks["a"].List("/a")
	must(t, err)
	for _, name := range kept {
		if !slices.Contains(names, name) {
			t.Errorf("%s was removed", name)
		}
	}
	if slices.Contains(names, "db-77") || slices.Contains(names, "snap-78") {
		t.Errorf("files %q", names)
	}
}

// TestPanicInUpdate: the state of a transaction whose function panics is given back.
func TestPanicInUpdate(t *testing.T) {
	c := newCluster(t, nil, "a")
	n := c.nodes["a"]
	put(t, n, "k", "1")
	func() {
		defer func() { _ = recover() }()
		_ = n.Update(t.Context(), func(*Txn) error { panic("of the program") })
	}()
	if refs := n.run.Load().fsm.current.refs.Load(); refs != 1 {
		t.Errorf("the database has %d references", refs)
	}
}
