package budget

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loamdb/loam/internal/memory/offheap"
)

// room is a cache that notes what it is charged with.
type room struct {
	charged, tables, capacity atomic.Int64
}

func (r *room) Charge(delta int64) { r.charged.Add(delta) }
func (r *room) Tables() int64      { return r.tables.Load() }
func (r *room) Blocks() int64      { return 0 }
func (r *room) SetCapacity(n int64) bool {
	r.capacity.Store(n)
	return n <= 64<<20
}

// TestFollow: the limit is what the system says, looked at once in lookEvery while buffers are
// settled, until it is set.
func TestFollow(t *testing.T) {
	r := &room{}
	m := NewMemory(64<<20, r)
	now, system, calls := m.began, int64(32<<20), 0
	m.now = func() time.Time { return now }
	follow := func() int64 { calls++; return system }
	want := func(limit int64, seen int) {
		t.Helper()
		if m.Limit() != limit || r.capacity.Load() != limit || calls != seen {
			t.Fatalf("limit %d, cache %d, want %d; %d calls, want %d", m.Limit(),
				r.capacity.Load(), limit, calls, seen)
		}
	}
	m.Follow(follow)
	want(32<<20, 1)
	system = 16 << 20
	m.Settle()
	now = now.Add(lookEvery - 1)
	m.Settle()
	want(32<<20, 1)
	now = now.Add(1)
	m.Settle()
	want(16<<20, 2)
	system = 24 << 20
	m.Look()
	want(24<<20, 3)
	if m.SetLimit(1 << 20) {
		t.Error("a limit of 1 MiB")
	}
	m.Look()
	want(24<<20, 4) // a limit that is refused ends nothing
	if !m.SetLimit(48 << 20) {
		t.Error("no limit of 48 MiB")
	}
	now = now.Add(time.Hour)
	m.Settle()
	m.Look()
	want(48<<20, 4)
	m.Follow(follow)
	want(24<<20, 5)
}

// TestCharges changes memtables from many goroutines: the cache is charged with all of them but for
// a step, and with nothing in the end.
func TestCharges(t *testing.T) {
	r := &room{}
	m := NewMemory(64<<20, r)
	var wg sync.WaitGroup
	for i := range 8 {
		a := m.Open(func() {})
		wg.Go(func() {
			defer a.Close()
			rng := rand.New(rand.NewPCG(1, uint64(i)))
			held := make([]Held, 20)
			for range 20_000 {
				h := &held[rng.IntN(len(held))]
				h.Account = a
				h.Set(rng.Int64N(1<<20), rng.Int64N(1<<16))
			}
			sum := int64(0)
			for j := range held {
				sum += held[j].arena + held[j].index
			}
			if sum == 0 {
				t.Error("nothing is held")
			}
			for j := range held {
				held[j].Set(0, 0)
			}
		})
	}
	wg.Wait()
	if u := m.Usage(); u.MemTables != 0 {
		t.Errorf("memtables have %d bytes at the end", u.MemTables)
	}
	if c := r.charged.Load() + m.pending.Load(); c != 0 {
		t.Errorf("%d bytes are charged at the end", c)
	}
	if p := m.pending.Load(); p >= m.step() || -p >= m.step() {
		t.Errorf("%d bytes are not charged, the step is %d", p, m.step())
	}
	h := Held{Account: m.Open(func() {})}
	h.Set(10<<20, 1<<20)
	if c := r.charged.Load(); c != 11<<20-m.pending.Load() || m.Usage().MemTables != 11<<20 {
		t.Errorf("charged with %d, usage is %+v", c, m.Usage())
	}
	h.Set(0, 0)
}

// TestSettle allocates and frees buffers: the cache is charged with them.
func TestSettle(t *testing.T) {
	r := &room{}
	m := NewMemory(64<<20, r)
	m.Settle()
	before := r.charged.Load()
	b, err := offheap.Alloc(5 << 20)
	if err != nil {
		t.Fatal(err)
	}
	m.Settle()
	if c := r.charged.Load() - before; c < 5<<20-m.step() || c > 5<<20+m.step() {
		t.Errorf("a buffer of 5 MiB is charged with %d bytes", c)
	}
	offheap.Attribute(int64(cap(b)))
	m.Settle()
	if c := r.charged.Load() - before; c > m.step() {
		t.Errorf("what has another owner is charged with %d bytes", c)
	}
	offheap.Attribute(-int64(cap(b)))
	offheap.Free(b)
	m.Settle()
	if c := r.charged.Load() - before; c > m.step() || -c > m.step() {
		t.Errorf("%d bytes are charged at the end", c)
	}
}

