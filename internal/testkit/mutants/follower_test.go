package mutants

// followers are mutants of followers.
var followers = []mutant{
	{"report-of-obsolete", "a follower reports logs as dropped that became obsolete meanwhile",
		target{"lsm", "TestFollowerReportBesideWriter"}, []edit{
			{"internal/feature/follow/judge.go", "if changed { // logs", "if false { // logs"}}},

	{"follower-skips-record", "a record of a log is passed over now and then",
		target{"lsm", "TestFollower"}, []edit{
			{"internal/store/wal/tail.go", "n > 0 && first+base.SeqNum(n)-1 > t.last {",
				"n > 0 && first%97 != 0 && first+base.SeqNum(n)-1 > t.last {"}}},

	{"follower-takes-twice", "what a batch has before an unknown keyspace is taken again with it",
		target{"lsm", "TestFollowerOfANewKeyspace"}, []edit{
			{"internal/store/replay/replay.go",
				"\t\tif seq <= t.Applied {\n\t\t\tcontinue\n\t\t}\n", ""}}},

	{"follower-one-keyspace", "the entries of a keyspace that is not known yet are taken for the " +
		"default one's", target{"lsm", "TestFollowerOfANewKeyspace"}, []edit{
		{"internal/feature/follow/logs.go", "!r.Keyspaces && r.First",
			"(l.known == base.DefaultKeyspace || !r.Keyspaces) && r.First"}}},

	{"follower-keyspaces-first", "keyspaces come and go before the batches that precede them",
		target{"lsm", "TestFollowerOfKeyspacesAndBatches"}, []edit{{
			"internal/feature/follow/follower.go", "(same || l.end || f.since.reached(l))",
			"(same || true)"}}},
	{"follower-keyspaces-late", "batches are visible before the keyspaces that precede them",
		target{"lsm", "TestFollowerOfKeyspacesWhileItReads"}, []edit{{
			"internal/feature/follow/logs.go", "f.o.Edits.spaces() != then && f.tries > 0",
			"f.o.Edits.spaces() != then && f.tries < 0"}}},

	{"follower-list-late", "the list of keyspaces follows the state that has them",
		target{"lsm", "TestFollowerFindsTheKeyspacesOfItsState"}, []edit{{
			"internal/feature/follow/follower.go",
			"_ = f.o.Host.Keyspaces().Keep(func() error { g(); return nil })", "g()"}}},

	{"follower-snapshots-of-later", "a new keyspace has its tables from the beginning, for older " +
		"snapshots, too", target{"lsm", "TestFollowerSnapshotsBeforeAKeyspace"}, []edit{{
		"internal/feature/follow/follower.go", "s.start(manifest.NoTables())", "v.Ref()\n\t\t\t" +
			"s.start(v)"}}},

	{"follower-forgets-dropped", "numbers of dropped keyspaces' entries are nowhere",
		target{"lsm", "TestFollowerOfDroppedEntries"}, []edit{{
			"internal/feature/follow/logs.go", "l.covered = max(l.covered, max(first, 1)-1)",
			"_ = first"}}},

	{"follower-keeps-memtables", "memtables stay whose entries are in tables",
		target{"lsm", "TestFollowerAheadOfItsLogs"}, []edit{
			{"internal/feature/follow/logs.go", "s.Tables[n].FirstLog < s.FirstLog; n++",
				"s.Tables[n].FirstLog < 0*s.FirstLog; n++"}}},

	{"log-as-foreign-manifest", "a log that has the name of the MANIFEST is taken for another " +
		"engine's", target{"lsm", "TestLogAsManifest"}, []edit{
		{"internal/format/owner/owner.go", "if manifest.IsBatch(rec, base.LevelDB) {",
			"if false {"}}},

	{"log-as-torn-manifest", "a log that has the name of the MANIFEST is one without edits",
		target{"lsm", "TestLogAsManifest"}, []edit{
			{"internal/format/manifest/read.go", "err = CheckLog(f, name, format, err)",
				"err = error(nil)"}}},

	{"repair-forgets-keyspaces", "a repair forgets a keyspace that only an edit names which does " +
		"not fit", target{"lsm", "TestRepairKeepsIngestedApart"}, []edit{
		{"internal/feature/repair/keyspace.go", "max(r.maxSpace, r.named)", "r.maxSpace"}}},

	{"repair-skips-obsolete", "a repair leaves out the log that has an obsolete one's name",
		target{"lsm", "TestRepairLosesNothingOfSwappedLogs"}, []edit{
			{"internal/feature/repair/logs.go", "\tfor _, l := range r.obsolete {\n",
				"\tfor _, l := range r.obsolete[:0] {\n"}}},

	{"repair-trusts-left-out", "a repair calls a database whole of which Open leaves logs out",
		target{"lsm", "TestRepairLosesNothingOfSwappedLogs"}, []edit{
			{"internal/feature/repair/logs.go", "return len(report.Dropped) == 0, err",
				"return true, err"}}},

	{"repair-logs-by-name", "a native log is read under its file's number, not its own",
		target{"lsm", "TestRepairLosesNothingOfSwappedLogs"}, []edit{
			{"internal/feature/repair/logs.go", "if begun && b.Num != num && ",
				"if begun && num == 0 && "}}},

	{"follower-drops-too-much", "a memtable goes whose log is the first one that is needed",
		target{"lsm", "TestFollower"}, []edit{
			{"internal/feature/follow/logs.go", "s.Tables[n].FirstLog < s.FirstLog; n++",
				"s.Tables[n].FirstLog <= s.FirstLog; n++"}}},

	{"follower-tables-before-logs",
		"tables are visible before the logs are read that belong to them",
		target{"lsm", "TestFollowerAheadOfItsLogs"}, []edit{
			{"internal/feature/follow/follower.go",
				"case f.change != nil && !f.ready(f.logs, f.change.State.LastSeq):",
				"case f.change != nil && f.logs.seq == 0 && !end:"}}},

	{"follower-forgets-gaps", "each gap that ingests leave in LevelDB's logs is met anew",
		target{"lsm", "TestFollowersBehindIngests"}, []edit{
			{"internal/feature/follow/judge.go", "hole && !f.judged.Before(g.next)", "false"}}},

	{"follower-ingests-early",
		"an ingest in LevelDB's format is visible before the batches that precede it",
		target{"lsm", "TestFollowerOfIngests"}, []edit{
			{"internal/feature/follow/follower.go", "len(c.Dropped) == 0 && !f.loaded",
				"len(c.Dropped) == 0"}}},

	{"replica-misses-ingest", "a follower in LevelDB's format does not count an ingest at the end",
		target{"lsm/replicate", "TestSourceIngests"}, []edit{
			{"internal/feature/follow/logs.go", "next > l.whole()+1", "false"}}},

	{"follower-counts-ingest-early",
		"a follower in LevelDB's format counts an ingest before its tables are in the MANIFEST",
		target{"lsm", "TestChangesOfFollowerBesideIngest"}, []edit{
			{"internal/store/wal/tail.go", "if next == t.marked ||", "if true ||"}}},

	{"replica-misses-carried-ingest",
		"an opening in LevelDB's format does not say that an ingest is done",
		target{"lsm/replicate", "TestSourceIngests"}, []edit{
			{"internal/store/wal/set.go", "s.installed = last // see", "// see"}}},

	{"follower-sees-ahead", "sequence numbers are visible that were not read yet",
		target{"lsm", "TestFollowerSnapshots"}, []edit{
			{"internal/feature/follow/follower.go", "tree.Switch(f.o.Seqs, nexts, f.logs.whole())",
				"tree.Switch(f.o.Seqs, nexts, f.logs.whole()+100)"}}},

	{"follower-old-snapshots", "snapshots read the tables of a later state",
		target{"lsm", "TestFollowerSnapshots"}, []edit{
			{"internal/tree/follow.go", "\t\t\tseqs.pinLocked(old, nil)\n", ""}}},

	{"follower-snapshots-of-memtables", "memtables go that older snapshots read",
		target{"lsm", "TestFollowerSnapshotsOfWhatIsGone"}, []edit{
			{"internal/tree/follow.go", "if !next.keeps(old) {",
				"if next.Version != old.Version {"}}},

	{"follower-tables-unheld", "tables of the MANIFEST are not opened before they are needed",
		target{"lsm", "TestFollower"}, []edit{
			{"internal/feature/follow/follower.go", "\tif err := f.hold(st, c.Added); err != nil " +
				"{\n\t\treturn err\n\t}\n", ""}}},

	{"follower-old-manifest", "another MANIFEST in force is not noticed",
		target{"lsm", "TestFollower"}, []edit{
			{"internal/feature/follow/edits.go",
				"cur != t.current || t.isAnother(now) || !info.ModTime().Equal(t.modified)",
				"cur.Format != t.current.Format"}}},

	{"follower-other-directory", "a directory in the place of the database is followed",
		target{"lsm", "TestFollowerOfAReplacedDirectory"}, []edit{
			{"internal/feature/follow/identity.go", "case now != i &&",
				"case now != i && err != nil &&"}}},

	{"follower-goes-back", "an older copy of the database is a later state",
		target{"lsm", "TestFollowerOfAnOlderCopy"}, []edit{
			{"internal/feature/follow/follower.go", "if next.whole() < f.o.Seqs.Visible() {",
				"if next.whole() < 0*f.o.Seqs.Visible() {"},
			{"internal/format/manifest/follow.go",
				"if st.LogNum < s.logNum.Load() || st.MaxKeyspace < s.maxID {",
				"if st.MaxKeyspace < s.maxID {"}}},

	{"follower-reads-stale", "a read does not wait where the state is too old",
		target{"lsm", "TestFollowerReadsCatchUp"}, []edit{
			{"internal/tree/demand.go", "\td.stale.Store(!d.ended)\n",
				"\td.stale.Store(d.ended && !d.ended)\n"}}},

	{"follower-stops-short", "a catch-up ends where its first slice does",
		target{"lsm", "TestFollowerOfAFasterWriter"}, []edit{
			{"internal/feature/follow/follower.go",
				"case !end && (f.change != nil || !until.reached(f.logs)):",
				"case !end && (f.change != nil || until.reached(f.logs) && end):"}}},

	{"follower-never-ends", "a catch-up goes on as long as the writer writes",
		target{"lsm", "TestFollowerOfAFasterWriter"}, []edit{
			{"internal/feature/follow/follower.go",
				"case !end && (f.change != nil || !until.reached(f.logs)):",
				"case !end && (f.change != nil || !until.reached(f.logs) || !end):"}}},

	{"follower-no-checksum", "a chunk is whole when its header is",
		target{"internal/format/record", "TestTailAtEveryByte"}, []edit{
			{"internal/format/record/tail.go", "return c.intact(t.seed, pos)",
				"return c.intact(t.seed, pos) || pos > 0"}}},

	{"follower-trusts-the-end", "what the MANIFEST calls durable does not count at the end of " +
		"the logs", target{"lsm", "TestCatchUpRefusesDamage"}, []edit{
		{"internal/feature/follow/logs.go", "end && err == nil && l.place.Before(d) {",
			"false && end && err == nil && l.place.Before(d) {"}}},

	{"follower-opens-unjudged", "a follower opens without Open's judgement of the logs",
		target{"lsm", "TestReadersAgreeOnSwappedLogs"}, []edit{
			{"internal/feature/follow/follower.go", "\tif l.end {\n\t\terr = f.judgeFirst(l)",
				"\tif false {\n\t\terr = f.judgeFirst(l)"}}},

	{"follower-cries-wolf", "a follower takes a log for missing that became obsolete meanwhile",
		target{"lsm", "TestFollowerBesideEachStep"}, []edit{
			{"internal/feature/follow/judge.go", "case err != nil && (changed || errors.Is(err, " +
				"fs.ErrNotExist) ||\n\t\t\terrors.Is(err, io.ErrUnexpectedEOF)):",
				"case err != nil && changed && errors.Is(err, fs.ErrClosed) && " +
					"err != io.ErrUnexpectedEOF:"}}},

	{"follower-skips-numbers", "a follower shows a batch without the tables that came before it",
		target{"lsm", "TestFollowerBesideEachStep"}, []edit{
			{"internal/feature/follow/logs.go", "first > l.whole()+1 {", "false {"}}},

	{"tail-leaves-log-early", "the next log is read before this one is read to its end",
		target{"internal/store/wal", "TestTailBesideAWriter"}, []edit{
			{"internal/store/wal/tail.go", "\t\t// What was appended to this log before the next " +
				"one began.\n\t\tif rec, err := t.whole(); !errors.Is(err, ErrNotYet) " +
				"{\n\t\t\treturn rec, err\n\t\t}\n\t\tif rec, err := t.examine(next, before); " +
				"rec != nil || err != nil {\n\t\t\treturn rec, err\n\t\t}\n", ""},
			{"internal/store/wal/tail.go", "next, before, err := t.successor()",
				"next, _, err := t.successor()"}}},

	{"tail-forgets-vanished", "a log that vanished before it was opened was never there",
		target{"internal/store/wal", "TestTailWhileLogsGo"}, []edit{
			{"internal/store/wal/tail.go", "\t\t\t\tvanished = true\n", ""}}},

	{"tail-waits-for-reused", "a log that has become another one was not begun yet",
		target{"internal/store/wal", "TestTailWhileLogsGo"}, []edit{
			{"internal/store/wal/tail.go", "\t\tcase gone: // it was begun and is obsolete, and " +
				"so is this one\n\t\t\treturn false, before, t.goneError()\n", ""},
			{"internal/store/wal/tail.go", "b, gone, err := l.ReadBegin()",
				"b, _, err := l.ReadBegin()"}}},

	{"follower-keeps-its-operator", "operands of a writer are merged by the caller's operator",
		target{"lsm", "TestFollowerOperators"}, []edit{
			{"internal/store/merge.go", "op == was || op != nil && was != nil",
				"op == was || op == nil || was != nil"}}},

	{"operator-after-its-keyspace", "a new keyspace has no merge operator at first",
		target{"lsm", "TestFollowerOperators"}, []edit{
			{"internal/store/keyspace.go", "db.jobs.CreateKeyspace(name, c, merge)",
				`db.jobs.CreateKeyspace(name, c, merge[:0])`}}},

	{"follower-of-deleted-logs", "logs of an older MANIFEST that an upgrade deleted count as empty",
		target{"lsm", "TestOpenFollowerWhileCurrentComes"}, []edit{
			{"internal/feature/follow/logs.go", "if f.o.Edits.Begun() != l.begun {",
				"if f.o.Edits.Begun() < l.begun {"}}},

	{"current-read-once", "a CURRENT that becomes a directory while it is read is a stranger's",
		target{"lsm", "TestCatchUpWhileUpgraded"}, []edit{
			{"internal/format/current/current.go", "if c.Format == base.LevelDB &&\n",
				"if c.Format == base.Native &&\n"}}},

	{"follower-operator-of-now", "operands are folded with the operator of a later state",
		target{"lsm", "TestFollowerSnapshotsKeepOperator"}, []edit{{
			"internal/tree/resolve.go", "r.fold.Value(h.state.merge, key, true)",
			"r.fold.Value(h.tree.Merge(), key, true)"}}},

	{"follower-forgets-next-log", "the log of a table that is being opened goes with an older one",
		target{"lsm", "TestFollowerKeepsLogOfNextTable"}, []edit{{
			"internal/store/files/values.go", "if _, ok := v.wanted[l]; ok {",
			"if _, ok := v.wanted[l]; ok && v.logs == nil {"}}},

	{"follower-first-operator", "the first state has the operator of an older MANIFEST",
		target{"lsm", "TestFollowerOpensBesideOperator"}, []edit{{
			"internal/feature/follow/follower.go", "\t\to.Merge(l.spaces[k.ID].tree, ",
			"\t\t_ = fmt.Sprint(l.spaces[k.ID].tree, "}}},

	{"follower-first-clock", "the first state has the time of the MANIFEST that was read first",
		target{"lsm", "TestFollowerOpensBesideExpiry"}, []edit{{
			"internal/feature/follow/follower.go", "\to.Seqs.Clock.Raise(st.Clock)\n", ""}}},
}
