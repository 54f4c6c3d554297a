package replica

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/loamdb/loam/lsm/crashfs"
	"github.com/loamdb/loam/replica/internal/meeting"
)

// lose takes the directory of a stopped node away.
func (c *cluster) lose(id string) {
	c.disks[id] = &gate{FS: crashfs.New()}
	c.configs[id].Database.FS, c.configs[id].Log.Database.FS = c.disks[id], c.disks[id]
}

// TestLostDirectory: a member that comes back without its directory is refused by those that it
// has met, and they ask nothing of it: its vote could undo what it has acknowledged. When it has
// been removed a node with its name is a new one.
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

// TestLostLog: a directory with databases and without its Raft log is refused, and keeps them.
func TestLostLog(t *testing.T) {
	c := newCluster(t, nil, "a")
	put(t, c.nodes["a"], "k", "1")
	c.stop("a")
	must(t, removeAll(c.disks["a"], "/a/raft"))
	for range 2 {
		if n, err := Open("/a", *c.configs["a"]); !errors.Is(err, ErrForeign) {
			t.Errorf("%v, %v", n, err)
		}
		if names, err := c.disks["a"].List("/a"); err != nil || !slices.Contains(names, "db-1") {
			t.Errorf("files %q, %v", names, err)
		}
	}
}
