package server

import (
	"net"
	"slices"
	"sync/atomic"
	"time"
)

// stranger is a caller that did not say its greeting yet.
type stranger struct {
	net.Conn
	came  time.Time
	spoke atomic.Bool // it has sent something
}

func (x *stranger) Read(b []byte) (int, error) {
	n, err := x.Conn.Read(b)
	if n > 0 && !x.spoke.Load() {
		x.spoke.Store(true)
	}
	return n, err
}

// come counts a stranger, for whom another one may have to go: descriptors and memory are bounded.
// One that has said nothing goes at once, the oldest first. Those that speak TLS, or have said a
// part of their greeting, have a quarter of Config.Timeout before one goes, so that clients that
// come all at once do not displace each other: they wait, unaccepted.
func (s *Server) come(x *stranger) {
	for {
		x.came = time.Now()
		s.mu.Lock()
		wait := time.Duration(0)
		if len(s.strangers) >= s.cfg.MaxStrangers {
			wait = s.displace(x.came)
		}
		if wait <= 0 {
			s.strangers = append(s.strangers, x)
		}
		s.mu.Unlock()
		if wait <= 0 {
			return
		}
		over := time.NewTimer(wait)
		select {
		case <-s.fewer:
		case <-over.C:
		case <-s.ctx.Done():
			return // it is closed at once
		}
		over.Stop()
	}
}

// displace closes a stranger, or returns how long the oldest one has left.
// REQUIRES: s.mu is held.
func (s *Server) displace(now time.Time) (wait time.Duration) {
	i := slices.IndexFunc(s.strangers, func(x *stranger) bool { return !x.spoke.Load() })
	if i < 0 {
		i = 0
		if wait := s.cfg.Timeout/4 - now.Sub(s.strangers[0].came); wait > 0 {
			return wait
		}
	}
	_ = s.strangers[i].Close() // which ends its greet
	s.strangers = slices.Delete(s.strangers, i, i+1)
	return 0
}

// known says that a caller is no stranger any more.
func (s *Server) known(x *stranger) {
	s.mu.Lock()
	s.strangers = slices.DeleteFunc(s.strangers, func(y *stranger) bool { return x == y })
	s.mu.Unlock()
	select {
	case s.fewer <- struct{}{}:
	default:
	}
}
