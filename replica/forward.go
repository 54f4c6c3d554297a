package replica

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica/internal/stream"
	"github.com/loamdb/loam/replica/internal/wire"
)

// A follower forwards changes, reads of the leader's index and changes of the membership to the
// leader, by frames on one connection:
//
//	call:   length, 4 bytes; number of the call, 8; its time-out in ms, 4; operation, 1; arguments
//	answer: length, 4 bytes; number of the call, 8; flags of the error, 2; the result, or a text
//
// Integers are little-endian. Answers come in any order.
type operation byte

const (
	opPing operation = iota // is answered at once, by any answer
	opChange
	opIndex
	opAddVoter
	opAddReader
	opRemove
	opTransfer
	opJoin
)

const (
	callHeader   = 8 + 4 + 1
	answerHeader = 8 + 2
	maxFrame     = MaxChange + 1<<10
	// maxCalls bounds the calls of one connection that run at once, where each part of callPart
	// bytes counts as a call.
	maxCalls = 1 << 10
	callPart = 64 << 10
)

// sentinels are the errors that are known on both sides, by bit.
var sentinels = []error{ErrNotApplied, ErrUnknown, ErrUnavailable, errNotLeader,
	lsm.ErrInvalidArgument, ErrTooLarge, wire.ErrMalformed}

// remoteError is an error of another node.
type remoteError struct {
	text string
	is   []error
}

func (e *remoteError) Error() string   { return e.text }
func (e *remoteError) Unwrap() []error { return e.is }

func encodeAnswer(result []byte, err error) []byte {
	if err == nil {
		return append([]byte{0, 0}, result...)
	}
	flags := uint16(1 << 15)
	for i, s := range sentinels {
		if errors.Is(err, s) {
			flags |= 1 << i
		}
	}
	return append(binary.LittleEndian.AppendUint16(nil, flags), err.Error()...)
}

func decodeAnswer(b []byte) ([]byte, error) {
	flags := binary.LittleEndian.Uint16(b)
	if flags == 0 {
		return b[2:], nil
	}
	e := &remoteError{text: string(b[2:])}
	for i, s := range sentinels {
		if flags&(1<<i) != 0 {
			e.is = append(e.is, s)
		}
	}
	return nil, e
}

// peers are the connections to other nodes.
type peers struct {
	net *layer

	mu    sync.Mutex
	conns map[string]*peer // by address
}

func newPeers(y *layer) *peers { return &peers{net: y, conns: map[string]*peer{}} }

// peer is one connection. The first call dials it, and the first after it is lost another one.
type peer struct {
	addr    string
	id      string        // of the node, when ready is closed
	ready   chan struct{} // closed when it is dialed, or lost
	out     *stream.Output
	silence *stream.Silence

	mu      sync.Mutex
	conn    net.Conn
	pending map[uint64]chan []byte // by number of the call
	number  uint64
	lost    error // why it takes no calls any more
}

// call makes a call. Where sent is false the other node did not see it.
func (p *peers) call(ctx context.Context, addr string, op operation,
	args []byte) (result []byte, sent bool, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.net.cfg.Timeout)
		defer cancel()
	}
	q, err := p.peer(ctx, addr)
	if err != nil {
		return nil, false, err
	}
	return q.call(ctx, op, args)
}

