// Package locks is a table of exclusive locks on keys, with fair queues, time-outs and
// deadlock detection.
//
// A lock goes from its owner straight to the longest waiting one, so that the order is kept. An
// owner that has to wait looks for a deadlock first: it follows the owners from one to the next,
// each of which waits for at most one lock. If it meets itself it fails at once; the others go on.
// A cycle needs an owner that begins to wait last, so that looking then finds every deadlock.
//
// Keys that a comparer calls equal have one lock, whatever their bytes are. In a keyspace where
// equal keys are the same bytes, a hash finds it; in others the comparer does.
//
// A Table is safe for concurrent use; an Owner is used by one goroutine at a time.
package locks

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// Test with errors.Is.
var (
	ErrDeadlock = errors.New("deadlock")
	ErrTimeout  = errors.New("lock wait timed out")
	ErrStopped  = errors.New("lock wait stopped")
)

// Deadlock names the owners that wait for each other. errors.Is(d, ErrDeadlock) holds.
type Deadlock struct {
	Waiter, Holder       string // the owner that failed, and the owner it would wait for
	WaiterKey, HolderKey []byte // the key the waiter asked for, and the key the holder waits for
	Between              int    // owners on the path from the holder back to the waiter
}

// Error names both parties and what they wait for.
func (d *Deadlock) Error() string {
	through := ""
	if d.Between > 0 {
		through = fmt.Sprintf(", through %d others,", d.Between)
	}
	return fmt.Sprintf("deadlock: %s waits for key %q of %s, which waits for key %q%s of %s: "+
		"roll back and try again",
		d.Waiter, d.WaiterKey, d.Holder, d.HolderKey, through, d.Waiter)
}

// Is makes errors.Is(d, ErrDeadlock) hold.
func (d *Deadlock) Is(target error) bool { return target == ErrDeadlock }

// As makes errors.As find the public type, see base.AsPublic.
func (d *Deadlock) As(target any) bool { return base.AsPublic(d, target) }

// numShards is a power of two.
const numShards = 64

// Table is the locks of a database. The zero value is not ready, see New.
type Table struct {
	shards [numShards]shard
	closed chan struct{}

	byOrder sync.Map // base.KeyspaceID to the *shard of a keyspace whose comparer finds the locks

	// graph guards Owner.waits. It is taken only to wait, before that of a shard.
	graph sync.Mutex

	count, waits, deadlocks, timeouts atomic.Int64
}

// shard is some of the locks of all keyspaces, or all of one keyspace.
type shard struct {
	mu    sync.Mutex
	locks map[string]*lock // nil: sorted is used

	cmp    *base.Comparer
	sorted []*lock // by user key, free ones among them
	free   int     // how many are free

	_ [128 - 56]byte // a shard has cache lines of its own
}

// lock is held, or it is in sorted and nowhere else. owner is changed with the shard's lock
// held, and read without by the search for deadlocks.
type lock struct {
	key         string // keyspace and user key
	in          *shard
	free        bool // guarded by the shard's lock
	owner       atomic.Pointer[Owner]
	next        *lock   // of those that the owner holds
	first, last *waiter // the queue
}

type waiter struct {
	owner   *Owner
	granted chan struct{}
	next    *waiter
}

// Owner holds locks.
type Owner struct {
	// Name is how errors call the owner. Constant.
	Name string
	// Stop, closed by any goroutine, ends a wait of the owner with ErrStopped. Constant; nil:
	// nothing stops it.
	Stop <-chan struct{}

	held  *lock
	waits *lock // guarded by Table.graph; stale once the lock is the owner's
}

// New makes an empty table.
func New() *Table {
	t := &Table{closed: make(chan struct{})}
	for i := range t.shards {
		t.shards[i].locks = map[string]*lock{}
	}
	return t
}

// Close ends all waits with base.ErrClosed. It is called once.
func (t *Table) Close() { close(t.closed) }

// Stats counts since New, but for Held, which is at present.
type Stats struct{ Held, Waits, Deadlocks, Timeouts int64 }

// Stats returns the counters.
func (t *Table) Stats() Stats {
	return Stats{t.count.Load(), t.waits.Load(), t.deadlocks.Load(), t.timeouts.Load()}
}

func lockKey(dst []byte, id base.KeyspaceID, user []byte) []byte {
	return append(append(dst, byte(id), byte(id>>8), byte(id>>16), byte(id>>24)), user...)
}

func (l *lock) user() []byte { return []byte(l.key[4:]) }

// shardOf is the shard of a key, whose keyspace has the comparer c.
func (t *Table) shardOf(id base.KeyspaceID, c *base.Comparer, key []byte) *shard {
	if c.EqualIsBytewise {
		return &t.shards[base.Hash(key)%numShards]
	}
	s, ok := t.byOrder.Load(id)
	if !ok {
		s, _ = t.byOrder.LoadOrStore(id, &shard{cmp: c})
	}
	return s.(*shard)
}

// Acquire returns when o holds the lock of a key, which it may hold already; waited says whether it
// was another's. c is the keyspace's comparer, the same in all calls. It fails with a *Deadlock,
// with ErrTimeout after the given time (negative: it waits for ever), with ErrStopped, or with
// base.ErrClosed.
func (t *Table) Acquire(o *Owner, id base.KeyspaceID, c *base.Comparer, user []byte,
	timeout time.Duration) (waited bool, err error) {
	var buf [128]byte
	key := lockKey(buf[:0], id, user)
	s := t.shardOf(id, c, key)
	if s.try(t, o, key) {
		return false, nil
	}
	if timeout == 0 {
		t.timeouts.Add(1)
		return true, t.timedOut(o, s, key, timeout)
	}
	w, l, err := t.enqueue(s, o, key)
	if w == nil {
		return err != nil, err
	}
	t.waits.Add(1)
	var timer <-chan time.Time
	if timeout > 0 {
		clock := time.NewTimer(timeout)
		defer clock.Stop()
		timer = clock.C
	}
	select {
	case <-w.granted:
	case <-timer:
		if s.giveUp(l, w) {
			t.timeouts.Add(1)
			err = t.timedOut(o, s, key, timeout)
		}
	case <-t.closed:
		if s.giveUp(l, w) {
			err = base.ErrClosed
		}
	case <-o.Stop:
		if s.giveUp(l, w) {
			err = ErrStopped
		}
	}
	t.graph.Lock()
	o.waits = nil
	t.graph.Unlock()
	return true, err
}

