package replica

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/loamdb/loam/replica/internal/meeting"
	"github.com/loamdb/loam/replica/internal/messages"
	"github.com/loamdb/loam/replica/internal/records"
	"github.com/loamdb/loam/replica/internal/stream"
)

// Connections between nodes begin with a greeting, then they are Raft's or forwarded calls'.
//
//	"LOAM", version of the protocol, kind of connection: 1 byte each
//	length of the cluster's name, 1 byte, and the name
//
// The answer is a 0, or the length of a sentence, 1 byte, and the sentence, which says why the
// connection is refused. Behind a 0 the caller introduces itself, see meeting.Introduce, which has
// such an answer, too, and behind a 0 the other node does. Then both sides send parts with
// checksums, see stream.Sum: neither Raft's messages nor forwarded calls have any.
const (
	greeting        = "LOAM"
	protocolVersion = 3
)

type connKind byte

const (
	raftConn connKind = 1 + iota
	callConn
)

// layer is the network of a node: raft's StreamLayer, and connections for forwarded calls.
type layer struct {
	cfg      *Config
	listener net.Listener
	forRaft  chan net.Conn
	serve    func(net.Conn)  // takes connections of calls
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	self     meeting.Node                              // this node
	meet     func(other meeting.Node, at string) error // refuses one; at "": it called

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

var _ raft.StreamLayer = (*layer)(nil)

func listen(cfg *Config, serve func(net.Conn)) (*layer, error) {
	l, err := cfg.Listen(cfg.Bind)
	if err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	y := &layer{cfg: cfg, listener: l, forRaft: make(chan net.Conn), serve: serve,
		self: meeting.Node{ID: cfg.ID}, meet: func(meeting.Node, string) error { return nil },
		conns: map[net.Conn]bool{}}
	y.ctx, y.cancel = context.WithCancel(context.Background())
	return y, nil
}

// run accepts connections until Close.
func (y *layer) run() {
	for {
		c, err := y.listener.Accept()
		switch {
		case err == nil:
			go y.greet(y.track(c))
		case errors.Is(err, net.ErrClosed):
			return
		default:
			y.cfg.log("accepting a connection failed", "error", err)
			select {
			case <-y.ctx.Done():
				return
			case <-time.After(50 * time.Millisecond): // no descriptors left, say
			}
		}
	}
}

// tracked is a connection that Close of the layer closes.
type tracked struct {
	net.Conn
	of *layer
}

func (t *tracked) Close() error {
	t.of.mu.Lock()
	delete(t.of.conns, t)
	t.of.mu.Unlock()
	return t.Conn.Close()
}

func (y *layer) track(c net.Conn) net.Conn {
	t := &tracked{c, y}
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.closed {
		_ = c.Close() // which nobody uses
		return t
	}
	y.conns[t] = true
	return t
}

// greet answers a greeting and hands the connection out.
func (y *layer) greet(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(y.cfg.Timeout)) // else reads below fail
	if y.cfg.TLS != nil {
		c = tls.Server(c, y.cfg.TLS)
	}
	kind, err := y.readGreeting(c)
	if err == nil {
		_, err = c.Write([]byte{0})
	}
	if err == nil {
		err = y.hear(c)
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	if err != nil {
		y.cfg.log("connection refused", "from", c.RemoteAddr(), "error", err)
		_ = c.Close() // it is refused already
		return
	}
	c = stream.NewSum(c)
	if kind == callConn {
		y.serve(c)
		return
	}
	select {
	case y.forRaft <- c:
	case <-y.ctx.Done():
		_ = c.Close() // the node is closed
	}
}

func (y *layer) readGreeting(c net.Conn) (connKind, error) {
	var head [len(greeting) + 3]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, err
	}
	name := make([]byte, head[len(head)-1])
	if _, err := io.ReadFull(c, name); err != nil {
		return 0, err
	}
	version, kind := head[len(greeting)], connKind(head[len(greeting)+1])
	why := ""
	switch {
	case string(head[:len(greeting)]) != greeting:
		return 0, errors.New("no node of Loam")
	case version != protocolVersion:
		why = fmt.Sprintf("the caller speaks version %d of the protocol, and this node version %d",
			version, protocolVersion)
	case string(name) != y.cfg.Cluster:
		why = fmt.Sprintf("the caller is of cluster %q, and this node of %q", name, y.cfg.Cluster)
	case kind != raftConn && kind != callConn:
		why = fmt.Sprintf("connections of kind %d are unknown", kind)
	default:
		return kind, nil
	}
	return 0, refuse(c, why)
}

// refuse says why a connection is refused, and returns that.
func refuse(c net.Conn, why string) error {
	why = why[:min(len(why), 255)]
	_, err := c.Write(append([]byte{byte(len(why))}, why...))
	return errors.Join(errors.New(why), err)
}

// hear meets the caller.
func (y *layer) hear(c net.Conn) error {
	other, err := meeting.Listen(c)
	if err != nil {
		return err
	}
	if err := y.meet(other, ""); err != nil {
		return refuse(c, err.Error())
	}
	var answer bytes.Buffer
	answer.WriteByte(0)
	_ = meeting.Introduce(&answer, y.self) // a buffer takes all
	_, err = c.Write(answer.Bytes())
	return err
}

