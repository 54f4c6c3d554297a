package budget

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// stuckAfter is how long a job makes no progress before it is not counted.
const stuckAfter = 500 * time.Millisecond

// Urgent is the need of a database whose writers wait for a compaction, or soon will: one of
// its compactions begins however many jobs there are.
const Urgent = 1.0

// Pool is the workers that databases share.
type Pool struct {
	excess atomic.Int32 // jobs over the limit, at the last look

	mu      sync.Mutex
	changed sync.Cond // a flush may begin; its L is &mu
	limit   int
	jobs    []*Job // in the order in which they began
	clients []*Client
	flushes []*flushWait
	turn    uint64               // counts the jobs that began
	look    *time.Timer          // looks for stuck jobs while somebody waits; nil: nobody does
	now     func() time.Duration // since the Pool was made, by a clock that does not step
}

// Client is a database of a Pool. Its methods but Flush may be called with locks held that wake
// takes: wake is called on a goroutine of its own.
type Client struct {
	pool *Pool
	wake func()

	// Guarded by pool.mu.
	reserved *Job // may be used by the next compaction
	wants    bool // a compaction was refused
	need     float64
	served   uint64 // turn of its last job
	closed   bool
}

// flushWait is a flush that waits to begin.
type flushWait struct {
	of   *Client
	need float64
}

// Job is a flush, or a compaction of so many pieces.
type Job struct {
	of     *Client
	flush  bool
	urgent bool
	pieces int
	beat   atomic.Int64 // when it last made progress, by Pool.now
}

// NewPool makes a Pool of limit workers, at least 1.
func NewPool(limit int) *Pool {
	begun := time.Now()
	p := &Pool{limit: max(limit, 1), now: func() time.Duration { return time.Since(begun) }}
	p.changed.L = &p.mu
	return p
}

// Limit is the number of workers.
func (p *Pool) Limit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

// SetLimit changes the number of workers.
func (p *Pool) SetLimit(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = max(n, 1)
	p.dispatchLocked()
}

// Running is how many pieces of jobs run now, and how many of them are counted: the others wait
// for their disk.
func (p *Pool) Running() (pieces, counted int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, j := range p.jobs {
		pieces += j.pieces
	}
	return pieces, p.liveLocked(false)
}

// Open adds a database. wake makes it look for work.
func (p *Pool) Open(wake func()) *Client {
	c := &Client{pool: p, wake: wake}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients = append(p.clients, c)
	return c
}

// Close takes the database off. Its jobs have ended.
func (c *Client) Close() {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	c.closed, c.wants = true, false
	p.clients = slices.DeleteFunc(p.clients, func(o *Client) bool { return o == c })
	p.dropReservedLocked(c)
	p.dispatchLocked()
}

// liveLocked is how many pieces count, of flushes only or of all jobs.
func (p *Pool) liveLocked(flushes bool) (n int) {
	old := int64(p.now() - stuckAfter)
	for _, j := range p.jobs {
		if (j.flush || !flushes) && j.beat.Load() > old {
			n += j.pieces
		}
	}
	return n
}

func (p *Pool) beginLocked(c *Client, flush bool, pieces int) *Job {
	j := &Job{of: c, flush: flush, pieces: pieces}
	j.beat.Store(int64(p.now()))
	p.turn++
	c.served = p.turn
	p.jobs = append(p.jobs, j)
	p.noteExcessLocked()
	return j
}

func (p *Pool) noteExcessLocked() { p.excess.Store(int32(p.liveLocked(false) - p.limit)) }

// Flush begins a flush, as soon as fewer flushes run than there are workers. need says how much
// it is needed. It returns nil when stopped returns true, which is called again after Recheck.
func (c *Client) Flush(need float64, stopped func() bool) *Job {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &flushWait{c, need}
	p.flushes = append(p.flushes, w)
	defer func() {
		p.flushes = slices.DeleteFunc(p.flushes, func(o *flushWait) bool { return o == w })
	}()
	for {
		switch {
		case stopped():
			p.changed.Broadcast()
			return nil
		case p.nextFlushLocked() == w && p.liveLocked(true) < p.limit:
			p.changed.Broadcast()
			return p.beginLocked(c, true, 1)
		}
		p.watchLocked()
		p.changed.Wait()
	}
}

// nextFlushLocked is the flush that is needed most, of equals that of the database that was
// served longest ago.
func (p *Pool) nextFlushLocked() (next *flushWait) {
	for _, w := range p.flushes {
		if next == nil || w.need > next.need || w.need == next.need &&
			w.of.served < next.of.served {
			next = w
		}
	}
	return next
}

// Recheck makes Flush ask stopped again.
func (c *Client) Recheck() {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.pool.changed.Broadcast()
}

