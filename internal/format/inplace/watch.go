package inplace

import (
	"math/rand/v2"
	"sync/atomic"
)

// watch finds out whether the system takes pages away from the process, which all its
// files share.
//
// To ask whether a page is in memory takes a third of a microsecond, as long as the rest
// of a read in place. So reads ask only while pages are missing: from a page fault that
// had to wait for a disk, which is seen by the sample that comes after it, until askFor
// reads have asked and found theirs. At the most one read in askFor waits in a fault then,
// besides those up to the sample.
var watch pressure

const (
	// sampleOne in so many reads looks at the count of page faults.
	sampleOne = 128
	// askFor is how many pages in a row have to be there until nobody asks any more.
	askFor = 2048
)

type pressure struct {
	_      [128]byte
	asking atomic.Int64 // > 0: so many reads ask
	faults atomic.Int64 // majorFaults of the last sample, + 1
	_      [128]byte
}

// mayTouch reports whether reading b, which is mapped, is not expected to wait for a disk.
func (p *pressure) mayTouch(b []byte) bool {
	if p.asking.Load() <= 0 {
		if rand.Uint32()%sampleOne == 0 {
			p.sample(majorFaults())
		}
		return true
	}
	in, known := resident(b)
	if known && !in {
		p.asking.Store(askFor)
	} else {
		p.asking.Add(-1)
	}
	return in
}

// sample takes the number of page faults that there have been.
func (p *pressure) sample(faults int64) {
	if was := p.faults.Swap(faults + 1); was > 0 && faults >= was {
		p.asking.Store(askFor)
	}
}
