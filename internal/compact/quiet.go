package compact

import (
	"time"

	"github.com/loamdb/loam/internal/manifest"
)

// runSoughtWorth is how many bytes of tables are merged in the time that looking
// into one run takes whose block is cached.
const runSoughtWorth = 128

// RunsSought is how many looks into runs pay for merging a plan's inputs.
func (p *Plan) RunsSought() uint64 {
	if p.TrivialMove {
		return 0
	}
	return p.InputBytes / runSoughtWorth
}

// PickReadTriggered plans to merge the youngest runs for the sake of reads: seeks
// look into every run, and Gets into every younger one that has no filter, or whose
// filter errs. runsSought is how many looks they would have been spared so far, had
// there been one run. What has been paid so may be spent on merging, so that
// neither costs much more than it has to. It is for when Pick finds nothing to do,
// and nil when too little is paid for two runs or a plan is in flight.
func PickReadTriggered(v *manifest.Version, busy Busy, c Config, runsSought uint64) *Plan {
	p := newPicker(v, busy, c)
	budget := runsSought * runSoughtWorth
	files := p.v.Levels[0].Files
	total, runs, to := p.runs[0], len(files), 0
	for l := 1; l <= p.bottom && total+p.runs[l] <= budget; l++ {
		if p.runs[l] > 0 {
			total += p.runs[l]
			runs++
			to = l
		}
	}
	const reason = "often looked into"
	switch {
	case len(busy) > 0 || runs < 2 || total > budget:
		return nil
	case len(files) == 0:
		return p.merge(1, to, reason)
	case to == 0:
		to = p.empty()
	case total > p.sliceBytes():
		to = p.reach() // the rest is merged a slice at a time
	}
	if to == 0 {
		return nil
	}
	return p.planZero(files, to, reason)
}

// reach is the level that level 0 is merged into before all runs are: past those
// that one plan may take along, or the level above the first run.
func (p *picker) reach() int {
	total, to := p.runs[0], 0
	for l := 1; l <= p.bottom && (p.runs[l] == 0 || total+p.runs[l] <= p.sliceBytes()); l++ {
		total += p.runs[l]
		to = l
	}
	return max(to, 1)
}

// An idle tree waits for idleAfter, and as long as merging it into one run takes at
// idleRate; up to idlePatience times as long where that merges little into much. So
// an idle time that comes to an end soon costs at most about as much as it lasted,
// and a tree that gets a little from time to time is not rewritten each time.
const (
	idleAfter    = time.Second
	idleRate     = 256 << 20 // bytes a second
	idleShare    = 4         // the largest run is so many times larger than the others
	idlePatience = 64
	idleSlice    = 64 << 20 // bytes of a plan, or more where files are large: what is lost when a writer comes
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
func PickIdle(v *manifest.Version, busy Busy, c Config) *Plan {
	p := newPicker(v, busy, c)
	p.MaxSubcompactions = 1
	p.mostBytes = max(idleSlice, minSliceFiles*p.outputSize(1, p.bottom))
	if len(busy) > 0 || p.oneRun() {
		return nil
	}
	const reason = "idle"
	if files := p.v.Levels[0].Files; len(files) > 0 {
		return p.planZero(files, p.reach(), reason)
	}
	for l := p.bottom - 1; l > 0; l-- {
		if plan := p.moveToBottom(l); plan != nil {
			return plan
		}
	}
	return p.merge(1, p.bottom, reason)
}
