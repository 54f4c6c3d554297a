// Package server is loamd without its command line: a node of package replica, with one port for
// clients and for the other nodes, and a handler of metrics and health.
//
// A connection has a reader, which decodes calls, and hands out those that came together: reads of
// the present to one goroutine, which takes all that wait for one round of confirmations by the
// leader; other reads to another one; changes to a goroutine that is begun for them. Answers go
// into one buffer, which a writer empties. A reader stops while the calls without an answer are
// above maxHeld, and the goroutines that answer wait while the buffer is full: so a client that
// does not read its answers costs a bounded amount of memory, and delays no other client. Memory
// beyond a little for each connection is that of Server.calls and Server.answers, for which
// connections wait, see room.
package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/replica"
	"github.com/loamdb/loam/replica/internal/records"
	"github.com/loamdb/loam/replica/internal/wire"
)

// Config configures a Server. A zero field means the default.
type Config struct {
	// Dir is the directory of the node.
	Dir string
	// Node is the node. Its TLS, Dial and Listen belong to the server; Bind is where the server
	// listens.
	Node replica.Config
	// Token is what every caller has to know, other nodes included. The default is none.
	Token string
	// TLS makes all connections TLS ones. Other nodes need a certificate of ClientCAs then.
	TLS *tls.Config

	// MaxClients is how many clients may be connected. The default is 4,096.
	MaxClients int
	// MaxStrangers is how many callers may be connected that did not say their greeting yet. Beyond
	// that a caller goes for a newer one after a quarter of Timeout, or, where it has said nothing,
	// after a twentieth. The default is 512.
	MaxStrangers int
	// MaxNodes is how many connections other nodes may have, each of which has a few. The default
	// is 1,024.
	MaxNodes int
	// MaxSnapshots is how many snapshots a client may have open. The default is 64.
	MaxSnapshots int
	// Memory is what calls without an answer and answers that are not read have together at most,
	// of all clients, half of it each, beyond 64 KiB of both for each client. Calls beyond that
	// wait for a quarter of Timeout, and are refused then. The default is a quarter of the memory
	// that the process may use, at most 1 GiB; the least is 48 MiB.
	Memory int64
	// Lease is how long a snapshot stays that is not used. The default is a minute.
	Lease time.Duration
	// Timeout bounds calls that name no time-out, what a caller takes for its greeting, and what it
	// takes for reading a part of its answers. The default is 10 seconds.
	Timeout time.Duration
	// LastAnswers is how long Close waits for clients to read the answers to calls that it gives
	// up. The default is a second.
	LastAnswers time.Duration
	// Version is that of the program, for status.
	Version string

	// Dial and Listen replace the network below TLS, for tests. The defaults are TCP.
	Dial   func(ctx context.Context, addr string) (net.Conn, error)
	Listen func(addr string) (net.Listener, error)
}

func (c Config) withDefaults() Config {
	orElse(&c.MaxClients, 4096)
	orElse(&c.MaxStrangers, 512)
	orElse(&c.MaxNodes, 1024)
	orElse(&c.MaxSnapshots, 64)
	if c.Memory == 0 {
		c.Memory = defaultMemory()
	}
	c.Memory = max(c.Memory, leastMemory)
	c.Node.Logger = records.Safe(c.Node.Logger)
	orElse(&c.Lease, time.Minute)
	orElse(&c.Timeout, 10*time.Second)
	orElse(&c.LastAnswers, time.Second)
	if c.Node.Bind == "" {
		c.Node.Bind = c.Node.Addr
	}
	if c.Node.Cluster == "" {
		c.Node.Cluster = "loam"
	}
	if c.Dial == nil {
		c.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	if c.Listen == nil {
		c.Listen = func(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }
	}
	return c
}

func orElse[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// Server is a running node with its port. All methods are safe for concurrent use.
type Server struct {
	cfg      Config
	listener net.Listener
	node     *replica.Node
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	counts   counts
	calls    room          // of calls without an answer
	answers  room          // of answers that are not read
	reading  chan struct{} // an element for each answer that is being made
	fewer    chan struct{} // has an element when a stranger has gone or was let in
	opened   chan struct{} // closed when node is set
	draining atomic.Bool   // no further calls are taken
	working  sync.WaitGroup

	mu        sync.Mutex
	conns     map[*conn]bool
	strangers []*stranger   // the oldest first
	nodes     int           // connections of other nodes
	peers     *peerListener // of the node, nil while there is none
}

// Open starts a node and its port. It fails as replica.Open does, and where the port is taken.
func Open(c Config) (*Server, error) {
	c = c.withDefaults()
	listener, err := c.Listen(c.Node.Bind)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: c, listener: listener, conns: map[*conn]bool{},
		opened: make(chan struct{}), reading: make(chan struct{}, maxReading()),
		fewer: make(chan struct{}, 1)}
	s.calls.left, s.answers.left = int(c.Memory/2), int(c.Memory/2)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.cfg.Node.TLS, s.cfg.Node.Dial, s.cfg.Node.Listen = nil, s.dialPeer, s.listenPeers
	go s.accept()
	if s.node, err = replica.Open(c.Dir, s.cfg.Node); err != nil {
		s.cancel()
		return nil, errors.Join(err, listener.Close())
	}
	close(s.opened)
	s.working.Go(s.sweep)
	return s, nil
}

// Node is the node.
func (s *Server) Node() *replica.Node { return s.node }

func (s *Server) log(what string, args ...any) {
	if l := s.cfg.Node.Logger; l != nil {
		l.Log(context.Background(), slog.LevelInfo, what, args...)
	}
}

// accept takes connections until Close.
func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		switch {
		case err == nil:
			x := &stranger{Conn: c}
			s.come(x)
			go s.greet(x)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			s.log("accepting a connection failed", "error", err)
			select {
			case <-s.ctx.Done():
				return
			case <-time.After(50 * time.Millisecond): // no descriptors left, say
			}
		}
	}
}

