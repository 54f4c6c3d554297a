package server

import (
	"context"
	"time"

	"github.com/loamdb/loam/replica/internal/wire"
)

// What tests look at.
const (
	MaxHeld  = maxHeld
	CallCost = callCost
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

// Over reports whether the time of a call is over that came at a moment.
func Over(came time.Time, limit time.Duration) bool {
	c := &conn{of: &Server{cfg: Config{Timeout: time.Hour}}, calls: context.Background()}
	ctx, cancel := c.bounded(&call{Call: wire.Call{Timeout: limit}, began: came})
	defer cancel()
	return ctx.Err() != nil
}
