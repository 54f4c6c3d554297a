package lsm

import (
	"errors"
	"strings"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/options"
)

// CompactionFilter decides in compactions which entries to keep, to drop or to change; see
// Options.CompactionFilter. Compactions and Close wait for it: it may read the database, and calls
// that would wait for it fail with ErrInUse.
type CompactionFilter struct {
	// Name is for messages. It is required.
	Name string
	// Filter is asked about the newest version of each key that a compaction meets, if no snapshot
	// sees it. level is the level that the entry goes to. key and value are valid during the call
	// and must not be changed. It is called by several goroutines at once. It is required.
	//
	// It is asked when an entry is rewritten, which may be soon, late or, at the bottom of the
	// tree, never: until then reads see the entry. CompactRange asks it about everything in its
	// range, and about what it makes of operands there. It is not asked about deletions, or by
	// flushes.
	//
	// Where it fails, by an error or a panic, the compaction fails with ErrCompactionFilter and the
	// cause, see Metrics.BackgroundError and CompactRange.
	Filter func(level int, key, value []byte) (FilterDecision, error)
}

// FilterDecision says what a compaction does with an entry: FilterKeep, FilterRemove or the result
// of FilterChange. The zero FilterDecision is FilterKeep.
type FilterDecision struct{ is base.FilterDecision }

// Removes reports whether the decision is FilterRemove.
func (d FilterDecision) Removes() bool { return d.is.Removes() }

// Changes returns the value of a FilterChange; ok is false for another decision.
func (d FilterDecision) Changes() (value []byte, ok bool) { return d.is.Changes() }

// The decisions besides FilterChange.
var (
	// FilterKeep leaves the entry as it is.
	FilterKeep FilterDecision
	// FilterRemove removes the key, as Delete does.
	FilterRemove FilterDecision = FilterDecision{base.FilterRemove}
)

// FilterChange gives the entry another value. value is not copied: do not change it afterwards.
func FilterChange(value []byte) FilterDecision { return FilterDecision{base.FilterChange(value)} }

// PrefixFilter returns a compaction filter that removes the keys that begin with one of the
// prefixes, which are copied. By its name in the options table it is "prefix:" and the prefixes.
func PrefixFilter(prefixes ...[]byte) *CompactionFilter {
	own := make([]string, len(prefixes))
	for i, p := range prefixes {
		own[i] = string(p)
	}
	return &CompactionFilter{
		Name: prefixFilterName + options.JoinBytes(own),
		Filter: func(_ int, key, _ []byte) (FilterDecision, error) {
			for _, p := range own {
				if len(key) >= len(p) && string(key[:len(p)]) == p {
					return FilterRemove, nil
				}
			}
			return FilterKeep, nil
		},
	}
}

// inside is the filter as the engine asks it; nil for nil.
func (f *CompactionFilter) inside() *base.CompactionFilter {
	if f == nil {
		return nil
	}
	filter := f.Filter
	return &base.CompactionFilter{
		Name: f.Name,
		Filter: func(level int, key, value []byte) (base.FilterDecision, error) {
			d, err := filter(level, key, value)
			return d.is, err
		},
	}
}

// checkFilter refuses a filter that cannot be asked.
func checkFilter(f *CompactionFilter) error {
	if f != nil && (f.Name == "" || f.Filter == nil) {
		return base.Invalidf("a CompactionFilter needs Name and Filter")
	}
	return nil
}

const (
	noFilterName     = "none"
	prefixFilterName = "prefix:"
)

// filterField is an option that takes a compaction filter by its name: "prefix:" and a list of
// prefixes, or none.
func filterField(f **CompactionFilter) options.Named {
	return options.Pointer(f, noFilterName, func(f *CompactionFilter) string { return f.Name },
		func(name string) (*CompactionFilter, error) {
			list, ok := strings.CutPrefix(name, prefixFilterName)
			switch {
			case name == noFilterName:
				return nil, nil
			case !ok:
				return nil, errors.New(`want none or "prefix:" and prefixes separated by commas`)
			}
			prefixes, err := options.SplitBytes(list)
			if err != nil {
				return nil, err
			}
			return PrefixFilter(prefixes...), nil
		})
}
