// Package client reaches databases behind loamd: one node, or the nodes of a cluster.
//
//	db, err := client.Dial("a:7070,b:7070", nil)
//	...
//	err = db.Put(ctx, key, value)
//
// A Client is a kv.Store. It knows the nodes that it was given and those that they name, has one
// connection to each that it uses, sends changes to the leader, and goes to another node when one
// does not answer.
//
// # Promises
//
// They are those of package replica, whose errors the errors of a Client are: a change that
// returned nil is on stable storage of a majority; one that failed with ErrNotApplied did not
// happen, and one with ErrUnknown may have happened. Calls are tried again, until their context is
// done, where that is safe: reads of the present, changes that did not happen because no node could
// be reached, and changes with an idempotency key (Once). ErrUnknown is passed on.
//
// A connection is taken for lost, without an error of its own, when the time of a call is over and
// no answer came since the call was sent, nor for half of TryTimeout. The Client asks the node for
// its status before, after half of the time of the call: an answer to that keeps the connection.
//
// Reads are linearizable but those of Local. A snapshot, and an iterator, is one state of one node:
// its reads fail with ErrSnapshotGone when the connection to the node is lost, or when it was not
// used for longer than the node's lease, a minute.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/internal/wire"
)

// The errors of calls, beside those of package lsm. Those of changes are explained in package
// replica, whose errors they are.
var (
	ErrNotApplied  = wire.ErrNotApplied
	ErrUnknown     = wire.ErrUnknown
	ErrHalted      = wire.ErrHalted
	ErrUnavailable = wire.ErrUnavailable
	ErrTooOld      = wire.ErrTooOld
	// ErrRefused: the node is of another cluster or version, or wants another token.
	ErrRefused = wire.ErrRefused
	// ErrUnauthorized: the token is wrong. The error is ErrRefused, too.
	ErrUnauthorized = wire.ErrUnauthorized
	// ErrSnapshotGone: the connection to the node that had the snapshot was lost, or the snapshot
	// was not used for too long. Make another one.
	ErrSnapshotGone = wire.ErrLease
)

// MaxChange is the largest change in bytes, and MaxParts bounds the keys that a transaction reads.
const (
	MaxChange = wire.MaxChange
	MaxParts  = wire.MaxParts
)

// Options configure a Client. A zero field means the default.
type Options struct {
	// Token is what the nodes want to know. The default is none.
	Token string
	// TLS makes connections TLS ones. The default, nil, is none.
	TLS *tls.Config
	// Cluster is the name of the cluster; nodes of others refuse the client. The default, "", is
	// any.
	Cluster string
	// Timeout bounds calls whose context has no deadline. The default is 10 seconds.
	Timeout time.Duration
	// TryTimeout is how long a call that may be tried again waits for one node. The default is 3
	// seconds.
	TryTimeout time.Duration
	// Dial replaces the network below TLS. The default is TCP.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
}

// Client is a database behind loamd. All methods are safe for concurrent use. Dial makes one.
type Client struct {
	o       Options
	waiters sync.Pool // of *waiter
	end     context.CancelFunc
	ctx     context.Context

	mu     sync.Mutex
	given  []string         // the addresses of Dial
	addrs  []string         // these, and those of the members
	links  map[string]*link // by address
	home   string           // where reads go
	leader string           // where changes go; "": unknown
	asked  time.Time        // when leader was asked for
	asking bool
}

var _ kv.Store = (*Client)(nil)

// Dial makes a client of some nodes of a cluster: host:port each, separated by commas. An IPv6
// address is in brackets. It does not wait for a node. It fails with lsm.ErrInvalidArgument.
func Dial(addrs string, o *Options) (*Client, error) {
	c := &Client{links: map[string]*link{}, waiters: sync.Pool{New: newWaiter}}
	if o != nil {
		c.o = *o
	}
	for a := range strings.SplitSeq(addrs, ",") {
		a = strings.TrimSpace(a)
		if !isAddress(a) {
			return nil, fmt.Errorf("%q is not host:port, an IPv6 address in brackets: %w", a,
				lsm.ErrInvalidArgument)
		}
		if !slices.Contains(c.given, a) {
			c.given = append(c.given, a)
		}
	}
	if c.o.Timeout <= 0 {
		c.o.Timeout = 10 * time.Second
	}
	if c.o.TryTimeout <= 0 {
		c.o.TryTimeout = 3 * time.Second
	}
	if c.o.Dial == nil {
		c.o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		}
	}
	c.addrs = slices.Clone(c.given)
	c.home = c.given[rand.IntN(len(c.given))]
	c.ctx, c.end = context.WithCancel(context.Background())
	return c, nil
}

func isAddress(a string) bool {
	host, port, err := net.SplitHostPort(a)
	n, bad := strconv.ParseUint(port, 10, 16)
	return err == nil && bad == nil && n > 0 && len(port) <= 5 && host != "" &&
		!strings.ContainsFunc(host, func(r rune) bool { return r == '/' || unicode.IsSpace(r) })
}

// Close closes the connections. Calls that wait fail with lsm.ErrClosed, changes with ErrUnknown,
// too.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return errClosed
	}
	c.end()
	links := c.links
	c.links = map[string]*link{}
	c.mu.Unlock()
	for _, l := range links {
		l.lose(errClosed)
	}
	return nil
}

var errClosed = fmt.Errorf("client: %w", lsm.ErrClosed)

