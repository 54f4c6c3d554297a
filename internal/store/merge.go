package store

import (
	"fmt"
	"slices"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/base/mergeop"
	"github.com/loamdb/loam/internal/format/manifest"
	"github.com/loamdb/loam/internal/tree"
)

// A keyspace's merge operator is stored by name. The options name that of the default
// keyspace; where they name no operator, and for other keyspaces, the stored one is found among the
// operators of the options and the named ones. A keyspace that has no operands takes another
// operator.

// mergeOperator is the operator to open a keyspace with, given the name that is stored: that of
// the options unless another one is stored. The check that comes after the replay of the logs
// decides about that.
func (db *DB) mergeOperator(id base.KeyspaceID, stored string) *mergeop.Operator {
	want := db.opts.Merge
	switch {
	case want != nil && id == base.DefaultKeyspace && (want.Name == stored || stored == ""):
		return want
	case stored == "" || want != nil && id == base.DefaultKeyspace:
		return nil
	}
	return db.opts.Merges(stored)
}

// checkMergeOperators refuses a database that has operands of an operator that is not known,
// or another one than the options name. It stores the names of operators that are new.
func (db *DB) checkMergeOperators(r *replayer) error {
	if !db.Native() {
		return nil
	}
	for _, k := range db.manifest.Keyspaces() {
		if k.ID != base.DefaultKeyspace {
			continue // setMergeLocked checks what a caller names
		}
		want := db.opts.Merge
		known := db.home.Tree.Merge()
		if known != nil && known.Name == k.MergeOperator || known == nil && k.MergeOperator == "" {
			continue
		}
		if k.MergeOperator != "" && db.hasOperands(k, r.spaces[k.ID].Tables) {
			return foreignOperands(k, want)
		}
		if want == nil {
			continue // its operator is not known, and not needed
		}
		db.home.Tree.SetMerge(want, nil)
		if !db.opts.ReadOnly {
			if err := db.manifest.SetMergeOperator(k.ID, want.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func foreignOperands(k manifest.Keyspace, want *mergeop.Operator) error {
	if want == nil {
		return fmt.Errorf("%w: keyspace %.200q has operands of %.200q: the options must name it",
			base.ErrNoMergeOperator, k.Name, k.MergeOperator)
	}
	return fmt.Errorf("%w: keyspace %.200q has operands of %.200q, the options name %.200q",
		base.ErrNoMergeOperator, k.Name, k.MergeOperator, want.Name)
}

// hasOperands reports whether the tables of a keyspace or memtables have operands.
func (db *DB) hasOperands(k manifest.Keyspace, memtables []*tree.Sealed) bool {
	for _, s := range memtables {
		if s.Mem.HasOperands() {
			return true
		}
	}
	v := db.manifest.Current(k.ID)
	if v == nil {
		return false
	}
	defer v.Unref()
	for _, f := range v.Tables() {
		if f.Kinds>>base.KindMerge&1 != 0 {
			return true
		}
	}
	return false
}

// setMergeLocked makes op the merge operator of a keyspace, which has none yet, or one of
// that name, or no operands of another one. Where nothing can be stored, op serves this opening;
// beside a writer, from when on the writer has stored its name, as it may store another one.
//
// REQUIRES: db.spaces.mu held.
func (k *Keyspace) setMergeLocked(op *mergeop.Operator) error {
	db := k.db
	list := db.manifest.Keyspaces() // a follower's changes without the lock
	at := slices.IndexFunc(list, func(m manifest.Keyspace) bool {
		return m.ID == k.Tree.ID()
	})
	if at < 0 {
		return fmt.Errorf("%w: %q", base.ErrNoKeyspace, k.Tree.Name())
	}
	k.named = op
	stored := list[at]
	switch {
	case stored.MergeOperator == op.Name:
		k.Tree.SetMerge(op, func(was *mergeop.Operator) bool {
			// A follower's state may be older than the stored name.
			return db.follower == nil || was == nil || was.Name == op.Name
		})
		return nil
	case db.follower != nil && stored.MergeOperator == "":
		return nil // see operatorFollowed
	case db.follower != nil:
		return foreignOperands(stored, op)
	}
	s := k.Tree.Acquire()
	if s == nil {
		return base.ErrDatabaseClosed
	}
	memtables := append([]*tree.Sealed{{Mem: s.Mem}}, s.Sealed...)
	has := stored.MergeOperator != "" && db.hasOperands(stored, memtables)
	s.Unref()
	if has {
		return foreignOperands(stored, op)
	}
	if !db.opts.ReadOnly {
		if err := db.health.Writable(); err != nil {
			return err
		}
		if err := db.manifest.SetMergeOperator(stored.ID, op.Name); err != nil {
			if db.manifest.Err() != nil && !db.health.Closing.Load() {
				err = db.health.Fail(err) // as after any other edit
			}
			return err
		}
	}
	k.Tree.SetMerge(op, func(*mergeop.Operator) bool { return true })
	return nil
}

// operatorFollowed makes the merge operator that a writer has stored for a keyspace that of the
// follower's next state, and reports whether it is another one: the operands of states before are
// those of the operator before. Without one of that name, reads of operands fail.
//
// REQUIRES: db.spaces.mu held.
func (db *DB) operatorFollowed(t *tree.Tree, name string) (changed bool) {
	op := db.mergeOperator(t.ID(), name)
	if k := db.keyspaceByID(t.ID()); k != nil && k.named != nil && k.named.Name == name {
		op = k.named
	}
	if was := t.Merge(); op == was || op != nil && was != nil && op.Name == was.Name {
		return false
	}
	t.SetMerge(op, nil)
	return true
}

// longChains has a memtable flushed whose long chains of operands reads fold again and again:
// the flush folds them. The tables are left to compactions that reads trigger.
func (k *Keyspace) longChains() {
	db, s := k.db, k.Tree.Acquire()
	if s == nil {
		return
	}
	flush := s.Mem.HasOperands() && db.health.Writable() == nil
	s.Unref()
	if flush && db.folding.CompareAndSwap(false, true) {
		go func() {
			defer db.folding.Store(false)
			if err := base.Protect(k.Flush); err != nil &&
				db.health.Writable() == nil {
				db.health.Warn("flushing long chains of operands", err)
			}
		}()
	}
}
