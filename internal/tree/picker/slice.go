package picker

import "github.com/loamdb/loam/internal/format/manifest"

// leaveWorker leaves one of the workers to level 0 beside fast writers.
func (p *picker) leaveWorker() {
	if p.Fast {
		p.MaxSubcompactions = max(p.MaxSubcompactions-1, 1)
	}
}

// merge merges runs, a slice of the key space at a time when they are large.
func (p *picker) merge(from, to int, reason string) *Plan {
	for from < to && p.runs[from] == 0 {
		from++
	}
	if from >= to {
		return nil
	}
	p.leaveWorker()
	if sum(p.runs[from:to+1]) <= p.sliceBytes() {
		return p.plan(from, p.v.Levels[from].Files, to, reason)
	}
	return p.slice(from, to, reason)
}

// slice plans the part of merging levels from..to that moves the most bytes of
// the upper runs per byte of the bottom one, out of some evenly spread parts of
// sliceBytes or less, where the tables' ranges allow. Runs whose tables span too
// much stay where they are, if they are the youngest.
func (p *picker) slice(from, to int, reason string) *Plan {
	var best *Plan
	for ; from < to; from++ {
		if p.runs[from] == 0 {
			continue
		}
		plan := p.bestSlice(from, to, reason)
		if plan != nil && (best == nil || plan.InputBytes < best.InputBytes/2) {
			best = plan
		}
		if best != nil && best.InputBytes <= p.sliceBytes() {
			break
		}
	}
	return best
}

func (p *picker) bestSlice(from, to int, reason string) *Plan {
	// The largest upper run is what slices are cut along.
	along := from
	for l := from; l < to; l++ {
		if p.runs[l] > p.runs[along] {
			along = l
		}
	}
	files := p.v.Levels[along].Files
	const starts = 32
	step := max(1, len(files)/starts)
	var best *Plan
	var bestCost float64
	for i := 0; i < len(files); i += step {
		plan := p.sliceAt(from, to, files[i:], reason)
		if plan == nil {
			continue
		}
		bottom := size(plan.Inputs[to])
		if cost := float64(bottom) / float64(plan.InputBytes-bottom); best == nil ||
			cost < bestCost {
			best, bestCost = plan, cost
		}
	}
	return best
}

// sliceAt plans a slice along the first of files, as many as fit.
func (p *picker) sliceAt(from, to int, files []*manifest.FileMeta, reason string) *Plan {
	var best *Plan
	for n := 1; n <= len(files); n *= 2 {
		r := span(p.Comparer, files[:n])
		var plan *Plan
		for l := from; l < to && plan == nil; l++ {
			if top := p.v.Levels[l].Overlaps(p.Comparer, r.lo, r.hi); len(top) > 0 {
				plan = p.planWithin(l, top, to, reason, &r)
				if plan == nil {
					return best
				}
			}
		}
		if plan == nil || best != nil && plan.InputBytes > p.sliceBytes() {
			return best
		}
		best = plan
	}
	return best
}
