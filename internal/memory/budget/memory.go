package budget

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loamdb/loam/internal/memory/offheap"
)

// Room is the block cache, which gives way.
type Room interface {
	// Charge counts delta bytes, which may be negative, against the room for blocks.
	Charge(delta int64)
	// Tables is the memory of filters, indexes and slots in bytes, Blocks that of blocks.
	Tables() int64
	Blocks() int64
	// SetCapacity changes the size of the cache. It reports false for one that it cannot have.
	SetCapacity(n int64) bool
}

// Memory is a number of bytes that databases share.
type Memory struct {
	limit atomic.Int64
	room  Room

	setting sync.Mutex // of the limit; taken before mu
	// follow returns the limit that holds at present; nil: it stays. Changed with setting held.
	follow atomic.Pointer[func() int64]
	looked atomic.Int64 // when follow was called last, in ns since began
	began  time.Time
	now    func() time.Time

	memtables atomic.Int64 // of all accounts
	pending   atomic.Int64 // changes of memtables that room was not charged with yet
	buffers   atomic.Int64 // that room was charged with
	runtime   goMemory

	mu       sync.Mutex // guards the rest; Charge is called with it held
	accounts []*Account
}

// NewMemory makes a Memory of limit bytes, of which room gets the rest.
func NewMemory(limit int64, room Room) *Memory {
	m := &Memory{room: room, began: time.Now(), now: time.Now}
	m.limit.Store(limit)
	m.runtime.init()
	return m
}

// Limit is the number of bytes.
func (m *Memory) Limit() int64 { return m.limit.Load() }

// leastLimit is the smallest number of bytes.
const leastLimit = 8 << 20

// SetLimit changes the number of bytes, down to leastLimit and up to what the cache was made for,
// and ends Follow.
func (m *Memory) SetLimit(n int64) bool {
	m.setting.Lock()
	defer m.setting.Unlock()
	if !m.set(n) {
		return false
	}
	m.follow.Store(nil)
	return true
}

// set is SetLimit with m.setting held.
func (m *Memory) set(n int64) bool {
	if n < leastLimit || !m.room.SetCapacity(n) {
		return false
	}
	m.limit.Store(n)
	return true
}

// Follow makes the number of bytes what limit returns, at once and again whenever buffers change or
// a full cache takes blocks, at most once in lookEvery.
func (m *Memory) Follow(limit func() int64) {
	m.setting.Lock()
	m.follow.Store(&limit)
	m.setting.Unlock()
	m.Look()
}

// lookEvery is between two calls of a limit that is followed: it reads files of the kernel.
const lookEvery = time.Second

// Look takes over the limit that is followed, if there is one.
func (m *Memory) Look() {
	m.setting.Lock()
	defer m.setting.Unlock()
	if limit := m.follow.Load(); limit != nil {
		m.looked.Store(int64(m.now().Sub(m.began)))
		if n := (*limit)(); n != m.Limit() {
			m.set(n)
		}
	}
}

// lookAgain is Look, once in lookEvery: of several callers one looks.
func (m *Memory) lookAgain() {
	if m.follow.Load() == nil {
		return
	}
	now, last := int64(m.now().Sub(m.began)), m.looked.Load()
	if now-last >= int64(lookEvery) && m.looked.CompareAndSwap(last, now) {
		m.Look()
	}
}

// Usage is the bytes of each part.
type Usage struct {
	Blocks    int64 // cached
	MemTables int64 // of all databases, those that iterators keep included
	Tables    int64 // filters, indexes and slots of open tables
	Buffers   int64 // of flushes, compactions and iterators, and a part of the Go heap
}

// Usage returns the bytes of each part.
func (m *Memory) Usage() Usage {
	return Usage{Blocks: m.room.Blocks(), MemTables: m.memtables.Load(), Tables: m.room.Tables(),
		Buffers: m.buffers.Load()}
}

// step is the bytes below which changes are not worth a change of the cache.
func (m *Memory) step() int64 { return min(max(m.Limit()/512, 32<<10), 1<<20) }

// Settle charges the cache with the buffers that there are now. Jobs call it as they go on.
func (m *Memory) Settle() {
	if m == nil {
		return
	}
	m.lookAgain()
	now := offheap.Unattributed() + m.runtime.grown(m.Limit()/runtimeShare)
	if d := now - m.buffers.Load(); d < m.step() && -d < m.step() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.room.Charge(now - m.buffers.Swap(now))
}