// link returns the connection to an address, which it may have to make, until a moment.
func (c *Client) link(ctx context.Context, until time.Time, addr string) (*link, error) {
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		return nil, errClosed
	}
	l := c.links[addr]
	if l == nil || l.isLost() {
		l = newLink(c, addr)
		c.links[addr] = l
		go l.connect(c.ctx, &c.o)
	}
	c.mu.Unlock()
	select {
	case <-l.ready:
		return l, l.failed()
	default:
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	select {
	case <-l.ready:
		return l, l.failed()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// target is where a call goes first.
func (c *Client) target(change bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if change && c.leader != "" {
		return c.leader
	}
	return c.home
}

// avoid says that a node did not answer, and returns the next one.
func (c *Client) avoid(addr string) (next string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader == addr {
		c.leader = ""
	}
	i := slices.Index(c.addrs, addr)
	next = c.addrs[(i+1)%len(c.addrs)]
	if c.home == addr {
		c.home = next
	}
	c.asked = time.Time{}
	return next
}

// learnEvery is how often the leader is asked for.
const learnEvery = 2 * time.Second

// learn asks a node for the leader and the members from time to time.
func (c *Client) learn(l *link, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asking || c.ctx.Err() != nil || !c.asked.IsZero() && now.Sub(c.asked) < learnEvery {
		return
	}
	c.asking, c.asked = true, now
	go func() {
		s, err := status(c.ctx, now.Add(c.o.TryTimeout), l)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asking = false
		if err != nil {
			return
		}
		c.leader = s.LeaderAddr
		c.addrs = slices.Clone(c.given)
		for _, m := range s.Members {
			if !slices.Contains(c.addrs, m.Addr) {
				c.addrs = append(c.addrs, m.Addr)
			}
		}
	}()
}

// deadline is that of a context, or the one of a call that begins now.
func (c *Client) deadline(ctx context.Context, now time.Time) time.Time {
	if t, ok := ctx.Deadline(); ok {
		return t
	}
	return now.Add(c.o.Timeout)
}

// kind says what may be done with a call whose answer did not come.
type kind int

const (
	reads  kind = iota // it may be made again, by another node
	writes             // it must not, unless it was not sent
	once               // it may: the node knows it again
)

// do makes a call on some node, and tries again where that is safe.
func (c *Client) do(ctx context.Context, k kind, op wire.Operation,
	args func([]byte) []byte) ([]byte, error) {
	result, _, err := c.doOn(ctx, k, op, args)
	return result, err
}

// doOn is do. It returns the connection that the answer came on, too.
func (c *Client) doOn(ctx context.Context, k kind, op wire.Operation,
	args func([]byte) []byte) ([]byte, *link, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, c.conclude(k, err, nil)
	}
	now := time.Now()
	end := c.deadline(ctx, now)
	addr := c.target(k != reads)
	var doubt error // a try whose outcome is unknown
	for try := 1; ; try++ {
		l, result, sent, err := c.try(ctx, k, now, end, addr, op, args)
		if err == nil {
			return result, l, nil
		}
		if k != reads && sent && (!errors.Is(err, ErrNotApplied) || errors.Is(err, ErrUnknown)) {
			doubt = err
		}
		began := now
		now = time.Now()
		// A caller that has no time left says nothing about the node.
		if again(err) && (ctx.Err() == nil || now.Sub(began) >= c.o.TryTimeout) {
			addr = c.avoid(addr)
		}
		if doubt != nil && k == writes || ctx.Err() != nil || !now.Before(end) || !again(err) {
			return nil, nil, c.conclude(k, err, doubt)
		}
		if now = pause(ctx, end, try); !now.Before(end) {
			return nil, nil, c.conclude(k, err, doubt)
		}
	}
}

// try makes a call on one node, now and until end. Where sent is false the node did not see it.
func (c *Client) try(ctx context.Context, k kind, now, end time.Time, addr string,
	op wire.Operation, args func([]byte) []byte) (l *link, result []byte, sent bool, err error) {
	soon := now.Add(c.o.TryTimeout)
	if end.Before(soon) {
		soon = end
	}
	l, err = c.link(ctx, soon, addr)
	if err != nil {
		return nil, nil, false, err
	}
	c.learn(l, now)
	if k == writes {
		soon = end
	}
	result, sent, err = l.call(ctx, soon, op, args)
	return l, result, sent, err
}

// again reports whether a call that failed on one node with err may succeed on another one.
func again(err error) bool {
	var remote *wire.RemoteError
	switch {
	case errors.Is(err, lsm.ErrClosed), errors.Is(err, ErrUnauthorized),
		errors.Is(err, lsm.ErrTooLarge):
		return false
	case !errors.As(err, &remote): // the network
		return true
	}
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrHalted) ||
		errors.Is(err, ErrUnknown) || errors.Is(err, ErrTooOld)
}

// conclude makes the error of a call that is given up.
func (c *Client) conclude(k kind, err, doubt error) error {
	switch {
	case k == reads && (errors.Is(err, context.DeadlineExceeded) || isNetwork(err)):
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	case k == reads:
		return err
	case doubt != nil:
		return wire.Unknown(err)
	}
	return with(ErrNotApplied, err)
}

// isNetwork reports an error of the connection, and not of a node or the caller.
func isNetwork(err error) bool {
	var remote *wire.RemoteError
	return !errors.As(err, &remote) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, lsm.ErrClosed) && !errors.Is(err, lsm.ErrTooLarge)
}

// with wraps an error as another one, unless it is that.
func with(what, err error) error {
	if errors.Is(err, what) {
		return err
	}
	return fmt.Errorf("%w: %w", what, err)
}

// pause waits between tries, longer every time, and returns when it ended: at the end where the
// context is done.
func pause(ctx context.Context, end time.Time, try int) time.Time {
	t := time.NewTimer(min(time.Millisecond<<min(try, 10), 200*time.Millisecond, time.Until(end)))
	defer t.Stop()
	select {
	case <-t.C:
		return time.Now()
	case <-ctx.Done():
		return end
	}
}
