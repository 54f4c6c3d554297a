// Package refs counts the users of what ends with the last of them.
package refs

import (
	"sync"
	"sync/atomic"
)

// Shared counts the users of something that ends with the last of them. A nil one ends nothing. It
// is safe for concurrent use.
type Shared struct {
	users atomic.Int64
	end   func()

	mu   sync.Mutex // guards the rest
	held []*Shared  // released at the end
}

// New returns a count with one user, and calls end when the last user leaves.
func New(end func()) *Shared {
	s := &Shared{end: end}
	s.users.Store(1)
	return s
}

// Retain adds a user. It returns nil when the end has come.
func (s *Shared) Retain() *Shared {
	if s == nil {
		return nil
	}
	for n := s.users.Load(); n > 0; n = s.users.Load() {
		if s.users.CompareAndSwap(n, n+1) {
			return s
		}
	}
	return nil
}

// Release takes a user away.
func (s *Shared) Release() {
	if s != nil && s.users.Add(-1) == 0 {
		s.end()
		for _, h := range s.held {
			h.Release()
		}
	}
}

// Hold takes over the caller's use of other until the end of s, of which the caller is a user.
func (s *Shared) Hold(other *Shared) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = append(s.held, other)
}