// TestWeigh covers the decisions: which tree seals, which writers wait, which databases are asked
// to seal.
func TestWeigh(t *testing.T) {
	const mib = 1 << 20
	r := &room{}
	m := NewMemory(64*mib, r) // memtables: 24 MiB; the share of three is 8
	relieved := make(chan int, 10)
	var a [3]*Account
	var held [3]Held
	for i := range a {
		a[i] = m.Open(func() { relieved <- i })
		held[i].Account = a[i]
	}
	weigh := func(i int, active, sealed int64, wantSeal, wantWait bool) {
		t.Helper()
		held[i].Set(active+sealed, 0)
		if seal, wait := a[i].Weigh(active, sealed); seal != wantSeal || wait != wantWait {
			t.Errorf("database %d with %d MiB and %d sealed: seal %v, wait %v", i, active/mib,
				sealed/mib, seal, wait)
		}
	}
	weigh(0, 10*mib, 0, false, false) // all have less than half
	weigh(1, 3*mib, 0, true, false)
	if i := <-relieved; i != 0 {
		t.Errorf("database %d is asked to seal, the largest is 0", i)
	}
	weigh(0, 1*mib, 20*mib, false, false) // 24 MiB: not more
	// it has less than its share: another one's disk may be blocked
	weigh(1, 3*mib, 2*mib, true, false)
	weigh(0, 1*mib, 20*mib, false, true)
	weigh(1, 0, 9*mib, false, true)
	weigh(1, 9*mib, 0, true, false) // nothing would end the wait
	r.tables.Store(60 * mib)        // tables leave less to memtables, an eighth at least
	weigh(2, 3*mib, 0, true, false)
	for i := range held {
		held[i].Set(0, 0)
	}
	if n := m.memTableLimit(); n != 8*mib {
		t.Errorf("memtables may have %d bytes", n)
	}
	a[0].Close()
	a[1].Close()
	if _, share := a[2].limits(); share != 8*mib {
		t.Errorf("the share of one is %d bytes", share)
	}
	if m.SetLimit(1*mib) || m.SetLimit(65*mib) || !m.SetLimit(32*mib) || m.Limit() != 32*mib ||
		r.capacity.Load() != 32*mib {
		t.Errorf("the limit is %d, that of the cache %d", m.Limit(), r.capacity.Load())
	}
	var none *Account
	if seal, wait := none.Weigh(1<<40, 1<<40); seal || wait || none.Wrote(1<<40) {
		t.Error("without an account memory is bounded")
	}
	none.Add(1)
	none.Settle()
	none.Close()
}

// TestWroteYields writes beside a goroutine that is ready, on one processor: it gets its turn.
func TestWroteYields(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	m := NewMemory(64<<20, &room{})
	a := m.Open(func() {})
	defer a.Close()
	var ran atomic.Bool
	go ran.Store(true)
	for range 200 { // far less than a time slice
		if !a.Wrote(yieldEvery / 2) {
			t.Fatal("memory is not bounded")
		}
	}
	if !ran.Load() {
		t.Error("a writer lets nobody else go on")
	}
}

// TestRate pays in a clock of its own.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRate(1000)
		now := r.at
		pay := func(after time.Duration, n int64, flush bool, want time.Duration) {
			t.Helper()
			now = now.Add(after)
			if got := r.take(n, flush, now); got < want-time.Millisecond ||
				got > want+time.Millisecond {
				t.Errorf("waits %v, want %v", got, want)
			}
		}
		pay(0, 100, false, 100*time.Millisecond)
		pay(50*time.Millisecond, 0, false, 50*time.Millisecond)
		pay(time.Hour, 100, false, 0) // a burst
		pay(0, 300, true, 0)          // flushes go first
		pay(0, 0, false, 300*time.Millisecond)
		pay(0, 400, true, 200*time.Millisecond)
		pay(0, 100_000, false, 100*time.Second)
		pay(0, 100, false, time.Second) // those before did not wait: the debt is bounded
		r.Set(0)
		pay(0, 1<<40, false, 0)
		r.Set(1)
		now = r.at
		lifted := atomic.Bool{}
		time.AfterFunc(20*time.Millisecond, func() { lifted.Store(true) })
		r.Pay(1<<20, false, lifted.Load) // ends
		var none *Rate
		none.Pay(1<<40, false, lifted.Load)
	})
}

