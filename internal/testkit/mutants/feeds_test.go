package mutants

// feeds are mutants of feeds of changes, and of the logs that are kept for them.
var feeds = []mutant{
	{"feed-durable-early", "a record counts as durable once a part of its log is", target{"lsm", "TestChangesDurable"}, []edit{
		{"internal/engine/changes.go", "log == synced.Num && end <= synced.End", "log == synced.Num && (end <= synced.End || end > 0)"}}},

	{"feed-untrimmed", "a feed that begins within a batch shows all of it", target{"lsm", "TestChangesModel"}, []edit{
		{"internal/feed/feed.go", "if rec.first < c.next || rec.last >= c.log.limit {", "if rec.last >= c.log.limit {"}}},
}
