package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"sync"
	"time"

	"github.com/loamdb/loam/replica/internal/stream"
	"github.com/loamdb/loam/replica/internal/wire"
)

// link is one connection to a node. Many calls share it.
type link struct {
	addr    string
	ready   chan struct{} // closed when it is connected, or failed
	out     *stream.Output
	silence *stream.Silence
	waiters *sync.Pool // those of the client

	mu      sync.Mutex
	conn    net.Conn
	pending map[uint32]*waiter // by number of the call; nil when the link is lost
	orphans map[uint32]bool    // calls for a snapshot whose callers have given up
	number  uint32
	lost    error // why it takes no calls any more
}

// errSilent says that a connection is taken for lost: it has no error, and no answers.
var errSilent = errors.New("connection lost: the node says nothing")

// waiter waits for the answer of a call. A waiter of the map is taken out of it by the one that
// sends it an answer, or by its call.
type waiter struct {
	came chan answer // has room for one
	over *time.Timer
}

func newWaiter() any {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &waiter{make(chan answer, 1), t}
}

// answer is what came for a call: err is the node's, or says why no answer comes.
type answer struct {
	result []byte
	err    error
}

func newLink(c *Client, addr string) *link {
	return &link{addr: addr, ready: make(chan struct{}), out: stream.New(), waiters: &c.waiters,
		pending: map[uint32]*waiter{}, orphans: map[uint32]bool{},
		silence: stream.NewSilence(min(c.o.TryTimeout, c.o.Timeout) / 2)}
}

func (l *link) isLost() bool { return l.failed() != nil }

func (l *link) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lost
}

// lose fails the calls that wait, and the link for good.
func (l *link) lose(why error) {
	l.mu.Lock()
	if l.lost == nil {
		l.lost = why
	}
	why = l.lost
	conn, pending := l.conn, l.pending
	l.pending = nil
	l.mu.Unlock()
	l.out.End()
	if conn != nil {
		_ = conn.Close() // it is lost
	}
	for _, w := range pending {
		w.came <- answer{err: why}
	}
}

// connect makes the connection, and reads answers until it is lost.
func (l *link) connect(ctx context.Context, o *Options) {
	in, err := l.open(ctx, o)
	if err != nil {
		l.lose(fmt.Errorf("%s: %w", l.addr, err))
		close(l.ready)
		return
	}
	close(l.ready)
	go func() {
		l.out.Run(l.conn, o.Timeout)
		l.lose(fmt.Errorf("%s: connection lost", l.addr))
	}()
	l.lose(fmt.Errorf("%s: connection lost: %w", l.addr, l.read(in)))
}

func (l *link) open(ctx context.Context, o *Options) (*bufio.Reader, error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	conn, err := o.Dial(ctx, l.addr)
	if err != nil {
		return nil, err
	}
	if o.TLS != nil {
		c := o.TLS.Clone()
		if c.ServerName == "" {
			c.ServerName, _, _ = net.SplitHostPort(l.addr)
		}
		conn = tls.Client(conn, c)
	}
	in := bufio.NewReaderSize(l.silence.Reader(conn), 64<<10)
	if err := greet(conn, in, o); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil { // the client was closed
		return nil, errors.Join(l.lost, conn.Close())
	}
	l.conn = conn
	return in, nil
}

