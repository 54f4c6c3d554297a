package runner

import "github.com/loamdb/loam/internal/workload/store"

// baseline is what the process has used and the store has counted. A benchmark's figures are the
// differences to the baseline of its start.
type baseline struct {
	usage   usage
	metrics store.Metrics
}

func (r *Runner) baseline() baseline {
	b := baseline{readUsage(), store.UnknownMetrics()}
	if r.db != nil {
		b.metrics = r.db.Metrics()
	}
	return b
}

// skip leaves the differences between two later baselines out of the figures.
func (b *baseline) skip(from, to baseline) {
	u, m := &b.usage, &b.metrics
	u.user += to.usage.user - from.usage.user
	u.system += to.usage.system - from.usage.system
	for _, n := range []struct{ own, from, to *int64 }{
		{&u.written, &from.usage.written, &to.usage.written},
		{&u.dirtied, &from.usage.dirtied, &to.usage.dirtied},
		{&m.WALBytes, &from.metrics.WALBytes, &to.metrics.WALBytes},
		{&m.FlushBytes, &from.metrics.FlushBytes, &to.metrics.FlushBytes},
		{&m.CompactionBytes, &from.metrics.CompactionBytes, &to.metrics.CompactionBytes},
		{&m.CacheHits, &from.metrics.CacheHits, &to.metrics.CacheHits},
		{&m.CacheMisses, &from.metrics.CacheMisses, &to.metrics.CacheMisses},
	} {
		if d := since(*n.from, *n.to); d != store.Unknown && *n.own != store.Unknown {
			*n.own += d
		}
	}
	if from, to := from.metrics.Stall, to.metrics.Stall; from != store.Unknown &&
		to != store.Unknown && m.Stall != store.Unknown {
		m.Stall += to - from
	}
}

// away does something that is not part of the benchmark: its time does not count, nor what the
// process uses and the store counts meanwhile. It reports whether that succeeded.
func (t *thread) away(do func() error) bool {
	from, before := t.clock(), t.r.baseline()
	if err := do(); err != nil {
		t.fail(err)
		return false
	}
	t.from.skip(before, t.r.baseline())
	took := t.clock() - from
	t.start += took
	t.last += took
	return true
}
