package raftlog

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// restoreCommitted sets Config.RestoreCommittedLogs where raft has it.
var restoreCommitted func(*raft.Config)

// list is a state machine that keeps the commands in the order in which they were committed.
type list struct {
	mu       sync.Mutex
	changed  sync.Cond
	commands []string
}

func newList() *list {
	l := &list{}
	l.changed.L = &l.mu
	return l
}

// Apply adds a command once: one whose leader was lost is proposed again.
func (l *list) Apply(e *raft.Log) any {
	l.mu.Lock()
	defer l.mu.Unlock()
	if command := string(e.Data); !slices.Contains(l.commands, command) {
		l.commands = append(l.commands, command)
		l.changed.Broadcast()
	}
	return nil
}

// waitFor returns when the list has n commands.
func (l *list) waitFor(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.commands) < n {
		l.changed.Wait()
	}
	return slices.Clone(l.commands)
}

func (l *list) Snapshot() (raft.FSMSnapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b bytes.Buffer
	for _, c := range l.commands {
		fmt.Fprintln(&b, c)
	}
	return image(b.Bytes()), nil
}

func (l *list) Restore(r io.ReadCloser) error {
	b, err := io.ReadAll(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commands = nil
	for line := range bytes.Lines(b) {
		l.commands = append(l.commands, string(bytes.TrimSpace(line)))
	}
	l.changed.Broadcast()
	return err
}

type image []byte

func (i image) Persist(sink raft.SnapshotSink) error {
	if _, err := sink.Write(i); err != nil {
		_ = sink.Cancel()
		return err
	}
	return sink.Close()
}

func (image) Release() {}

// node is a raft node over a Store of its own.
type node struct {
	id        raft.ServerID
	dir       string
	store     *Store
	fsm       *list
	raft      *raft.Raft
	transport *raft.InmemTransport
}

type cluster struct {
	t     *testing.T
	nodes []*node
}

func (c *cluster) start(n *node) {
	t := c.t
	n.store = open(t, filepath.Join(n.dir, "raft"), &small)
	snapshots, err := raft.NewFileSnapshotStore(n.dir, 1, io.Discard)
	must(t, err)
	config := raft.DefaultConfig()
	config.LocalID = n.id
	config.Logger = hclog.NewNullLogger()
	config.HeartbeatTimeout, config.ElectionTimeout = 300*time.Millisecond, 300*time.Millisecond
	config.LeaderLeaseTimeout, config.CommitTimeout = 200*time.Millisecond, 5*time.Millisecond
	config.TrailingLogs = 5
	if restoreCommitted != nil {
		restoreCommitted(config)
	}
	_, n.transport = raft.NewInmemTransport(raft.ServerAddress(n.id))
	for _, other := range c.nodes {
		if other != n && other.raft != nil {
			n.transport.Connect(raft.ServerAddress(other.id), other.transport)
			other.transport.Connect(raft.ServerAddress(n.id), n.transport)
		}
	}
	n.fsm = newList()
	n.raft, err = raft.NewRaft(config, n.fsm, n.store, n.store, snapshots, n.transport)
	must(t, err)
}

func (c *cluster) stop(n *node) {
	for _, other := range c.nodes {
		if other.transport != nil {
			other.transport.Disconnect(raft.ServerAddress(n.id))
		}
	}
	must(c.t, n.raft.Shutdown().Error(), n.transport.Close(), n.store.Close())
	n.raft = nil
}

// leader waits until a node is elected that stores a barrier.
func (c *cluster) leader() *node {
	for {
		elected := make(chan *node, 1)
		for _, n := range c.nodes {
			if n.raft == nil {
				continue
			}
			leads := func() {
				select {
				case elected <- n:
				default: // a node is there to try
				}
			}
			o := raft.NewObserver(nil, false, func(o *raft.Observation) bool {
				if o.Data == raft.Leader {
					leads()
				}
				return false
			})
			n.raft.RegisterObserver(o)
			defer n.raft.DeregisterObserver(o)
			if n.raft.State() == raft.Leader {
				leads()
			}
		}
		if n := <-elected; n.raft.Barrier(0).Error() == nil {
			return n
		}
	}
}

// write has the commands from a to b committed, by whichever node leads.
func (c *cluster) write(a, b int) {
	for i := a; i <= b; {
		leader := c.leader()
		var futures []raft.ApplyFuture
		for j := i; j <= b; j++ {
			futures = append(futures, leader.raft.Apply(fmt.Appendf(nil, "command %d", j), 0))
		}
		for _, f := range futures {
			if f.Error() != nil {
				break // the leader was lost: the rest is for the next one
			}
			i++
		}
	}
}

// same waits until all running nodes have the commands from 0 to n-1, in the same order.
func (c *cluster) same(n int) {
	c.t.Helper()
	var first []string
	for _, one := range c.nodes {
		if one.raft == nil {
			continue
		}
		got := one.fsm.waitFor(n)
		if first == nil {
			first = slices.Clone(got)
		}
		if !slices.Equal(got, first) || len(got) != n {
			c.t.Fatalf("%s has %q, another node %q", one.id, got, first)
		}
		slices.Sort(got)
		for i := range n {
			command := fmt.Sprintf("command %d", i)
			if _, ok := slices.BinarySearch(got, command); !ok {
				c.t.Fatalf("%s lacks %q", one.id, command)
			}
		}
	}
}

// TestRaft runs three nodes of hashicorp/raft: they elect, write, take snapshots that cut their
// logs, go on without one of them, which gets a snapshot when it is back, and start again together.
func TestRaft(t *testing.T) {
	c := &cluster{t: t}
	var servers raft.Configuration
	for i := range 3 {
		id := fmt.Sprintf("node %d", i)
		c.nodes = append(c.nodes, &node{id: raft.ServerID(id), dir: t.TempDir()})
		servers.Servers = append(servers.Servers,
			raft.Server{ID: raft.ServerID(id), Address: raft.ServerAddress(id)})
	}
	for _, n := range c.nodes {
		c.start(n)
	}
	must(t, c.nodes[0].raft.BootstrapCluster(servers).Error())
	c.write(0, 99)
	c.same(100)

	away := c.nodes[0]
	if away == c.leader() {
		away = c.nodes[1]
	}
	c.stop(away)
	c.write(100, 199)
	c.same(200)
	for _, n := range c.nodes {
		if n != away {
			must(t, n.raft.Snapshot().Error())
			if first, err := n.store.FirstIndex(); err != nil || first < 100 {
				t.Errorf("%s begins with entry %d, %v", n.id, first, err)
			}
		}
	}
	c.start(away)
	c.write(200, 249)
	c.same(250)
	if first, err := away.store.FirstIndex(); err != nil || first < 100 {
		t.Errorf("behind the snapshot %s begins with entry %d, %v", away.id, first, err)
	}
	for _, n := range c.nodes {
		c.stop(n)
	}
	for _, n := range c.nodes {
		if c.start(n); restoreCommitted != nil {
			n.fsm.waitFor(200) // what it knew to be committed, before there is a leader
		}
	}
	c.write(250, 299)
	c.same(300)
	for _, n := range c.nodes {
		c.stop(n)
	}
}
