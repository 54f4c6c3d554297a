package lsm

import (
	"errors"
	"fmt"
	"strconv"
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
	// range. It is not asked about deletions, or by flushes.
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

// FilterChange gives the entry another value. value is not copied and must not be changed
// afterwards.
func FilterChange(value []byte) FilterDecision { return FilterDecision{base.FilterChange(value)} }

// PrefixFilter returns a compaction filter that removes the keys that begin with one of the
// prefixes, which are copied. By its name in the options table it is "prefix:" and the prefixes.
func PrefixFilter(prefixes ...[]byte) *CompactionFilter {
	own := make([]string, len(prefixes))
	for i, p := range prefixes {
		own[i] = string(p)
	}
	return &CompactionFilter{
		Name: prefixFilterName + joinPrefixes(own),
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
		return fmt.Errorf("%w: a CompactionFilter needs Name and Filter", ErrInvalidArgument)
	}
	return nil
}

const (
	noFilterName     = "none"
	prefixFilterName = "prefix:"
)

// filterField is an option that takes a compaction filter by its name: "prefix:" and a list of
// prefixes, separated by commas, or none. In a prefix %xx is the byte with that hexadecimal number.
func filterField(f **CompactionFilter) options.Named {
	return options.Named{
		Default: noFilterName,
		Name: func() string {
			if *f == nil {
				return noFilterName
			}
			return (*f).Name
		},
		Set: func(name string) error {
			if name == noFilterName {
				*f = nil
				return nil
			}
			list, ok := strings.CutPrefix(name, prefixFilterName)
			if !ok {
				return errors.New(`want none or "prefix:" and prefixes separated by commas`)
			}
			prefixes, err := splitPrefixes(list)
			if err != nil {
				return err
			}
			*f = PrefixFilter(prefixes...)
			return nil
		},
	}
}

// joinPrefixes is what splitPrefixes reads.
func joinPrefixes(prefixes []string) string {
	var b strings.Builder
	for i, p := range prefixes {
		if i > 0 {
			b.WriteByte(',')
		}
		for _, c := range []byte(p) {
			if c <= ' ' || c >= 0x7f || c == ',' || c == '%' {
				fmt.Fprintf(&b, "%%%02x", c)
			} else {
				b.WriteByte(c)
			}
		}
	}
	return b.String()
}

// splitPrefixes reads prefixes that are separated by commas. %xx is the byte with that
// hexadecimal number.
func splitPrefixes(text string) (prefixes [][]byte, err error) {
	for _, part := range strings.Split(text, ",") {
		p := make([]byte, 0, len(part))
		for i := 0; i < len(part); i++ {
			if part[i] != '%' {
				p = append(p, part[i])
				continue
			}
			if i+2 >= len(part) {
				return nil, errors.New("behind % come two hexadecimal digits")
			}
			n, err := strconv.ParseUint(part[i+1:i+3], 16, 8)
			if err != nil {
				return nil, errors.New("behind % come two hexadecimal digits")
			}
			p = append(p, byte(n))
			i += 2
		}
		if len(p) == 0 {
			return nil, errors.New("an empty prefix would remove every key")
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}
