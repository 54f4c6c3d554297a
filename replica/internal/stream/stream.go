// Package stream sends frames on a connection: many goroutines add them, one sends all that wait at
// once.
package stream

import (
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"
)

const (
	// MaxWaiting is how many bytes wait, or are being sent, before others have to wait.
	MaxWaiting = 256 << 10
	// kept is the largest buffer that an Output keeps while nothing waits.
	kept = 64 << 10
)

// Output is what is to be sent on a connection. All methods are safe for concurrent use.
type Output struct {
	mu      sync.Mutex
	added   sync.Cond // Run waits for frames
	taken   sync.Cond // Add waits for room
	waiting []byte
	sending int    // bytes that Run is sending
	costs   [2]int // what AddWith said of the bytes that wait, and of those that Run is sending
	ended   bool   // nothing is added any more
	lost    bool   // nothing is sent any more

	// Sent is called with the costs of frames that AddWith added, when they are sent or lost. It
	// must not call the Output.
	Sent func(cost int)
}

// New returns an empty Output.
func New() *Output {
	o := &Output{}
	o.added.L, o.taken.L = &o.mu, &o.mu
	return o
}

// Add appends frames, when there is room. It returns false where they will not be sent for sure.
func (o *Output) Add(f func(dst []byte) []byte) bool { return o.AddWith(0, f) }

// AddWith is Add of frames with a cost, which Sent gets once.
func (o *Output) AddWith(cost int, f func(dst []byte) []byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	room := o.room()
	if o.costs[0] += cost; !room {
		o.settle(0)
		return false
	}
	o.waiting = f(o.waiting)
	o.added.Signal()
	return true
}

// settle says that frames are sent or lost: those that wait, 0, or those that were being sent, 1.
// REQUIRES: o.mu is held.
func (o *Output) settle(i int) {
	if n := o.costs[i]; n > 0 {
		o.costs[i] = 0
		o.Sent(n)
	}
}

// ErrEnded says that the Output has ended, or that its connection is lost.
var ErrEnded = errors.New("connection lost")

// AddBefore is Add that waits for room until a moment, or until ctx is done. It returns nil, the
// error of the context, or ErrEnded: after an error nothing was appended.
func (o *Output) AddBefore(ctx context.Context, end time.Time, f func(dst []byte) []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.full() {
		if err := o.roomBefore(ctx, end); err != nil {
			return err
		}
	}
	if o.lost || o.ended {
		return ErrEnded
	}
	o.waiting = f(o.waiting)
	o.added.Signal()
	return nil
}

// roomBefore waits for room until a moment, or until ctx is done.
// REQUIRES: o.mu is held.
func (o *Output) roomBefore(ctx context.Context, end time.Time) error {
	ctx, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.taken.Broadcast()
	})()
	for o.full() {
		if err := ctx.Err(); err != nil {
			return err
		}
		o.taken.Wait()
	}
	return nil
}

// full reports whether there is no room, and may be some later.
// REQUIRES: o.mu is held.
func (o *Output) full() bool {
	return len(o.waiting)+o.sending > MaxWaiting && !o.lost && !o.ended
}

// Await returns when there is room for Add, so that large frames are made then. It returns false
// where nothing will be sent any more.
func (o *Output) Await() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.room()
}

// room is Await.
// REQUIRES: o.mu is held.
func (o *Output) room() bool {
	for o.full() {
		o.taken.Wait()
	}
	return !o.lost && !o.ended
}

// End has Run return when what was added is sent.
func (o *Output) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.added.Signal()
	o.taken.Broadcast()
}

// Run sends what is added, until End or an error, and closes the connection then. Each part has to
// be taken within limit.
func (o *Output) Run(to net.Conn, limit time.Duration) {
	defer func() { _ = to.Close() }() // all is sent, or cannot be
	var sending []byte
	for {
		o.mu.Lock()
		o.sending = 0
		o.settle(1)
		o.taken.Broadcast()
		if len(o.waiting) == 0 && !o.ended {
			if cap(sending) > kept {
				sending = nil
			}
			if cap(o.waiting) > kept {
				o.waiting = nil
			}
			for len(o.waiting) == 0 && !o.ended {
				o.added.Wait()
			}
			o.mu.Unlock()
			runtime.Gosched() // goroutines that are ready add theirs to the same write
			o.mu.Lock()
		}
		if len(o.waiting) == 0 {
			o.lost = true
			o.mu.Unlock()
			return
		}
		if cap(sending) > 4*MaxWaiting {
			sending = nil
		}
		sending, o.waiting = o.waiting, sending[:0]
		o.sending = len(sending)
		o.costs[1], o.costs[0] = o.costs[0], 0
		o.mu.Unlock()
		if send(to, sending, limit) != nil {
			o.mu.Lock()
			o.lost, o.waiting = true, nil
			o.settle(0)
			o.settle(1)
			o.taken.Broadcast()
			o.mu.Unlock()
			return
		}
	}
}

func send(to net.Conn, b []byte, limit time.Duration) error {
	for len(b) > 0 {
		part := b[:min(len(b), MaxWaiting)]
		if err := to.SetWriteDeadline(time.Now().Add(limit)); err != nil {
			return err
		}
		if _, err := to.Write(part); err != nil {
			return err
		}
		b = b[len(part):]
	}
	return nil
}

// Waiting is how many bytes wait, or are being sent.
func (o *Output) Waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting) + o.sending
}
