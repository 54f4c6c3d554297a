package lsm

import (
	"fmt"

	"github.com/loamdb/loam/internal/base"
)

// ErrCompactionFilter: the compaction filter failed, so a compaction did. Nothing is
// lost; compactions pause, and are tried again after a while, at once after Resume.
var ErrCompactionFilter = base.ErrCompactionFilter

// CompactionFilter decides in compactions what becomes of entries. Its fields:
//
//   - Name is for messages.
//   - Filter is asked about the newest version of each key that a compaction meets, if no
//     snapshot sees it. level is the level that the entry goes to. key and value are valid
//     during the call and must not be changed.
//
// Filter may be called by several goroutines at once. Compactions and Close wait for it, so
// of the database's calls it may make reads; where others would wait for it, they fail with
// ErrInUse. When it fails, by an error or a panic, the compaction fails
// with ErrCompactionFilter and the cause (Metrics.BackgroundError, and for CompactRange its
// error): see there.
//
// It is asked when an entry is rewritten, which may be soon, late or, at the bottom of the
// tree, never: reads must do with entries that it would remove. CompactRange asks it about
// everything in its range. It is not asked about deletions, or by flushes.
type CompactionFilter = base.CompactionFilter

// FilterDecision is what becomes of an entry: FilterKeep, FilterRemove or what FilterChange
// returns. The zero FilterDecision is FilterKeep.
type FilterDecision = base.FilterDecision

var (
	// FilterKeep leaves the entry as it is.
	FilterKeep = base.FilterKeep
	// FilterRemove removes the key, as Delete does.
	FilterRemove = base.FilterRemove
)

// FilterChange gives the entry another value, which must not be changed afterwards.
func FilterChange(value []byte) FilterDecision { return base.FilterChange(value) }

// PrefixFilter returns a compaction filter that removes the keys that begin with one of the
// prefixes. By its name in the options table it is "prefix:" and the prefixes.
func PrefixFilter(prefixes ...[]byte) *CompactionFilter { return base.PrefixFilter(prefixes...) }

// checkFilter refuses a filter that cannot be asked.
func checkFilter(f *CompactionFilter) error {
	if f != nil && (f.Name == "" || f.Filter == nil) {
		return fmt.Errorf("%w: a CompactionFilter needs Name and Filter", ErrInvalidArgument)
	}
	return nil
}
