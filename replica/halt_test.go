package replica

import (
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
)

// haltedBy waits until a node is halted, and checks what its calls answer then.
func (c *cluster) haltedBy(id string, cause error) {
	t, n := c.t, c.nodes[id]
	t.Helper()
	c.until(id+" halts", func() bool { return n.Status().Halted != nil })
	ctx := t.Context()
	_, err := n.Get(ctx, []byte("k"))
	for _, err := range []error{n.Status().Halted, err, n.Put(ctx, []byte("k"), nil)} {
		if !errors.Is(err, ErrHalted) || !errors.Is(err, cause) {
			t.Errorf("the halted node %s answers %v", id, err)
		}
	}
	if err := n.Put(ctx, []byte("k"), nil); !errors.Is(err, ErrNotApplied) {
		t.Errorf("a write of a halted node: %v", err)
	}
}

// TestDiskErrorHaltsTheNode has the leader fail to apply an entry that is committed: the node
// halts, the others go on, and the node has the entry when it is back.
func TestDiskErrorHaltsTheNode(t *testing.T) {
	for _, cause := range []error{syscall.EIO, lsm.ErrNoSpace} {
		c := newCluster(t, nil, "a", "b", "c")
		led := c.leader()
		bad := c.nodes[led]
		put(t, bad, "k", "1")
		c.disks[led].fail("/db-", cause)
		err := bad.Put(t.Context(), []byte("k"), []byte("2"))
		if err != nil && !(errors.Is(err, ErrUnknown) && errors.Is(err, ErrHalted)) {
			t.Errorf("the write that the leader could not apply: %v", err)
		}
		c.haltedBy(led, cause)
		has(t, bad, "k", "1")
		delete(c.nodes, led)
		other := c.nodes[c.leader()]
		put(t, other, "l", "3")
		has(t, other, "k", "2") // it was committed
		c.nodes[led] = bad
		c.disks[led].open()
		must(t, bad.Rejoin(), bad.Rejoin())
		if v, err := bad.Get(t.Context(), []byte("k")); err != nil || string(v) != "2" {
			t.Errorf("back again: %q, %v", v, err)
		}
		has(t, bad, "l", "3")
		c.close()
	}
}

// TestTermCannotBeStored has the log's disk of a follower fail, so that it cannot store the term of
// the next leader, which Raft answers with a panic.
func TestTermCannotBeStored(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	led := c.leader()
	id := c.follower(led)
	put(t, c.nodes[led], "k", "1")
	c.caughtUp(id, led)
	c.disks[id].fail("/raft/", syscall.EIO)
	must(t, errors.Join(ignoreTransfer(c.nodes[led].TransferLeader(t.Context(), ""))))
	c.haltedBy(id, syscall.EIO)
	bad := c.nodes[id]
	delete(c.nodes, id)
	put(t, c.nodes[c.leader()], "k", "2")
	c.nodes[id] = bad
	c.disks[id].open()
	port := bad.cfg.Listen
	bad.cfg.Listen = func(string) (net.Listener, error) { return nil, syscall.EADDRINUSE }
	if err := bad.Rejoin(); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("Rejoin without the port: %v", err)
	}
	if err := bad.View(t.Context(), nil, Local(0)); !errors.Is(err, ErrHalted) ||
		errors.Is(err, ErrClosed) {
		t.Errorf("a view behind a Rejoin that failed: %v", err)
	}
	bad.cfg.Listen = port
	must(t, bad.Rejoin())
	if v, err := bad.Get(t.Context(), []byte("k")); err != nil || string(v) != "2" {
		t.Errorf("back again: %q, %v", v, err)
	}
}

// ignoreTransfer leaves out that a transfer takes another way: the term changes all the same.
func ignoreTransfer(err error) error {
	if errors.Is(err, ErrUnknown) || errors.Is(err, ErrNotApplied) {
		return nil
	}
	return err
}

// TestFullLogDisk has the log's disk of a follower be full for a while: the node goes on when there
// is room again, unless there was an election, whose term it could not store.
func TestFullLogDisk(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	led := c.leader()
	id := c.follower(led)
	met := c.disks[id].fail("/raft/", syscall.ENOSPC)
	put(t, c.nodes[led], "k", "1")
	<-met
	put(t, c.nodes[led], "k", "2")
	c.disks[id].open()
	c.until("the follower has it", func() bool {
		if halted := c.nodes[id].Status().Halted; halted != nil {
			if !errors.Is(halted, lsm.ErrNoSpace) ||
				!strings.Contains(halted.Error(), "CurrentTerm") {
				t.Fatal(halted)
			}
			must(t, c.nodes[id].Rejoin())
		}
		v, err := c.nodes[id].Get(t.Context(), []byte("k"))
		return err == nil && string(v) == "2"
	})
}

