package options

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/loamdb/loam/internal/base"
)

// Scope says which part of what the options configure an option belongs to, and so whether it
// changes while that is open.
type Scope uint8

// The scopes of options.
const (
	Fixed Scope = iota // it does not change
	Whole              // it changes for the whole
	Part               // it changes for each part, or for all that have none of their own
)

// String is what Doc.Dynamic has: "", "database" or "keyspace".
func (s Scope) String() string { return [...]string{"", "database", "keyspace"}[s] }

// Root is the ID of the part that Live.Set changes with the whole.
const Root = ^uint32(0)

// Live is options that change while what they configure is open: those of the whole, and those
// of its parts, which are numbered. It is safe for concurrent use.
type Live[O any] struct {
	Table Table[O]
	// Complete returns a copy with all defaults, or an error.
	Complete func(*O) (*O, error)
	// Apply makes options effective, which are complete and which of returns: those of the whole
	// and of all parts, if part is Root, or those of a part. If it fails nothing has changed.
	Apply func(part uint32, of func(part uint32) *O) error
	// Inherit takes out of a copy of the whole's options what a part does not inherit.
	Inherit func(o *O, part uint32)

	mu      sync.Mutex // held while Apply runs
	given   O          // without defaults
	changed bool       // by a Change of the whole
	own     map[uint32]map[string]func(*O)
}

// Init sets the options that the whole was opened with.
func (l *Live[O]) Init(given O) { l.given, l.own = given, map[uint32]map[string]func(*O){} }

// Set changes an option by name for the whole, if part is Root, or for a part. It fails with
// base.ErrInvalidArgument where the option does not exist or does not change, or the value is not
// one.
func (l *Live[O]) Set(part uint32, name, value string) error {
	row, err := l.Table.find(name)
	if err != nil {
		return err
	}
	switch {
	case row.Dynamic == Fixed:
		return base.Invalidf("option %s is fixed while the database is open: it needs a reopen",
			name)
	case part != Root && row.Dynamic == Whole:
		return base.Invalidf("option %s is one for all keyspaces: set it for the database", name)
	}
	try := new(O)
	if err := row.set(try, value); err != nil {
		return err
	}
	return l.Change(part, map[string]func(*O){name: func(o *O) { _ = row.set(o, value) }})
}

// Change is Set of several options by functions, by the names of the options. A new part, which has
// the options that the whole was opened with, gets those in force by a Change of none.
func (l *Live[O]) Change(part uint32, changes map[string]func(*O)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	given, own := l.given, l.own[part]
	switch {
	case len(changes) == 0 && len(own) == 0 && !l.changed:
		return nil
	case part == Root:
		for _, change := range changes {
			change(&l.given)
		}
	case len(changes) > 0:
		merged := map[string]func(*O){}
		for _, list := range []map[string]func(*O){own, changes} {
			maps.Copy(merged, list)
		}
		l.own[part] = merged
	}
	err := l.applyLocked(part)
	if err != nil {
		l.given = given
		if l.own[part] = own; own == nil {
			delete(l.own, part)
		}
		return err
	}
	l.changed = l.changed || part == Root
	return nil
}

// Forget takes away what a part has of its own. There will be no other part of that number.
func (l *Live[O]) Forget(part uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.own, part)
}

func (l *Live[O]) applyLocked(part uint32) error {
	parts := []uint32{part}
	if part == Root {
		parts = slices.AppendSeq(parts, maps.Keys(l.own))
	}
	for _, p := range parts { // all are known to be good before one is changed
		if _, err := l.ofLocked(p); err != nil {
			return err
		}
	}
	return l.Apply(part, func(part uint32) *O {
		o, _ := l.ofLocked(part)
		return o
	})
}

// ofLocked is the complete options of the whole, or of a part.
func (l *Live[O]) ofLocked(part uint32) (*O, error) {
	o := l.given
	if part != Root {
		l.Inherit(&o, part)
	}
	for _, change := range l.own[part] {
		change(&o)
	}
	return l.Complete(&o)
}

// Get is the value of an option that is in force, as Set takes it.
func (l *Live[O]) Get(part uint32, name string) (string, error) {
	row, err := l.Table.find(name)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	o, err := l.ofLocked(part)
	if err != nil {
		return "", err
	}
	return row.text(o), nil
}

// text is the value of the option in o, as Set takes it. Values that have no text are named.
func (row *Row[O]) text(o *O) string {
	switch p := row.Field(o).(type) {
	case *bool:
		return strconv.FormatBool(*p != row.Inverted)
	case Choice:
		return p.Names[*p.Value]
	case Choices:
		var names []string
		for v := *p.Value; v != 0; v >>= choiceBits {
			names = append(names, p.Names[v&(1<<choiceBits-1)])
		}
		return strings.Join(names, ",")
	case *int:
		return strconv.Itoa(max(*p, 0))
	case *int64:
		return strconv.FormatInt(max(*p, 0), 10)
	case *float64:
		return strconv.FormatFloat(*p, 'g', -1, 64)
	case *time.Duration:
		return strconv.FormatFloat(p.Seconds(), 'f', -1, 64)
	case Named:
		return p.Name()
	}
	return ""
}
