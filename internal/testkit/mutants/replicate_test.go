package mutants

func replicating(test string) target { return target{"lsm/replicate", test} }

// replicates are mutants of replicas in files and object stores.
var replicates = []mutant{
	{"replica-base-deleted", "the snapshot from which the oldest kept state is restored is deleted",
		replicating("TestRetention"), []edit{
			{"lsm/replicate/prune.go", "if old || s.seq < p.snapshot.seq {",
				"if old || s.seq <= p.snapshot.seq {"}}},

	{"replica-segments-deleted", "segments behind the oldest kept snapshot are deleted",
		replicating("TestRetention"), []edit{
			{"lsm/replicate/prune.go", "s.last <= p.snapshot.seq && s.time <= p.snapshot.time",
				"s.time <= since"}}},

	{"replica-hole", "sequence numbers that no object has are passed over",
		replicating("TestDamage"), []edit{
			{"lsm/replicate/restore.go", "\tif hole != 0 {", "\tif hole == 1 {"}}},

	{"replica-checksum", "objects are not compared with their checksums",
		replicating("TestDamage"), []edit{
			{"lsm/replicate/target.go", "if sumOf(name, body) != [sumSize]byte(b[len(body):]) {",
				"if len(body) == 0 {"}}},

	{"replica-not-compared", "a replicator goes on although the database has another history",
		replicating("TestOtherDatabase"), []edit{
			{"lsm/replicate/resume.go", "if sums[i] != s.digest {",
				"if sums[i] == \"\" || s.digest == \"\" {"}}},

	{"replica-any-point", "a state is restored whose keyspaces are those of a later one",
		replicating("TestListWithChanges"), []edit{
			{"lsm/replicate/step.go", "seg.point = last >= r.settled && last",
				"seg.point = last"}}},

	{"replica-pending-lost", "a segment whose Put failed is not sent again",
		replicating("TestFailingCalls"), []edit{
			{"lsm/replicate/step.go", "\tr.pending = &sealed{seg, payload}\n\treturn " +
				"r.putPending(ctx)", "\tr.pending = &sealed{seg, payload}\n\tdefer func() { " +
				"r.pos, r.pending = last, nil }()\n\treturn r.putPending(ctx)"}}},

	{"replica-owner", "two replicators write to one target", replicating("TestTakenOver"), []edit{
		{"lsm/replicate/step.go", "case found.Token != r.me.Token:", "case found.Token == \"\":"}}},

	{"replica-parts-deleted", "the parts of a snapshot that may be whole are deleted",
		replicating("TestWholeWithoutAnAnswer"), []edit{
			{"lsm/replicate/job.go", "\t\t\ttried = true\n", ""}}},

	{"replica-whole-without-parts", "a snapshot becomes whole whose parts another one deleted",
		replicating("TestSnapshotTakenOver"), []edit{
			{"lsm/replicate/job.go", "\t\t\tif err := r.owns(ctx); err != nil {\n" +
				"\t\t\t\treturn err\n\t\t\t}\n", ""}}},

	{"replica-late-segments", "what a replicator sends after it was taken over is restored",
		replicating("TestLateSegments"), []edit{
			{"lsm/replicate/names.go", "\tif !overlap(segments) {", "\tif len(segments) > 0 {"}}},

	{"replica-folder-not-synced", "the folder of an object is not durable",
		replicating("TestDirFaults"), []edit{
			{"lsm/replicate/dir.go", "\t\terr = d.fs.SyncDir(above)", "\t\t_ = above"}}},

	{"replica-drop-forgotten", "a keyspace that was dropped is in the restored database",
		replicating("TestHistories"), []edit{
			{"lsm/replicate/apply.go", "\t\tif err := a.db.DropKeyspace(k.Name); err != nil {\n" +
				"\t\t\treturn err\n\t\t}\n", "\t\t_ = k\n"}}},

	{"replica-parts", "a restore takes memory for as many parts as a snapshot says",
		replicating("TestNumberOfParts"), []edit{
			{"lsm/replicate/restore.go", "min(r.whole.Parts, r.plan.snapshot.parts+1)",
				"r.whole.Parts"}}},

	{"replica-program-ended", "a snapshot is sent to a program that has ended, again and again",
		replicating("TestProgramEndsInASnapshot"), []edit{
			{"lsm/replicate/run.go", " || errors.Is(err, errEnded) {", " {"}}},

	{"replica-jobs-at-once", "a snapshot that failed is tried again without a pause",
		replicating("TestFailingJobsArePaced"), []edit{
			{"lsm/replicate/job.go", "r.gen != \"\" && r.rest == 0 &&", "r.gen != \"\" &&"}}},

	{"replica-verified-at-once", "a verification that found a difference is made again at once",
		replicating("TestFaultsOfGenerations"), []edit{
			{"lsm/replicate/job.go", "\t\tr.tested = r.o.Clock()\n", ""}}},

	{"replica-clock-ahead", "a replicator waits for the time of a snapshot under a clock ahead",
		replicating("TestClockSetBack"), []edit{
			{"lsm/replicate/step.go", "\tr.snapped, r.tested = earlier(r.snapped, clock), ",
				"\tr.tested = "}}},

	{"replica-once-ends", "a replicator that runs once gives up the snapshot that it began",
		replicating("TestOnceMakesWhatIsDue"), []edit{
			{"lsm/replicate/run.go", "\t\t\t!r.isDue(began) && !r.pruneIsDue()):",
				"\t\t\tuntil || r.isDue(began)):"}}},

	{"replica-source-replaced", "a replicator goes on with a database that replaced its own",
		replicating("TestSourceReplaced"), []edit{
			{"lsm/replicate/resume.go", "len(sums) == 1 && sums[0] != r.sent.digest",
				"len(sums) == 2"}}},

	{"replica-deletes-at-once", "deletions that failed are tried again without a pause",
		replicating("TestDeletionsBesideChanges"), []edit{
			{"lsm/replicate/job.go", "if r.rest == 0 && r.pruneIsDue() {",
				"if r.pruneIsDue() {"}}},

	{"replica-folder-gone", "a folder that becomes empty takes an object that is being stored",
		replicating("TestDirPutBesideDelete"), []edit{
			{"lsm/replicate/dir.go",
				"\td.mu.Lock()\n\tdefer d.mu.Unlock()\n\tif err := d.mkdirLocked(",
				"\tif err := d.mkdir("}}},

	{"replica-foreign-folders", "a folder of others that may not be read fails every list",
		replicating("TestDirFoldersOfOthers"), []edit{
			{"lsm/replicate/dir.go", "if strings.ContainsFunc(base, notOfNames) {",
				"if base == \"\" && notOfNames(0) {"}}},

	{"replica-tidy", "files of others in a target's folder are removed",
		replicating("TestDirTidy"), []edit{
			{"lsm/replicate/dir.go", "if strings.HasPrefix(name, unfinished) {",
				"if name != \"\" {"}}},

	{"replica-verify-name", "a verification replaces a database of somebody else",
		replicating("TestVerify"), []edit{
			{"lsm/replicate/verify.go", "r.o.VerifyDir, verifyPrefix+gen)",
				"r.o.VerifyDir, \"verify\")"}}},

	{"replica-replaced-keyspace", "a snapshot takes another keyspace of the same name",
		replicating("TestSnapshotOfReplaced"), []edit{
			{"lsm/replicate/job.go", "return uint32(id) == s.ID",
				"return id > 0 || s.Name != \"\""}}},

	{"replica-operands-unfolded", "a restore names an operator over the operands of another one",
		replicating("TestOtherOperator"), []edit{
			{"lsm/replicate/apply.go", "if before != \"\" && before != s.Merge {",
				"if before != \"\" && before == s.Merge {"}}},

	{"replica-operands-of-two", "operands of two operators are sent together",
		replicating("TestOtherOperator"), []edit{
			{"lsm/replicate/step.go", "\tif r.otherOperator(&now) {", "\tif false {"}}},

	{"replica-operator-of-another", "operands of an unknown operator are folded with another one",
		replicating("TestUnknownOperator"), []edit{
			{"lsm/replicate/apply.go", "case there && k.foreign && kind == base.KindMerge:",
				"case there && k.foreign && kind == base.KindDelete:"}}},
}
