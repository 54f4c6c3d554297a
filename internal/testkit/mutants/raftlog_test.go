package mutants

// raftlogs are mutants of the Raft log, which is a module of its own.
var raftlogs = []mutant{
	{"raftlog-range-is-half-open", "DeleteRange leaves the entry at its upper bound",
		removes, []edit{{"raftlog/append.go",
			"err = s.db.DeleteRange(keyOf(low), behind(high), lsm.Sync)",
			"err = s.db.DeleteRange(keyOf(low), keyOf(high), lsm.Sync)"}}},

	{"raftlog-range-takes-one-more", "DeleteRange removes the entry behind its upper bound",
		removes, []edit{{"raftlog/append.go",
			"err = s.db.DeleteRange(keyOf(low), behind(high), lsm.Sync)",
			"err = s.db.DeleteRange(keyOf(low), behind(high+1), lsm.Sync)"}}},

	{"raftlog-range-overflows", "the key behind an entry is that of the next index",
		target{"raftlog", "TestHighIndexes"}, []edit{{"raftlog/codec.go",
			"return append(appendKey(make([]byte, 0, keyLen+1), index), 0)",
			"return keyOf(index + 1)"}}},

	{"raftlog-gaps-are-forgotten", "the first entry is the one behind a removed prefix, in a gap",
		target{"raftlog", "TestNeighborsOfGaps"}, []edit{{"raftlog/append.go",
			"rest, err := s.find(high+1, b.last) return bounds{rest.first, b.last}, err",
			"return bounds{high + 1, b.last}, nil"}}},

	{"raftlog-replacing-cuts", "the last entry of a batch becomes that of the log",
		target{"raftlog", "TestEntriesAreReplaced"}, []edit{{"raftlog/append.go",
			"max(before.last, after.last)", "after.last"}}},

	{"raftlog-unsynced-entries", "StoreLogs returns before its entries are on disk",
		target{"raftlog", "TestCrashes"}, []edit{{"raftlog/append.go",
			"s.db.WriteBytes(repr, lsm.Sync)", "s.db.WriteBytes(repr, lsm.NoSync)"}}},

	{"raftlog-unsynced-vote", "Set returns before the value is on disk",
		target{"raftlog", "TestReturnedIsDurable"}, []edit{{"raftlog/stable.go",
			"s.db.Put(stableKey(key), value, lsm.Sync)",
			"s.db.Put(stableKey(key), value, lsm.NoSync)"}}},

	{"raftlog-bounds-before-write", "entries count as stored before they are",
		target{"raftlog", "TestFaults"}, []edit{{"raftlog/append.go",
			"\trepr := s.appendPuts(s.begin(size), logs)\n",
			"\trepr := s.appendPuts(s.begin(size), logs)\n\ts.bounds.Store(&after)\n"}}},

	{"raftlog-commit-unbounded", "the commit index may be above the last entry",
		target{"raftlog", "TestCommitIndex"}, []edit{{"raftlog/stable.go",
			"return min(commit, b.last), err", "return commit, err"}}},

	{"raftlog-commit-of-removed", "what was staged for removed entries counts for the next ones",
		target{"raftlog", "TestCommitIndex"}, []edit{{"raftlog/append.go",
			"s.staged = min(s.staged, after.last)", ""}}},

	{"raftlog-missing-key-wrapped", "the error of a missing key says more than not found",
		target{"raftlog", "TestStable"}, []edit{{"raftlog/stable.go",
			"return nil, ErrNotFound",
			"return nil, fmt.Errorf(\"raftlog: %w\", ErrNotFound)"}}},

	{"raftlog-takes-any-database", "a database of another program becomes a Raft log",
		target{"raftlog", "TestForeignDirectories"}, []edit{{"raftlog/store.go",
			"if !empty || len(s.db.Keyspaces()) > 1 || readOnly {",
			"if (!empty || len(s.db.Keyspaces()) > 1) && readOnly {"}}},

	{"raftlog-unsynced-removal", "DeleteRange returns before the entries are gone on disk",
		target{"raftlog", "TestReturnedIsDurable"}, []edit{{"raftlog/append.go",
			"err = s.db.DeleteRange(keyOf(low), behind(high), lsm.Sync)",
			"err = s.db.DeleteRange(keyOf(low), behind(high), lsm.NoSync)"}}},
}

// removes tries DeleteRange at every edge of a log.
var removes = target{"raftlog", "TestDeleteRange"}
