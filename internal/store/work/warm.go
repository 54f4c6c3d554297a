package work

import (
	"context"
	"runtime"

	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree/compact"
	"github.com/loamdb/loam/internal/tree/picker"
)

// warm opens a job's tables and reads them into the cache before readers find
// them: those that it replaces were there, or have been looked at in memory. So
// seeks beside a writer do not decode each block of each new table themselves.
func (s *Scheduler) warm(ctx context.Context, results []compact.Result) {
	stop := func() error {
		runtime.Gosched()
		if s.stop.Load() || ctx.Err() != nil {
			return errStopped
		}
		return nil
	}
	// In a full cache, use at most its probationary tenth.
	c := s.opts.Cache
	room := max(c.Spare(), c.Capacity()/10)
	for _, r := range results {
		for _, a := range r.Added {
			used, err := s.opts.Files.Warm(a.Meta, room, stop)
			if err != nil { // readers will meet it, if it stays
				s.failed("reading a new table", err)
				return
			}
			if room -= used; room <= 0 {
				return
			}
		}
	}
}

// cached reports whether half of the blocks of a plan's inputs are in the cache.
func (s *Scheduler) cached(plan *picker.Plan) bool {
	have, of := 0, 0
	plan.Files(func(_ int, m *manifest.FileMeta) {
		h, o := s.opts.Files.Cached(m)
		have, of = have+h, of+o
	})
	return 2*have > of
}

// readSince reports whether since the call before, readers have looked up more
// blocks than a flush has made.
func (s *Scheduler) readSince(r compact.Result) bool {
	blocks := 0
	for _, t := range r.Tables {
		blocks += t.Blocks
	}
	before := s.lookups
	s.lookups = s.opts.Cache.Lookups()
	return s.lookups-before > int64(blocks)
}

// openDense opens those of a job's tables that are full of deletions, or have some of ranges, so
// that tombstoneDense and settledRangeDels see them. Only before their edit: a later job may make
// them obsolete, and a table that is opened then stays open.
func (s *Scheduler) openDense(r compact.Result) {
	for i, t := range r.Tables {
		if t.Deletes > 0 && 2*t.Deletes >= t.Entries || t.RangeDels > 0 {
			s.opts.Files.Reader(r.Added[i].Meta) // an error shows again when the table is read
		}
	}
}