// pool is a Pool with a clock of its own, whose clients count their wakes.
type pool struct {
	*Pool
	at    atomic.Int64
	wakes chan *Client
}

func newPool(limit int) *pool {
	p := &pool{Pool: NewPool(limit), wakes: make(chan *Client, 100)}
	p.now = func() time.Duration { return time.Duration(p.at.Load()) }
	return p
}

func (p *pool) open() (c *Client) {
	c = p.Open(func() { p.wakes <- c })
	return c
}

// begin begins a compaction, or fails.
func (c *Client) begin(need float64, pieces int) *Job {
	if !c.Reserve(need) {
		return nil
	}
	j := c.Begin(pieces)
	c.Done(false)
	return j
}

func TestCompactionsInTurn(t *testing.T) {
	p := newPool(2)
	a, b, c := p.open(), p.open(), p.open()
	a1 := a.begin(0, 4)
	if a1.Pieces() != 2 {
		t.Fatalf("alone it has %d of 2 workers", a1.Pieces())
	}
	if b.begin(0.1, 1) != nil || c.begin(0.5, 1) != nil || a.begin(0, 1) != nil {
		t.Fatal("there was no worker")
	}
	a1.End()
	first, second := <-p.wakes, <-p.wakes
	if first == a || second == a || first == second {
		t.Error("b and c need compactions more than a")
	}
	if a.begin(0, 1) != nil {
		t.Error("the workers are b's and c's")
	}
	c1 := c.begin(0.5, 3)
	if c1.Pieces() != 1 {
		t.Errorf("a waits, but c has %d workers", c1.Pieces())
	}
	b.Done(false) // b has nothing to do any more
	if w := <-p.wakes; w != a {
		t.Error("what b gave back is a's")
	}
	a2 := a.begin(0, 1)
	if a2 == nil {
		t.Fatal("a was woken for nothing")
	}
	// Of equals, the one that was served longest ago.
	if a.begin(0, 1) != nil || b.begin(0, 1) != nil || c.begin(0, 1) != nil {
		t.Fatal("there was no worker")
	}
	c1.End()
	if w := <-p.wakes; w != b && w != c {
		t.Error("a was served last")
	}
	for _, o := range []*Client{a, b, c} {
		o.Done(false)
	}
	a2.End()
	if n, live := p.Running(); n != 0 || live != 0 {
		t.Errorf("%d jobs run", n)
	}
}

func TestUrgentCompaction(t *testing.T) {
	p := newPool(1)
	a, b := p.open(), p.open()
	long := a.begin(0, 1)
	if long.Progress() {
		t.Error("alone it pauses")
	}
	urgent := b.begin(Urgent, 1)
	if urgent == nil {
		t.Fatal("writers of b wait for a's compaction")
	}
	if b.begin(Urgent, 1) != nil {
		t.Error("one more")
	}
	if !long.Progress() || urgent.Progress() {
		t.Error("the one that is not urgent pauses")
	}
	urgent.End()
	if long.Progress() {
		t.Error("it still pauses")
	}
	flush := b.Flush(0, func() bool { return false })
	if !long.Progress() || flush.Progress() {
		t.Error("compactions pause for flushes")
	}
	flush.End()
	long.End()
}

// TestStuckJobs has databases whose disks block hold all workers: the others get theirs.
func TestStuckJobs(t *testing.T) {
	p := newPool(2)
	a, b := p.open(), p.open()
	stuck := a.begin(0, 2)
	stuckFlush := a.Flush(0, func() bool { return false })
	if b.begin(0.5, 1) != nil {
		t.Fatal("no job is stuck yet")
	}
	p.at.Add(int64(stuckAfter) + 1)
	if w := <-p.wakes; w != b {
		t.Fatal("b waits")
	}
	j := b.begin(0.5, 2)
	if j == nil {
		t.Fatal("b was woken for nothing")
	}
	flushes := []*Job{b.Flush(0, func() bool {
		return false
	}), b.Flush(0, func() bool { return false })}
	if n, live := p.Running(); n != 6 && n != 7 || live < 3 {
		t.Errorf("%d pieces run, %d count", n, live)
	}
	if !stuck.Progress() {
		t.Error("what goes on again pauses while there are too many")
	}
	for _, j := range append(flushes, j, stuckFlush) {
		j.End()
	}
	if stuck.Progress() {
		t.Error("it is alone, and pauses")
	}
	stuck.End()
}

