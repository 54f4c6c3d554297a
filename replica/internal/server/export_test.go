package server

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/lsm/kv"
	"github.com/loamdb/loam/replica/internal/wire"
)

// What tests look at.
const (
	MaxHeld  = maxHeld
	CallCost = callCost

	FreeCalls = freeCalls
)

// Expire releases the snapshots that were not used since a lease before a moment.
func (s *Server) Expire(now time.Time) { s.expire(now) }

// Waiting are the bytes that wait for clients, of all connections.
func (s *Server) Waiting() (calls, answers int) {
	for _, c := range s.clients() {
		c.mu.Lock()
		calls += c.held
		c.mu.Unlock()
		answers += c.out.Waiting()
	}
	return calls, answers
}

// Room is the memory that is left for calls and for answers, and what there is for each of them.
func (s *Server) Room() (calls, answers, all int) {
	s.calls.mu.Lock()
	defer s.calls.mu.Unlock()
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	return s.calls.left, s.answers.left, int(s.cfg.Memory / 2)
}

// Fill takes all of that, until the returned function is called.
func (s *Server) Fill() (free func()) {
	calls, answers, _ := s.Room()
	s.calls.try(calls)
	s.answers.try(answers)
	return func() {
		s.calls.give(calls)
		s.answers.give(answers)
	}
}

// Snapshots is how many snapshots clients have open.
func (s *Server) Snapshots() (n int) {
	for _, c := range s.clients() {
		c.snaps.mu.Lock()
		n += len(c.snaps.byID)
		c.snaps.mu.Unlock()
	}
	return n
}

// MultiGet answers a call of OpMultiGet for keys.
func MultiGet(ctx context.Context, from kv.Reader, keys ...string) ([]byte, error) {
	args := binary.AppendUvarint(nil, uint64(len(keys)))
	for _, k := range keys {
		args = wire.AppendBytes(args, []byte(k))
	}
	return multiGet(ctx, nil, from, &wire.Fields{Rest: args})
}

// Displaced returns which of several strangers goes for a newer one, and how long that takes: they
// came so long ago, and have spoken where that is negative.
func Displaced(timeout time.Duration, ages ...time.Duration) (gone int, wait time.Duration) {
	now := time.Unix(1, 0)
	s := &Server{cfg: Config{Timeout: timeout}}
	for _, age := range ages {
		near, _ := net.Pipe()
		x := &stranger{Conn: near, came: now.Add(-max(age, -age))}
		x.spoke.Store(age < 0)
		s.strangers = append(s.strangers, x)
	}
	all := slices.Clone(s.strangers)
	wait = s.displace(now)
	return slices.IndexFunc(all, func(x *stranger) bool {
		return !slices.Contains(s.strangers, x)
	}), wait
}

// Over reports whether the time of a call is over that came at a moment.
func Over(came time.Time, limit time.Duration) bool {
	c := &conn{of: &Server{cfg: Config{Timeout: time.Hour}}, calls: context.Background()}
	ctx, cancel := c.bounded(&call{Call: wire.Call{Timeout: limit}, began: came})
	defer cancel()
	return ctx.Err() != nil
}

// counted is a context that counts those that are made of it and have not ended.
type counted struct {
	context.Context
	over chan struct{}
	left atomic.Int64
}

func (c *counted) Done() <-chan struct{} { return c.over }

// AfterFunc is what package context calls for each of them.
func (c *counted) AfterFunc(func()) (stop func() bool) {
	c.left.Add(1)
	return func() bool { c.left.Add(-1); return true }
}

// KeptOf is how many contexts a Server keeps of a connection that said something and has ended.
func KeptOf(said []byte) int {
	ctx := &counted{Context: context.Background(), over: make(chan struct{})}
	s := &Server{cfg: Config{Timeout: time.Hour}.withDefaults(), ctx: ctx,
		fewer: make(chan struct{}, 1)}
	near, far := net.Pipe()
	go func() {
		if len(said) > 0 {
			_, _ = near.Write(said) // the Server may close its side
			_, _ = io.Copy(io.Discard, near)
		}
		_ = near.Close()
	}()
	s.greet(&stranger{Conn: far})
	return int(ctx.left.Load())
}
