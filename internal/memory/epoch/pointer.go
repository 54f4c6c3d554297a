package epoch

import (
	"sync"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base/invariants"
)

// Pointer leads to an object that is replaced now and then, and retired afterwards. It can be
// followed in two ways: in a guard of the domain that retires the object, which is not freed before
// the guard exits, or by its owner, while no other goroutine replaces the object. There is no
// load without one of them.
//
// The zero Pointer leads to nothing. It is safe for concurrent use.
type Pointer[T any] struct {
	p  atomic.Pointer[T]
	mu sync.Mutex // the owner's
}

// Load returns the present object, or nil. It may be used until g exits.
func (p *Pointer[T]) Load(g Guard) *T {
	if invariants.Enabled {
		invariants.Check(g.inside.Load() > 0, "epoch: a load outside of a guard")
	}
	return p.p.Load()
}

// Empty reports whether there is no object.
func (p *Pointer[T]) Empty() bool { return p.p.Load() == nil }

// Lock waits until there is no other owner, and returns one.
func (p *Pointer[T]) Lock() Owner[T] {
	p.mu.Lock()
	return Owner[T]{p}
}

// Owner is the right to replace the object of a Pointer, until Unlock.
type Owner[T any] struct{ of *Pointer[T] }

// Load returns the present object, or nil. It stays the present one until Swap or Unlock.
func (o Owner[T]) Load() *T { return o.of.p.Load() }

// Swap stores next, nil for none, and returns the previous object, or nil, which the caller
// retires: guards may have seen it.
func (o Owner[T]) Swap(next *T) (old *T) { return o.of.p.Swap(next) }

// Unlock gives the right back.
func (o Owner[T]) Unlock() { o.of.mu.Unlock() }
