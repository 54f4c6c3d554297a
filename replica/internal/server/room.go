package server

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"

	"github.com/loamdb/loam/lsm"
	"github.com/loamdb/loam/replica/internal/wire"
)

const (
	// leastMemory is the least of Config.Memory: half of it has room for the calls that one
	// connection may hold, and for the largest answer.
	leastMemory = 2 * (maxHeld + wire.MaxBody)
	// mostMemory bounds its default.
	mostMemory = 1 << 30
	// freeCalls is what the calls of a connection take without room, so that a client with a few
	// small ones waits for nobody.
	freeCalls = 64 << 10
	// freeAnswers is that for answers.
	freeAnswers = 64 << 10
)

// maxReading is how many answers are made at once, more than processors can make: they need no room
// before their sizes are known.
func maxReading() int { return 4 + 2*runtime.GOMAXPROCS(0) }

// defaultMemory is a quarter of what the process may use, at most mostMemory.
func defaultMemory() int64 {
	r := lsm.NewResources(lsm.ResourcesOptions{Memory: lsm.AutoMemory})
	defer r.Close()
	return min(r.Metrics().Memory, mostMemory)
}

// errRoom says that a call found no room.
var errRoom = fmt.Errorf("%w: %w: the calls of others take all memory of the node",
	wire.ErrNotApplied, wire.ErrUnavailable)

// room is memory in bytes that all connections share. Connections wait for it, and get it in the
// order of their calls of take.
type room struct {
	mu    sync.Mutex // leaf
	left  int
	queue []*want
}

type want struct {
	n   int
	got chan struct{} // closed when the room is its
}

// try takes n bytes if they are there and nobody waits.
func (r *room) try(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) > 0 || n > r.left {
		return false
	}
	r.left -= n
	return true
}

// take takes n bytes when they are there. It returns false where ctx is done before.
func (r *room) take(ctx context.Context, n int) bool {
	w := &want{n, make(chan struct{})}
	r.mu.Lock()
	r.queue = append(r.queue, w)
	r.serve()
	r.mu.Unlock()
	select {
	case <-w.got:
		return true
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.Index(r.queue, w)
	if i < 0 {
		return true // it came meanwhile
	}
	r.queue = slices.Delete(r.queue, i, i+1)
	r.serve()
	return false
}

// give gives n bytes back.
func (r *room) give(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += n
	r.serve()
}

// serve gives the waiting connections the room that is left.
//
// REQUIRES: r.mu is held.
func (r *room) serve() {
	for len(r.queue) > 0 && r.queue[0].n <= r.left {
		w := r.queue[0]
		r.queue = r.queue[1:]
		r.left -= w.n
		close(w.got)
	}
}

// takeRoom takes room, for which a call waits a part of the time that calls have: then it is
// refused, and the client asks another node.
func (c *conn) takeRoom(r *room, n int) bool {
	if r.try(n) {
		return true
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.of.cfg.Timeout/4)
	defer cancel()
	return r.take(ctx, n)
}
