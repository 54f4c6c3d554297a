package mutants

// plugs has mutants of lost data, lifetimes, callbacks and surroundings, in the form of table.
var plugs = []mutant{

	{"prefix-denied", "a filter of prefixes denies those that a part of it begins with",
		target{"internal/format/sstable/native", "TestPrefixesInParts"}, []edit{
			{"internal/format/sstable/native/writer_parts.go", "\t\t\thashes[from] = hashes[at]\n",
				"\t\t\t_ = at\n"}}},

	{"prefix-bounds-too-wide", "an iterator whose bounds reach beyond a prefix is taken for one " +
		"within it", target{"lsm", "TestPrefixFilters"}, []edit{
		{"internal/base/prefix/within.go", "return upper[i] == p[i]+1 && len(upper) == i+1",
			"return true"}}},

	{"prefix-skip-sticks", "a table that was skipped stays so within other bounds",
		target{"lsm", "TestPrefixFilters"}, []edit{
			{"internal/tree/iters/level.go", "if l.skipped {",
				"if l.skipped && l.lower == nil {"}}},

	{"prefix-of-other-length", "tables are asked for prefixes of the option's length, not " +
		"their own", target{"internal/format/sstable/native", "TestSuite/Read/Prefixes"}, []edit{
		{"internal/format/sstable/blocktable/filtered.go", "if hash := base.Hash(lower[:n]); ",
			"if hash := base.Hash(lower[:n-1]); "}}},

	{"level-keeps-codec", "values stay packed as they were in a level of another compression",
		target{"internal/format/colblk", "TestPackedByAnotherCodec"}, []edit{
			{"internal/format/colblk/writer.go", "codec != base.CodecRaw && codec == w.o.Codec",
				"codec != base.CodecRaw && codec != base.CodecZstdDict"}}},

	{"direct-tail-lost", "what follows the last whole page of a direct write is not written",
		target{"internal/os/directio", "TestRoundTrip"}, []edit{
			{"internal/os/directio/writer.go", "if w.err == nil && whole < len(p) {",
				"if false {"}}},

	{"direct-error-lost", "a direct write that failed beside the merge is not told of",
		target{"internal/os/directio", "TestFaults"}, []edit{
			{"internal/os/directio/writer.go", "\tif _, err := w.write.wait(); w.err == nil " +
				"{\n\t\tw.err = err\n\t}\n", "\t_, _ = w.write.wait()\n"}}},

	{"flush-not-counted", "a flush that wrote fewer entries than the memtable has succeeds",
		target{"internal/tree/compact", "TestSurviveScript"}, []edit{
			{"internal/tree/compact/run.go", "w.exactly != nil && *w.exactly != r.EntriesIn",
				"false"}}},

	{"inputs-not-counted", "a compaction that did not read all of its inputs succeeds",
		target{"internal/tree/compact", "TestLostEntriesAreAnError"}, []edit{
			{"internal/tree/compact/run.go", "if !p.TrivialMove && !p.Drop {", "if false {"}}},

	{"output-not-counted", "a table with other entries than were added is installed",
		target{"internal/tree/compact", "TestLostEntriesAreAnError"}, []edit{
			{"internal/tree/compact/output.go", "if entries != meta.Entries && meta.Entries != 0 {",
				"if false {"}}},

	{"shortage-tried-again", "a compaction on a full disk tries again and says nothing",
		target{"internal/tree/compact", "TestShortageIsReported"}, []edit{
			{"internal/tree/compact/output.go",
				"errors.Is(base.Classify(err), base.ErrTooManyFiles)",
				"(base.IsShortage(err) || errors.Is(err, base.ErrTooManyFiles))"}}},

	{"merge-error-ignored", "a merge whose source failed counts as ended",
		target{"internal/tree/compact", "TestRunFails"}, []edit{
			{"internal/tree/compact/run.go",
				"\t\terr = w.endFold(w.folding.bottom)\n\t}\n\treturn err\n",
				"\t\terr = w.endFold(w.folding.bottom)\n\t}\n\treturn nil\n"}}},

	{"goexit-unnoticed", "a piece of a compaction that a callback ends has succeeded",
		target{"lsm", "TestCallbacksThatEndTheirGoroutine"}, []edit{
			{"internal/store/work/compaction.go", "errs[i] = base.ErrGoexit // unless",
				"// unless"}}},

	{"goexit-of-a-load", "a part of a bulk load whose goroutine the comparer ends is left out",
		target{"lsm", "TestComparerThatEndsItsGoroutine"}, []edit{
			{"internal/feature/ingest/loader.go",
				"base.Always(write, func(err error) { _ = l.fail(err) })", "_ = write()"}}},

	{"goexit-of-a-share", "what a goroutine that the comparer ends had to do counts as done",
		target{"lsm", "TestComparerThatEndsItsGoroutine"}, []edit{
			{"internal/base/errors.go", "err := ErrGoexit\n\tdefer",
				"err := error(nil)\n\tdefer"}}},

	{"goexit-of-a-leader", "a comparer that ends its goroutine ends that of the writer who leads",
		target{"internal/store/write", "TestGoexitOfALeader"}, []edit{
			{"internal/store/write/condition.go",
				"return p.guarded(func() error { return c.Holds(p.last) })",
				"return c.Holds(p.last)"}}},

	{"goexit-in-a-step", "commits go on after a file system ended the goroutine of one of them",
		target{"internal/store/write", "TestGoexitInAStep"}, []edit{
			{"internal/store/write/pipeline.go", "\tif p.inStep {", "\tif false {"}}},

	{"goexit-of-a-deletion", "a file system that ends the goroutine of a deletion ends all",
		target{"internal/store/files", "TestDeletionsBesideGoexit"}, []edit{
			{"internal/store/files/obsolete.go",
				"return base.Alone(func() error { return q.removeNamed(d) })",
				"return base.Protect(func() error { return q.removeNamed(d) })"}}},

	{"panic-keeps-a-descriptor", "a panic of the file system leaves a descriptor reserved",
		target{"internal/store/files", "TestCallsThatEndHoldNoDescriptor"}, []edit{
			{"internal/store/files/pool.go", "\treserved = true\n\td, err", "\td, err"}}},

	{"unread-forgotten", "a drop forgets keyspaces whose last snapshot is closed beside it",
		target{"internal/store", "TestLastSnapshotBesideADrop"}, []edit{
			{"internal/store/keyspace.go", "gone := slices.Contains(over, k)",
				"gone := k.dropped.Load()"}}},

	{"goexit-of-a-cut", "a comparer that ends its goroutine ends that of a put among deletions",
		target{"lsm", "TestComparerThatEndsAPutAmongDeletions"}, []edit{{"internal/tree/tree.go",
			"err = base.Guarded(t.cmp, (*Tree).cutEmpties, t, batch)",
			"t.cutEmpties(batch)"}}},

	{"goexit-of-an-order", "a memtable whose order the comparer left half made is read",
		target{"lsm", "TestComparerThatEndsAReader"}, []edit{
			{"internal/tree/memtable/lazy_order.go", "\to.err = errGoexit // unless",
				"\t// unless"}}},

	{"scan-error-dropped", "a scan that ended early does not say so",
		target{"lsm", "TestScanError"}, []edit{
			{"lsm/iterator.go", "defer func() { *err = it.Close() }()",
				"defer func() { it.Close() }()"}}},

	{"failure-pauses-all", "a filter that fails pauses the compactions of other keyspaces",
		target{"lsm", "TestFailingFilterConcernsItsKeyspace"}, []edit{
			{"internal/store/work/compaction.go", "case base.IsShortage(err):",
				"case err != nil && len(s.trees.due) >= 0:"}}},

	{"failure-delays-all", "level 0 of a keyspace that cannot be compacted delays writes to others",
		target{"lsm", "TestFailingFilterConcernsItsKeyspace"}, []edit{
			{"internal/store/work/stall.go", "!k.dropped && k.compaction.err == nil {",
				"!k.dropped {"}}},

	{"compactions-beside-flushes", "a compaction takes the processor of the flush",
		target{"internal/store/work", "TestCompactionsGiveWayToFlushes"}, []edit{
			{"internal/store/work/pace.go", "s.flushFirst.Store(alone)",
				"s.flushFirst.Store(alone && nanos > 0)"}}},

	{"no-room-for-the-group", "a keyspace without room fails writes to others of the group",
		target{"internal/store/write", "TestNoRoomForMembersOfAGroup"}, []edit{
			{"internal/store/write/pipeline.go", "alone := err != nil && p.noRoom && w.next != nil",
				"alone := false"}}},

	// Compaction filters.

	{"filter-under-snapshot", "the filter removes what a snapshot sees",
		target{"internal/tree/compact", "TestSurviveScript"}, []edit{
			{"internal/tree/compact/collapse.go", "return n == 0 || c.snapshots[n-1] < seq",
				"return n >= 0"}}},

	{"filter-resurrects", "what the filter removes leaves no tombstone above older versions",
		target{"internal/tree/compact", "TestSurviveScript"}, []edit{
			{"internal/tree/compact/run.go", "if w.collapse.elides(key, t) {",
				"if t.Kind().IsTombstone() {"}}},

	{"ttl-drops-what-hides", "a table that has expired goes although it hides older values",
		target{"lsm", "TestTTLNothingComesBack"}, []edit{
			{"internal/tree/picker/expiry.go", "p.hides(gone, level, f) ||", "false &&"}}},

	{"ttl-forgets-snapshots", "a compaction drops what a snapshot began before",
		target{"lsm", "TestTTLSnapshotKeeps"}, []edit{
			{"internal/tree/compact/expiry.go", "now = min(now, w.env.Clock.Begun[i])", "_ = i"}}},

	{"ttl-clock-not-stored", "the MANIFEST does not say the time",
		target{"lsm", "TestTTLClockBack"}, []edit{
			{"internal/format/manifest/apply.go", "full.Clock = s.clockNow()", "full.Clock = 0"}}},

	{"ttl-merge-as-operand", "a merge into a value that expires is an operand",
		target{"lsm", "TestTTLMerge"}, []edit{
			{"internal/store/expiry.go", "return k.ttl.Load() > 0 || k.Tree.Expires()",
				"return false"}}},

	{"ttl-merge-over-expired", "a merge into a key whose value expired is an operand",
		target{"lsm", "TestTTLMergeAndClockBack"}, []edit{
			{"internal/store/expiry.go", "if kind != base.KindSetExpiring && !absent {",
				"if kind != base.KindSetExpiring && (!absent || k.TTL() == 0) {"}}},

	{"filter-shown-hidden", "the filter is asked about older versions",
		target{"internal/tree/compact", "TestSurviveScript"}, []edit{
			{"internal/tree/compact/run.go", "w.filter != nil && first && t.Kind()",
				"w.filter != nil && t.Kind()"}}},

	{"filter-misses-merges", "the filter is not asked about what becomes of operands",
		target{"internal/tree/compact", "TestSurviveScript"}, []edit{
			{"internal/tree/compact/fold.go", "if w.filter != nil && f.first &&",
				"if false && f.first &&"}}},

	{"full-fold-stays", "operands are not folded onto a value if no more of them may wait",
		target{"internal/tree/compact", "TestFoldAtTheLimits"}, []edit{
			{"internal/tree/compact/fold.go", "if isOperand && (f.n >=", "if (f.n >="}}},

	{"merge-looks-in-vain", "a merge looks for values that expire where none does",
		target{"lsm", "TestMergeBesideExpiring"}, []edit{
			{"internal/feature/txn/expiry.go", "if !k.Reads().Expires() && k.TTL() == 0 {",
				"if false {"}}},

	{"snapshot-not-pinned", "a snapshot opened during a compaction sees what its filter did",
		target{"internal/store/work", "TestFilterLeavesSnapshotsAlone"}, []edit{
			{"internal/tree/pins.go", "if from < len(s.snapshots) {", "if false {"}}},

	{"pinned-with-earlier", "a snapshot opened after a filter's compaction sees the key removed",
		target{"internal/store/work", "TestSnapshotsAfterAFilter"}, []edit{
			{"internal/tree/pins.go", "\t\ts.turn++\n", ""}}},

	{"filter-skips-bottom", "a manual compaction leaves what the filter has not seen",
		target{"internal/store/work", "TestFilterSeesTheBottom"}, []edit{
			{"internal/tree/picker/manual.go", "|| f.Num < m.rewritten", ""}}},

	// Lifetimes.

	{"guard-not-awaited", "what a reader may see is freed after one phase of guards",
		target{"internal/memory/epoch", "TestRetireWaitsForGuard"}, []edit{
			{"internal/memory/epoch/epoch.go", "\td.phase.Add(1)\n\td.waitForPhase(old)\n",
				"\td.phase.Add(1)\n"}}},

	{"state-revived", "the current read state's reference is given back at once",
		target{"internal/tree", "TestGuardKeepsState"}, []edit{
			{"internal/tree/state.go", "\ts.tree.shared.Reads.Retire(func() {\n\t\tif " +
				"s.refs.Settle() {\n\t\t\ts.free()\n\t\t}\n\t})\n",
				"\tif s.refs.Settle() {\n\t\ts.free()\n\t}\n"}}},

	{"deletes-after-leave", "files are deleted after the lock was given back",
		target{"internal/store/files", "TestLeave"}, []edit{
			{"internal/store/files/obsolete.go",
				"\tif q.closed {\n\t\tq.finishedLocked(1)\n\t\treturn\n\t}\n", ""}}},

	{"second-close-succeeds", "a second Close does not say that it was one", afterClose, []edit{
		{"internal/store/open.go", "if db.health.Closing.Swap(true) {\n\t\treturn " +
			"base.ErrDatabaseClosed", "if db.health.Closing.Swap(true) {\n\t\treturn nil"}}},

	{"iterator-keeps-state", "a closed iterator keeps its read state",
		target{"internal/testkit/leak", "TestOpenings"}, []edit{
			{"internal/tree/iterator.go", "\tscans.Put(it.scan)\n\tit.state.Unref()\n",
				"\tscans.Put(it.scan)\n"}}},

	// Callbacks.

	{"listener-called-inline", "the engine calls the user's listener itself",
		target{"lsm", "TestListenerMayClose/WriteStall"}, []edit{
			{"internal/base/events/events.go", "func (q *Queue) Post(call func()) { q.post(call, " +
				"limit) }", "func (q *Queue) Post(call func()) { call() }"}}},

	{"listener-panic-untold", "a panic in the listener is swallowed",
		target{"internal/base/events", "TestPanicAndGoexit"}, []edit{
			{"internal/base/events/events.go", "\t\t\tq.onPanic(v, debug.Stack())\n",
				"\t\t\t_ = debug.Stack\n"}}},

	{"events-unbounded", "events wait without a bound while the listener blocks",
		target{"internal/base/events", "TestBlockedCallBlocksNobody"}, []edit{
			{"internal/base/events/events.go", "if len(q.calls) >= limit {", "if false {"}}},

	{"panic-not-final", "after a panic under the commit lead writes go on",
		target{"internal/store/write", "TestPanicInExclusive"}, []edit{
			{"internal/store/write/pipeline.go", "*err = p.fail(fmt.Errorf(\"committing: %w\", " +
				"base.NewPanic(r)))", "*err = fmt.Errorf(\"committing: %w\", base.NewPanic(r))"}}},

	// Surroundings.

	{"path-not-absolute", "a relative path is resolved anew at every call",
		target{"internal/testkit/surroundings", "TestChangeOfWorkingDirectoryCustomFS"}, []edit{
			{"internal/os/vfs/dir.go", "if abs, err := filepath.Abs(dir); err == nil {",
				"if abs, err := filepath.Abs(dir); err == nil && false {"}}},

	{"changes-without-lock", "the directory is changed after another one took its place",
		target{"internal/testkit/surroundings", "TestDirectoryIsRestored"}, []edit{
			{"internal/os/vfs/dir_unix.go", "\treturn h.intact()\n", "\treturn nil\n"}}},

	{"removed-log-is-synced", "a sync of a log that was removed succeeds",
		target{"internal/testkit/surroundings", "TestDirectoryIsRemoved"}, []edit{
			{"internal/os/vfs/dir_unix.go", "err != nil || st.Nlink > 0 || !l.counted {",
				"err != nil || true {"}}},

	{"lock-lost-by-reading", "closing a copy of LOCK gives up the lock",
		target{"internal/os/vfs", "TestLockAgainstOtherProcesses"}, []edit{
			{"internal/os/vfs/lock_unix.go",
				"if l := held.files[key]; l != nil {", "if l := held.files[key]; false {"}}},

	{"interrupted-calls-fail", "a call of the system that a signal interrupts is not made again",
		target{"internal/os/filelock", "TestAgain"}, []edit{
			{"internal/os/filelock/id.go", "err := call(); err != unix.EINTR {",
				"err := call(); true {"}}},

	{"numbers-always-tell", "an inode number that changes means another file",
		target{"internal/os/vfs", "TestNumbersOfFilesThatTellNothing"}, []edit{
			{"internal/os/filelock/id.go", "\tif now == *id {\n", "\tif true {\n"}}},

	{"both-locks-or-none", "a file system with one kind of locks has none",
		target{"internal/os/filelock", "TestTake"}, []edit{
			{"internal/os/filelock/locks_linux.go", "err != nil && !unsupported(err) {",
				"err != nil {"}}},

	{"forked-child-locks", "a child that was forked keeps a dead process's lock",
		target{"internal/testkit/surroundings", "TestForkedChildKeepsNoLock"}, []edit{
			{"internal/os/filelock/locks_linux.go",
				"case ferr == unix.EWOULDBLOCK && h.fcntl && orphaned(fd):", "case false:"}}},

	{"orphaned-lock-alone", "a database opens without any lock where the file system has one kind",
		target{"internal/os/filelock", "TestOrphanedLockAlone"}, []edit{
			{"internal/os/filelock/locks_linux.go", "h.fcntl && orphaned(fd):", "orphaned(fd):"}}},

	{"readers-take-no-lock", "a read-only database takes no lock",
		target{"internal/testkit/surroundings", "TestReadersShare"}, []edit{
			{"internal/os/vfs/dir.go", "d.lock, err = s.LockShared(name)", "_ = s"}}},

	{"any-number-is-ours", "a file whose number the database never writes is taken for its own",
		target{"internal/testkit/surroundings", "TestStrayNames"}, []edit{
			{"internal/base/filename.go", "len(s) < width || len(s) > width && s[0] == '0'",
				"len(s) == 0"}}},

	{"made-directory-not-synced", "the name of a directory that others made is not durable",
		target{"internal/os/vfs", "TestOpenDirThatWasMade"}, []edit{
			{"internal/os/vfs/dir.go", "\t\terr = syncMade(fsys, dir, o.Used)\n",
				"\t\t_ = syncMade\n"}}},

	{"parents-not-durable", "the names of new directories are not synced",
		target{"internal/os/vfs", "TestNewDirectoryIsDurable"}, []edit{
			{"internal/os/vfs/dir.go", "for i := len(holders) - 1; i >= 0; i-- {",
				"for i := len(holders) - 1; i >= len(holders); i-- {"}}},

	{"panic-leaves-range-delete", "a panic of the comparer goes through a range delete",
		target{"lsm", "TestRangeDeletesBesideAPanic"}, []edit{
			{"internal/store/check_write.go", "\tdefer k.db.health.CatchPanic(&err)\n", ""}}},

	{"panic-of-last-holder", "a panic about an obsolete log ends the goroutine of its last holder",
		target{"internal/store/files", "TestObsoleteLogBesideAPanic"}, []edit{
			{"internal/store/files/values.go", "if err := base.Alone(func() (err error) { size",
				"if err := func(f func() error) error { return f() }(func() (err error) { size"}}},

	{"panic-about-obsolete-log-untold", "nothing tells of a panic about an obsolete log",
		target{"internal/store/files", "TestObsoleteLogBesideAPanic"}, []edit{
			{"internal/store/files/values.go", "s.fail(fmt.Errorf(\"size of", "_ = " +
				"(fmt.Errorf(\"size of"}}},

	{"panic-before-edits", "an edit follows one whose append ended with a panic",
		target{"lsm", "TestPanicsWithinEdits"}, []edit{
			{"internal/format/manifest/apply.go", "err = s.poison(base.NewPanic(r))", "panic(r)"}}},

	{"panic-leaves-feed", "a panic of the file system in a feed goes through to the caller",
		target{"lsm", "TestPanicsInCalls"}, []edit{
			{"internal/feature/feed/feed.go", "\tdefer c.catchPanic(&err)\n\tenv := &c.hub.env\n",
				"\tenv := &c.hub.env\n"}}},

	{"panic-leaves-open", "a panic of the file system late in an opening ends the program",
		target{"lsm", "TestPanicsInOpen"}, []edit{
			{"internal/store/open.go", "\tdb.jobs.OpenValues()\n\treturn nil\n", "\treturn nil\n"},
			{"internal/store/open.go", "\tdb.jobs.Wake()\n\treturn db, nil\n",
				"\tdb.jobs.OpenValues()\n\tdb.jobs.Wake()\n\treturn db, nil\n"}}},

	{"panic-leaves-table-open", "a comparer that panics in an opening leaves a file open",
		target{"lsm", "TestPanicsCloseFiles"}, []edit{
			{"internal/store/files/set.go", "if t == nil && !held {",
				"if t == nil && !held && err != nil {"}}},

	{"merge-of-any-size", "an operator may return a value that no table holds",
		target{"lsm", "TestMergeIntoTooMuch"}, []edit{
			{"internal/base/mergeop/operator.go", "if err == nil && !base.EntryFits(key, value) {",
				"if err == nil && len(value) < 0 {"}}},

	{"partial-of-any-size", "an operator may join operands to one that no table holds",
		target{"lsm", "TestMergeIntoTooMuch"}, []edit{
			{"internal/base/mergeop/operator.go", "ok && base.EntryFits(key, operand), nil",
				"ok, nil"}}},
}
