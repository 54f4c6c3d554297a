package server

import "time"

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
