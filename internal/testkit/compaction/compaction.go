// Package compaction has what tests of compactions share: the versions that edits make,
// without a MANIFEST, and the rules that every plan keeps.
package compaction

import (
	"testing"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree/picker"
)

// Apply returns the version that an edit makes of v.
func Apply(t testing.TB, cmp *base.Comparer, v *manifest.Version,
	e *manifest.Edit) *manifest.Version {
	t.Helper()
	var levels [manifest.NumLevels][]*manifest.FileMeta
	gone := map[manifest.DeletedFile]bool{}
	for _, d := range e.Deleted {
		gone[d] = true
	}
	for l := range levels {
		for _, f := range v.Levels[l].Files {
			if !gone[manifest.DeletedFile{Level: l, Num: f.Num}] {
				levels[l] = append(levels[l], f)
			}
		}
	}
	for _, a := range e.Added {
		levels[a.Level] = append(levels[a.Level], a.Meta)
	}
	next, err := manifest.NewVersion(cmp, levels)
	if err != nil {
		t.Fatalf("%v\n%v", err, v)
	}
	return next
}

// CheckPlan verifies that a plan picked from v keeps the rules of package picker.
func CheckPlan(t testing.TB, v *manifest.Version, inProgress picker.InProgress, p *picker.Plan,
	cmp *base.Comparer) {
	t.Helper()
	in := map[*manifest.FileMeta]bool{}
	p.Files(func(_ int, m *manifest.FileMeta) { in[m] = true })
	for _, b := range inProgress {
		b.Files(func(_ int, m *manifest.FileMeta) {
			if in[m] {
				t.Fatalf("table %d is in two plans", m.Num)
			}
		})
	}
	if len(in) == 0 {
		t.Fatal("empty plan")
	}
	p.Files(func(level int, m *manifest.FileMeta) {
		if level > p.OutputLevel {
			t.Fatalf("table %d lies below the output level", m.Num)
		}
		// Whatever stays between m and the output, and is older, must not share
		// a key with m.
		for l := level; l <= p.OutputLevel; l++ {
			for _, f := range v.Levels[l].Files {
				if in[f] || !overlap(cmp, m, f) {
					continue
				}
				newer := l == level && (l == 0 && f.Num > m.Num ||
					l > 0 && l != p.OutputLevel &&
						cmp.CompareInternal(f.Smallest.User, f.Smallest.Trailer, m.Smallest.User,
							m.Smallest.Trailer) < 0)
				if !newer {
					t.Fatalf("%s: table %d of level %d goes to level %d past table %d of level %d",
						p.Reason, m.Num, level, p.OutputLevel, f.Num, l)
				}
			}
		}
	})
	if !p.TrivialMove {
		for _, f := range v.Levels[p.OutputLevel].Files {
			if p.OutputLevel > 0 && !in[f] && cmp.Cmp(p.Smallest, f.Largest.User) <= 0 &&
				cmp.Cmp(p.Largest, f.Smallest.User) >= 0 {
				t.Fatalf("%s: outputs may overlap table %d", p.Reason, f.Num)
			}
		}
	}
	for _, b := range inProgress {
		if firstLevel(b) <= p.OutputLevel && b.OutputLevel >= firstLevel(p) &&
			cmp.Cmp(b.Smallest, p.Largest) <= 0 && cmp.Cmp(b.Largest, p.Smallest) >= 0 {
			t.Fatalf("%s: meets a plan in flight", p.Reason)
		}
	}
}

// firstLevel is the shallowest level with inputs of a plan.
func firstLevel(p *picker.Plan) int {
	for level, files := range p.Inputs {
		if len(files) > 0 {
			return level
		}
	}
	return p.OutputLevel
}

func overlap(cmp *base.Comparer, a, b *manifest.FileMeta) bool {
	return cmp.Cmp(a.Smallest.User, b.Largest.User) <= 0 &&
		cmp.Cmp(b.Smallest.User, a.Largest.User) <= 0
}
