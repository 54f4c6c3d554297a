package blocktable

import (
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/prefix"
	"github.com/loamdb/loam/internal/format/sstable"
)

// PartFilter is a filter that is cut where the index is.
type PartFilter interface {
	// Cached reports whether part p is in memory.
	Cached(p int) bool
	// Admits reports whether part p admits the key. It reads the part if it must and flags
	// let it.
	Admits(p int, l base.Lookup, flags sstable.ReadFlags) (bool, error)
	// MayContain reports whether the filter, as far as it is in memory, admits the key.
	MayContain(l base.Lookup) bool
	// MayContainRange reports whether one of the parts in which [lower, upper) lies admits the
	// hash of its prefix. It reads parts that are not in memory.
	MayContainRange(lower, upper []byte, hash uint64) bool
}

// Get appends the newest visible value of the key to dst. With
// base.ErrWouldBlock, GetAt goes on from hit.Position.
func (t *Table) Get(l base.Lookup, flags sstable.ReadFlags,
	dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	if t.HasWhole {
		return t.getFiltered(l, flags, dst)
	}
	if t.Filter != nil && !t.Filter.MayContain(l) {
		return dst, sstable.Hit{}, false, nil
	}
	p, ok := t.Find(l)
	if !ok {
		return dst, sstable.Hit{}, false, nil
	}
	return t.GetAt(p, l, flags, dst)
}

// PrefetchFilter hints that MayContain will be called.
func (t *Table) PrefetchFilter(l base.Lookup) {
	if t.HasWhole {
		t.Whole.Prefetch(l.Hash)
	}
}

// MayContain reports whether the filter, if any, admits the key; a part of a filter that is
// not in memory does.
func (t *Table) MayContain(l base.Lookup) bool {
	if t.HasWhole {
		return t.Whole.MayContain(l.Hash)
	}
	return t.Filter == nil || t.Filter.MayContain(l)
}

// MayContainRange reports whether there may be entries with user keys in [lower, upper).
func (t *Table) MayContainRange(lower, upper []byte) bool {
	n := t.Properties.PrefixLength
	if n <= 0 || t.cmp.Name != base.Bytewise.Name || !prefix.Within(lower, upper, n) {
		return true
	}
	if hash := base.Hash(lower[:n]); t.HasWhole {
		return t.Whole.MayContain(hash)
	} else if t.Filter != nil {
		return t.Filter.MayContainRange(lower, upper, hash)
	}
	return true
}

// getFiltered is Get of a table with a filter that is whole. Filter and index are a cache miss or
// more each. Where the filter has admitted most keys lately, which is so in the run that most
// keys are in, the index is searched while the filter's line is on its way; elsewhere that
// search would be for nothing.
func (t *Table) getFiltered(l base.Lookup, flags sstable.ReadFlags,
	dst []byte) (value []byte, hit sstable.Hit, found bool, err error) {
	var p sstable.Position
	ok, searched := true, t.admitted.most()
	if searched {
		t.Whole.Prefetch(l.Hash)
		p, ok = t.Find(l)
	}
	admits := t.Whole.MayContain(l.Hash)
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
