package picker

import (
	"slices"

	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/format/rangedel"
)

// covered plans to delete tables without readable entries, without reading them:
//
//   - those that range tombstones of a newer table cover whole, which every snapshot sees;
//   - those with nothing but range tombstones over which nothing lies that they could hide, unless
//     a snapshot is older: a transaction that has it finds by them that keys were deleted since.
//
// All that is in a table is older than what is in the levels above it, and in level 0 than what
// is in the tables before it: so if one tombstone hides a key of the table from all readers,
// it hides all versions. Tombstones of the table itself hide nothing but what the newer one
// hides as well.
func (p *picker) covered() *Plan {
	if p.RangeDels == nil {
		return nil
	}
	plan := p.dropPlan("covered by range deletions")
	for level := range p.v.Levels {
		for _, f := range p.v.Levels[level].RangeDels {
			p.dropEmpty(plan, level, f)
			list := p.RangeDels(f)
			if list == nil {
				continue
			}
			if level == 0 {
				p.dropUnder(plan, list, 0, 0, olderThan(p.v.Levels[0].Files, f))
			}
			for l := level + 1; l <= lastLevel; l++ {
				start, limit := list.Ends()
				p.dropUnder(plan, list, level, l, p.v.Levels[l].Overlaps(p.Comparer, start, limit))
			}
		}
	}
	return p.dropped(plan)
}

// dropPlan is a plan to delete tables, of none so far.
func (p *picker) dropPlan(reason string) *Plan {
	return &Plan{Reason: reason, Drop: true, MaxPieces: 1, FileSize: p.FileSize, Version: p.v}
}

// dropped completes a plan to delete tables; nil if there are none.
func (p *picker) dropped(plan *Plan) *Plan {
	if plan.NumFiles() == 0 {
		return nil
	}
	r, any := keyRange{}, false
	plan.Files(func(level int, f *manifest.FileMeta) {
		plan.OutputLevel = level
		s := span(p.Comparer, []*manifest.FileMeta{f})
		if any {
			s = hull(p.Comparer, r, s)
		}
		r, any = s, true
	})
	plan.Smallest, plan.Largest = r.lo, r.hi
	return plan
}

// olderThan are the files of level 0 that are older than f.
func olderThan(files []*manifest.FileMeta, f *manifest.FileMeta) []*manifest.FileMeta {
	for i := range files {
		if files[i] == f {
			return files[i+1:]
		}
	}
	return nil
}

// dropUnder adds those of the files of a level to the plan that the tombstones of list, from a
// table of level above, cover whole.
func (p *picker) dropUnder(plan *Plan, list *rangedel.List, above, level int,
	files []*manifest.FileMeta) {
	for _, f := range files {
		if list.Covers(f.Smallest.User, f.Largest.User, f.OpenEnd()) {
			p.drop(plan, above, level, f)
		}
	}
}

// dropEmpty adds a table with nothing but range tombstones to the plan if nothing lies under
// it.
func (p *picker) dropEmpty(plan *Plan, level int, f *manifest.FileMeta) {
	if f.Entries > 0 {
		return
	}
	r := span(p.Comparer, []*manifest.FileMeta{f})
	first := level + 1
	if level == 0 {
		for _, older := range olderThan(p.v.Levels[0].Files, f) {
			if overlap(p.Comparer, f, older) {
				return
			}
		}
	}
	if p.v.HasWithin(p.Comparer, first, r.lo, r.hi) ||
		p.inProgress.meets(p.Comparer, 0, lastLevel, r.lo, r.hi) || p.Held != nil && p.Held(f) {
		return
	}
	p.drop(plan, level, level, f)
}

// drop adds a table to the plan unless work in flight is in the way.
func (p *picker) drop(plan *Plan, above, level int, f *manifest.FileMeta) {
	if slices.Contains(plan.Inputs[level], f) {
		return
	}
	if p.inProgress.meets(p.Comparer, above, level, closed(f.Smallest.User),
		closed(f.Largest.User)) {
		return
	}
	plan.Inputs[level] = append(plan.Inputs[level], f)
	plan.InputBytes += f.Size
}

// settles reports that range tombstones are worth a compaction of their table: every snapshot sees
// them, and the data below them is small, usually tables at their ends.
func (p *picker) settles(level int, f *manifest.FileMeta) bool {
	if f.RangeDels == 0 || p.RangeDels == nil || p.RangeDels(f) == nil {
		return false
	}
	under := uint64(0)
	for l := level + 1; l <= lastLevel; l++ {
		under += size(p.v.Levels[l].Overlaps(p.Comparer, closed(f.Smallest.User),
			closed(f.Largest.User)))
	}
	return f.Size+under <= settleFiles*p.FileSize
}

// settleFiles is how many files' worth of bytes a table with range tombstones and those under
// it have at most where it is compacted for their sake.
const settleFiles = 8
