package picker

import "github.com/loamdb/loam/internal/format/manifest"

// runSoughtWorth is how many bytes of tables are merged in the time that looking
// into one run takes whose block is cached.
const runSoughtWorth = 128

// RunsSought is how many looks into runs pay for merging a plan's inputs.
func (p *Plan) RunsSought() uint64 {
	if p.TrivialMove || p.Drop {
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
func PickReadTriggered(v *manifest.Version, inProgress InProgress, c Config,
	runsSought uint64) *Plan {
	p := newPicker(v, inProgress, c)
	p.MaxSubcompactions = max(p.MaxSubcompactions-1, 1) // the readers need the other processors
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
	case len(inProgress) > 0 || runs < 2 || total > budget:
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
