package mutants

var (
	flushDrops    = target{"internal/store/work", "TestFlushDropsDeletions"}
	emptiedLeaves = target{"internal/store/work", "TestEmptiedTableLeaves"}
	quietFlush    = target{"internal/store/work", "TestQuietFlush"}
	denseHeld     = target{"internal/store/work", "TestDenseUnderSnapshot"}
	pickScript    = target{"internal/tree/picker", "TestPickScript"}
)

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

	{"no-quiet-flush", "deletions stay in the memtable when nobody writes", emptiedLeaves,
		[]edit{{"internal/store/work/deletes.go", "if worthFlushing(state) {",
			"if false {"}}},

	{"quiet-flush-once", "later deletions are not told of after a look at the memtable", quietFlush,
		[]edit{{"internal/store/work/deletes.go", "\tstate.Mem.TellAgain()\n", ""}}},

	{"quiet-look-for-ever", "a memtable without writes is looked at again and again", emptiedLeaves,
		[]edit{{"internal/store/work/deletes.go", "return !k.deletes.saw(state), false",
			"return true, false"}}},

	{"quiet-flush-for-ever", "an empty memtable is sealed again and again", emptiedLeaves,
		[]edit{{"internal/store/work/deletes.go", "if n == 0 || 2*n < state.Mem.Points() {",
			"if 2*n < state.Mem.Points() {"}, {"internal/store/work/deletes.go",
			"return n >= manyDeletes ||", "return n >= 0 ||"}}},

	{"quiet-flush-beside-writes", "a memtable that is written is flushed for its deletions",
		quietFlush, []edit{{"internal/store/work/deletes.go", "\tif !k.deletes.saw(state) {\n" +
			"\t\treturn true, false\n", "\tif k.deletes.saw(state); false {\n" +
			"\t\treturn true, false\n"}, {"internal/store/work/deletes.go",
			"\tif !k.deletes.saw(state) {\n\t\treturn false\n",
			"\tif false {\n\t\treturn false\n"}}},

	{"quiet-flush-without-room", "more memtables wait than may be",
		target{"internal/store/work", "TestQuietFlushWaitsForRoom"}, []edit{
			{"internal/store/work/deletes.go", "return cause == \"\" && err == nil",
				"return cause != \"-\" && err == nil"}}},

	{"quiet-flush-read-only", "a read-only database seals a memtable",
		target{"internal/store/work", "TestNoQuietFlushAfterEnd"}, []edit{
			{"internal/store/work/deletes.go", "if s.closing || s.opts.Writable() != nil {",
				"if s.closing {"}, {"internal/store/work/deletes.go",
				"if s.opts.Writable() != nil || k.dropped {", "if k.dropped {"}}},

	{"dense-for-ever", "tables of deletions that a snapshot holds are compacted again and again",
		denseHeld, []edit{{"internal/store/work/deletes.go",
			"if !s.olderSnapshot(newest) {", "if true {"}}},

	{"dense-after-release", "deletions stay when the snapshot that held them is closed", denseHeld,
		[]edit{{"internal/store/work/deletes.go", "time.AfterFunc(minWatch, s.lookAtHeld)",
			"_ = minWatch"}}},

	{"dense-held-by-any", "a snapshot that sees the deletions holds what they delete", denseHeld,
		[]edit{{"internal/store/work/deletes.go", "return any && (newest == 0 || oldest < newest)",
			"return any || newest < oldest"}}},

	{"dense-without-older", "a table of level 0 goes below an older one, whose keys it deletes",
		pickScript, []edit{{"internal/tree/picker/pick.go",
			"files := p.withOlder([]*manifest.FileMeta{f})\n\t\tplan :=",
			"files := []*manifest.FileMeta{f}\n\t\tplan :="}}},

	{"dense-at-any-price", "much is merged for the sake of a few deletions", pickScript,
		[]edit{{"internal/tree/picker/pick.go",
			"return deletes == 0 || denseShare*deletes >= entries",
			"return deletes == 0 || denseShare*entries >= entries"}}},
}
