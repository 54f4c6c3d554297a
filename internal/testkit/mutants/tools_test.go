package mutants

// tools are bugs of the command loam and of the packages that it calls.
var tools = []mutant{
	{"left-out-untold", "a verb says nothing of a part of a log that the opening left out",
		target{"cmd/loam", "TestLeftOutIsTold"}, []edit{
			{"cmd/loam/damage.go", "parts != nil {", "parts != nil && a.json {"}}},

	{"torn-is-damage", "check calls a torn end of a log damage",
		target{"cmd/loam", "TestTornEndIsSound"}, []edit{
			{"cmd/loam/internal/damage/damage.go", "return dropped == r.TornBytes",
				"return dropped == 0"}}},

	{"edit-log-twice", "the previous log of an edit is shown as its log", formatPages, []edit{
		{"cmd/loam/internal/facts/edit.go", "{e.HasPrevLogNum, &e.PrevLogNum, &l.PreviousLog}",
			"{e.HasPrevLogNum, &e.LogNum, &l.PreviousLog}"}}},

	{"entry-without-sequence", "all entries of a batch are shown with the number of the first one",
		formatPages, []edit{
			{"internal/feature/examine/logs.go", "if err := do(Entry{space, seq, kind",
				"if err := do(Entry{space, b.Seq, kind"}}},

	{"log-batches-for-entries", "info counts the batches of a log for its entries", shown, []edit{
		{"cmd/loam/internal/facts/info.go", "n += uint64(b.Count)", "n++"}}},

	{"level-below", "info shows each table one level lower", shown, []edit{
		{"cmd/loam/internal/facts/info.go", "l := &x.Levels[f.Level]",
			"l := &x.Levels[min(f.Level+1, 6)]"}}},

	{"page-keys-with-trailers", "the page counts sequence numbers for bytes of keys", shown, []edit{
		{"cmd/loam/internal/ui/files.go", "KeyBytes: facts.UserKeyBytes(&p)",
			"KeyBytes: p.RawKeys"}}},

	{"diff-by-length", "values of one length are the same to diff",
		target{"cmd/loam", "TestDiffIsTheModels"}, []edit{
			{"cmd/loam/diff.go", "if bytes.Equal(a.Value(), b.Value()) {",
				"if len(a.Value()) == len(b.Value()) {"},
			{"cmd/loam/diff.go", "\t\"bytes\"\n", ""}}},

	{"json-keys-alike", "keys that differ in white space of JSON are written alike",
		target{"cmd/loam", "TestScripts"}, []edit{
			{"cmd/loam/internal/encode/encode.go", "compact(b) == string(b)", "b != nil"}}},

	{"check-opens-only", "check reads no table", target{"cmd/loam", "TestCheckSeesDamage"}, []edit{
		{"cmd/loam/check.go", "err = db.Verify(ctx, p.both)", "_, err = p.both, nil"}}},

	{"missing-is-unread", "check fails to read a table that is missing, where that is damage",
		target{"cmd/loam", "TestCheckSeesDamage"}, []edit{
			{"cmd/loam/check.go", "errors.Is(err, fs.ErrNotExist)",
				"errors.Is(err, fs.ErrExist)"}}},

	{"made-is-missing", "a table that a writer made or deleted meanwhile is taken for missing",
		target{"cmd/loam/internal/facts", "TestTablesBesideWriter"}, []edit{
			{"internal/feature/examine/directory.go", "if unseen[num] {",
				"if unseen[num] || true {"}}},

	{"check-forgets-logs", "check knows nothing of a log's damage",
		target{"cmd/loam", "TestScripts"}, []edit{
			{"cmd/loam/check.go", "range damage.LeftOut(&r) {",
				"range damage.LeftOut(&r)[:0] {"}}},

	{"stray-longest", "of the ends that a block may have the largest one is taken", strays, []edit{
		{"internal/format/sstable/ldb/stray.go", "for j := len(ends) - 1; j >= 0; j-- {",
			"for j := range ends {"}}},

	{"stray-squares", "a stretch without blocks costs as much as each beginning with each end",
		target{"internal/format/sstable/ldb", "TestSalvageBehindGarbage"}, []edit{
			{"internal/format/sstable/ldb/stray.go", "\tstray       = 32 ",
				"\tstray       = 32 * walkStray "}}},
}

var (
	formatPages = target{"cmd/loam", "TestFormatPages"}
	shown       = target{"cmd/loam", "TestShownIsMetrics"}
	strays      = target{"internal/format/sstable/ldb", "TestStrays"}
)
