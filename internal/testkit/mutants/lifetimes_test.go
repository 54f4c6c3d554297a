package mutants

// lifetimes are mutants of what keeps memory, and of what a transaction depends on.
var lifetimes = []mutant{
	{"index-ahead-at-once", "the index that comes next is touched in one piece",
		target{"internal/tree/memtable", "TestIndexAhead"}, []edit{{
			"internal/tree/memtable/arena.go", "aheadPiece = 128 << 10",
			"aheadPiece = 128 << 20"}}},

	{"index-ahead-kept", "an index that was touched and is too small is not freed",
		target{"internal/tree/memtable", "TestIndexAhead"}, []edit{{
			"internal/tree/memtable/arena.go", "\t\tarena.Free(ahead)\n", ""}}},

	{"dropped-to-later-snapshots", "a snapshot reads a keyspace that was dropped before it",
		target{"internal/tree", "TestRefuseAmongSnapshots"}, []edit{{
			"internal/tree/sequences.go", "n.seq, n.turn = s, s.Visible(), s.turn",
			"n.seq = s, s.Visible()"}}},

	{"get-without-guard", "a Get searches memtables after its guard has exited",
		target{"internal/tree", "TestGetKeepsItsState"}, []edit{
			{"internal/tree/get.go", "\tw.begin(t, key, seq, flags)\n",
				"\th.end()\n\tw.begin(t, key, seq, flags)\n"}}},

	{"ring-of-part-units", "a changed capacity cuts a ring of the cache within a unit",
		target{"internal/memory/cache", "TestResize"}, []edit{{
			"internal/memory/cache/shard.go", "size -= size % max(full/64&^(unit-1), unit)",
			"size -= size % max(full/64, unit)"}}},

	{"panic-keeps-block", "a comparer that panics in a read leaves its block pinned",
		target{"lsm", "TestPanicsInReadsGiveMemoryBack"}, []edit{{
			"internal/format/sstable/blocktable/get.go",
			"\tdefer f.Release()\n\tvalue, hit, found = t.Entry(f, p, l)\n",
			"\tvalue, hit, found = t.Entry(f, p, l)\n\tf.Release()\n"}}},

	{"panic-keeps-index", "a comparer that panics while a table is opened leaves its index",
		target{"lsm", "TestPanicsInReadsGiveMemoryBack"}, []edit{{
			"internal/format/sstable/native/reader.go", "\t\tif !opened {\n",
			"\t\tif v := recover(); v != nil {\n\t\t\tpanic(v)\n\t\t}\n\t\tif !opened {\n"}}},

	{"panic-keeps-memtable", "a comparer that panics before a flush merges keeps the memtable",
		target{"internal/tree/compact", "TestPanicsCloseInputs"}, []edit{{
			"internal/tree/compact/run.go", "[]base.Source{src}, nil, nil)\n" +
				"\tdefer merge.Close() // also when the comparer panics\n",
			"[]base.Source{src}, nil, nil)\n"}}},

	{"seek-in-given-up-block", "a seek compares with a key in a block that it has given up",
		target{"lsm", "TestKeysInWhatIsShown"}, []edit{{
			"internal/tree/iters/cursor.go", "base.Apart(base.Apart(key, c.e.Data), c.apart)",
			"key"}}},

	{"pinned-given-up-first", "a key in a pinned value is looked up after the value was given up",
		target{"lsm", "TestKeysInWhatIsShown"}, []edit{{
			"internal/tree/pinned.go", "\tkey = base.Apart(key, p.value)\n", ""}}},

	{"pinned-without-reference", "a pinned value has no reference on its read state",
		target{"lsm", "TestPinnedValueKeepsMemory"}, []edit{
			{"internal/tree/pinned.go", "\tstate.ref()\n\tp.value", "\tp.value"},
			{"internal/tree/pinned.go", "\t\tp.state.Unref()\n", ""}}},

	{"pinned-block-given-back", "a pinned value does not pin its block",
		target{"lsm", "TestPinnedValueKeepsMemory"}, []edit{
			{"internal/tree/pinned.go", "\t\tp.frame = frame\n", "\t\tframe.Release()\n"}}},

	{"pinned-deadline", "a pinned value that expires has its deadline behind it",
		target{"lsm", "TestGetPinned"}, []edit{
			{"internal/tree/pinned.go", "\t\tp.value, err = h.at.live(p.value, 0)\n",
				"\t\t_, err = h.at.live(p.value, 0)\n"}}},

	{"pinned-read-unnoticed", "a serializable transaction does not depend on what it pins",
		target{"lsm", "TestTxnGetPinned"}, []edit{
			{"internal/feature/txn/point_reads.go", "\tp.Release()\n\tr := tx.beginRead(k, key, " +
				"nil)\n", "\tp.Release()\n\tr := read{at: tx.snap}\n"}}},

	{"check-without-reference", "the check of a commit gives its read state back before it looks",
		target{"internal/tree", "TestWrittenSinceKeepsItsState"}, []edit{
			{"internal/tree/newer.go", "\tdefer s.Unref()\n\tif t.mayHaveIngested(since) {",
				"\ts.Unref()\n\tif t.mayHaveIngested(since) {"}}},

	{"leader-without-reference", "the commit leader gives back a reference that it does not have",
		target{"internal/tree", "TestRotateSealsOrChangesNothing"}, []edit{
			{"internal/tree/tree.go", "\t\t\tnext.mem.Ref()\n", ""}}},

	{"pin-given-back-early", "a state that snapshots are pinned to is given back beside guards " +
		"that have seen it", target{"internal/tree", "TestPinnedStateWaitsForGuards"}, []edit{
		{"internal/tree/pins.go", "\ts.tree.shared.Reads.Retire(func() {\n\t\tif s.refs.Unref() " +
			"{\n\t\t\ts.free()\n\t\t}\n\t})\n", "\tif s.refs.Unref() {\n\t\ts.free()\n\t}\n"}}},

	{"lock-of-bytes", "keys that the comparer calls equal have a lock for each spelling",
		target{"lsm", "TestTxnLocksSpellings"}, []edit{
			{"internal/feature/locks/locks.go", "if c.EqualIsBytewise {", "if c != nil {"}}},

	{"range-ends-early", "the check of a commit leaves out the last key of a range",
		target{"lsm", "TestTxnSpellings"}, []edit{
			{"internal/tree/keyrange/keyrange.go",
				"return c > 0 || c == 0 && !r.Inclusive", "return c >= 0"}}},

	{"written-since-skips", "the second step of a check leaves out the entries of sealed memtables",
		target{"internal/tree", "TestWrittenSinceKeepsItsState"}, []edit{
			{"internal/tree/newer.go", "\t\tm := s.memTable(i)\n\t\tfor _, list := range " +
				"m.RangeDels() {", "\t\tm := s.Mem\n\t\tif i >= 0 {\n\t\t\treturn " +
				"true\n\t\t}\n\t\tfor _, list := range m.RangeDels() {"}}},

	{"range-delete-moves-on", "a lock moves the snapshot behind a range delete",
		target{"lsm", "TestTxnRangeDeleteKeepsSnapshot"}, []edit{
			{"internal/feature/txn/txn.go", "\t\ttx.unlocked = true // the commit",
				"\t\t// the commit"}}},

	{"snapshot-closed-under-read", "a lock closes the snapshot that a GetForUpdate reads at",
		target{"lsm", "TestTxnGetForUpdateGap"}, []edit{
			{"internal/feature/txn/txn.go", "case tx.updating > 0:", "case tx.updating < 0:"}}},

	{"prefix-panic-uncaught", "a comparer's panic at the bounds of a prefix leaves the engine",
		target{"lsm", "TestIteratorBoundsPanic"}, []edit{
			{"internal/tree/iterator.go", "(it.prefix) > 0 {\n\t\tdefer it.catchPanic(&ok)\n",
				"(it.prefix) > 0 {\n"}}},

	{"open-panic-uncaught", "a comparer's panic in the opening of an iterator leaves the engine",
		target{"lsm", "TestIterAmongRangeDeletesPanics"}, []edit{
			{"internal/tree/iterator.go", "\tdefer it.catchPanic(&begun)\n", ""}}},

	{"txn-iter-panic-uncaught", "one among the range deletes of a transaction leaves the engine",
		target{"lsm", "TestIterAmongRangeDeletesPanics"}, []edit{
			{"internal/feature/txn/txn.go", "\tdefer tx.catch(&err) // the range",
				"\t// the range"}}},

	{"failed-iterator-has-no-tree", "a move of an iterator that a panic has failed panics",
		target{"lsm", "TestIterAmongRangeDeletesPanics"}, []edit{
			{"internal/tree/iterator.go", "!*ok && it.tree != nil {", "!*ok {"}}},

	{"entry-after-panic", "an iterator shows an entry after a move in which the comparer panicked",
		target{"lsm", "TestNoEntryAfterFailure"}, []edit{
			{"internal/tree/iterator.go", "\tit.err = err\n\tit.cursor.Hide()\n",
				"\tit.err = err\n"}}},

	{"failed-bounds-forgotten", "an iterator whose bounds failed goes on between its old ones",
		target{"lsm", "TestIteratorBoundsPanic"}, []edit{
			{"internal/tree/iterator.go", "\t\t_, it.closed = it.Close(), false // as one that " +
				"Init could not make: Err stays\n", ""}}},

	{"rollback-unnoticed", "an iterator goes on over writes that were taken back",
		target{"lsm", "TestTxnIterGap"}, []edit{
			{"internal/feature/txn/batch.go", "b.lows[i].size < size", "b.lows[i].size < 0"}}},

	{"rolled-back-keyspace", "a commit depends on a keyspace in which it writes nothing",
		target{"lsm", "TestTxnRolledBackKeyspace"}, []edit{
			{"internal/feature/txn/commit.go", "if s.empty() {", "if false {"}}},

	{"dropped-stays-listed", "a dropped keyspace stays among those that may have work",
		target{"internal/store/work", "TestTreesAtRestAreNotLookedAt"}, []edit{
			{"internal/store/work/keyspaces.go", "s.trees.forget(k)",
				"delete(s.trees.pressed, k)"}}},

	{"dropped-keeps-options", "the options of a dropped keyspace stay",
		target{"lsm", "TestDropForgetsOptions"}, []edit{
			{"lsm/keyspace.go", "db.live.Forget(uint32(gone))", "_ = gone"}}},

	{"crowded-within-a-group", "a batch fails behind one with which the index became crowded",
		target{"internal/tree/memtable", "TestCrowdedWithinAGroup"}, []edit{
			{"internal/tree/memtable/memtable.go", "if m.fits(n, entries) {",
				"if m.fits(n, entries) && !m.crowded {"}}},

	{"keyspace-options-kept", "a database keeps the options of each opening of a keyspace",
		target{"cabi/internal/settings", "TestLeaveTo"}, []edit{
			{"cabi/internal/settings/settings.go", "\tif s.calls {\n", "\tif s.Uses != nil {\n"}}},

	{"keyspace-callbacks-dropped", "a database does not keep what callbacks of a keyspace need",
		target{"cabi/internal/settings", "TestLeaveTo"}, []edit{
			{"cabi/internal/settings/settings.go", "\tif s.calls {\n", "\tif s.Uses == nil {\n"}}},
}
