package picker

import (
	"slices"
	"sort"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
)

// Values is what decisions go by about values that lie in logs and value files. These belong to all
// trees together.
type Values struct {
	Disk uint64 // bytes of the logs and value files that only references need
	// Passing are bytes that are there for a while besides: files that wait for their deletion, and
	// copies of what the files to be emptied have.
	Passing uint64
	// Live estimates the bytes of values in them that no newer entry hides.
	Live uint64
	// Hidden are the other bytes that the tree's tables refer to, of so many.
	Hidden, Of uint64
	// Old is how many bytes of a table's values newer entries of the table hide, while no snapshot
	// needs them; they are among Hidden. It is not nil.
	Old func(*manifest.FileMeta) uint64
	// From reports whether the values of a log or value file are to be relocated; nil: none are.
	From func(base.ValueFile) bool
}

// ValueUse is a log or value file, and how much of it tables refer to.
type ValueUse struct {
	base.ValueLog
	Size uint64 // of the file, in bytes
}

// Garbage is how many bytes of the file no table refers to.
func (u *ValueUse) Garbage() uint64 { return u.Size - min(u.Size, u.Bytes) }

const (
	// relocateBytes is how many bytes of values one compaction copies, about.
	relocateBytes = 256 << 20
	// roundShare: the values that are copied before their logs go are such a part of the live ones,
	// or those of one file.
	roundShare = 8
	// leastGarbage: of a file that is emptied such a part is garbage at least.
	leastGarbage = 16
	// hiddenShare: references are merged if they hide so much less than MaxSpace allows.
	hiddenShare = 4
)

// EmptyNext chooses the logs and value files that compactions empty next: those with the largest
// part of garbage first, and among equals the oldest. It is nil if they all take no more space than
// c allows.
func EmptyNext(uses []ValueUse, c Config) (next []base.ValueLog) {
	p := &picker{Config: c.filled()}
	if !p.TooManyValues() {
		return nil
	}
	limit := p.spaceLimit() - (p.spaceLimit()-1)/8 // below it, so that the next round is not soon
	need := float64(p.Values.Disk) - limit*p.liveValues()
	room := p.Values.Live / roundShare
	uses = slices.DeleteFunc(slices.Clone(uses), func(u ValueUse) bool {
		return u.Garbage() <= u.Size/leastGarbage
	})
	sort.Slice(uses, func(i, j int) bool {
		a, b := &uses[i], &uses[j]
		x, y := float64(a.Garbage())/float64(a.Size), float64(b.Garbage())/float64(b.Size)
		return x > y || x == y && a.Log < b.Log
	})
	freed, copied := 0.0, uint64(0)
	for i, u := range uses {
		if freed >= need || i > 0 && copied+u.Bytes > room {
			break
		}
		freed, copied = freed+float64(u.Garbage()), copied+u.Bytes
		next = append(next, u.ValueLog)
	}
	return next
}

// TooManyValues reports whether logs and value files take more space than they may.
func (c Config) TooManyValues() bool {
	p := &picker{Config: c.filled()}
	return p.valueSpace() > p.spaceLimit()
}

// liveValues are Values.Live, but at least what a memtable brings, or two of fast writers: each
// flush leaves a log.
func (p *picker) liveValues() float64 {
	least := p.WriteBuffer
	if p.Fast {
		least *= 2
	}
	return float64(max(p.Values.Live, least))
}

// valueSpace is the space that values take as a multiple of the live ones.
func (p *picker) valueSpace() float64 {
	if p.Values == nil {
		return 0
	}
	return float64(p.Values.Disk) / p.liveValues()
}

// valuePeak is valueSpace with Values.Passing.
func (p *picker) valuePeak() float64 {
	if p.Values == nil {
		return 0
	}
	return float64(p.Values.Disk+p.Values.Passing) / p.liveValues()
}

// values plans what makes values take less space: it merges tables, so that references are dropped
// that newer entries hide, and then copies the values that are left out of the logs and value files
// to be emptied.
func (p *picker) values() *Plan {
	if p.valueSpace() <= p.spaceLimit() {
		return nil
	}
	if v := p.Values; float64(v.Hidden) > (p.MaxSpace-1)/hiddenShare*float64(v.Of-v.Hidden) {
		if plan := p.mergeHidden(); plan != nil {
			return plan
		}
		if plan := p.rewrite("values of past snapshots", p.Values.Old); plan != nil {
			return plan
		}
	}
	if p.Values.From == nil {
		return nil
	}
	return p.rewrite("values to relocate", p.toCopy)
}

// mergeHidden merges runs, and level 0 if there is one run below it or none.
func (p *picker) mergeHidden() *Plan {
	const reason = "too many hidden values"
	if p.limit() < p.bottom {
		return nil
	}
	if plan := p.merge(1, p.bottom, reason); plan != nil {
		return plan
	}
	if files := p.v.Levels[0].Files; len(files) > 0 && !p.oneRun() {
		return p.planZero(files, max(p.joined(files), 1), reason)
	}
	return nil
}

// rewrite rewrites a few tables in place, with so many bytes of values for which it is done. Those
// of level 0 go to the first run below.
func (p *picker) rewrite(reason string, valuesOf func(*manifest.FileMeta) uint64) *Plan {
	for l := lastLevel; l > 0; l-- {
		files := p.v.Levels[l].Files
		for i := 0; i < len(files); i++ {
			n := i
			for bytes := uint64(0); n < len(files) && bytes < relocateBytes; n++ {
				b := valuesOf(files[n])
				if b == 0 {
					break
				}
				bytes += b
			}
			if n == i {
				continue
			}
			if plan := p.plan(l, files[i:n:n], l, reason); plan != nil {
				return plan
			}
			i = n - 1
		}
	}
	var zero []*manifest.FileMeta
	for _, f := range p.v.Levels[0].Files {
		if valuesOf(f) > 0 {
			zero = append(zero, f)
		}
	}
	if len(zero) == 0 {
		return nil
	}
	zero = p.withOlder(zero)
	return p.plan(0, zero, p.firstBelow(span(p.Comparer, zero)), reason)
}

// toCopy is how many bytes of values a compaction of a table copies.
func (p *picker) toCopy(f *manifest.FileMeta) (bytes uint64) {
	for _, l := range f.ValueLogs {
		if p.Values.From(l.File()) {
			bytes += l.Bytes
		}
	}
	return bytes
}
