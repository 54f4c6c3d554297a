package work

import (
	"runtime"
	"time"

	"github.com/loamdb/loam/internal/tree"
)

// pace slows writers down while as many memtables are sealed as there may be. The next
// one that is full would have to wait for the end of the flush. Instead the writers
// are delayed a little at a time, so that the memtable lasts as long as the flush probably
// does. And compactions give way to the flush.
//
// They give way to every flush (Scheduler.flushFirst) where compactions, the flush and one writer
// are more than the processors, while level 0 has less than half of the tables at which writes
// wait. The flush ends sooner then, and less memory is filled meanwhile: a compaction beside it, on
// two processors, more than doubles its time, so that a third memtable is begun.
//
// All fields are guarded by Scheduler.mu.
type pace struct {
	k        *Keyspace // the tree whose memtable is being flushed, or nil
	bytes    int64     // of that memtable
	begun    time.Time // when the flush began, or the wait for it
	sorted   time.Time // when it reported its first entries; zero before
	reported time.Time // when it reported its last ones
	done, of uint64    // entries written, and in the memtable

	rate float64       // bytes a second of the last flush; 0: there was none
	tail time.Duration // how long it took after its last report
}

const (
	// firstRate is what the first flush is thought to do, in bytes a second.
	firstRate = 128 << 20
	// paceMargin makes the memtable last longer than the flush, in percent.
	paceMargin = 25
	// leastRoom is counted as free where less is.
	leastRoom = 64 << 10
	// giveWayToFlush is how long a compaction sleeps after every 200 us or so of work while the
	// flush goes first, and pacedGiveWay while writers are slowed down, but seeks may wait for it.
	giveWayToFlush = time.Millisecond
	pacedGiveWay   = 200 * time.Microsecond
)

// begin notes that a flush begins.
func (p *pace) begin(k *Keyspace, m *tree.Sealed, now time.Time) {
	*p = pace{k: k, bytes: m.Mem.Bytes(), begun: now, of: uint64(m.Mem.Len()), rate: p.rate,
		tail: p.tail}
}

// report notes that so many entries are written, every 200 us or so.
func (p *pace) report(entries uint64, now time.Time) {
	if p.sorted.IsZero() {
		p.sorted = now
	}
	p.reported, p.done = now, entries
}

// end notes that the flush ended.
func (p *pace) end(failed bool, now time.Time) {
	if d := now.Sub(p.begun); !failed && d > 0 {
		p.rate = float64(p.bytes) / d.Seconds()
		if p.done > 0 {
			p.tail = now.Sub(p.reported)
		}
	}
	p.k = nil
}

// left estimates how long the flush will go on. While the memtable is being sorted,
// the last flush tells; then the pace at which entries are written.
func (p *pace) left(now time.Time) time.Duration {
	rate := p.rate
	if rate == 0 {
		rate = firstRate
	}
	whole := time.Duration(float64(p.bytes) / rate * float64(time.Second))
	if p.done == 0 || p.sorted == p.reported {
		return max(whole-now.Sub(p.begun), whole/8)
	}
	entries := float64(p.of - min(p.done, p.of))
	return time.Duration(entries/float64(p.done)*float64(p.reported.Sub(p.sorted))) + p.tail
}

// beginPaceLocked paces writers for the flush of the last one of some memtables, before it begins:
// a writer may seal others until it does.
func (s *Scheduler) beginPaceLocked(k *Keyspace, sealed ...*tree.Sealed) {
	if n := len(sealed); n > 0 {
		now := time.Now()
		s.pace.begin(k, sealed[n-1], now)
		s.updatePaceLocked(now)
	}
}

// onPace makes a change of s.pace, which gets the time, and then what follows from it.
func (s *Scheduler) onPace(change func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	change(now)
	s.updatePaceLocked(now)
}

// updatePaceLocked derives the delay of writers from the rest of the flush and of the memtable, and
// whether compactions give way.
func (s *Scheduler) updatePaceLocked(now time.Time) {
	var nanos int64
	alone := false
	if k := s.pace.k; k != nil {
		if state := k.Acquire(); state != nil {
			alone = max(s.workers, s.trees.running)+2 > runtime.GOMAXPROCS(0) &&
				2*len(state.Version.Levels[0].Files) < s.limits.Load().L0Stop &&
				k.RunsSought() == 0
			if len(state.Sealed) >= s.limits.Load().MaxMemTables-1 {
				room := max(s.limits.Load().WriteBuffer-state.Mem.Bytes(), leastRoom)
				left := s.pace.left(now) * (100 + paceMargin) / 100
				nanos = int64(float64(left) / float64(room>>10))
			}
			state.Unref()
		}
	}
	s.paceNanos.Store(nanos)
	s.flushFirst.Store(alone)
}

// yieldToFlush lets the flush have the processor that a compaction uses, and the disk.
func (s *Scheduler) yieldToFlush() {
	if s.flushFirst.Load() {
		time.Sleep(giveWayToFlush)
	} else if s.paceNanos.Load() > 0 {
		time.Sleep(pacedGiveWay)
	}
}