// TestStateMachineHoldsNoLogUp has two of three nodes acknowledge entries, one of which cannot
// apply any.
func TestStateMachineHoldsNoLogUp(t *testing.T) {
	c := newCluster(t, nil, "a", "b", "c")
	led := c.leader()
	slow := c.follower(led)
	put(t, c.nodes[led], "k", "1")
	c.caughtUp(slow, led)
	c.disks[slow].block("/db-")
	for id := range c.nodes {
		if id != led && id != slow {
			c.stop(id)
		}
	}
	for range 5 {
		put(t, c.nodes[led], "k", "2")
	}
	has(t, c.nodes[slow], "k", "1")
	c.disks[slow].open()
	c.caughtUp(slow, led)
	has(t, c.nodes[slow], "k", "2")
}

// TestLogOfLargeEntries: a log whose entries are few and large is shortened, so that a small
// database does not fill the disk with it.
func TestLogOfLargeEntries(t *testing.T) {
	c := newCluster(t, func(cfg *Config) { cfg.LogBytes = 1 << 20 }, "a", "b", "c")
	n := c.nodes[c.leader()]
	value := strings.Repeat("x", 256<<10)
	for id, n := range c.nodes {
		c.until("the log of "+id+" is shortened", func() bool {
			put(t, n, "k", value)
			first, err := n.run.Load().log.FirstIndex()
			must(t, err)
			return first > 1
		})
	}
	put(t, n, "l", "1")
	for id, n := range c.nodes {
		c.caughtUp(id, c.leader())
		has(t, n, "l", "1")
	}
}

// TestLargeChanges writes what is just small enough, and what is not.
func TestLargeChanges(t *testing.T) {
	c := newCluster(t, nil, "a")
	n := c.nodes["a"]
	value := strings.Repeat("v", MaxChange)
	err := n.Put(t.Context(), []byte("k"), []byte(value))
	if !errors.Is(err, ErrTooLarge) || !errors.Is(err, ErrNotApplied) {
		t.Errorf("above MaxChange: %v", err)
	}
	put(t, n, "k", value[:MaxChange-100])
	has(t, n, "k", value[:MaxChange-100])
}

// TestPowerCutOfAll cuts the power of all nodes while clients write.
func TestPowerCutOfAll(t *testing.T) {
	for _, loss := range []crashfs.Loss{crashfs.DropUnsynced, crashfs.RandomBlocks} {
		c := newCluster(t, nil, "a", "b", "c")
		var acked sync.Map
		var clients sync.WaitGroup
		started := make(chan struct{}, 3)
		for id, n := range c.nodes {
			clients.Go(func() {
				for i := 0; ; i++ {
					key := id + strings.Repeat("x", i)
					if n.Put(t.Context(), []byte(key), []byte("v")) != nil {
						return
					}
					acked.Store(key, true)
					if i == 3 {
						started <- struct{}{}
					}
				}
			})
		}
		<-started
		for seed, id := range []string{"a", "b", "c"} {
			c.kill(id, loss, uint64(seed))
		}
		clients.Wait()
		c.net.heal()
		for _, id := range []string{"a", "b", "c"} {
			c.start(id)
		}
		n := c.nodes["b"]
		count := 0
		acked.Range(func(key, _ any) bool {
			if v, err := n.Get(t.Context(), []byte(key.(string))); err != nil || string(v) != "v" {
				t.Errorf("%.9s, which was acknowledged: %q, %v", key, v, err)
			}
			count++
			return !t.Failed()
		})
		t.Logf("%v: %d writes were acknowledged", loss, count)
		c.close()
	}
}

// TestCloseBesideAHalt: a node halts after the first step of its Close, which returns all the same.
func TestCloseBesideAHalt(t *testing.T) {
	for range 8 { // stop, which chose between two channels that were both ready, ended at one
		c := newCluster(t, nil, "a")
		n := c.nodes["a"]
		delete(c.nodes, "a")
		s := n.run.Load()
		s.cancel(ErrClosed)
		s.halt(syscall.EIO, true)
		hang.Within(t, "Close", func() { _ = n.Close() }) // the cause was told
	}
}
