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
	opChange operation = 1 + iota
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
	// maxCalls bounds the calls of one connection that run at once.
	maxCalls = 1 << 10
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

// peer is one connection. It is dialed by the first call, and again by the first after it broke.
type peer struct {
	dialing sync.Mutex // held while a connection is made

	mu      sync.Mutex
	conn    net.Conn
	pending map[uint64]chan []byte // by number of the call
	number  uint64
}

// call makes a call. Where sent is false the other node did not see it.
func (p *peers) call(ctx context.Context, addr string, op operation,
	args []byte) (result []byte, sent bool, err error) {
	p.mu.Lock()
	q := p.conns[addr]
	if q == nil {
		q = &peer{}
		p.conns[addr] = q
	}
	p.mu.Unlock()
	conn, err := q.connect(ctx, p.net, addr)
	if err != nil {
		return nil, false, err
	}
	number, answer, ok := q.begin(conn)
	if !ok {
		return nil, false, fmt.Errorf("%s: connection lost", addr)
	}
	defer q.end(conn, number)
	left := p.net.cfg.Timeout
	if deadline, ok := ctx.Deadline(); ok {
		left = time.Until(deadline)
	}
	b := make([]byte, 4, 4+callHeader+len(args))
	b = binary.LittleEndian.AppendUint64(b, number)
	b = binary.LittleEndian.AppendUint32(b, uint32(max(left.Milliseconds(), 1)))
	b = append(append(b, byte(op)), args...)
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	if err := q.write(conn, b, p.net.cfg.Timeout); err != nil {
		return nil, true, fmt.Errorf("%s: %w", addr, err)
	}
	select {
	case b, ok := <-answer:
		if !ok {
			return nil, true, fmt.Errorf("%s: connection lost", addr)
		}
		result, err := decodeAnswer(b)
		return result, true, err
	case <-ctx.Done():
		return nil, true, ctx.Err()
	}
}

func (q *peer) connect(ctx context.Context, y *layer, addr string) (net.Conn, error) {
	q.dialing.Lock()
	defer q.dialing.Unlock()
	q.mu.Lock()
	conn := q.conn
	q.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	conn, err := y.dial(ctx, addr, callConn)
	if err != nil {
		return nil, err
	}
	q.mu.Lock()
	q.conn, q.pending = conn, map[uint64]chan []byte{}
	q.mu.Unlock()
	go q.read(conn)
	return conn, nil
}

func (q *peer) begin(conn net.Conn) (number uint64, answer chan []byte, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn != conn {
		return 0, nil, false
	}
	q.number++
	answer = make(chan []byte, 1)
	q.pending[q.number] = answer
	return q.number, answer, true
}

func (q *peer) end(conn net.Conn, number uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn == conn {
		delete(q.pending, number)
	}
}

// write writes a frame. A connection that fails is given up.
func (q *peer) write(conn net.Conn, b []byte, limit time.Duration) error {
	err := conn.SetWriteDeadline(time.Now().Add(limit))
	if err == nil {
		_, err = conn.Write(b) // whole: net.Conn has a lock for it
	}
	if err != nil {
		q.lose(conn)
	}
	return err
}

// read hands out answers until the connection breaks.
func (q *peer) read(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		b, err := readFrame(r, maxFrame)
		if err != nil || len(b) < answerHeader {
			q.lose(conn)
			return
		}
		q.mu.Lock()
		answer := q.pending[binary.LittleEndian.Uint64(b)]
		delete(q.pending, binary.LittleEndian.Uint64(b))
		q.mu.Unlock()
		if answer != nil {
			answer <- b[8:]
		}
	}
}

// lose fails what waits for answers of a connection.
func (q *peer) lose(conn net.Conn) {
	_ = conn.Close() // it is lost
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.conn != conn {
		return
	}
	for _, answer := range q.pending {
		close(answer)
	}
	q.conn, q.pending = nil, nil
}

// serve answers the calls of one connection.
func (s *session) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }() // the caller is gone
	r := bufio.NewReader(conn)
	running := make(chan struct{}, maxCalls)
	var writing sync.Mutex
	for {
		b, err := readFrame(r, maxFrame)
		if err != nil || len(b) < callHeader {
			return
		}
		running <- struct{}{}
		go func() {
			defer func() { <-running }()
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
