package work

import "sync/atomic"

// Gauge is how far work is. It is safe for concurrent use.
type Gauge struct{ done, total atomic.Uint64 }

// The work calls Set; its total does not shrink.
func (g *Gauge) Set(done, total uint64) {
	g.total.Store(total) // before done, which is never more
	g.done.Store(done)
}

// Read is what Job.Progress wants.
func (g *Gauge) Read() (done, total uint64) {
	done = g.done.Load()
	return done, max(done, g.total.Load())
}
