// Package settings is the options of C's programs: changed and read by several threads; it keeps
// the callbacks' objects alive until no call of them can follow.
package settings

import (
	"slices"
	"strconv"
	"sync"

	"github.com/loamdb/loam/cabi/internal/refs"
	"github.com/loamdb/loam/lsm"
)

// Part is one of the options that a program brings something for.
type Part int

// The options that may bring something.
const (
	Comparator Part = iota
	Logger
	Cache
	Filter
	Merge
	parts
)

// Options may be changed and read from several threads.
type Options struct {
	mu      sync.Mutex // guards the rest
	options lsm.Options
	closed  bool
	uses    [parts]*refs.Shared // what the options hold on to
}

// Settings are options as they are at one time. Uses has a user for the caller.
type Settings struct {
	lsm.Options
	Uses  *refs.Shared
	calls bool // Uses is of a comparator, merge operator or compaction filter, too
}

// LeaveTo gives Uses up: to a database's, until their end, if a keyspace may call what they are of.
func (s *Settings) LeaveTo(database *refs.Shared) {
	if s.calls {
		database.Hold(s.Uses)
	} else {
		s.Uses.Release()
	}
}

// unset are the options of a program that sets none. Logs are never mapped, and tables only if the
// program asks for it: a fault there is a SIGBUS, and the host may have taken the signal from Go.
// Parents are not made, as in LevelDB: a path below a disk that is not mounted is an error.
func unset() lsm.Options {
	return lsm.Options{PlainWAL: true, Mmap: lsm.MmapOff, NoCreateDirs: true}
}

// New returns options in which every option has its default.
func New() *Options { return &Options{options: unset()} }

// Unset returns the settings of a program that has no options.
func Unset() *Settings { return &Settings{Options: unset(), Uses: refs.New(func() {})} }

// Docs lists the options that can be chosen in C, with their defaults there.
func Docs() []lsm.OptionDoc {
	docs := slices.DeleteFunc(lsm.OptionDocs(), func(d lsm.OptionDoc) bool {
		return d.Name == "plain_wal"
	})
	for i := range docs {
		switch docs[i].Name {
		case "create_dirs":
			docs[i].Default = strconv.FormatBool(!unset().NoCreateDirs)
		case "mmap":
			docs[i].Default = unset().Mmap.String()
		}
	}
	return docs
}

// Copy returns the options as they are now.
func (o *Options) Copy() (*Settings, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, lsm.ErrClosed
	}
	held := o.uses
	for i, u := range held {
		held[i] = u.Retain()
	}
	s := &Settings{Options: o.options, Uses: refs.New(func() { release(held[:]) }),
		calls: held[Comparator] != nil || held[Merge] != nil || held[Filter] != nil}
	s.PlainWAL = true
	if s.Mmap == lsm.MmapAuto {
		s.Mmap = lsm.MmapOff
	}
	return s, nil
}

func release(held []*refs.Shared) {
	for _, u := range held {
		u.Release()
	}
}

// Set sets the option of a name. An object brought for a replaced option is released.
func (o *Options) Set(name, value string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return lsm.ErrClosed
	}
	before := o.options
	err := o.options.Set(name, value)
	if o.options.MergeOperator != before.MergeOperator {
		o.replace(Merge, nil)
	}
	if o.options.Comparer != before.Comparer {
		o.replace(Comparator, nil)
	}
	if o.options.CompactionFilter != before.CompactionFilter {
		o.replace(Filter, nil)
	}
	return err
}

// Bring changes the options, and keeps the objects that uses counts for one of them in place of the
// objects brought before. It takes over the caller's use unless it fails.
func (o *Options) Bring(p Part, uses *refs.Shared, change func(o *lsm.Options)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return lsm.ErrClosed
	}
	o.replace(p, uses)
	change(&o.options)
	return nil
}

// REQUIRES: o.mu held.
func (o *Options) replace(p Part, uses *refs.Shared) {
	o.uses[p].Release()
	o.uses[p] = uses
}

// Close lets go of what the options hold on to. It is called once.
func (o *Options) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	release(o.uses[:])
}