// memTableLimit is how much memtables may have: half of what tables and buffers leave, and
// between an eighth and three eighths of all.
func (m *Memory) memTableLimit() int64 {
	l := m.Limit()
	return min(max((l-m.room.Tables()-m.buffers.Load())/2, l/8), l*3/8)
}

// Account is the memtables of one database. A nil one bounds nothing.
type Account struct {
	of        *Memory
	active    atomic.Int64 // those that take writes, at the last Weigh
	relieve   func()
	relieving atomic.Bool
	wrote     int64 // since others were let go on; commit leader only
}

// Open adds a database. relieve seals the largest of its memtables; it is called on a goroutine
// of its own, one call at a time.
func (m *Memory) Open(relieve func()) *Account {
	a := &Account{of: m, relieve: relieve}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.accounts = append(m.accounts, a)
	return a
}

// Close takes the database off. Memory that iterators keep stays counted.
func (a *Account) Close() {
	if a == nil {
		return
	}
	m := a.of
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, o := range m.accounts {
		if o == a {
			m.accounts = append(m.accounts[:i:i], m.accounts[i+1:]...)
			return
		}
	}
}

// Add counts delta bytes of memtables, which may be negative.
func (a *Account) Add(delta int64) {
	if a == nil || delta == 0 {
		return
	}
	m := a.of
	m.memtables.Add(delta)
	p := m.pending.Add(delta)
	if s := m.step(); p < s && -p < s {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.room.Charge(m.pending.Swap(0))
}

// yieldEvery is how many bytes a database may write before it lets others go on. They take a
// millisecond or two, of which Go's scheduler would give it ten while other goroutines are ready.
const yieldEvery = 128 << 10

// Wrote notes that the database is about to write so many bytes, and now and then lets those that
// use other databases go on. It reports whether memory is shared. Commit leader only.
func (a *Account) Wrote(bytes int64) bool {
	if a == nil {
		return false
	}
	if a.wrote += bytes; a.wrote >= yieldEvery {
		a.wrote = 0
		runtime.Gosched()
	}
	return true
}

// Settle charges the buffers that there are now.
func (a *Account) Settle() {
	if a != nil {
		a.of.Settle()
	}
}

// Interval is how many bytes may be written between two calls of Weigh.
func (a *Account) Interval() int64 {
	_, share := a.limits()
	return max(share/16, 16<<10)
}

// limits are what the memtables of all databases may have, and the share of one.
func (a *Account) limits() (limit, share int64) {
	m := a.of
	limit = m.memTableLimit()
	m.mu.Lock()
	n := len(m.accounts)
	m.mu.Unlock()
	return limit, limit / int64(max(n, 1))
}

// Weigh says what a writer does for the memory of all: seal its largest memtable, and wait for
// a flush of its own database. active is the bytes of the memtables that take writes, sealed
// of the others.
func (a *Account) Weigh(active, sealed int64) (seal, wait bool) {
	if a == nil {
		return false, false
	}
	a.active.Store(active)
	limit, share := a.limits()
	total := a.of.memtables.Load()
	if total <= limit/2 {
		return false, false
	}
	a.of.relieveOther(a, active, share/4)
	return active >= share/4, total > limit && sealed > 0 && active+sealed > share
}

// relieveOther asks the database with the largest memtables to seal one, if it has more than
// the one that asks.
func (m *Memory) relieveOther(asking *Account, active, least int64) {
	m.mu.Lock()
	var other *Account
	most := max(active, least)
	for _, a := range m.accounts {
		if n := a.active.Load(); a != asking && n > most {
			most, other = n, a
		}
	}
	m.mu.Unlock()
	if other == nil || other.relieving.Swap(true) {
		return
	}
	go func() {
		defer other.relieving.Store(false)
		other.active.Store(0)
		other.relieve()
	}()
}

// Held is what one memtable holds. It is used by one goroutine at a time.
type Held struct {
	Account      *Account
	arena, index int64
}

// Set notes the bytes of the arena that are in use, and those of the index.
func (h *Held) Set(arena, index int64) {
	offheap.Attribute(index - h.index)
	h.Account.Add(arena + index - h.arena - h.index)
	h.arena, h.index = arena, index
}