// greet reads the greeting of a caller, and serves it.
func (s *Server) greet(raw *stranger) {
	end := context.AfterFunc(s.ctx, func() { _ = raw.Close() }) // it ends the reads below
	defer end()
	_ = raw.SetDeadline(time.Now().Add(s.cfg.Timeout)) // else the reads below fail
	c := newConn(s, raw)
	defer c.cancel() // else the Server's context keeps those of c
	g, err := s.readGreeting(c)
	s.known(raw)
	if err == nil {
		err = s.admit(c, g)
	}
	if err == nil {
		_, err = c.net.Write(wire.AppendWelcome(nil, &wire.Welcome{Cluster: s.cfg.Node.Cluster,
			ID: s.cfg.Node.ID}))
	} else if g != nil {
		s.counts.refused.Add(1)
		_, writing := c.net.Write(wire.AppendError(nil, 0, err))
		err = errors.Join(err, writing)
	}
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	switch {
	case err != nil:
		s.log("connection refused", "from", raw.RemoteAddr(), "error", err)
		s.forget(c)
		_ = c.net.Close() // it is refused already
	case g.Role == wire.Peer:
		s.handOver(c.net)
	default:
		c.run()
	}
}

func (s *Server) readGreeting(c *conn) (*wire.Greeting, error) {
	if s.cfg.TLS != nil {
		c.net = tls.Server(c.net, s.cfg.TLS)
		c.in.Reset(c.net)
	}
	body, err := wire.ReadFrame(c.in, wire.MaxGreeting)
	if err != nil {
		return nil, err
	}
	return wire.DecodeGreeting(body)
}

// admit says why a caller is refused. A caller without the token learns nothing else.
func (s *Server) admit(c *conn, g *wire.Greeting) error {
	switch {
	case g.Version != wire.Version:
		return fmt.Errorf("%w: the caller speaks version %d of the protocol, and this node "+
			"version %d: upgrade the older one", wire.ErrRefused, g.Version, wire.Version)
	case !same(g.Token, s.cfg.Token):
		return fmt.Errorf("%w: %w", wire.ErrRefused, wire.ErrUnauthorized)
	case g.Role == wire.Peer && g.Cluster != s.cfg.Node.Cluster,
		g.Cluster != "" && g.Cluster != s.cfg.Node.Cluster:
		return fmt.Errorf("%w: the caller is of cluster %q, and this node of %q", wire.ErrRefused,
			g.Cluster, s.cfg.Node.Cluster)
	case g.Role == wire.Peer && s.cfg.TLS != nil && !c.verified():
		return fmt.Errorf("%w: a node needs a certificate", wire.ErrRefused)
	case g.Role == wire.Peer:
		return s.rememberNode(c)
	default:
		select {
		case <-s.opened:
			return s.remember(c)
		case <-time.After(s.cfg.Timeout):
			return fmt.Errorf("%w: the node is starting", wire.ErrUnavailable)
		case <-s.ctx.Done():
			return fmt.Errorf("%w: the node could not start", wire.ErrUnavailable)
		}
	}
}

// same compares tokens in a time that says nothing about them.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func (s *Server) remember(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.draining.Load():
		return fmt.Errorf("%w: the node is stopping", wire.ErrUnavailable)
	case len(s.conns) >= s.cfg.MaxClients:
		return fmt.Errorf("%w: %w: %d clients are connected, and no more go", wire.ErrRefused,
			wire.ErrUnavailable, len(s.conns))
	}
	s.conns[c] = true
	return nil
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	close(c.done)
}

func (s *Server) clients() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		all = append(all, c)
	}
	return all
}

// sweep releases snapshots that are not used.
func (s *Server) sweep() {
	t := time.NewTicker(max(s.cfg.Lease/4, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case now := <-t.C:
			s.expire(now)
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *Server) expire(now time.Time) {
	for _, c := range s.clients() {
		c.snaps.expire(now.Add(-s.cfg.Lease))
	}
}

// Close stops the server: it hands leadership over, takes no further calls, answers those that it
// has, and closes the node. When the context is done, calls that go on are given up: their answers
// say that they did not happen, or may have.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	if s.draining.Swap(true) {
		s.mu.Unlock()
		return fmt.Errorf("server: %w", replica.ErrClosed)
	}
	s.mu.Unlock()
	if t := s.node.Status(); t.State == "Leader" && voters(t.Members) > 1 {
		if err := s.node.TransferLeader(ctx, ""); err != nil {
			s.log("handing leadership over failed", "error", err)
		}
	}
	over, cancel := context.WithCancel(context.Background())
	defer cancel()
	all := s.clients()
	defer context.AfterFunc(ctx, func() {
		for _, c := range all {
			c.giveUp()
		}
		time.AfterFunc(s.cfg.LastAnswers, cancel) // for clients that read their answers
	})()
	for _, c := range all {
		c.drain(over)
	}
	s.cancel()
	err := s.listener.Close()
	s.working.Wait()
	return errors.Join(err, s.node.Close())
}

func voters(all []replica.Member) (n int) {
	for _, m := range all {
		if m.Voter {
			n++
		}
	}
	return n
}
