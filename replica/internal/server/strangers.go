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
// A stranger that has said nothing goes soon; a stranger that speaks TLS, or has said a part of its
// greeting, goes later. Until then the new one waits, unaccepted: clients that come all at once
// would displace each other.
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

// patience is how long a stranger stays at least. What it has sent may not be read yet: a busy
// machine needs a while.
func (s *Server) patience(x *stranger) time.Duration {
	if x.spoke.Load() {
		return s.cfg.Timeout / 4
	}
	return s.cfg.Timeout / 20
}

// displace closes a stranger, or returns how long it takes until one may go.
// REQUIRES: s.mu is held.
func (s *Server) displace(now time.Time) (wait time.Duration) {
	first := 0
	for i, x := range s.strangers {
		left := s.patience(x) - now.Sub(x.came)
		if i == 0 || left < wait {
			first, wait = i, left
		}
	}
	if wait > 0 {
		return wait
	}
	_ = s.strangers[first].Close() // which ends its greet
	s.strangers = slices.Delete(s.strangers, first, first+1)
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
