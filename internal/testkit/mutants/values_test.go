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
				"\t\tcase false:"}}},

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

	{"value-log-uncopied", "a copy lacks the logs that only its tables need",
		target{"internal/testkit/values", "TestCopies"}, []edit{
			{"internal/feature/backup/capture.go", "range st.ValueLogs() {",
				"range st.ValueLogs()[:0] {"}}},

	{"value-span-at-the-border", "a value that begins with a block is looked for before it",
		target{"internal/format/record", "TestSpans"}, []edit{
			{"internal/format/record/span.go", "n < first {", "n <= first {"}}},

	{"value-settled-unseen", "a reference below an operand is no value",
		target{"internal/testkit/values", "TestMeets"}, []edit{
			{"internal/tree/compact/fold.go",
				"if err != nil || t.Kind() != base.KindValueHandle {", "if true {"}}},
}
