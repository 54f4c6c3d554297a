package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/loamdb/loam/replica/internal/stream"
	"github.com/loamdb/loam/replica/internal/wire"
)

const (
	// maxHeld bounds the bytes of calls of one connection that have no answer yet, above which no
	// further call is read.
	maxHeld = 16 << 20
	// callCost is what a call takes beside its bytes: it bounds their number.
	callCost = 4 << 10
)

// conn is the connection of a client.
type conn struct {
	of     *Server
	raw    net.Conn
	net    net.Conn // raw, or TLS over it
	in     *bufio.Reader
	ctx    context.Context
	cancel context.CancelFunc
	calls  context.Context // of the calls: it ends with ctx, or before
	giveUp context.CancelFunc
	out    *stream.Output
	snaps  snapshots

	present queue   // reads of the present
	other   queue   // other reads
	changes []*call // not handed out yet; used by take only
	workers sync.WaitGroup
	done    chan struct{} // closed when the connection has ended

	mu       sync.Mutex
	answered *sync.Cond // when held falls, or the connection ends
	held     int        // bytes of calls without an answer
	charged  int        // bytes of Server.calls that they have
}

func newConn(s *Server, raw net.Conn) *conn {
	c := &conn{of: s, raw: raw, net: raw, in: bufio.NewReaderSize(raw, wire.MaxGreeting),
		present: newQueue(), other: newQueue(), done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	c.calls, c.giveUp = context.WithCancel(c.ctx)
	c.answered = sync.NewCond(&c.mu)
	c.out = stream.New()
	c.out.Sent = s.answers.give
	c.snaps.init(s.cfg.MaxSnapshots)
	return c
}

// verified reports whether the caller has a certificate of a known authority.
func (c *conn) verified() bool {
	t, ok := c.net.(*tls.Conn)
	return ok && len(t.ConnectionState().VerifiedChains) > 0
}

// call is a call that has no answer yet.
type call struct {
	wire.Call
	cost  int
	began time.Time
	kept  uint64 // the snapshot that its answer names; 0: none
}

// run serves the connection until it ends.
func (c *conn) run() {
	c.of.counts.clients.Add(1)
	calls := &paced{from: c.in, conn: c.raw, limit: c.of.cfg.Timeout}
	c.in = bufio.NewReaderSize(calls, 64<<10)
	c.workers.Go(func() { c.out.Run(c.net, c.of.cfg.Timeout) })
	c.workers.Go(c.readPresent)
	c.workers.Go(c.readOther)
	err := c.take(calls)
	if errors.Is(err, wire.ErrMalformed) {
		c.of.counts.malformed.Add(1)
		c.out.Add(func(dst []byte) []byte { return wire.AppendError(dst, 0, err) })
	}
	if err != nil && !errors.Is(err, io.EOF) && c.ctx.Err() == nil {
		c.of.log("connection of a client ends", "from", c.raw.RemoteAddr(), "error", err)
	}
	c.end()
	c.workers.Wait()
	c.snaps.close()
	c.of.calls.give(c.charged) // of calls that have no answer any more
	c.of.forget(c)
	c.of.counts.clients.Add(-1)
}

// end ends the connection when the answers that are there are sent.
func (c *conn) end() {
	c.cancel()
	c.out.End()
	c.mu.Lock()
	c.answered.Broadcast()
	c.mu.Unlock()
}

// take reads calls and hands them out, until the connection ends.
func (c *conn) take(from *paced) error {
	for {
		if !wire.HasFrame(c.in) {
			c.handOut()
		}
		size, err := from.size(c.in)
		if err != nil {
			return err
		}
		cost := size + callCost
		switch ended, room := c.hold(cost); {
		case ended:
			return context.Canceled
		case !room:
			if err := c.shed(from); err != nil {
				return err
			}
			continue
		}
		body, err := from.frame(c.in, wire.ReadFrame)
		if err != nil {
			return err
		}
		w, err := wire.DecodeCall(body)
		if err != nil {
			return err
		}
		c.dispatch(&call{Call: w, cost: cost, began: time.Now()})
	}
}

// shed reads a call for which there is no room, and answers it by an error.
func (c *conn) shed(from *paced) error {
	begin, err := from.frame(c.in, wire.SkipFrame)
	if err != nil {
		return err
	}
	w, err := wire.DecodeCall(begin)
	if err != nil {
		return err
	}
	x := &call{Call: w, began: time.Now()}
	c.of.counts.shed.Add(1)
	c.answer(x, nil, errRoom)
	return nil
}

// paced reads from a client, which may make a call whenever it likes, but sends it at a stretch: a
// client that is gone, and has sent the beginning of a large change, costs no memory for long.
type paced struct {
	from   io.Reader
	conn   net.Conn // below from
	limit  time.Duration
	within bool // a part of a call was read, and each further one is to come within limit
	timed  bool // conn has a time-out for reads, set within a call
}

func (p *paced) Read(b []byte) (int, error) {
	if p.within {
		p.timed = true
		if err := p.conn.SetReadDeadline(time.Now().Add(p.limit)); err != nil {
			return 0, err
		}
	}
	return p.from.Read(b)
}

// size waits for a call, and returns the length of its body.
func (p *paced) size(in *bufio.Reader) (int, error) {
	if _, err := in.Peek(1); err != nil {
		return 0, err
	}
	p.within = true
	defer func() { p.within = false }()
	return wire.FrameSize(in, wire.MaxBody)
}

// frame has a function read the frame of a call from in, which reads from p.
func (p *paced) frame(in *bufio.Reader,
	read func(*bufio.Reader, int) ([]byte, error)) ([]byte, error) {
	p.within = true
	body, err := read(in, wire.MaxBody)
	p.within = false
	if err == nil && p.timed { // by size, perhaps, while the rest came at once
		p.timed = false
		err = p.conn.SetReadDeadline(time.Time{})
	}
	return body, err
}

// handOut has the calls answered that came together.
func (c *conn) handOut() {
	c.present.wake()
	c.other.wake()
	if all := c.changes; len(all) > 0 {
		c.changes = nil
		c.workers.Go(func() { c.write(all) })
	}
}

// hold waits until a call has room: that of the connection, and beyond freeCalls that of all. It
// returns whether the connection has ended, and whether there is room.
func (c *conn) hold(cost int) (ended, room bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	full := func() bool { return c.held > 0 && c.held+cost > maxHeld && c.ctx.Err() == nil }
	if full() {
		c.mu.Unlock()
		c.handOut() // room comes with answers
		c.mu.Lock()
	}
	for full() {
		c.answered.Wait()
	}
	c.held += cost
	room = true
	if n := c.held - freeCalls - c.charged; n > 0 {
		if room = c.of.calls.try(n); !room {
			c.mu.Unlock()
			c.handOut() // others may wait for what these calls have
			room = c.takeRoom(&c.of.calls, n)
			c.mu.Lock()
		}
		if room {
			c.charged += n
		} else {
			c.held -= cost
			c.answered.Broadcast()
		}
		c.discharge()
	}
	return c.ctx.Err() != nil, room
}

// discharge gives back the room that the calls without an answer do not need any more.
// REQUIRES: c.mu is held.
func (c *conn) discharge() {
	if n := c.charged - max(c.held-freeCalls, 0); n > 0 {
		c.charged -= n
		c.of.calls.give(n)
	}
}

// answers gathers answers, which one write sends.
type answers struct {
	c      *conn
	frames []byte
	room   int // bytes of Server.answers that they have
	cost   int // of the calls that they answer
}

// add answers a call with what result appends, or its error, which says why there is no result.
func (a *answers) add(x *call, result func(dst []byte) ([]byte, error)) {
	at := len(a.frames)
	if at == 0 {
		a.c.out.Await() // a client that reads nothing costs no further answer
	}
	err := a.make(x, result)
	if n := len(a.frames) - at; err == nil && n > freeAnswers {
		if !a.c.of.answers.try(n) { // it is made again when there is room
			a.frames = slices.Clone(a.frames[:at])
			if a.c.takeRoom(&a.c.of.answers, n) {
				err = a.make(x, result)
			} else {
				n, err = 0, errRoom
			}
		}
		a.room += n
	}
	if err != nil {
		a.unkeep(x)
		a.frames = wire.AppendError(a.frames[:at], x.Number, err)
	}
	a.c.of.counts.note(x, err)
	if a.cost += x.cost; len(a.frames) > sendBytes {
		a.send()
	}
}

// make appends an answer, unless it fails. It may be made again.
func (a *answers) make(x *call, result func(dst []byte) ([]byte, error)) (err error) {
	a.unkeep(x)
	a.frames = wire.AppendAnswer(a.frames, x.Number, func(dst []byte) []byte {
		dst, err = result(dst)
		return dst
	})
	return err
}

// unkeep releases the snapshot of an answer that is not sent.
func (a *answers) unkeep(x *call) {
	if x.kept != 0 {
		a.c.snaps.release(x.kept)
		x.kept = 0
	}
}

// sendBytes is how much answers gather.
const sendBytes = 32 << 10

// send sends what was added.
func (a *answers) send() {
	if a.cost == 0 {
		return
	}
	if n := len(a.frames) - a.room; n > 0 && a.c.out.Waiting() > freeAnswers {
		if a.c.takeRoom(&a.c.of.answers, n) {
			a.room += n
		} else { // the client does not read what takes the room
			_ = a.c.raw.Close()
		}
	}
	a.c.out.AddWith(a.room, func(dst []byte) []byte {
		if len(dst) == 0 && trimmed(a.frames) == nil {
			return a.frames // which is not used again
		}
		return append(dst, a.frames...)
	})
	a.c.settle(a.cost)
	a.frames, a.room, a.cost = trimmed(a.frames[:0]), 0, 0
}

// trimmed drops a buffer that one large answer has made.
func trimmed(buf []byte) []byte {
	if cap(buf) > 2*sendBytes {
		return nil
	}
	return buf
}

// answer sends what became of a call; err is nil or says why there is no result.
func (c *conn) answer(x *call, result []byte, err error) {
	c.of.counts.note(x, err)
	c.out.Add(func(dst []byte) []byte {
		if err != nil {
			return wire.AppendError(dst, x.Number, err)
		}
		return wire.AppendAnswer(dst, x.Number, func(dst []byte) []byte {
			return append(dst, result...)
		})
	})
	c.settle(x.cost)
}

// settle gives the room of calls back that were answered.
func (c *conn) settle(cost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held -= cost
	c.discharge()
	c.answered.Broadcast()
}

// drain waits until all calls are answered, and ends the connection. Calls that come meanwhile are
// refused. When ctx is done it waits no more.
func (c *conn) drain(ctx context.Context) {
	stop := context.AfterFunc(ctx, func() {
		c.end()
		_ = c.raw.Close() // which ends a write that waits for the client
	})
	defer stop()
	c.mu.Lock()
	for c.held > 0 && c.ctx.Err() == nil {
		c.answered.Wait()
	}
	c.mu.Unlock()
	c.end()
	<-c.done
}

// queue is calls that wait for one goroutine.
type queue struct {
	mu    *sync.Mutex
	calls []*call
	added chan struct{} // has an element where there are calls
}

func newQueue() queue { return queue{mu: &sync.Mutex{}, added: make(chan struct{}, 1)} }

// add adds a call, of which wake tells the goroutine.
func (q *queue) add(x *call) {
	q.mu.Lock()
	q.calls = append(q.calls, x)
	q.mu.Unlock()
}

func (q *queue) wake() {
	q.mu.Lock()
	waits := len(q.calls) > 0
	q.mu.Unlock()
	if !waits {
		return
	}
	select {
	case q.added <- struct{}{}:
	default:
	}
}

// next waits for calls, and returns all that wait; none when ctx is done.
func (q *queue) next(ctx context.Context) []*call {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-q.added:
		}
		q.mu.Lock()
		all := q.calls
		q.calls = nil
		q.mu.Unlock()
		if len(all) > 0 {
			return all
		}
	}
}
