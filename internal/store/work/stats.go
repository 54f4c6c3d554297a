package work

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/compact"
	"github.com/loamdb/loam/internal/tree/picker"
)

// Work counts flushes or compactions.
type Work struct {
	Count, Failed, Moves  int64
	TablesDropped         uint64 // covered by range deletions or expired, and not read for that
	Expired               uint64 // entries that had expired, in tables that were read
	BytesIn, BytesOut     uint64
	EntriesIn, EntriesOut uint64
	Duration              time.Duration
}

// FilterWork is what compaction filters did.
type FilterWork struct {
	Removed, Changed uint64 // entries
	Failed           int64  // compactions that ended with the filter's failure
}

// LevelWork is what flushes and compactions wrote into a level.
type LevelWork struct {
	BytesRead, BytesWritten uint64
	Duration                time.Duration
}

// Stall counts writes that had to wait, for one cause.
type Stall struct {
	Count    int64
	Duration time.Duration
}

// Counters is what a Scheduler has done.
type Counters struct {
	Flushes, Compactions Work
	Filter               FilterWork
	Levels               [manifest.NumLevels]LevelWork
	Stalls               map[string]Stall // by cause
}

// Status is what a Scheduler does now.
type Status struct {
	// of the last flush or compaction if it is to be tried again, else nil
	Err         error
	DelayPerKiB time.Duration // of writes, from the debt
	WaitsFor    string        // why the commit leader waits; empty when it does not
	Running     int           // plans in progress, and the flush
	Closing     bool          // compactions give up
	LastFlush   bool          // the flush gives up, too
	Paused      bool          // no compaction begins by itself
	Forced      int           // stalls that found nothing under way: 0, but for a bug
}

// Status says what the Scheduler does now.
func (s *Scheduler) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Status{
		Err:         errors.Join(s.flush.err, s.compaction.err),
		DelayPerKiB: time.Duration(s.delayNanos.Load()), WaitsFor: s.waitsFor,
		Running: s.trees.running, Closing: s.stop.Load(), LastFlush: s.stopFlush.Load(),
		Forced: s.forced, Paused: s.paused > 0,
	}
	if s.flushing {
		st.Running++
	}
	for k := range s.opts.All {
		st.Err = errors.Join(st.Err, k.compaction.err)
	}
	return st
}

// Debt is how many bytes compactions still have to move in a state of a keyspace.
func (s *Scheduler) Debt(k *Keyspace, state *tree.ReadState) (debt uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pickLocked(k, func(c picker.Config) *picker.Plan {
		debt = picker.Debt(state.Version, c)
		return nil
	})
	return debt
}

// Counters are totals since Open.
func (s *Scheduler) Counters() Counters {
	s.stats.mu.Lock()
	defer s.stats.mu.Unlock()
	c := s.stats.done
	c.Stalls = maps.Clone(s.stats.stalls)
	return c
}

type stats struct {
	mu     sync.Mutex // leaf; guards the rest
	done   Counters   // but for Stalls
	stalls map[string]Stall
}

func (s *stats) flushed(memtable int64, r compact.Result, d time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.done.Flushes
	w.Count++
	w.Duration += d
	if err != nil {
		w.Failed++
	} else {
		w.BytesIn += uint64(memtable)
		w.BytesOut += r.BytesWritten + r.ValueBytes
		w.EntriesIn += r.EntriesIn
		w.EntriesOut += r.EntriesOut
		w.Expired += r.Expired
	}
	if len(r.Added) > 0 {
		l := &s.done.Levels[r.Added[0].Level]
		l.BytesWritten += r.BytesWritten + r.ValueBytes
		l.Duration += d
	}
}

func (s *stats) compacted(p *picker.Plan, results []compact.Result, d time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w, l := &s.done.Compactions, &s.done.Levels[p.OutputLevel]
	l.Duration += d
	w.Count++
	w.Duration += d
	if errors.Is(err, base.ErrCompactionFilter) {
		s.done.Filter.Failed++
	}
	if err != nil {
		w.Failed++
		return
	}
	if p.TrivialMove {
		w.Moves++
		return
	}
	if p.Drop {
		w.TablesDropped += uint64(p.NumFiles())
		return
	}
	l.BytesRead += p.InputBytes
	w.BytesIn += p.InputBytes
	for _, r := range results {
		l.BytesWritten += r.BytesWritten + r.ValueBytes
		w.BytesOut += r.BytesWritten + r.ValueBytes
		w.EntriesIn += r.EntriesIn
		w.EntriesOut += r.EntriesOut
		w.Expired += r.Expired
		s.done.Filter.Removed += r.FilterRemoved
		s.done.Filter.Changed += r.FilterChanged
	}
}

func (s *stats) stalled(cause string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.stalls[cause]
	m.Count++
	m.Duration += d
	s.stalls[cause] = m
}
