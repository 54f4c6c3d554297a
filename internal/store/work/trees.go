package work

import (
	"context"
	"slices"
	"time"

	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/picker"
)

// trees is which keyspaces have work: a decision costs as much as there are keyspaces in which
// something has changed, however many there are. Its fields are guarded by Scheduler.mu.
type trees struct {
	// sealed are those with a sealed memtable; some may have none left.
	sealed []*Keyspace
	// due are the trees that changed since the last search for work found none.
	due []*Keyspace
	// watched have work for a quiet time; some may have none left. None is due before soonest.
	watched []*Keyspace
	soonest time.Time
	running int // plans in progress
	// pressed are those whose pressure delays writers.
	pressed map[*Keyspace]float64
}

// Keyspace is a tree and the work on it. Its other fields are guarded by Scheduler.mu.
type Keyspace struct {
	*tree.Tree
	dropped bool // nothing is started for it any more
	running picker.InProgress
	manual  map[*picker.Plan]context.CancelCauseFunc // running steps of manual compactions
	// manual compactions that wait for their next step
	manualWaits int
	compaction  compactions  // failures that are no shortage
	optional    *picker.Plan // the last one begun that nothing but reads gain from
	quiet       quiet

	isSealed, isDue, isWatched bool      // in the lists of trees
	look                       time.Time // watched: when it is due
	heldBySnapshot             bool      // the last decision left a table full of deletions alone

	deletes memTableDeletes
}

// markDue puts k on the list of the trees that the scheduler looks at: something of it changed.
func (ts *trees) markDue(k *Keyspace) {
	if !k.isDue && !k.dropped {
		k.isDue = true
		ts.due = append(ts.due, k)
	}
}

// forget takes k off all lists: it was dropped, and its memory is to go.
func (ts *trees) forget(k *Keyspace) {
	for _, list := range []*[]*Keyspace{&ts.sealed, &ts.due, &ts.watched} {
		*list = slices.DeleteFunc(*list, func(o *Keyspace) bool { return o == k })
	}
	delete(ts.pressed, k)
}

// seal notes that k may have a sealed memtable.
func (ts *trees) seal(k *Keyspace) {
	if !k.isSealed {
		k.isSealed = true
		ts.sealed = append(ts.sealed, k)
	}
}

// watch notes that k is to be looked at again, whatever happens until then.
func (ts *trees) watch(k *Keyspace, at time.Time) {
	k.look = at
	if len(ts.watched) == 0 || at.Before(ts.soonest) {
		ts.soonest = at
	}
	if !k.isWatched {
		k.isWatched = true
		ts.watched = append(ts.watched, k)
	}
}

// lookAgain makes the watched keyspaces due whose time has come.
func (ts *trees) lookAgain(now time.Time) {
	watched := ts.watched
	ts.watched = watched[:0]
	for _, k := range watched {
		k.isWatched = false
		if k.look.After(now) {
			ts.watch(k, k.look)
		} else {
			ts.markDue(k)
		}
	}
	clear(watched[len(ts.watched):])
}

// start notes that a plan of k is in progress.
func (ts *trees) start(k *Keyspace, plan *picker.Plan) {
	k.running = append(k.running, plan)
	ts.running++
}

// end takes a plan of k off the list of those in progress.
func (ts *trees) end(k *Keyspace, plan *picker.Plan) {
	left := slices.DeleteFunc(slices.Clone(k.running),
		func(p *picker.Plan) bool { return p == plan })
	ts.running -= len(k.running) - len(left)
	k.running = left
	ts.markDue(k)
}

// press notes how far k is towards the limits at which writers wait, and returns the
// highest pressure of all.
func (ts *trees) press(k *Keyspace, pressure float64) (highest float64) {
	if ts.pressed[k] = pressure; pressure <= 0 {
		delete(ts.pressed, k)
	}
	for _, p := range ts.pressed {
		highest = max(highest, p)
	}
	return highest
}
