package base

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
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
	BeginAsking()
	defer func() {
		EndAsking()
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
