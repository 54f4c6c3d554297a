package picker

import (
	"time"

	"github.com/loamdb/loam/internal/format/manifest"
)

// An idle tree waits for idleAfter, and as long as merging it into one run takes at
// idleRate; up to idlePatience times as long where that merges little into much. So
// an idle time that comes to an end soon costs at most about as much as it lasted,
// and a tree that gets a little from time to time is not rewritten each time.
const (
	idleAfter    = time.Second
	idleRate     = 256 << 20 // bytes a second
	idleShare    = 4         // the largest run is so many times larger than the others
	idlePatience = 64
	// bytes of a plan, or more where files are large: what is lost when a writer comes
	idleSlice = 64 << 20
)

// IdleAfter is how long nobody must have written before PickIdle merges. ok is false
// if the tree is one run.
func IdleAfter(v *manifest.Version, c Config) (after time.Duration, ok bool) {
	p := newPicker(v, nil, c)
	if p.oneRun() {
		return 0, false
	}
	all := sum(p.runs[:])
	bottom := p.runs[p.bottom]
	patience := min(max(float64(bottom)/(idleShare*float64(max(all-bottom, 1))), 1), idlePatience)
	return idleAfter + time.Duration(patience*float64(all)/idleRate*float64(time.Second)), true
}

// oneRun reports whether no key can be in two tables.
func (p *picker) oneRun() bool {
	runs := len(p.v.Levels[0].Files)
	for _, size := range p.runs[1:] {
		if size > 0 {
			runs++
		}
	}
	return runs <= 1
}

// PickIdle plans the next step towards one run, for a tree that nobody writes:
// level 0 first, then a slice at a time of all runs. In all it reads and writes the
// tree about once. It is nil at the end, and while a plan is in flight.
func PickIdle(v *manifest.Version, inProgress InProgress, c Config) *Plan {
	p := newPicker(v, inProgress, c)
	p.MaxSubcompactions = 1
	p.mostBytes = max(idleSlice, minSliceFiles*p.outputSize(1, p.bottom))
	if len(inProgress) > 0 || p.oneRun() {
		return nil
	}
	const reason = "idle"
	if files := p.v.Levels[0].Files; len(files) > 0 {
		return p.planZero(files, max(p.joined(files), 1), reason)
	}
	for l := p.bottom - 1; l > 0; l-- {
		if plan := p.moveToBottom(l); plan != nil {
			return plan
		}
	}
	return p.merge(1, p.bottom, reason)
}
