package mutants

// ingests are mutants of ingests and loads.
var ingests = []mutant{
	{"ingest-ignores-sequence", "an ingested table is read with the sequence numbers of its file",
		target{"lsm", "TestIngest"}, []edit{
			{"internal/store/files/set.go", "GlobalSeq: m.GlobalSeq,", "GlobalSeq: 0,"}}},

	{"ingest-seen-by-snapshots", "a Get at an older snapshot finds what was ingested",
		target{"lsm", "TestIngest"}, []edit{
			{"internal/format/sstable/native/block.go", "if seq := t.Env.GlobalSeq; seq > 0 && ",
				"if seq := t.Env.GlobalSeq; seq > 0 && !c.verified && "}}},

	{"ingest-visible-late", "compactions take what was ingested for visible before it is",
		target{"lsm", "TestIngestBesideACompaction"}, []edit{
			{"internal/tree/tree.go", "\t\tdefer seqs.Publish(ingested)\n", ""}}},

	{"read-lacks-ingest", "a read loads the state before an ingest, and the number after it",
		target{"internal/tree", "TestReadsLoadStateAndNumberTogether"}, []edit{
			{"internal/tree/sequences.go", "return seq, t.state.Load(g) == state",
				"return seq, true"}}},

	{"ingest-below-memtable", "memtables in the range of a table are not flushed",
		target{"lsm", "TestIngest"}, []edit{
			{"internal/feature/ingest/verify.go", "\tif m.Len() == 0 {\n",
				"\tif m.Len() >= 0 {\n"}}},

	{"ingest-hole",
		"a log begins although the one before does not say that an ingest took a number",
		target{"lsm", "TestLogShortageOfIngest"}, []edit{
			{"internal/feature/ingest/ingest.go", "return 0, err // the log was cut back",
				"return 1, err // the log was cut back"},
			{"internal/store/wal/set.go", "needed := s.next <= last &&",
				"needed := false &&"}}},

	{"ingest-not-synced", "the file of a table is not synced before the MANIFEST has it",
		target{"internal/testkit/crash", "TestIngestStates"}, []edit{
			{"internal/feature/ingest/writer.go",
				"\tif err := t.w.Sync(); err != nil {\n\t\treturn err\n\t}\n", ""},
			{"internal/feature/ingest/verify.go", "return true, s.Sync()",
				"_ = s\n\treturn true, nil"}}},

	{"ingest-name-not-synced", "the name of a table is not durable before the MANIFEST has it",
		target{"internal/testkit/crash", "TestIngestStates"}, []edit{
			{"internal/feature/ingest/ingest.go", "\tif err := j.db.Files().SyncDir(); " +
				"err != nil {\n\t\treturn err\n\t}\n", ""}}},

	{"ingest-before-logs", "a table is durable before the writes that came earlier",
		target{"lsm", "TestIngestedEntriesStay"}, []edit{
			{"internal/feature/ingest/ingest.go", "if err := l.SyncLogs(); err != nil {",
				"if err := error(nil); err != nil {"},
			{"internal/feature/ingest/ingest.go",
				"return j.db.Commit(batchrepr.Init(nil), write.Sync, nil)",
				"return j.db.Commit(batchrepr.Init(nil), write.Sync&0, nil)"}}},

	{"ingest-over-strangers", "an ingest takes the number of another program's file",
		target{"lsm", "TestIngestBesideStrangers"}, []edit{
			{"internal/store/host.go", "range maxTaken {", "range 1 {"}}},

	{"destroy-forgets", "Destroy removes the MANIFEST before the files that it lists",
		target{"lsm", "TestDestroyAgain"}, []edit{
			{"internal/feature/repair/directory.go", "[][]string{own, manifests}",
				"[][]string{manifests, own}"}}},

	{"load-first-wins", "of entries with one key the first one counts",
		target{"lsm", "TestBulkLoad"}, []edit{
			{"internal/feature/ingest/runs.go", "return a.newer > b.newer",
				"return a.newer < b.newer"}}},

	{"ingest-deletes-live", "a panic behind the edit of an ingest deletes its tables",
		target{"lsm", "TestPanicsInCalls"}, []edit{
			{"internal/feature/ingest/ingest.go",
				"\tj.given = true // also if Install panics: it may have made them live\n", ""},
			{"internal/feature/ingest/ingest.go",
				"\tif kept {\n\t\tj.given = false\n\t\treturn 0, err\n\t}\n",
				"\tif kept {\n\t\treturn 0, err\n\t}\n\tj.given = true\n"}}},

	{"marker-beyond-numbers", "a log begins with a sequence number that no batch may have",
		target{"lsm", "TestLastSequenceNumber"}, []edit{
			{"internal/store/wal/set.go", "min(first, base.MaxSeqNum)", "first"}}},

	{"repair-forgets-operators", "a repaired database has no names of merge operators",
		target{"lsm", "TestRepairKeepsOperators"}, []edit{
			{"internal/feature/repair/rebuild.go", "MergeOperator: s.merge,",
				"MergeOperator: \"\","}}},

	{"repair-ingested-oldest", "a repair without a MANIFEST takes ingested tables for the oldest",
		target{"lsm", "TestRepairOrdersIngested"}, []edit{
			{"internal/feature/repair/place.go", "seq := last + 1", "seq := base.SeqNum(1)"}}},

	{"ingests-unrecorded", "no table records the ingested ones",
		target{"lsm", "TestRepairKnowsIngested"}, []edit{
			{"internal/store/work/compaction.go", "return s.ingested(t.ID())", "return nil"}}},

	{"recorded-ingests-unplaced", "a repair does not take the sequence numbers that tables record",
		target{"lsm", "TestRepairKnowsIngested"}, []edit{
			{"internal/feature/repair/place.go", "t.setSeq(in.Seq)\n", "\n"}}},

	{"recorded-ingests-homeless", "a repair does not take the keyspaces that tables record",
		target{"lsm", "TestRepairKnowsIngested"}, []edit{
			{"internal/feature/repair/keyspace.go", "s.Comparer == props.Comparer {",
				"s.Comparer == \"\" {"}}},

	{"interrupt-of-before", "an interrupt of an earlier call ends a load",
		target{"internal/testkit/ingests", "TestBulkLoadAfterAnInterrupt"}, []edit{
			{"internal/feature/ingest/loader.go",
				"\t_ = l.k.Comparer().CheckInterrupted() // of an earlier call\n", ""}}},
}