// Reserve asks for a worker for a compaction. If it is refused, wake is called when there is
// one. Begin uses it; Done gives it back.
func (c *Client) Reserve(need float64) bool {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.closed {
		return false
	}
	if c.reserved != nil {
		return true
	}
	if !p.mayBeginLocked(c, need) {
		if !c.wants {
			c.need = 0
		}
		c.wants, c.need = true, max(c.need, need)
		p.watchLocked()
		return false
	}
	c.reserved = p.beginLocked(c, false, 1)
	c.reserved.urgent = need >= Urgent
	return true
}

// mayBeginLocked reports whether a compaction of c may begin now.
func (p *Pool) mayBeginLocked(c *Client, need float64) bool {
	if need >= Urgent && !slices.ContainsFunc(p.jobs, func(j *Job) bool {
		return j.of == c && !j.flush
	}) {
		return true
	}
	if p.liveLocked(false) >= p.limit {
		return false
	}
	return !slices.ContainsFunc(p.clients, func(o *Client) bool {
		return o != c && o.wants && (o.need > need || o.need == need && o.served < c.served)
	})
}

// Begin begins a compaction with the worker that Reserve got, and of at most so many pieces: as
// many as there are workers that nobody waits for.
func (c *Client) Begin(pieces int) *Job {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	j := c.reserved
	c.reserved = nil
	if j == nil { // a compaction that somebody waits for
		return p.beginLocked(c, false, max(min(pieces, p.limit), 1))
	}
	j.beat.Store(int64(p.now()))
	if !slices.ContainsFunc(p.clients, func(o *Client) bool { return o != c && o.wants }) {
		j.pieces += max(min(pieces-1, p.limit-p.liveLocked(false)), 0)
	}
	p.noteExcessLocked()
	return j
}

// Done ends a round of Reserve and Begin: a worker that was not used is given back. refused
// says that there still is work.
func (c *Client) Done(refused bool) {
	p := c.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	c.wants = refused && !c.closed
	if c.reserved != nil {
		p.dropReservedLocked(c)
		p.dispatchLocked()
	}
}

// Waits reports whether the database waits for a worker.
func (c *Client) Waits() bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	return c.wants || c.reserved != nil
}

func (p *Pool) dropReservedLocked(c *Client) {
	if j := c.reserved; j != nil {
		c.reserved = nil
		p.removeLocked(j)
	}
}

func (p *Pool) removeLocked(j *Job) {
	p.jobs = slices.DeleteFunc(p.jobs, func(o *Job) bool { return o == j })
}

// Pieces is how many pieces the job may have.
func (j *Job) Pieces() int { return j.pieces }

// End ends the job. A nil one is none.
func (j *Job) End() {
	if j == nil {
		return
	}
	p := j.of.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.removeLocked(j)
	p.dispatchLocked()
}

// Progress notes that the job goes on, and reports whether it has to pause, because more jobs
// run than there are workers. It is called every 200 us or so of work, and while it pauses.
func (j *Job) Progress() (pause bool) {
	if j == nil {
		return false
	}
	p := j.of.pool
	j.beat.Store(int64(p.now()))
	if p.excess.Load() <= 0 || j.flush || j.urgent {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteExcessLocked()
	over := int(p.excess.Load())
	for i := len(p.jobs) - 1; i >= 0 && over > 0; i-- {
		switch o := p.jobs[i]; {
		case o == j:
			return p.givesWayLocked(j)
		case !o.flush && !o.urgent:
			over -= o.pieces
		}
	}
	return false
}

// givesWayLocked reports whether a job that goes on has begun before j, or goes first. Otherwise j
// alone is more than the limit, which has become smaller, and nothing would end its pause.
func (p *Pool) givesWayLocked(j *Job) bool {
	old, before := int64(p.now()-stuckAfter), true
	for _, o := range p.jobs {
		if o == j {
			before = false
		} else if (before || o.flush || o.urgent) && o.beat.Load() > old {
			return true
		}
	}
	return false
}

// dispatchLocked gives free workers to those that wait.
func (p *Pool) dispatchLocked() {
	p.noteExcessLocked()
	p.changed.Broadcast()
	for p.liveLocked(false) < p.limit {
		var next *Client
		for _, c := range p.clients {
			if c.wants && c.reserved == nil && (next == nil || c.need > next.need ||
				c.need == next.need && c.served < next.served) {
				next = c
			}
		}
		if next == nil {
			return
		}
		next.wants = false
		next.reserved = p.beginLocked(next, false, 1)
		go next.wake()
	}
	p.watchLocked()
}

// watchLocked looks for stuck jobs again after a while, if somebody waits.
func (p *Pool) watchLocked() {
	waits := len(p.flushes) > 0 || slices.ContainsFunc(p.clients, func(c *Client) bool {
		return c.wants
	})
	if !waits || p.look != nil {
		return
	}
	p.look = time.AfterFunc(stuckAfter/2, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.look = nil
		p.dispatchLocked()
		p.watchLocked()
	})
}
