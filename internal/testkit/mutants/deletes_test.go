package mutants

var flushDrops = target{"internal/store/work", "TestFlushDropsDeletions"}

// deletes are mutants of what lets deletions go by themselves.
var deletes = []mutant{
	{"flush-drops-unasked", "a flush drops deletions of keys in older tables that are not open",
		flushDrops, []edit{{"internal/store/work/compaction.go",
			"return !ok || r.MayContain(", "return ok && r.MayContain("}}},

	{"flush-drops-for-snapshot", "a deletion goes together with what it deletes, which a " +
		"snapshot sees", flushDrops, []edit{{"internal/tree/compact/collapse.go",
		"t.Kind().IsTombstone() && c.stripe(t.Seq()) == 0 &&", "t.Kind().IsTombstone() &&"}}},

	{"flush-before-older", "a newer memtable is flushed, and drops deletions, before an older one",
		target{"internal/store/work", "TestFlushKeepsDeletionsForQueued"}, []edit{
			{"internal/store/work/flush.go",
				"s.flushMemTable(k, state.Sealed[len(state.Sealed)-1], job)",
				"s.flushMemTable(k, state.Sealed[0], job)"}}},

	{"drop-where-tables-meet", "a deletion goes though the second of two tables that meet at its " +
		"key has older entries", target{"internal/tree/compact", "TestSurviveScript"}, []edit{
		{"internal/tree/compact/elide.go", "range files { // one", "range files[:min(1, " +
			"len(files))] { // one"}}},
}
