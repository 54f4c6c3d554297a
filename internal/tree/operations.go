package tree

import (
	"github.com/loamdb/loam/internal/base/hist"
	"github.com/loamdb/loam/internal/memory/epoch"
)

// One read in so many is measured, powers of two: a look at the clock costs as much as a third of
// a Get of a cached block.
const (
	getsPerSample      = 128
	seeksPerSample     = 64
	multiGetsPerSample = 128
)

// Operations counts the reads of a database, and has the durations of a sample of them. The number
// of Gets is epoch.Domain.Counted: their guards count them.
type Operations struct {
	MultiGets, MultiGetKeys, Seeks epoch.Tally
	// See lsm.EmptyRangeMetrics.
	DeadPassed, EmptyHits, EmptyCuts, Scouts epoch.Tally

	GetTimes, MultiGetTimes, SeekTimes hist.Durations
}

// NewOperations returns Operations of a database.
func NewOperations() *Operations {
	o := &Operations{}
	for _, t := range []*epoch.Tally{&o.MultiGets, &o.MultiGetKeys, &o.Seeks, &o.DeadPassed,
		&o.EmptyHits, &o.EmptyCuts, &o.Scouts} {
		t.Init(epoch.NoStep)
	}
	return o
}
