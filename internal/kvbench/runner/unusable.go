package runner

import (
	"slices"

	"github.com/loamdb/loam/internal/workload"
	"github.com/loamdb/loam/internal/workload/store"
)

// has reports whether a store implements I.
func has[I any](db store.Store) bool {
	_, ok := db.(I)
	return ok
}

// optional are the parts of a store that a benchmark may need, and the message for a store without
// them.
var optional = []struct {
	needed  func(spec *workload.Spec) bool
	has     func(db store.Store) bool
	without string
}{
	{func(s *workload.Spec) bool { return s.Keyspaces > 0 }, has[store.Keyspaced], "keyspaces"},
	{func(s *workload.Spec) bool { return s.TTL > 0 }, has[store.Expiring], "values that expire"},
	{func(s *workload.Spec) bool { return s.Kind == workload.Add }, has[store.Counters], "merges"},
	{func(s *workload.Spec) bool {
		return s.Kind == workload.Transact && !s.Txn.Plain || s.Queue.Txn
	}, has[store.Transactional], "such transactions"},
	{func(s *workload.Spec) bool { return s.Pinned }, has[store.Pinning], "reads without a copy"},
	{copies(workload.Checkpoint), has[store.Checkpointer], "checkpoints"},
	{copies(workload.FirstBackup, workload.SecondBackup, workload.Restore), has[store.BackerUp],
		"backups"},
	{copies(workload.Dump, workload.Load), has[store.Dumper], "dumps"},
	{puts(workload.IntoTables), has[store.Ingester], "ingestion of tables"},
	{puts(workload.BulkLoad), has[store.BulkLoader], "bulk load that sorts"},
	{func(s *workload.Spec) bool {
		return s.Kind == workload.Changes
	}, has[store.Changing], "feed of changes"},
}

func copies(subjects ...string) func(*workload.Spec) bool {
	return func(s *workload.Spec) bool {
		return s.Kind == workload.Copy && slices.Contains(subjects, s.Subject)
	}
}

func puts(subject string) func(*workload.Spec) bool {
	return func(s *workload.Spec) bool { return s.Kind == workload.Put && s.Subject == subject }
}

// unfit says why a benchmark cannot have the keys of the run, or nothing.
func (r *Runner) unfit(spec *workload.Spec) string {
	named := r.Params.Keys.Style != workload.Padded
	switch spec.Kind {
	case workload.PrefixScan:
		if named || r.Params.Keys.Stride > 1 {
			return "its keys are all numbers of 16 digits"
		}
	case workload.Stretch, workload.DeleteRange, workload.Queue, workload.Put:
		if named && (spec.Kind != workload.Put || spec.Subject == workload.IntoTables) {
			return "its keys are numbers of 16 digits, whose order is that of the keys"
		}
	}
	return ""
}

// unusable says why a store cannot run a benchmark, or nothing.
func (r *Runner) unusable(spec *workload.Spec) string {
	for _, o := range optional {
		if o.needed(spec) && !o.has(r.db) {
			return r.Driver.Title() + " has no " + o.without
		}
	}
	if spec.Followed {
		if _, ok := r.Driver.(store.Followed); !ok {
			return r.Driver.Title() + " has no followers"
		}
		if r.Follow == nil {
			return "there is no program that could follow"
		}
	}
	if spec.Held && r.held.snapshot == nil {
		return "no snapshot is held: holdsnapshot takes one"
	}
	if spec.Counters && !r.needs.Counters {
		return "no counters: mergerandom or mergehot makes them"
	}
	return ""
}
