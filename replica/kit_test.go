package replica

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loamdb/loam/internal/testkit/hang"
	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/crashfs"
	"github.com/loamdb/loam/raftlog"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// small makes flushes in short histories, and takes little memory.
var small = lsm.Options{WriteBufferSize: 128 << 10, WALPreallocate: 64 << 10, CacheSize: 1 << 20}

// network is the loopback interface with faults. Nodes are named a:1, b:1 and so on.
type network struct {
	mu    sync.Mutex
	at    map[string]string           // real addresses
	cut   map[[2]string]bool          // from, to
	conns map[[2]string][]net.Conn    // that from dialed
	delay map[[2]string]time.Duration // of what from sends to a node that it dialed
}

func newNetwork() *network {
	return &network{at: map[string]string{}, cut: map[[2]string]bool{},
		conns: map[[2]string][]net.Conn{}, delay: map[[2]string]time.Duration{}}
}

func (w *network) listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		w.mu.Lock()
		w.at[addr] = l.Addr().String()
		w.mu.Unlock()
	}
	return l, err
}

func (w *network) dial(ctx context.Context, from, to string) (net.Conn, error) {
	way := [2]string{from, to}
	w.mu.Lock()
	at, cut := w.at[to], w.cut[way]
	w.mu.Unlock()
	if cut || at == "" {
		return nil, fmt.Errorf("%s cannot reach %s", from, to)
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut[way] {
		return nil, errors.Join(fmt.Errorf("%s cannot reach %s", from, to), c.Close())
	}
	w.conns[way] = append(w.conns[way], c)
	return &slowConn{c, w, way}, nil
}

// slowConn delays what is sent.
type slowConn struct {
	net.Conn
	of  *network
	way [2]string
}

func (c *slowConn) Write(p []byte) (int, error) {
	c.of.mu.Lock()
	d := c.of.delay[c.way]
	c.of.mu.Unlock()
	time.Sleep(d)
	return c.Conn.Write(p)
}

// drop breaks the connections that from dialed to to.
func (w *network) drop(from, to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns[[2]string{from, to}] {
		c.Close()
	}
	delete(w.conns, [2]string{from, to})
}

// sever cuts one direction: from can call to no more.
func (w *network) sever(from, to string) {
	w.mu.Lock()
	w.cut[[2]string{from, to}] = true
	w.mu.Unlock()
	w.drop(from, to)
}

// isolate cuts a node from all others of the cluster, in both directions.
func (c *cluster) isolate(id string) {
	for other := range c.configs {
		if other != id {
			c.net.sever(addr(id), addr(other))
			c.net.sever(addr(other), addr(id))
		}
	}
}

// slow delays what from sends to to by a moment each time.
func (w *network) slow(from, to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.delay[[2]string{from, to}] = 20 * time.Millisecond
}

// heal ends all faults.
func (w *network) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.cut)
	clear(w.delay)
}

func addr(id string) string { return id + ":1" }

// cluster is a cluster in this process.
type cluster struct {
	t       testing.TB
	net     *network
	disks   map[string]*gate
	configs map[string]*Config
	nodes   map[string]*Node
	events  chan struct{} // has an element after an event
}

// newCluster starts nodes with these names. change may change their configurations.
func newCluster(t testing.TB, change func(*Config), ids ...string) *cluster {
	c := &cluster{t: t, net: newNetwork(), disks: map[string]*gate{}, configs: map[string]*Config{},
		nodes: map[string]*Node{}, events: make(chan struct{}, 1)}
	peers := map[string]string{}
	for _, id := range ids {
		peers[id] = addr(id)
	}
	for _, id := range ids {
		cfg := c.config(id)
		cfg.Peers = peers
		if change != nil {
			change(cfg)
		}
	}
	for _, id := range ids {
		c.start(id)
	}
	t.Cleanup(c.close)
	return c
}