// dial opens a connection of a kind. A refusal is ErrRefused with the other node's sentence.
func (y *layer) dial(ctx context.Context, addr string, kind connKind) (net.Conn, meeting.Node,
	error) {
	raw, err := y.cfg.Dial(ctx, addr)
	if err != nil {
		return nil, meeting.Node{}, err
	}
	c := y.track(raw)
	if y.cfg.TLS != nil {
		o := y.cfg.TLS.Clone()
		if o.ServerName == "" {
			o.ServerName, _, _ = net.SplitHostPort(addr)
		}
		c = tls.Client(c, o)
	}
	other, err := y.introduce(ctx, c, kind)
	if err == nil {
		err = y.meet(other, addr)
	}
	if err != nil {
		_ = c.Close() // the cause counts
		return nil, meeting.Node{}, fmt.Errorf("%s: %w", addr, err)
	}
	return stream.NewSum(c), other, nil
}

// introduce says the greeting, and returns the node that answers.
func (y *layer) introduce(ctx context.Context, c net.Conn, kind connKind) (other meeting.Node,
	err error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(y.cfg.Timeout)
	}
	if err := c.SetDeadline(deadline); err != nil {
		return other, err
	}
	head := append([]byte(greeting), protocolVersion, byte(kind), byte(len(y.cfg.Cluster)))
	if _, err := c.Write(append(head, y.cfg.Cluster...)); err != nil {
		return other, err
	}
	if err = verdict(c); err == nil {
		err = meeting.Introduce(c, y.self)
	}
	if err == nil {
		err = verdict(c)
	}
	if err == nil {
		other, err = meeting.Listen(c)
	}
	if err == nil {
		err = c.SetDeadline(time.Time{})
	}
	return other, err
}

// verdict reads whether the other node takes the connection.
func verdict(c net.Conn) error {
	var n [1]byte
	if _, err := io.ReadFull(c, n[:]); err != nil || n[0] == 0 {
		return err
	}
	why := make([]byte, n[0])
	_, err := io.ReadFull(c, why)
	if rest, ok := strings.CutPrefix(string(why), meeting.ErrOther.Error()); ok {
		return fmt.Errorf("%w: %w%s", ErrRefused, meeting.ErrOther, rest)
	}
	return errors.Join(fmt.Errorf("%w: %s", ErrRefused, why), err)
}

// Dial is raft's.
func (y *layer) Dial(addr raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	c, _, err := y.dial(ctx, string(addr), raftConn)
	return c, err
}

// Accept is raft's.
func (y *layer) Accept() (net.Conn, error) {
	select {
	case c := <-y.forRaft:
		return c, nil
	case <-y.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Addr is the address at which the other nodes reach this one.
func (y *layer) Addr() net.Addr { return address(y.cfg.Addr) }

type address string

func (address) Network() string  { return "tcp" }
func (a address) String() string { return string(a) }

// Close closes all connections as well.
func (y *layer) Close() error {
	y.mu.Lock()
	if y.closed {
		y.mu.Unlock()
		return nil
	}
	y.closed = true
	y.cancel()
	conns := make([]net.Conn, 0, len(y.conns))
	for c := range y.conns {
		conns = append(conns, c)
	}
	y.mu.Unlock()
	err := y.listener.Close()
	for _, c := range conns {
		_ = c.Close() // what it had to say is lost either way
	}
	return err
}

// transport is raft's network, which notes acknowledgements of the followers.
type transport struct {
	*raft.NetworkTransport
	cfg    *Config
	acks   acks
	probes probes
	rpcs   <-chan raft.RPC // what Raft takes
}

// Consumer is raft's.
func (t *transport) Consumer() <-chan raft.RPC { return t.rpcs }

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

func newTransport(cfg *Config, y *layer) *transport {
	t := &transport{cfg: cfg, probes: probes{next: map[raft.ServerID]uint64{}}}
	t.acks.init()
	// One call at a time to each follower, beside heartbeats and those of reads: no pipeline, whose
	// sender waits for ever where a follower refuses entries while calls are in flight, so that
	// Raft never ends.
	t.NetworkTransport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: y, MaxPool: 5, MaxRPCsInFlight: 1, Timeout: cfg.peerTimeout(),
		Logger: records.Logger(cfg.Logger, cfg.ID), MsgpackUseNewTimeFormat: true})
	return t
}

// AppendEntries calls a follower; heartbeats come this way, too.
func (t *transport) AppendEntries(id raft.ServerID, addr raft.ServerAddress,
	r *raft.AppendEntriesRequest, w *raft.AppendEntriesResponse) error {
	return messages.InParts(r, w, func(r *raft.AppendEntriesRequest,
		w *raft.AppendEntriesResponse) error {
		return t.appendPart(id, addr, r, w)
	})
}

func (t *transport) appendPart(id raft.ServerID, addr raft.ServerAddress,
	r *raft.AppendEntriesRequest, w *raft.AppendEntriesResponse) error {
	if t.cfg.sent != nil {
		if err := t.cfg.sent(addr, r); err != nil {
			return err
		}
	}
	at := t.acks.begin()
	err := t.NetworkTransport.AppendEntries(id, addr, r, w)
	switch {
	case err != nil:
	case w.Term > r.Term:
		t.acks.refused(w.Term)
	case w.Success && w.Term == r.Term:
		t.acks.note(id, at, r.Term)
	}
	return err
}
