package picker

import (
	"slices"

	"github.com/loamdb/loam/internal/format/manifest"
)

// manualFiles is how many files' worth of bytes a step of a manual compaction has
// at most, where the tables' ranges allow.
const manualFiles = 16

// Manual is the way of a manual compaction through the user keys from start to
// limit. It goes in steps, each of them a Plan of a bounded size, so that other
// plans find their turn in between:
//
//  1. Level 0, whose tables span wide ranges, is merged into the levels below it
//     that are small beside it.
//  2. Keys in more than one level are merged into the deepest level that has some, and tables with
//     unreadable entries are rewritten, a slice of the key space at a time, in ascending order.
//
// All entries that are in tables at the first call of Next go this way.
type Manual struct {
	left  keyRange // what is to be done, nil being open
	past  bool     // left.lo itself is done
	all   keyRange
	zero  bool   // level 0 is done
	files uint64 // bytes of a step, in files
	next  []byte // what left.lo is after the step
	step  *Plan
	whole bool // the step is all there is to do
	ended bool
	// rewritten: tables with smaller numbers are rewritten, wherever they are.
	rewritten uint64
}

// NewManual begins a manual compaction; nil is no bound.
func NewManual(start, limit []byte) *Manual {
	return &Manual{left: keyRange{lo: start, hi: limit}, all: keyRange{lo: start, hi: limit},
		files: manualFiles}
}

// RewriteBelow makes the compaction rewrite all tables with numbers below num, those too
// that nothing could be merged into or dropped from: for a compaction filter to see them.
func (m *Manual) RewriteBelow(num uint64) { m.rewritten = num }

// Next plans the next step. Without one, done says whether the end is reached:
// otherwise a plan in flight is in the way. After the step comes Done or Stopped.
func (m *Manual) Next(v *manifest.Version, inProgress InProgress,
	c Config) (plan *Plan, done bool) {
	p := newPicker(v, inProgress, c)
	p.leaveWorker()
	m.step, m.next, m.whole = nil, nil, false
	if m.ended {
		return nil, true
	}
	if whole := PickRange(v, inProgress, c, m.all.lo, m.all.hi); whole != nil && !m.past &&
		whole.InputBytes <= m.files*p.FileSize {
		m.step, m.whole = whole, true
		return whole, false
	}
	if files := v.Levels[0].Overlaps(p.Comparer, m.all.lo, m.all.hi); !m.zero && len(files) > 0 {
		m.step = p.manualZero(p.withOlder(files), m.all)
		return m.step, false
	}
	m.zero = true
	files, to := m.needed(p)
	if len(files) == 0 {
		return nil, true
	}
	m.slice(p, files, to)
	return m.step, false
}

// Done says that the step is installed.
func (m *Manual) Done() {
	switch {
	case m.whole:
		m.ended = true
	case m.next != nil:
		m.left.lo, m.past = m.next, true
	default:
		m.zero = true
	}
}

// Stopped says that the step was given up for others. The next one is smaller.
func (m *Manual) Stopped() { m.files = max(m.files/2, 1) }

// manualZero merges files of level 0 into the levels below that are small beside
// them, or above all that they overlap.
func (p *picker) manualZero(files []*manifest.FileMeta, r keyRange) *Plan {
	return p.planWithin(0, files, max(p.joined(files), 1), "manual", &r)
}

// joined is the deepest level whose overlap with files of level 0 is small compared with them; 0 if
// level 1 has more.
func (p *picker) joined(files []*manifest.FileMeta) (to int) {
	all := span(p.Comparer, files)
	total := size(files)
	for l := 1; l <= p.bottom; l++ {
		over := size(p.v.Levels[l].Overlaps(p.Comparer, all.lo, all.hi))
		if over > total/joinRatio {
			break
		}
		total, to = total+over, l
	}
	return to
}

// needed lists the files of the range that are not as they should be, by their
// largest keys, and the level that is to have all keys of the range.
func (m *Manual) needed(p *picker) (files []*manifest.FileMeta, to int) {
	for l := 1; l <= lastLevel; l++ {
		if len(p.v.Levels[l].Overlaps(p.Comparer, m.all.lo, m.all.hi)) > 0 {
			to = l
		}
	}
	for l := 1; l <= to; l++ {
		for _, f := range p.v.Levels[l].Overlaps(p.Comparer, m.left.lo, m.left.hi) {
			if m.past && p.Comparer.Cmp(f.Largest.User, m.left.lo) <= 0 {
				continue
			}
			if l < to || f.Leftovers || f.Num < m.rewritten || f.MinExpiry > 0 &&
				f.MinExpiry <= p.Expired {
				files = append(files, f)
			}
		}
	}
	slices.SortStableFunc(files, func(a, b *manifest.FileMeta) int {
		return p.Comparer.Cmp(a.Largest.User, b.Largest.User)
	})
	return files, to
}

// slice plans to merge the first of files, as many as fit, and all that shares
// their range.
func (m *Manual) slice(p *picker, files []*manifest.FileMeta, to int) {
	for n := 1; n <= len(files); n *= 2 {
		r := span(p.Comparer, files[:n])
		if lo := m.left.lo; lo != nil && p.Comparer.Cmp(r.lo, lo) < 0 {
			r.lo = lo
		}
		end := r.hi
		if hi := m.left.hi; hi != nil && p.Comparer.Cmp(r.hi, hi) > 0 {
			r.hi = hi
		}
		from := 1
		for len(p.v.Levels[from].Overlaps(p.Comparer, r.lo, r.hi)) == 0 {
			from++
		}
		plan := p.planWithin(from, p.v.Levels[from].Overlaps(p.Comparer, r.lo, r.hi), to, "manual",
			&r)
		if plan == nil || m.step != nil && plan.InputBytes > m.files*p.FileSize {
			return
		}
		m.step, m.next = plan, end
	}
}