func greet(conn net.Conn, in *bufio.Reader, o *Options) error {
	if err := conn.SetDeadline(time.Now().Add(o.TryTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write(wire.AppendGreeting(nil, &wire.Greeting{Version: wire.Version,
		Cluster: o.Cluster, Token: o.Token})); err != nil {
		return err
	}
	body, err := wire.ReadFrame(in, wire.MaxGreeting)
	if errors.Is(err, io.EOF) {
		err = errors.New("closed by the node at the greeting: do both sides use TLS, or none?")
	}
	if err == nil {
		_, _, err = wire.DecodeAnswer(body)
	}
	if err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// read hands out answers until the connection breaks.
func (l *link) read(in *bufio.Reader) error {
	for {
		body, err := wire.ReadFrame(in, wire.MaxBody)
		if err != nil {
			return err
		}
		if len(body) < 4 {
			return wire.ErrMalformed
		}
		l.silence.Heard()
		number, result, err := wire.DecodeAnswer(body)
		l.mu.Lock()
		w := l.pending[number]
		delete(l.pending, number)
		orphan := l.orphans[number]
		delete(l.orphans, number)
		l.mu.Unlock()
		switch {
		case w != nil:
			w.came <- answer{result, err}
		case orphan && err == nil:
			go l.release(result) // it waits for room
		case err != nil && number == 0:
			// Of the connection, as after a frame that arrived damaged. No call has this error:
			// each one fails as after the loss of the connection.
			return fmt.Errorf("the node ended it: %v", err)
		}
	}
}

// call makes a call, and waits for its answer until a moment. Where sent is false the node did not
// see it. One that is too large is not sent, as the node would end the connection, and with it the
// calls of others. One whose time is over loses a link that is silent, see stream.Silence.
func (l *link) call(ctx context.Context, until time.Time, op wire.Operation,
	args func([]byte) []byte) (result []byte, sent bool, err error) {
	now := time.Now()
	if soonest := now.Add(time.Millisecond); until.Before(soonest) {
		until = soonest
	}
	call := wire.Call{Op: op, Timeout: until.Sub(now)}
	w := l.waiters.Get().(*waiter)
	defer l.waiters.Put(w)
	l.mu.Lock()
	if l.lost != nil {
		l.mu.Unlock()
		return nil, false, l.lost
	}
	for l.number++; l.number == 0 || l.number == untold || l.pending[l.number] != nil ||
		l.orphans[l.number]; l.number++ {
	}
	call.Number = l.number
	l.pending[call.Number] = w
	mark := l.silence.Sent(now)
	l.mu.Unlock()
	if err := l.send(ctx, until, &call, args); err != nil {
		l.forget(call.Number, 0, w)
		return nil, false, err
	}
	w.over.Reset(call.Timeout / 2)
	defer w.over.Stop()
	for half := true; err == nil; half = false {
		select {
		case a := <-w.came:
			return a.result, true, a.err
		case <-ctx.Done():
			err = ctx.Err()
		case <-w.over.C:
			if !half {
				err = context.DeadlineExceeded
				break
			}
			l.ask(mark)
			w.over.Reset(time.Until(until))
		}
	}
	l.forget(call.Number, op, w)
	if errors.Is(err, context.DeadlineExceeded) && l.silence.Lost(mark, time.Now()) {
		lost := fmt.Errorf("%s: %w", l.addr, errSilent)
		l.lose(lost)
		err = fmt.Errorf("%w: %w", lost, err)
	}
	return nil, true, err
}

// send has a call sent. After an error it is not.
func (l *link) send(ctx context.Context, until time.Time, call *wire.Call,
	args func([]byte) []byte) error {
	var unsent error
	err := l.out.AddBefore(ctx, until, func(dst []byte) []byte {
		with := wire.AppendCall(dst, call, args)
		if unsent = wire.CheckCall(with[len(dst):]); unsent != nil {
			return with[:len(dst)]
		}
		return with
	})
	if errors.Is(err, stream.ErrEnded) {
		err = fmt.Errorf("%s: %w", l.addr, err)
	}
	return errors.Join(unsent, err)
}

// ask makes the node say something, if it is silent since a call was sent: every node answers a
// call for its status at once.
func (l *link) ask(mark uint64) {
	if l.silence.Ask(mark, time.Now()) {
		go l.tell(wire.OpStatus, nil) // it waits for room
	}
}

// untold is the number of calls whose answers are of no interest.
const untold = math.MaxUint32

// tell makes a call whose answer is of no interest.
func (l *link) tell(op wire.Operation, args func([]byte) []byte) {
	l.out.Add(func(dst []byte) []byte {
		return wire.AppendCall(dst, &wire.Call{Number: untold, Op: op}, args)
	})
}

// forget ends a call whose answer is not waited for any more: nothing is sent to w afterwards. A
// snapshot that the node makes for the call is released, as a connection may have few.
func (l *link) forget(number uint32, op wire.Operation, w *waiter) {
	l.mu.Lock()
	waits := l.pending[number] == w
	delete(l.pending, number)
	if waits && op == wire.OpSnapshot && l.lost == nil {
		l.orphans[number] = true
	}
	l.mu.Unlock()
	if waits {
		return
	}
	a := <-w.came // it was taken out of the map for that
	if op == wire.OpSnapshot && a.err == nil {
		go l.release(a.result) // it waits for room
	}
}

// release releases the snapshot of an answer.
func (l *link) release(snapshot []byte) {
	f := wire.Fields{Rest: snapshot}
	if id := f.Number(); !f.Bad {
		l.tell(wire.OpRelease, func(dst []byte) []byte { return binary.AppendUvarint(dst, id) })
	}
}