// try takes a lock that is free, or is o's already.
func (s *shard) try(t *Table, o *Owner, key []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.find(key)
	if l == nil {
		l = s.add(key)
		l.owner.Store(o)
		l.next, o.held = o.held, l
		t.count.Add(1)
	}
	return l.owner.Load() == o
}

// find returns the lock of a key, nil if it is free.
//
// REQUIRES: s.mu held, as for add and remove.
func (s *shard) find(key []byte) *lock {
	if s.locks != nil {
		return s.locks[string(key)]
	}
	if i, ok := s.search(key); ok && !s.sorted[i].free {
		return s.sorted[i]
	}
	return nil
}

// search returns where a key stands in sorted, or would stand.
func (s *shard) search(key []byte) (i int, ok bool) {
	return slices.BinarySearchFunc(s.sorted, key[4:], func(l *lock, user []byte) int {
		return s.cmp.Cmp(l.user(), user)
	})
}

// add makes the lock of a key that has none; the caller gives it an owner.
func (s *shard) add(key []byte) *lock {
	l := &lock{key: string(key), in: s}
	if s.locks != nil {
		s.locks[l.key] = l
		return l
	}
	if i, ok := s.search(key); ok {
		s.sorted[i] = l
		s.free--
	} else {
		s.sorted = slices.Insert(s.sorted, i, l)
	}
	return l
}

// remove forgets a lock that is free now. It does not call the comparer, which may panic: the
// lock stays in sorted, until half of the locks there are free.
func (s *shard) remove(l *lock) {
	if s.locks != nil {
		delete(s.locks, l.key)
		return
	}
	l.free = true
	if s.free++; 2*s.free > len(s.sorted) {
		s.sorted = slices.DeleteFunc(s.sorted, func(l *lock) bool { return l.free })
		s.free = 0
	}
}

// enqueue makes o wait. It returns no waiter if o got the lock after all, or would wait
// in a deadlock.
func (t *Table) enqueue(s *shard, o *Owner, key []byte) (*waiter, *lock, error) {
	t.graph.Lock()
	defer t.graph.Unlock()
	w := &waiter{owner: o, granted: make(chan struct{}, 1)}
	var l *lock
	for l == nil {
		if s.try(t, o, key) {
			return nil, nil, nil
		}
		l = s.push(key, w) // nil: it was given back since
	}
	o.waits = l
	if d := deadlock(o, l); d != nil && s.giveUp(l, w) {
		o.waits = nil
		t.deadlocks.Add(1)
		return nil, nil, d
	}
	return w, l, nil
}

// push queues w for a lock, or returns nil if the lock is free.
func (s *shard) push(key []byte, w *waiter) *lock {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.find(key)
	switch {
	case l == nil:
		return nil
	case l.last == nil:
		l.first = w
	default:
		l.last.next = w
	}
	l.last = w
	return l
}

// giveUp takes w out of the queue of a lock. It reports false if it has got the lock.
func (s *shard) giveUp(l *lock, w *waiter) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var before *waiter
	for q := l.first; q != nil; before, q = q, q.next {
		if q != w {
			continue
		}
		if before == nil {
			l.first = q.next
		} else {
			before.next = q.next
		}
		if l.last == q {
			l.last = before
		}
		return true
	}
	return false
}

// deadlock follows the owners from o, who is about to wait for l, and returns how that
// leads back to o, or nil. The graph is locked.
func deadlock(o *Owner, l *lock) *Deadlock {
	holder := l.owner.Load()
	if holder == o {
		return nil
	}
	for at, between := holder, 0; ; between++ {
		waits := at.waits
		if waits == nil {
			return nil
		}
		next := waits.owner.Load()
		switch next {
		case at: // it has the lock and has not woken yet
			return nil
		case o:
			return &Deadlock{Waiter: o.Name, Holder: holder.Name, WaiterKey: l.user(),
				HolderKey: holder.waits.user(), Between: between}
		}
		at = next
	}
}

// timedOut names the holder.
func (t *Table) timedOut(o *Owner, s *shard, key []byte, timeout time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	holder := "another transaction"
	if l := s.find(key); l != nil {
		holder = l.owner.Load().Name
	}
	return fmt.Errorf("%w: %s waited %v for key %q, which %s holds", ErrTimeout, o.Name, timeout,
		key[4:], holder)
}

// ReleaseAll gives back all locks of an owner, each to its longest waiting one.
func (t *Table) ReleaseAll(o *Owner) {
	for l := o.held; l != nil; {
		next := l.next
		l.in.release(t, l)
		l = next
	}
	o.held = nil
}

func (s *shard) release(t *Table, l *lock) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := l.first
	if w == nil {
		s.remove(l)
		t.count.Add(-1)
		return
	}
	if l.first = w.next; l.first == nil {
		l.last = nil
	}
	// The new owner waits in Acquire: its list is not used until it is woken.
	l.next, w.owner.held = w.owner.held, l
	l.owner.Store(w.owner)
	w.granted <- struct{}{}
}
