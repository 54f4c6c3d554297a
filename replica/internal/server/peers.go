package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/loamdb/loam/replica/internal/wire"
)

// peerListener gives the node the connections of other nodes that the server has admitted.
type peerListener struct {
	of    *Server
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// listenPeers is the node's Listen. A node that rejoins calls it again.
func (s *Server) listenPeers(string) (net.Listener, error) {
	l := &peerListener{of: s, conns: make(chan net.Conn), done: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = l
	return l, nil
}

func (l *peerListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *peerListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *peerListener) Addr() net.Addr { return l.of.listener.Addr() }

// rememberNode counts a connection of another node.
func (s *Server) rememberNode(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes >= s.cfg.MaxNodes {
		return fmt.Errorf("%w: %w: other nodes have %d connections, and no more go",
			wire.ErrRefused, wire.ErrUnavailable, s.nodes)
	}
	s.nodes++
	c.net = &nodeConn{Conn: c.net, of: s}
	return nil
}

func (s *Server) forgetNode() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes--
}

// nodeConn is a connection of another node, which is counted until it is closed.
type nodeConn struct {
	net.Conn
	of   *Server
	once sync.Once
}

func (c *nodeConn) Close() error {
	c.once.Do(c.of.forgetNode)
	return c.Conn.Close()
}

// handOver gives a connection to the node, if there is one that listens.
func (s *Server) handOver(c net.Conn) {
	s.mu.Lock()
	l := s.peers
	s.mu.Unlock()
	if l != nil {
		select {
		case l.conns <- c:
			return
		case <-l.done:
		case <-s.ctx.Done():
		}
	}
	_ = c.Close() // the node takes no part now
}

// dialPeer is the node's Dial: TLS and the greeting are done when it returns.
func (s *Server) dialPeer(ctx context.Context, addr string) (net.Conn, error) {
	raw, err := s.cfg.Dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	c := raw
	if s.cfg.TLS != nil {
		o := s.cfg.TLS.Clone()
		if o.ServerName == "" {
			o.ServerName, _, _ = net.SplitHostPort(addr)
		}
		c = tls.Client(raw, o)
	}
	if err := s.introduce(ctx, c); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", addr, err), ignoreClosed(c.Close()))
	}
	return c, nil
}

func (s *Server) introduce(ctx context.Context, c net.Conn) error {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(s.cfg.Timeout)
	}
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := c.Write(wire.AppendGreeting(nil, &wire.Greeting{Version: wire.Version,
		Role: wire.Peer, Cluster: s.cfg.Node.Cluster, Token: s.cfg.Token})); err != nil {
		return err
	}
	// behind its answer the other node sends nothing before this node does
	body, err := wire.ReadFrame(bufio.NewReader(c), wire.MaxGreeting)
	if err == nil {
		_, _, err = wire.DecodeAnswer(body)
	}
	if err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