// peer returns the connection to a node, when it is there.
func (p *peers) peer(ctx context.Context, addr string) (*peer, error) {
	p.mu.Lock()
	q := p.conns[addr]
	if q == nil || q.failed() != nil {
		q = &peer{addr: addr, ready: make(chan struct{}), out: stream.New(),
			pending: map[uint64]chan []byte{}, silence: stream.NewSilence(p.net.cfg.Timeout / 2)}
		p.conns[addr] = q
		go q.run(p.net)
	}
	p.mu.Unlock()
	select {
	case <-q.ready:
		return q, q.failed()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// run dials, and hands out answers until the connection breaks.
func (q *peer) run(y *layer) {
	ctx, cancel := context.WithTimeout(y.ctx, y.cfg.Timeout)
	conn, other, err := y.dial(ctx, q.addr, callConn)
	cancel()
	if err != nil {
		q.lose(err)
		close(q.ready)
		return
	}
	q.mu.Lock()
	q.conn, q.id = conn, other.ID
	q.mu.Unlock()
	close(q.ready)
	go func() {
		q.out.Run(conn, y.cfg.Timeout)
		q.lose(fmt.Errorf("%s: connection lost", q.addr))
	}()
	q.lose(fmt.Errorf("%s: connection lost: %w", q.addr, q.read(conn)))
}

func (q *peer) read(conn net.Conn) error {
	r := bufio.NewReader(q.silence.Reader(conn))
	for {
		b, err := stream.ReadFrame(r, maxFrame)
		if err != nil {
			return err
		}
		if len(b) < answerHeader {
			return wire.ErrMalformed
		}
		q.silence.Heard()
		q.mu.Lock()
		answer := q.pending[binary.LittleEndian.Uint64(b)]
		delete(q.pending, binary.LittleEndian.Uint64(b))
		q.mu.Unlock()
		if answer != nil {
			answer <- b[8:]
		}
	}
}

func (q *peer) failed() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// lose ends the connection, and fails the calls that wait for answers.
func (q *peer) lose(why error) {
	q.mu.Lock()
	if q.lost != nil {
		q.mu.Unlock()
		return
	}
	q.lost = why
	conn, pending := q.conn, q.pending
	q.pending = nil
	q.mu.Unlock()
	q.out.End()
	if conn != nil {
		_ = conn.Close() // it is lost
	}
	for _, answer := range pending {
		close(answer)
	}
}

func (q *peer) call(ctx context.Context, op operation, args []byte) (result []byte, sent bool,
	err error) {
	now := time.Now()
	end, _ := ctx.Deadline()
	answer := make(chan []byte, 1)
	q.mu.Lock()
	if q.lost != nil {
		q.mu.Unlock()
		return nil, false, q.lost
	}
	q.number++
	number := q.number
	q.pending[number] = answer
	mark := q.silence.Sent(now)
	q.mu.Unlock()
	defer q.forget(number)
	left := end.Sub(now)
	if err := q.out.AddBefore(ctx, end, func(dst []byte) []byte {
		return appendCall(dst, number, left, op, args)
	}); err != nil {
		return nil, false, fmt.Errorf("%s: %w", q.addr, err)
	}
	half := time.NewTimer(left / 2)
	defer half.Stop()
	for {
		select {
		case b, ok := <-answer:
			if !ok {
				return nil, true, q.failed()
			}
			result, err := decodeAnswer(b)
			return result, true, err
		case <-half.C:
			q.ask(mark)
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) &&
				q.silence.Lost(mark, time.Now()) {
				q.lose(fmt.Errorf("%s: connection lost: the node says nothing", q.addr))
			}
			return nil, true, ctx.Err()
		}
	}
}

func appendCall(dst []byte, number uint64, left time.Duration, op operation, args []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(callHeader+len(args)))
	dst = binary.LittleEndian.AppendUint64(dst, number)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(min(max(left.Milliseconds(), 1), 1<<32-1)))
	return append(append(dst, byte(op)), args...)
}

// forget ends a call.
func (q *peer) forget(number uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.pending, number)
}

// ask makes the other node say something, if it is silent since a call was sent.
func (q *peer) ask(mark uint64) {
	if q.silence.Ask(mark, time.Now()) {
		go q.out.Add(func(dst []byte) []byte { // it waits for room
			return appendCall(dst, 0, time.Second, opPing, nil)
		})
	}
}

// serve answers the calls of one connection.
func (s *session) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }() // the caller is gone
	r := bufio.NewReader(conn)
	running := make(chan struct{}, maxCalls)
	var writing sync.Mutex
	for {
		b, err := stream.ReadFrame(r, maxFrame)
		if err != nil || len(b) < callHeader {
			return
		}
		parts := 1 + len(b)/callPart
		for range parts {
			running <- struct{}{}
		}
		go func() {
			defer func() {
				for range parts {
					<-running
				}
			}()
			ctx, cancel := context.WithTimeout(s.ctx,
				time.Duration(binary.LittleEndian.Uint32(b[8:]))*time.Millisecond)
			defer cancel()
			result, err := s.answer(ctx, operation(b[12]), b[callHeader:])
			out := append(make([]byte, 4, 64), b[:8]...)
			out = append(out, encodeAnswer(result, err)...)
			binary.LittleEndian.PutUint32(out, uint32(len(out)-4))
			writing.Lock()
			defer writing.Unlock()
			err = conn.SetWriteDeadline(time.Now().Add(s.cfg.Timeout))
			if err == nil {
				_, err = conn.Write(out)
			}
			if err != nil {
				_ = conn.Close() // which ends the loop
			}
		}()
	}
}

// answer does what a call asks for. It does not forward it again, unless a new node asks: it may
// not know the leader.
func (s *session) answer(ctx context.Context, op operation, args []byte) ([]byte, error) {
	switch op {
	case opPing:
		return nil, nil
	case opChange:
		if _, err := checked(args); err != nil {
			return nil, conclude(err)
		}
		o, err := s.apply(ctx, args)
		return []byte{byte(o)}, err
	case opIndex:
		index, err := s.answerIndex(ctx, args)
		return binary.LittleEndian.AppendUint64(nil, index), err
	case opAddVoter, opAddReader, opRemove, opTransfer, opJoin:
		f := wire.Fields{Rest: args}
		id, addr := f.Bytes(), f.Bytes()
		if f.Bad {
			return nil, conclude(wire.ErrMalformed)
		}
		if op == opJoin {
			return nil, s.node.changeMember(ctx, opJoin, string(id), string(addr))
		}
		return nil, s.member(ctx, op, string(id), string(addr))
	}
	return nil, conclude(invalid("operation %d is unknown: upgrade the node", op))
}
