package mutants

// feeds are mutants of feeds of changes, and of the logs that are kept for them.
var feeds = []mutant{
	{"feed-durable-early", "a record counts as durable once a part of its log is",
		target{"lsm", "TestChangesDurable"}, []edit{
			{"internal/store/host.go", "log == synced.Num && end <= synced.End",
				"log == synced.Num && (end <= synced.End || end > 0)"}}},

	{"feed-reads-cut-record", "a feed shows a record that it read before the log was cut back",
		target{"lsm", "TestChangesCutBack"}, []edit{
			{"internal/feature/feed/feed.go", "if c.log.cuts != c.hub.env.Cuts() {",
				"if false {"}}},

	{"feed-reads-beside-cut", "a log counts as cut back before it is",
		target{"lsm", "TestChangesCutBack"}, []edit{
			{"internal/store/wal/cut.go", "\terr := s.cur.Cut()",
				"\ts.cuts.Add(1)\n\terr := s.cur.Cut()"},
			{"internal/store/wal/cut.go", "\t\ts.cuts.Add(1) // afterwards", "\t\t// afterwards"}}},

	{"feed-of-follower-reads-cut-record", "a follower's feed shows a record that it read before " +
		"the log was cut back", target{"lsm", "TestChangesOfFollowerCutBack"}, []edit{
		{"internal/feature/feed/database.go",
			"env.Cuts = func() uint64 { return uint64(seqs.Visible()) }",
			"env.Cuts = func() uint64 { return 0 }"}}},

	{"feed-damage-is-a-gap", "a feed calls a damaged record gone",
		target{"lsm", "TestChangesDamaged"}, []edit{
			{"internal/feature/feed/feed.go", "err = c.hub.env.judge(c.log, logs)", "err = nil"}}},

	{"feed-passes-over-ingest", "an ingest in LevelDB's format takes no sequence number",
		target{"lsm", "TestChangesKnowIngests"}, []edit{
			{"internal/feature/ingest/ingest.go", "\t\tif j.plain {\n", "\t\tif false {\n"}}},

	{"feed-forgets-ingest", "an opening that carries entries forgets that a number is in no log",
		target{"lsm", "TestChangesKnowIngests"}, []edit{
			{"internal/store/wal/set.go", "if err := s.SkipTo(last + 1); err != nil {\n\t\treturn",
				"if err := s.SkipTo(0); err != nil {\n\t\treturn"},
			{"internal/store/wal/set.go", "s.installed = last // see", "// see"}}},

	{"repair-forgets-ingest", "a repair forgets that a number is in no log",
		target{"lsm", "TestChangesKnowIngests"}, []edit{
			{"internal/feature/repair/logs.go", "r.maxSeq = max(r.maxSeq, max(seq, 1)-1)", ""}}},

	{"feed-untrimmed", "a feed that begins within a batch shows all of it",
		target{"lsm", "TestChangesModel"}, []edit{
			{"internal/feature/feed/feed.go", "if rec.first < c.next || rec.last >= c.log.limit {",
				"if rec.last >= c.log.limit {"}}},
}
