package base

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
)

// ErrCompactionFilter marks the failure of a compaction filter.
var ErrCompactionFilter = errors.New("the compaction filter failed, compaction pauses")

// CompactionFilter decides in compactions what becomes of the newest version of a key; see
// lsm.CompactionFilter.
type CompactionFilter struct {
	Name string // for messages
	// Filter is asked about an entry that goes to a level.
	Filter func(level int, key, value []byte) (FilterDecision, error)
}

// FilterDecision is what a compaction filter wants to become of an entry. The zero
// FilterDecision is FilterKeep.
type FilterDecision struct {
	verdict uint8
	value   []byte
}

const (
	verdictKeep = iota
	verdictRemove
	verdictChange
)

// The decisions beside FilterChange.
var (
	FilterKeep   = FilterDecision{}
	FilterRemove = FilterDecision{verdict: verdictRemove}
)

// FilterChange gives the entry another value.
func FilterChange(value []byte) FilterDecision {
	return FilterDecision{verdict: verdictChange, value: value}
}

// Removes reports whether the decision is FilterRemove.
func (d FilterDecision) Removes() bool { return d.verdict == verdictRemove }

// Changes returns the value of a FilterChange.
func (d FilterDecision) Changes() (value []byte, ok bool) {
	return d.value, d.verdict == verdictChange
}

// Ask calls the filter. Its failure, a panic among them, is an ErrCompactionFilter that
// says which key it had.
func (f *CompactionFilter) Ask(level int, key, value []byte) (d FilterDecision, err error) {
	asking.Add(1)
	defer func() {
		asking.Add(-1)
		if r := recover(); r != nil {
			err = f.failed(key, panicText(r))
		}
	}()
	if d, err = f.Filter(level, key, value); err != nil {
		why := err.Error()
		var c *CallbackError
		if errors.As(err, &c) {
			why = c.Reason
		}
		err = f.failed(key, why)
	}
	return d, err
}

var _ = Caller("compaction filter", (*CompactionFilter).Ask)

// failed tells of a failure without wrapping its cause: what a filter fails with, for
// instance a panic, means something else when the engine fails with it.
func (f *CompactionFilter) failed(key []byte, why string) error {
	return fmt.Errorf("%w: %s, at key %s: %s", ErrCompactionFilter, f.Name, quoteKey(key), why)
}

func panicText(r any) string {
	if c, ok := CallbackFailure(r); ok {
		return c.Reason
	}
	return fmt.Sprintf("panic: %v\n%s", r, debug.Stack())
}

// quoteKey is a key for a message, cut off when it is long.
func quoteKey(key []byte) string {
	const most = 64
	if len(key) > most {
		return strconv.Quote(string(key[:most])) + "..."
	}
	return strconv.Quote(string(key))
}

// PrefixFilter removes the entries whose keys begin with one of the prefixes.
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

// NoCompactionFilter is what CompactionFilterNamed makes no filter of.
const NoCompactionFilter = "none"

const prefixFilterName = "prefix:"

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

// CompactionFilterNamed makes the filter of a name: "prefix:" and a list of prefixes,
// separated by commas, in which %xx is the byte with that hexadecimal number. NoCompactionFilter
// is no filter, nil.
func CompactionFilterNamed(name string) (*CompactionFilter, error) {
	if name == NoCompactionFilter {
		return nil, nil
	}
	list, ok := strings.CutPrefix(name, prefixFilterName)
	if !ok {
		return nil, errors.New(`want none or "prefix:" and prefixes separated by commas`)
	}
	prefixes, err := splitPrefixes(list)
	if err != nil {
		return nil, err
	}
	return PrefixFilter(prefixes...), nil
}
