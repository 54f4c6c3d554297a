package picker

import (
	"slices"

	"github.com/loamdb/loam/internal/format/manifest"
)

// allExpired reports whether everything in a table has expired for all readers.
func (p *picker) allExpired(f *manifest.FileMeta) bool {
	return f.AllExpire() && f.MaxExpiry <= p.Expired
}

// expired plans to delete tables in which everything has expired, without reading them, if no table
// below has anything within their bounds but such that goes as well. For the others see dense.
func (p *picker) expired() *Plan {
	if p.Expired == 0 {
		return nil
	}
	plan := p.dropPlan("everything in them has expired")
	gone := map[*manifest.FileMeta]bool{}
	for level := lastLevel; level >= 0; level-- {
		// in level 0 the oldest one first
		for _, f := range slices.Backward(p.v.Levels[level].Expiring) {
			if !p.allExpired(f) || p.hides(gone, level, f) ||
				p.inProgress.meets(p.Comparer, 0, lastLevel, f.Smallest.User, f.Largest.User) {
				continue
			}
			gone[f] = true
			p.drop(plan, level, level, f)
		}
	}
	return p.dropped(plan)
}

// hides reports whether a table that is older than f, and not gone, overlaps it.
func (p *picker) hides(gone map[*manifest.FileMeta]bool, level int, f *manifest.FileMeta) bool {
	if level == 0 {
		for _, older := range olderThan(p.v.Levels[0].Files, f) {
			if !gone[older] && overlap(p.Comparer, f, older) {
				return true
			}
		}
	}
	for l := level + 1; l <= lastLevel; l++ {
		for _, older := range p.v.Levels[l].Overlaps(p.Comparer, f.Smallest.User, f.Largest.User) {
			if !gone[older] {
				return true
			}
		}
	}
	return false
}

// NextExpiry is when, after now, everything in a table has expired first; 0: never.
func NextExpiry(v *manifest.Version, now uint64) (next uint64) {
	for level := range v.Levels {
		for _, f := range v.Levels[level].Expiring {
			if f.MaxExpiry > now && (next == 0 || f.MaxExpiry < next) {
				next = f.MaxExpiry
			}
		}
	}
	return next
}
