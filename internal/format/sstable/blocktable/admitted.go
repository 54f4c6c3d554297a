package blocktable

import (
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/filter"
	"github.com/loamdb/loam/internal/format/sstable"
)

// GetFiltered is Get of a table with a filter that is whole. Filter and index are a cache miss or
// more each. Where the filter has admitted most keys lately, which is so in the run that most
// keys are in, the index is searched while the filter's line is on its way; elsewhere that
// search would be for nothing.
func (t *Table) GetFiltered(f *filter.Table, l base.Lookup, flags sstable.ReadFlags,
	dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	var p sstable.Position
	ok, searched := true, t.admitted.most()
	if searched {
		f.Prefetch(l.Hash)
		p, ok = t.Find(l)
	}
	admits := f.MayContain(l.Hash)
	if l.Hash&admittedSample == 0 {
		t.admitted.note(admits)
	}
	if !admits {
		return dst, sstable.Hit{}, false, nil
	}
	if !searched {
		p, ok = t.Find(l)
	}
	if !ok {
		return dst, sstable.Hit{}, false, nil
	}
	return t.GetAt(p, l, flags, dst)
}

// admittedSample is the mask of the bits of a hash that are 0 where the filter's answer is noted.
const admittedSample = 15

// admitted tells whether a filter admits most keys that are looked up. Its score goes up and down
// with the answers between 0 and sure, so that one kind of answer alone writes nothing that other
// processors read.
type admitted struct{ score atomic.Int32 }

const sure = 8

func (a *admitted) most() bool { return a.score.Load() >= sure/2 }

func (a *admitted) note(admits bool) {
	// A note that is lost to another one does no harm.
	switch s := a.score.Load(); {
	case admits && s < sure:
		a.score.Store(s + 1)
	case !admits && s > 0:
		a.score.Store(s - 1)
	}
}
