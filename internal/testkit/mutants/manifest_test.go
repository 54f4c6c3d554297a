package mutants

// manifests are mutants of what becomes durable, and in which order: edits of the MANIFEST, logs.
var manifests = []mutant{
	{"dropped-numbers-again", "numbers of a dropped keyspace are given out again",
		target{"lsm", "TestNumbersOfDroppedKeyspaceStay"}, []edit{
			{"internal/store/work/keyspaces.go", "\ts.noteObsolete(oldest)\n", ""}}},

	{"unsynced-edit-of-two-pages", "an edit of the MANIFEST follows an unsynced one of two pages",
		target{"internal/format/manifest", "TestUnsyncedEdits"}, []edit{
			{"internal/format/manifest/apply.go", "} else if s.spans {",
				"} else if s.spans && s.num == 0 {"}}},

	{"noted-behind-two-pages", "Close appends an edit behind an unsynced one of two pages",
		target{"internal/format/manifest", "TestUnsyncedEdits"}, []edit{
			{"internal/format/manifest/apply.go", "s.broken == nil && !s.spans &&",
				"s.broken == nil &&"}}},

	{"owner-asked-once", "a log that is cut while its owner is looked for is an error",
		target{"internal/format/owner", "TestCheckBesideACut"}, []edit{
			{"internal/format/owner/owner.go", "again := 3; again > 0", "again := 0; again > 0"}}},

	{"close-hides-failure", "Close returns nil although a log failed with writes not synced",
		target{"lsm", "TestCloseAfterFailure"}, []edit{
			{"internal/store/wal/set.go", "case sync && s.behind:",
				"case sync && s.behind && err != nil:"}}},

	{"strangers-current-counts", "a text CURRENT makes a directory a database's",
		target{"lsm", "TestStrangersCurrent"}, []edit{
			{"internal/format/owner/owner.go",
				"return checkContents(fsys, dir, names, false, c.File)",
				"return checkContents(fsys, dir, names, true, c.File)"}}},

	{"damaged-current-is-leveldbs", "a text CURRENT makes a native directory one of LevelDB's",
		target{"lsm", "TestStrangersCurrentInNative"}, []edit{
			{"internal/feature/repair/directory.go", "damaged && c.Format == base.Native {",
				"damaged {"}}},

	{"upgrade-looks-at-no-table", "an upgrade converts a directory with a damaged table",
		target{"lsm", "TestUpgradeOfDamagedTable"}, []edit{
			{"internal/store/open.go", "if err := db.beginUpgrade(); err != nil {",
				"if err := db.manifest.BeginUpgrade(); err != nil {"}}},

	{"strange-log-is-missing", "a link in the place of the log that the MANIFEST names is ignored",
		target{"lsm", "TestNeededLogThatIsNoFile"}, []edit{
			{"internal/store/wal/replay.go", "case !regular && num != 0 && (",
				"case !regular && num == 0 && ("}}},

	{"strange-log-before", "a link in the place of the log that a later one names is ignored",
		target{"lsm", "TestNeededLogThatIsNoFile"}, []edit{
			{"internal/store/wal/chained.go", "r.strange, before.Num) {",
				"r.strange, before.Num) && false {"},
			{"internal/store/wal/chained.go", "!slices.Contains(r.chain.nums, before.Num) {",
				"!slices.Contains(append(r.chain.nums, r.strange...), before.Num) {"}}},

	{"missing-log-is-a-torn-end", "a log that is gone counts as one that lost its end",
		target{"lsm", "TestCutEditOfAFlush"}, []edit{
			{"internal/store/wal/chained.go", "!slices.Contains(r.chain.nums, before.Num) {",
				"!slices.Contains(r.chain.nums, before.Num) && false {"}}},

	{"repair-misses-one-log", "a repair takes the state before a flush for whole without its logs",
		target{"lsm", "TestCutEditOfAFlush"}, []edit{
			{"internal/feature/repair/manifest.go", "gone(b.Before.Num) {",
				"gone(b.Before.Num) && false {"}}},

	{"log-cut-given-up", "a log that a full disk keeps from being cut makes the database read-only",
		target{"lsm", "TestLogThatCannotBeCutYet"}, []edit{{
			"internal/store/wal/cut.go", "cut != nil && !base.IsShortage(cut)", "cut != nil"}}},

	{"log-cut-not-final", "a second cut that fails, and for no shortage, is not final",
		target{"lsm", "TestLogThatCannotBeCutAtLast"}, []edit{{
			"internal/store/wal/cut.go", "return s.failUnlessShort(fmt.Errorf(\"cutting",
			"return (fmt.Errorf(\"cutting"}}},

	{"log-cut-late", "a write into a log that could not be cut fails once more",
		target{"lsm", "TestLogThatCannotBeCutYet"}, []edit{{
			"internal/store/wal/cut.go", "if !s.torn {\n\t\treturn nil", "if s.torn || !s.torn " +
				"{\n\t\treturn nil"}}},

	{"log-sync-torn", "a log with the rest of a failed append is not synced",
		target{"lsm", "TestLogThatCannotBeCutYet"}, []edit{{
			"internal/format/record/writer.go", "!(w.torn && base.IsShortage(*err))",
			"(w.torn || !w.torn)"}}},

	{"log-torn-size", "the size of a log counts what a failed append left",
		target{"internal/format/record", "TestCut"}, []edit{{
			"internal/format/record/writer.go", "w.size.Store(w.whole)", "_ = w.whole"}}},

	{"tables-of-many-spaces", "an opening writes a table for the few entries of each keyspace",
		target{"lsm", "TestManySpacesOpen"}, []edit{
			{"internal/store/recovery.go", "	carryEach = 16 << 10\n", "	carryEach = 0\n"}}},
}
