package picker

import (
	"errors"
	"fmt"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/format/manifest"
)

// ErrRenumber is what IngestLevels fails with where a table needs a larger number: an older table
// that it overlaps has one. Level 0 is read in the order of numbers, and a repair without a
// MANIFEST has nothing else that orders an ingested table.
var ErrRenumber = errors.New("an older table that overlaps has a larger number")

// ErrOverlap and ErrSnapshot refuse an ingest of IngestMode.Plain.
var (
	ErrOverlap  = base.NeedsNative("an ingest into keys that have entries")
	ErrSnapshot = base.NeedsNative("an ingest beside an open snapshot or transaction")
)

// IngestMode says where tables may go.
type IngestMode struct {
	// Plain: the entries have sequence number 0. Nothing may overlap them, and no snapshot may be
	// open.
	Plain bool
	// Excise: the first table has a range tombstone over the range of all others, which are newer
	// and stay above it.
	Excise bool
}

// IngestLevels chooses the levels of tables that were written outside of the tree, are newer than
// all that is in it, and are in the order of their keys: the bottom one where nothing overlaps a
// table (FlushLevel), else the deepest level above the older data that has a run, or which the
// tables, having more than a write buffer together, become the run of. Tables above a tombstone
// that go to level 0 have larger numbers. Until the tables are installed, the plans must be in
// InProgress.
func IngestLevels(v *manifest.Version, inProgress InProgress, cmp *base.Comparer,
	tables []*manifest.FileMeta, writeBuffer uint64, mode IngestMode) (levels []int, plans []*Plan,
	err error) {
	var bytes uint64
	for _, m := range tables {
		bytes += m.Size
	}
	var first, last [manifest.NumLevels]*manifest.FileMeta
	levels = make([]int, len(tables))
	large, limit := bytes >= writeBuffer, manifest.NumLevels
	for i, m := range tables {
		l := 0
		if !mode.Excise {
			l = FlushLevel(v, inProgress, cmp, m.Smallest.User, m.Largest.User)
		}
		if l == 0 && mode.Plain && v.Overlapped(cmp, m.Smallest.User, m.Largest.User) {
			return nil, nil, ErrOverlap
		}
		if l == 0 && !inProgress.meets(cmp, 0, lastLevel, m.Smallest.User, m.Largest.User) {
			l = above(v, cmp, m, limit, large)
		}
		if mode.Excise && i == 0 {
			limit = l
		}
		for f := range v.Overlaps(cmp, m.Smallest.User, m.Largest.User) {
			if f.Num > m.Num {
				return nil, nil, fmt.Errorf("%w: %d, %d", ErrRenumber, f.Num, m.Num)
			}
		}
		levels[i] = l
		if first[l] == nil {
			first[l] = m
		}
		last[l] = m
	}
	for l := 1; l < manifest.NumLevels; l++ {
		if first[l] != nil {
			plans = append(plans, FlushPlan(l, first[l].Smallest.User, last[l].Largest.User))
		}
	}
	return levels, plans, nil
}

// above is the deepest level that takes a table above the older data that it overlaps, and above
// limit; 0 if there is none.
func above(v *manifest.Version, cmp *base.Comparer, m *manifest.FileMeta, limit int,
	large bool) (level int) {
	for l := range limit {
		if len(v.Levels[l].Overlaps(cmp, m.Smallest.User, m.Largest.User)) > 0 {
			return level
		}
		if l > 0 && (large || len(v.Levels[l].Files) > 0) {
			level = l
		}
	}
	return level
}
