package mutants

// largeValues are mutants of values that lie in logs.
var largeValues = []mutant{
	{"value-log-one-early", "a value log goes while one more table refers to it",
		target{"internal/testkit/values", "TestSharedLog"}, []edit{
			{"internal/format/manifest/values.go",
				"if log.tables--; log.tables == 0 && log.released {",
				"if log == nil {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\t" +
					"if log.tables--; log.tables <= 1 && log.released {"}}},

	{"value-log-needed-by-nobody", "a log goes when its entries are in tables",
		target{"internal/testkit/values", "TestReads"}, []edit{
			{"internal/store/wal/retain.go", "\t\tcase needed: // it is the tables' now",
				"\t\tcase needed && s == nil:"}}},

	{"value-log-gone-at-open", "an opening deletes the logs of earlier ones",
		target{"internal/testkit/values", "TestReads"}, []edit{
			{"internal/store/wal/retain.go", "\t\t\tif t == base.FileLog {\n",
				"\t\t\tif false {\n"}}},

	{"value-log-for-ever", "a value log stays when no table refers to it",
		target{"internal/testkit/values", "TestLogsGo"}, []edit{
			{"internal/format/manifest/set.go", "logs := s.versions.values.remove(gone)",
				"logs := s.versions.values.remove(nil)"}}},

	{"value-count-drifts", "a table says that it has more references than it has",
		target{"internal/testkit/values", "TestReads"}, []edit{
			{"internal/format/sstable/native/writer.go", "Log: h.Log, Values: 1,",
				"Log: h.Log, Values: 1 + w.Meta.Entries/5,"}}},

	{"value-log-unsynced", "tables are live before the logs that they refer to are durable",
		target{"internal/testkit/crash", "TestValueStates"}, []edit{
			{"internal/store/work/separate.go", "\tif last == 0 {", "\tif true {"}}},

	{"value-unverified", "a value is not compared with its checksum",
		target{"internal/testkit/values", "TestEveryByte"}, []edit{
			{"internal/store/files/values.go", "sum != h.Sum {", "false && sum != h.Sum {"}}},

	{"value-log-unmissed", "a database opens without a log that its tables refer to",
		target{"internal/testkit/values", "TestLogIsMissing"}, []edit{
			{"internal/format/manifest/set.go",
				"err := checkValueLogs(&res.State, o.Format, name, names); err != nil {",
				"_ = checkValueLogs; false {"}}},

	{"references-without-logs", "tables whose logs are not recorded are taken for whole",
		target{"internal/testkit/versions", "TestRepairedByEarlierVersion"}, []edit{
			{"internal/format/manifest/state.go", "return s.checkReferences()",
				"_ = s.checkReferences\n\t\treturn nil"}}},

	{"value-log-uncopied", "a copy lacks the logs that only its tables need",
		target{"internal/testkit/values", "TestCopies"}, []edit{
			{"internal/feature/backup/capture.go", "range st.ValueLogs() {",
				"range st.ValueLogs()[:0] {"}}},

	{"value-file-one-early", "a value file goes while one more table refers to it",
		target{"internal/testkit/values", "TestRelocation"}, []edit{
			{"internal/format/manifest/values.go",
				"if log.tables--; log.tables == 0 && log.released {",
				"if log == nil {\n\t\t\t\tcontinue\n\t\t\t}\n\t\t\tif log.tables--; " +
					"(log.tables == 0 || l.InFile && log.tables == 1) && log.released {"}}},

	{"value-file-uncopied", "a copy lacks value files",
		target{"internal/testkit/values", "TestCopies"}, []edit{
			{"internal/feature/backup/capture.go", "\t\tname := l.File().FileName(s.Format)\n",
				"\t\tif l.InFile {\n\t\t\tcontinue\n\t\t}\n\t\tname := " +
					"l.File().FileName(s.Format)\n"}}},

	{"value-file-unsynced", "tables are live before the value files that they refer to are durable",
		target{"internal/testkit/crash", "TestRelocationStates"}, []edit{
			{"internal/store/files/value_writer.go", "\treturn w.f.Sync()\n", "\treturn nil\n"}}},

	{"value-file-undiscarded", "the value files of a failed compaction stay",
		target{"internal/testkit/values", "TestRelocationFails"}, []edit{
			{"internal/store/work/install.go", "\ts.discardValues(r.Values)\n", ""}}},

	{"value-file-orphaned", "the value files of an edit that the disk refused stay",
		target{"internal/testkit/values", "TestRelocationFails"}, []edit{
			{"internal/store/work/install.go", "\ts.discardValues(s.orphanValues)\n", ""}}},

	{"value-file-for-ever", "an opening leaves value files of which no table knows",
		target{"internal/testkit/values", "TestValueFilesOf"}, []edit{
			{"internal/format/manifest/obsolete.go",
				"obsolete = !s.IsValueLog(base.ValueFile{Num: num, InFile: true})",
				"obsolete = false"}}},

	{"value-file-offset-drifts", "a copied value is said to lie where the file ends",
		target{"internal/testkit/values", "TestRelocation"}, []edit{
			{"internal/store/files/value_writer.go", "w.size += int64(len(value))",
				"w.size += int64(cap(value))"}}},

	{"relocation-beats-an-overwrite", "a copied value is newer than what has overwritten it",
		target{"internal/testkit/values", "TestRelocationBeside"}, []edit{
			{"internal/tree/compact/run.go",
				"if codec, value, err = w.relocated(t.Kind(), codec, value); err != nil {",
				"if t = base.MakeTrailer(t.Seq()+300, t.Kind()); err != nil {\n\t\t\t\t" +
					"return err\n\t\t\t}\n\t\t\tif codec, value, err = " +
					"w.relocated(t.Kind(), codec, value); err != nil {"}}},

	{"relocation-swaps-values", "a value is copied under the reference of the one before",
		target{"internal/testkit/values", "TestRelocation"}, []edit{
			{"internal/tree/compact/value_files.go", "\toffset, err := v.w.Append(value)\n",
				"\toffset := v.w.Size()\n\t_, err := v.w.Append(value)\n\toffset = " +
					"max(offset-1, 0)\n"}}},

	{"relocation-stops-at-damage", "a compaction fails for ever where a value is damaged",
		target{"internal/testkit/values", "TestDamageIsNotRelocated"}, []edit{
			{"internal/tree/compact/relocate.go", "w.readLarge(h, handle); !ok {\n",
				"w.readLarge(h, handle); !ok {\n\t\terr = errors.ErrUnsupported\n"}}},

	{"damage-delays", "garbage beside a value that cannot be read delays writers for good",
		target{"internal/testkit/values", "TestGarbageBesideUnreadable"}, []edit{
			{"internal/store/work/values.go", "values.Disk -= u.Garbage()", "_ = u"}}},

	{"relocation-unbounded", "values are relocated only when somebody writes",
		target{"internal/testkit/values", "TestRelocationOnceQuiet"}, []edit{
			{"internal/store/open.go", "\tdb.jobs.OpenValues()\n", ""}}},

	{"old-values-stay", "values stay that were kept for snapshots which are closed",
		target{"internal/testkit/values", "TestPastSnapshots"}, []edit{
			{"internal/tree/picker/values.go",
				"plan := p.rewrite(\"values of past snapshots\", p.Values.Old); plan != nil {",
				"plan := (*Plan)(nil); plan != nil {"}}},

	{"operands-hide-values", "values below operands count as those of past snapshots",
		target{"internal/testkit/values", "TestOperandsThatStay"}, []edit{
			{"internal/tree/compact/output.go", "hidden := o.hides && !first",
				"hidden := !first"}}},

	{"has-without-values", "Has shows the merge operator no value that lies in a log",
		target{"internal/testkit/values", "TestHasMerged"}, []edit{
			{"internal/tree/get.go", "flags&^sstable.NoValue)", "flags)"}}},

	{"old-values-unweighed", "nobody looks at values again when a snapshot is closed",
		target{"internal/testkit/values", "TestPastSnapshots"}, []edit{
			{"internal/store/work/deletes.go", "\t\ts.reweighValues(withValues)\n",
				"\t\t_ = withValues\n"}}},

	{"recovery-unsynced", "a recovery refers to logs that are not durable",
		target{"internal/testkit/values", "TestRecoveryRefers"}, []edit{
			{"internal/store/recovery.go", "\t\t!r.Durable() {", "\t\t!true {"}}},

	{"recovery-trusts-a-sync", "a recovery refers to what a failed sync of a log has lost",
		target{"internal/testkit/values", "TestRecoveryAfterAFailedSync"}, []edit{
			{"internal/os/directio/durable.go", "return d.OnDisk()", "return true || d.OnDisk()"}}},

	{"recovery-compares-nothing", "a file is durable whatever the disk has",
		target{"internal/os/directio", "TestDurableDiffers"}, []edit{
			{"internal/os/directio/durable.go", "slices.Equal(before, after)",
				"slices.Equal(before, append(after[:0], before...))"}}},

	{"recovery-compares-the-cache", "a file is compared with what the page cache has of it",
		target{"internal/os/directio", "TestDurableIsCached"}, []edit{
			{"internal/os/directio/durable.go", "|| !uncached(fd, f.Size())",
				"|| !uncached(fd, 0)"}}},

	{"recovery-copies-values", "a recovery writes large values into tables",
		target{"internal/testkit/values", "TestRecoveryRefers"}, []edit{
			{"internal/store/recovery.go", "r.Keep >= end ||", "true ||"}}},

	{"recovery-offset-drifts", "a recovery refers to where the record's batch begins in its chunk",
		target{"internal/testkit/values", "TestRecoveryRefers"}, []edit{
			{"internal/store/wal/chained.go", "r.At = reader.Offset()", "r.At = reader.End()"}}},

	{"value-span-at-the-border", "a value that begins with a block is looked for before it",
		target{"internal/format/record", "TestSpans"}, []edit{
			{"internal/format/record/span.go", "n < first {", "n <= first {"}}},

	{"ahead-of-another-key", "an iterator takes a value that was read ahead for another key",
		target{"internal/testkit/values", "TestReadsAhead"}, []edit{
			{"internal/tree/iters/cursor_large.go", "v.ValueHandle == h {", "v.Len == h.Len {"}}},

	{"ahead-unverified", "values that are read together are not compared with their checksums",
		target{"internal/testkit/values", "TestDamagedValue"}, []edit{
			{"internal/store/files/value_batch.go", "base.CRC(b[:v.Len]) != v.Sum {",
				"base.CRC(b[:v.Len]) == v.Sum+1 {"}}},

	{"ahead-keys-only", "an iterator over keys alone reads values",
		target{"internal/testkit/values", "TestReadsAhead"}, []edit{
			{"internal/tree/iters/cursor_large.go", "if !c.keysOnly {", "if true {"}}},

	{"ahead-one-by-one", "neighbours are read one by one",
		target{"internal/testkit/values", "TestReadsAhead"}, []edit{
			{"internal/store/files/value_batch.go", "gap > int64(v.Len) ||",
				"gap >= 0 ||"}}},

	{"multiget-places-mixed", "the values of a MultiGet go to the keys of another chunk",
		target{"internal/testkit/values", "TestReadsAhead"}, []edit{
			{"internal/tree/multiget.go", "append(r.keys, r.first+i)", "append(r.keys, i)"}}},

	{"expired-handle-shown", "an iterator shows a value in a log whose time is over",
		target{"internal/testkit/values", "TestExpiring"}, []edit{
			{"internal/tree/iters/cursor_large.go", "deadline <= c.now {", "deadline == 1 {"}}},

	{"expired-handle-multiget", "MultiGet reads a value in a log whose time is over",
		target{"internal/testkit/values", "TestExpiring"}, []edit{
			{"internal/tree/multiget.go", "\t\tcase h.at.expired(deadline):\n",
				"\t\tcase h.at.expired(deadline) && !t.Kind().Refers():\n"}}},

	{"relocated-for-ever", "a value that was relocated has lost its deadline",
		target{"internal/testkit/values", "TestExpiringMeets"}, []edit{
			{"internal/tree/compact/relocate.go", "append(copied, plain[len(handle):]...), err",
				"append(copied, 0, 0, 0, 0, 1)[:len(copied)+len(plain)-len(handle)], err"}}},

	{"recovered-for-ever", "a recovery gives the values that it refers to another deadline",
		target{"internal/testkit/values", "TestExpiring"}, []edit{
			{"internal/store/replay/replay.go", "append(handle, value[user:]...)",
				"append(handle, 0, 0, 0, 0, 1)[:len(handle)+len(value)-user]"}}},

	{"expiring-whole", "values that expire are copied into tables",
		target{"internal/testkit/values", "TestExpiring"}, []edit{
			{"internal/store/wal/places.go", "kind.IsValue() && int64(user)",
				"kind == base.KindSet && int64(user)"}}},

	{"merged-whole", "large values that operands make stay in tables",
		target{"internal/testkit/values", "TestMerged"}, []edit{
			{"internal/tree/compact/fold.go",
				"if err == nil && t.Kind() == base.KindSet {", "if err != nil {"}}},

	{"merged-whole-in-flushes", "large values that operands make in a flush stay in its tables",
		target{"internal/testkit/values", "TestMerged"}, []edit{
			{"internal/store/work/flush.go",
				"env.ValueFiles = s.valueFiles(s.paceFlush, false)", "env.ValueFiles = nil"}}},

	{"merged-unverifiable", "a merged value has the checksum of another one",
		target{"internal/testkit/values", "TestMerged"}, []edit{
			{"internal/tree/compact/value_files.go", "base.CRC(value), &w.res)",
				"base.CRC(value[1:]), &w.res)"}}},

	{"merged-unfinished", "the last values of a value file are not written",
		target{"internal/testkit/values", "TestMergedFails"}, []edit{
			{"internal/tree/compact/run.go", "err = w.values.finish()", "w.values.abandon()"}}},

	{"changed-for-ever", "a large value that a compaction filter changed has lost its deadline",
		target{"internal/testkit/values", "TestMerged"}, []edit{
			{"internal/tree/compact/filter.go", "append(f.value[:0], changed...), deadline...)",
				"append(f.value[:0], changed...), 0, 0, 0, 0, 1)[:len(changed)+len(deadline)]"}}},

	{"value-settled-unseen", "a reference below an operand is no value",
		target{"internal/testkit/values", "TestMeets"}, []edit{
			{"internal/tree/compact/fold.go",
				"if err != nil || t.Kind() != base.KindValueHandle {", "if true {"}}},

	{"one-value-stops-all", "a value that cannot be read fails each compaction that meets it",
		target{"internal/testkit/values", "TestUnreadableValue"}, []edit{
			{"internal/tree/compact/relocate.go", "\tw.env.Unreadable(h, err)\n\treturn false, nil",
				"\treturn false, err"}}},

	{"deleted-log-stays-open", "a log that is deleted keeps the descriptor by which it was read",
		target{"internal/testkit/values", "TestDeletedLogsAreClosed"}, []edit{
			{"internal/store/files/obsolete.go", "\ts.forgetNamed(name)\n\ts.queue.expect()\n",
				"\ts.queue.expect()\n"}}},
}