// TestFlushesWait has more flushes than workers: the one most needed goes first, and one that is
// stopped gives up.
func TestFlushesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(1)
		a, b, c := p.open(), p.open(), p.open()
		never := func() bool { return false }
		first := a.Flush(0, never)
		began := make(chan string, 3)
		var stop atomic.Bool
		var wg sync.WaitGroup
		for name, w := range map[string]struct {
			c    *Client
			need float64
		}{"little": {b, 0.3}, "much": {c, 0.6}, "stopped": {a, 0.9}} {
			wg.Go(func() {
				j := w.c.Flush(w.need, func() bool { return name == "stopped" && stop.Load() })
				if j == nil {
					name += " gave up"
				}
				began <- name
				j.End()
			})
		}
		synctest.Wait()
		p.mu.Lock()
		n := len(p.flushes)
		p.mu.Unlock()
		if n != 3 {
			t.Errorf("%d flushes wait", n)
		}
		stop.Store(true)
		a.Recheck()
		if name := <-began; name != "stopped gave up" {
			t.Errorf("%s began", name)
		}
		first.End()
		if x, y := <-began, <-began; x != "much" || y != "little" {
			t.Errorf("first %s, then %s", x, y)
		}
		wg.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.jobs) != 0 {
			t.Errorf("%d jobs are left", len(p.jobs))
		}
	})
}

// TestNobodyStarves has databases begin and end jobs at random, with limits that change: every
// refused database is woken.
func TestNobodyStarves(t *testing.T) {
	p := NewPool(2)
	var wg sync.WaitGroup
	for i := range 6 {
		woken := make(chan struct{}, 1)
		c := p.Open(func() {
			select {
			case woken <- struct{}{}:
			default:
			}
		})
		wg.Go(func() {
			defer c.Close()
			rng := rand.New(rand.NewPCG(3, uint64(i)))
			for done := 0; done < 300; {
				switch rng.IntN(8) {
				case 0:
					p.SetLimit(1 + rng.IntN(3))
					continue
				case 1:
					j := c.Flush(rng.Float64(), func() bool { return false })
					j.Progress()
					j.End()
					continue
				}
				if !c.Reserve(rng.Float64() * 1.2) {
					c.Done(true)
					<-woken
					continue
				}
				if rng.IntN(10) == 0 {
					c.Done(false)
					continue
				}
				j := c.Begin(1 + rng.IntN(3))
				c.Done(false)
				j.Progress()
				if rng.IntN(4) == 0 {
					for range rng.IntN(100) {
						runtime.Gosched()
					}
				}
				j.End()
				done++
			}
		})
	}
	wg.Wait()
	if len(p.jobs) != 0 || len(p.clients) != 0 {
		t.Errorf("%d jobs and %d clients are left", len(p.jobs), len(p.clients))
	}
}

// TestLargeJobGoesOn: a job with more pieces than there are workers does not wait for itself, also
// beside one that is stuck.
func TestLargeJobGoesOn(t *testing.T) {
	now := time.Duration(0)
	p := NewPool(3)
	p.now = func() time.Duration { return now }
	a, b := p.Open(func() {}), p.Open(func() {})
	stuck := a.Begin(1)
	large := b.Begin(3)
	p.SetLimit(1)
	if !large.Progress() {
		t.Error("a job that began later does not give way")
	}
	now += stuckAfter + time.Millisecond
	if large.Progress() {
		t.Error("a job waits for one that is stuck, or for itself")
	}
	stuck.End()
	large.End()
	if j := b.Begin(5); j.Pieces() != 1 {
		t.Errorf("a compaction that somebody waits for has %d pieces, there is one worker",
			j.Pieces())
	}
}
