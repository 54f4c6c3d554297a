package mutants

// copies are mutants of checkpoints.
var copies = []mutant{
	{"copy-not-synced", "the copied end of a log is not synced", target{"internal/testkit/crash", "TestCopyStates"}, []edit{
		{"internal/backup/checkpoint.go", "\t\terr = out.Sync()\n", "\t\terr = nil\n"}}},

	{"copy-name-not-synced", "the name of a checkpoint is not durable", target{"internal/testkit/crash", "TestCopyStates"}, []edit{
		{"internal/backup/stage.go", "s.fs.SyncDir(filepath.Dir(s.to))", "error(nil)"}}},

	{"copy-links-open-log", "a log is linked that was not synced and closed", target{"internal/testkit/crash", "TestCopyStates"}, []edit{
		{"internal/backup/checkpoint.go", "if !last && c.src.SyncFull(l.Num) {", "if !last {"}}},

	{"copy-without-marker", "what a crash leaves of a checkpoint is not known for that", target{"lsm", "TestCheckpointAgain"}, []edit{
		{"internal/backup/stage.go", "slices.Contains(names, marker)", "slices.Contains(names, marker) && names == nil"}}},

	{"copy-of-two-times", "logs became obsolete that the MANIFEST of a checkpoint needs", target{"lsm", "TestCheckpointBesideWrites"}, []edit{
		{"internal/backup/capture.go", "if oldest > st.LogNum {", "if oldest == 1<<63 {"}}},

	{"copy-without-pins", "tables are deleted that a checkpoint is about to link", target{"lsm", "TestCheckpointBesideWrites"}, []edit{
		{"internal/backup/capture.go", "s.Files.Pin()", "s.Files.Pin(base.LockName)"},
		{"internal/backup/capture.go", "s.Files.Pin(img.names(s.Format)...)", "s.Files.Pin(base.LockName)"}}},

	{"copy-beside-drops", "keyspaces are created and dropped while a checkpoint takes its state", target{"lsm", "TestCheckpointBesideWrites"}, []edit{
		{"internal/engine/copies.go", "\t\t\tdb.spaces.mu.Lock()\n\t\t\tdefer db.spaces.mu.Unlock()\n", ""}}},
}