// config makes the configuration of a node.
func (c *cluster) config(id string) *Config {
	db, log := small, lsm.Options{WriteBufferSize: 128 << 10, WALPreallocate: 64 << 10,
		CacheSize: -1}
	c.disks[id] = &gate{FS: crashfs.New()}
	db.FS, log.FS = c.disks[id], c.disks[id]
	cfg := &Config{ID: id, Addr: addr(id), ElectionTimeout: 300 * time.Millisecond,
		Timeout: time.Minute, RejoinInterval: -1, Database: &db,
		Log:    &raftlog.Options{Database: &log},
		Listen: c.net.listen,
		Dial: func(ctx context.Context, to string) (net.Conn, error) {
			return c.net.dial(ctx, addr(id), to)
		},
		Events: func(Event) {
			select {
			case c.events <- struct{}{}:
			default:
			}
		},
	}
	c.configs[id] = cfg
	return cfg
}

func (c *cluster) start(id string) *Node {
	c.t.Helper()
	n, err := Open("/"+id, *c.configs[id])
	must(c.t, err)
	c.nodes[id] = n
	return n
}

// kill ends a node as a power cut does: what it had not synced is lost as l says. No message leaves
// it after the moment of the cut. start begins it again.
func (c *cluster) kill(id string, l crashfs.Loss, seed uint64) {
	c.t.Helper()
	c.isolate(id)
	left := c.disks[id].FS.(*crashfs.FS).Crash(l, seed)
	_ = c.nodes[id].Close() // its last writes go to the abandoned disk
	delete(c.nodes, id)
	c.disks[id] = &gate{FS: left}
	c.configs[id].Database.FS, c.configs[id].Log.Database.FS = c.disks[id], c.disks[id]
}

// reconnect ends what isolate did to a node.
func (c *cluster) reconnect(id string) {
	c.net.mu.Lock()
	defer c.net.mu.Unlock()
	for way := range c.net.cut {
		if way[0] == addr(id) || way[1] == addr(id) {
			delete(c.net.cut, way)
		}
	}
}

// stop closes a node.
func (c *cluster) stop(id string) {
	c.t.Helper()
	must(c.t, c.nodes[id].Close())
	delete(c.nodes, id)
}

func (c *cluster) close() {
	for id := range c.nodes {
		c.stop(id)
	}
}

// until waits for a condition: it looks again after each event, and from time to time, as not
// everything is an event. A minute is for ever.
func (c *cluster) until(what string, holds func() bool) {
	c.t.Helper()
	for end := time.Now().Add(hang.Limit()); !holds(); {
		if time.Now().After(end) {
			c.t.Fatalf("never: %s", what)
		}
		select {
		case <-c.events:
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// leader waits until one of the running nodes leads, and a majority follows it.
func (c *cluster) leader() string {
	c.t.Helper()
	led := ""
	c.until("a leader", func() bool {
		for id, n := range c.nodes {
			s := n.run.Load()
			if _, here := s.leader(); here && s.raft.VerifyLeader().Error() == nil {
				led = id
				return true
			}
		}
		return false
	})
	return led
}

// follower returns a running node that does not lead.
func (c *cluster) follower(leader string) string {
	for id := range c.nodes {
		if id != leader {
			return id
		}
	}
	c.t.Fatal("no follower")
	return ""
}

// caughtUp waits until a node has applied what another one has.
func (c *cluster) caughtUp(id, from string) {
	c.t.Helper()
	want := c.nodes[from].Status().Applied
	c.until(id+" has what "+from+" has", func() bool {
		return c.nodes[id].Status().Applied >= want
	})
}

// has checks the value of a key in the node's own state; "" stands for none.
func has(t testing.TB, n *Node, key, want string) {
	t.Helper()
	must(t, n.View(t.Context(), func(v *View) error {
		got, err := v.Get(t.Context(), []byte(key))
		if want == "" && errors.Is(err, lsm.ErrNotFound) {
			return nil
		}
		if err != nil || string(got) != want {
			t.Errorf("%s has %q = %q, %v, not %q", n.cfg.ID, key, got, err, want)
		}
		return nil
	}, Local(0)))
}

// put writes with an idempotency key, as a leader may be lost meanwhile on a busy machine.
func put(t testing.TB, n *Node, key, value string) {
	t.Helper()
	must(t, n.Once(fresh()).Put(t.Context(), []byte(key), []byte(value)))
}

var freshKeys atomic.Int64

// fresh returns an idempotency key that no other change has.
func fresh() string { return fmt.Sprint("fresh ", freshKeys.Add(1)) }
