package mutants

// manifests are mutants of the order in which edits of the MANIFEST become durable.
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
}
