package work

import (
	"context"
	"slices"
	"time"

	"github.com/loamdb/loam/internal/tree"
	"github.com/loamdb/loam/internal/tree/picker"
)

// trees is the keyspaces of a Scheduler, and which of them have work: a decision costs as
// much as there are keyspaces in which something has changed, however many there are.
// Its fields are guarded by Scheduler.mu.
type trees struct {
	all []*keyspace
	of  map[*tree.Tree]*keyspace
	// sealed are those with a sealed memtable; some may have none left.
	sealed []*keyspace
	// due are the trees that changed since the last search for work found none.
	due []*keyspace
	// watched have work for a quiet time; some may have none left.
	watched []*keyspace
	running int // plans in progress
	// pressed are those whose pressure delays writers.
	pressed map[*keyspace]float64
}

// keyspace is a tree and the work on it. Its fields are guarded by Scheduler.mu.
type keyspace struct {
	*tree.Tree
	dropped bool // nothing is started for it any more
	running picker.InProgress
	manual  map[*picker.Plan]context.CancelCauseFunc // running steps of manual compactions
	// manual compactions that wait for their next step
	manualWaits int
	optional    *picker.Plan // the last one begun that nothing but reads gain from
	quiet       quiet

	isSealed, isDue, isWatched bool      // in the lists of trees
	look                       time.Time // watched: when it is due
	heldBySnapshot             bool      // the last decision left a table full of deletions alone
}

// add appends a keyspace, in which everything is new.
func (ts *trees) add(k *keyspace) {
	ts.all = append(ts.all, k)
	ts.of[k.Tree] = k
	ts.changed(k)
	ts.seal(k)
}

// forgetDropped takes keyspaces off the lists that were dropped and have no plan in
// progress.
func (ts *trees) forgetDropped() {
	gone := func(k *keyspace) bool { return k.dropped && len(k.running) == 0 }
	for _, list := range []*[]*keyspace{&ts.all, &ts.sealed, &ts.due, &ts.watched} {
		*list = slices.DeleteFunc(*list, gone)
	}
	for t, k := range ts.of {
		if gone(k) {
			delete(ts.of, t)
			delete(ts.pressed, k)
		}
	}
}

// changed notes that there may be something to do for k.
func (ts *trees) changed(k *keyspace) {
	if !k.isDue {
		k.isDue = true
		ts.due = append(ts.due, k)
	}
}

// seal notes that k may have a sealed memtable.
func (ts *trees) seal(k *keyspace) {
	if !k.isSealed {
		k.isSealed = true
		ts.sealed = append(ts.sealed, k)
	}
}

// watch notes that k is to be looked at again, whatever happens until then.
func (ts *trees) watch(k *keyspace, at time.Time) {
	k.look = at
	if !k.isWatched {
		k.isWatched = true
		ts.watched = append(ts.watched, k)
	}
}

// nextLook is when the first of the watched keyspaces is due; ok is false without any.
func (ts *trees) nextLook() (next time.Time, ok bool) {
	for _, k := range ts.watched {
		if !ok || k.look.Before(next) {
			next, ok = k.look, true
		}
	}
	return next, ok
}

// lookAgain makes the watched keyspaces due whose time has come.
func (ts *trees) lookAgain(now time.Time) {
	ts.watched = slices.DeleteFunc(ts.watched, func(k *keyspace) bool {
		if k.look.After(now) {
			return false
		}
		k.isWatched = false
		ts.changed(k)
		return true
	})
}

// start notes that a plan of k is in progress.
func (ts *trees) start(k *keyspace, plan *picker.Plan) {
	k.running = append(k.running, plan)
	ts.running++
}

// end takes a plan of k off the list of those in progress.
func (ts *trees) end(k *keyspace, plan *picker.Plan) {
	left := k.running[:0:0]
	for _, p := range k.running {
		if p != plan {
			left = append(left, p)
		}
	}
	ts.running -= len(k.running) - len(left)
	k.running = left
	ts.changed(k)
}

// press notes how far k is towards the limits at which writers wait, and returns the
// highest pressure of all.
func (ts *trees) press(k *keyspace, pressure float64) (highest float64) {
	delete(ts.pressed, k)
	if pressure > 0 {
		ts.pressed[k] = pressure
	}
	for _, p := range ts.pressed {
		highest = max(highest, p)
	}
	return highest
}
