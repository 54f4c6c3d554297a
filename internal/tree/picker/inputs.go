package picker

import (
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
)

// LastBelow returns the largest first key of a table before limit: the tables
// that hold keys before limit are those that begin at it or before. No limit, nil,
// gives nil; there may be no such table.
func LastBelow(v *manifest.Version, cmp *base.Comparer, limit []byte) (last []byte, ok bool) {
	if limit == nil {
		return nil, true
	}
	for _, f := range v.Tables() {
		first := f.Smallest.User
		if cmp.Cmp(first, limit) < 0 && (!ok || cmp.Cmp(first, last) > 0) {
			last, ok = closed(first), true
		}
	}
	return last, ok
}

// keyRange is a range of user keys, both ends included; nil is open. With openEnd, hi is the limit
// of a range tombstone, which the range does not include.
type keyRange struct {
	lo, hi  []byte
	openEnd bool
}

func rangeOf(f *manifest.FileMeta) keyRange {
	return keyRange{closed(f.Smallest.User), closed(f.Largest.User), f.OpenEnd()}
}

// overlaps are the files of a sorted level with anything in r. A table that begins where a
// range tombstone was cut is not one of them: if it were, all tables that the tombstone spans
// would be compacted together.
func (p *picker) overlaps(level int, r keyRange) []*manifest.FileMeta {
	files := p.v.Levels[level].Overlaps(p.Comparer, r.lo, r.hi)
	for n := len(files); r.openEnd && n > 0 && p.Comparer.Cmp(files[n-1].Smallest.User,
		r.hi) == 0; n-- {
		files = files[:n-1]
	}
	return files
}

// withOlder adds the files of level 0 that must go along: the older ones that
// overlap any of them, and the unordered ones that overlap an unordered one. It returns them in the
// level's order.
func (p *picker) withOlder(files []*manifest.FileMeta) []*manifest.FileMeta {
	chosen := make(map[*manifest.FileMeta]bool, len(files))
	for _, f := range files {
		chosen[f] = true
	}
	all := p.v.Levels[0].Files // newest first
	for n := 0; n != len(chosen); {
		n = len(chosen)
		for i, f := range all {
			if !chosen[f] {
				continue
			}
			for j, other := range all {
				if (j > i || f.Unordered && other.Unordered) && overlap(p.Comparer, f, other) {
					chosen[other] = true
				}
			}
		}
	}
	var out []*manifest.FileMeta
	for _, f := range all {
		if chosen[f] {
			out = append(out, f)
		}
	}
	return out
}

func (p *picker) plan(from int, files []*manifest.FileMeta, to int, reason string) *Plan {
	return p.planWithin(from, files, to, reason, nil)
}

// planWithin completes a plan: files of level from, and from every level down to
// `to` all that overlaps what is taken above it or, with within, that range. It
// is nil when a plan in flight is in the way.
//
// Within a level, files that share a user key go together: LevelDB splits a
// key's entries over two files, and the older ones must not stay above.
func (p *picker) planWithin(from int, files []*manifest.FileMeta, to int, reason string,
	within *keyRange) *Plan {
	plan := &Plan{OutputLevel: to, Reason: reason, FileSize: p.outputSize(from, to), Version: p.v}
	plan.Inputs[from] = files
	all := span(p.Comparer, files)
	for l := max(from, 1); l <= to; l++ {
		take := all
		if within != nil && l > from {
			take = hull(p.Comparer, all, *within)
		}
		for n := -1; n != len(plan.Inputs[l]); {
			n = len(plan.Inputs[l])
			if taken := p.overlaps(l, take); len(taken) > 0 {
				plan.Inputs[l] = taken
				take = hull(p.Comparer, take, span(p.Comparer, taken))
				all = hull(p.Comparer, all, span(p.Comparer, taken))
			}
		}
	}
	plan.Smallest, plan.Largest = all.lo, all.hi
	if p.inProgress.meets(p.Comparer, from, to, all.lo, all.hi) {
		return nil
	}
	for _, in := range plan.Inputs {
		plan.InputBytes += size(in)
	}
	plan.MaxPieces = int(max(min(uint64(p.MaxSubcompactions), plan.InputBytes/(2*plan.FileSize)),
		1))
	return plan
}

// span is the range of user keys of files, of which there is one at least. Its
// ends are not nil.
func span(cmp *base.Comparer, files []*manifest.FileMeta) keyRange {
	r := rangeOf(files[0])
	for _, f := range files[1:] {
		r = hull(cmp, r, rangeOf(f))
	}
	return r
}

// closed makes the empty key differ from an open end.
func closed(key []byte) []byte {
	if key == nil {
		return []byte{}
	}
	return key
}

// hull is the smallest range that includes both.
func hull(cmp *base.Comparer, a, b keyRange) keyRange {
	if a.lo != nil && (b.lo == nil || cmp.Cmp(b.lo, a.lo) < 0) {
		a.lo = b.lo
	}
	if a.hi == nil {
		return a
	}
	c := 1
	if b.hi != nil {
		c = cmp.Cmp(b.hi, a.hi)
	}
	if c > 0 {
		a.hi, a.openEnd = b.hi, b.openEnd
	} else if c == 0 {
		a.openEnd = a.openEnd && b.openEnd
	}
	return a
}

func overlap(cmp *base.Comparer, a, b *manifest.FileMeta) bool {
	return cmp.Cmp(a.Smallest.User, b.Largest.User) <= 0 &&
		cmp.Cmp(b.Smallest.User, a.Largest.User) <= 0
}

// disjoint reports whether no two of the files share a user key's range.
func disjoint(cmp *base.Comparer, files []*manifest.FileMeta) bool {
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b *manifest.FileMeta) int {
		return cmp.Cmp(a.Smallest.User, b.Smallest.User)
	})
	for i := 1; i < len(sorted); i++ {
		if overlap(cmp, sorted[i-1], sorted[i]) {
			return false
		}
	}
	return true
}

func size(files []*manifest.FileMeta) (n uint64) {
	for _, f := range files {
		n += f.Size
	}
	return n
}

func sum(sizes []uint64) (n uint64) {
	for _, s := range sizes {
		n += s
	}
	return n
}
