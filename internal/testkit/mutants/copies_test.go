package mutants

// copies are mutants of checkpoints, backups and dumps.
var copies = []mutant{
	{"load-marker-before-sync", "the marker of a load counts blocks that are not durable",
		target{"internal/testkit/crash", "TestLoadStates"}, []edit{
			{"internal/feature/transfer/load.go",
				"\tif err := l.sync(); err != nil {\n\t\treturn err\n\t}\n\tl.marker",
				"\tl.marker"}}},

	{"load-end-not-synced", "a load that has ended is not durable",
		target{"internal/testkit/crash", "TestLoadStates"}, []edit{
			{"internal/feature/transfer/load.go",
				"\tif err := l.sync(); err != nil {\n\t\treturn err\n\t}\n\terr := removeMarker",
				"\terr := removeMarker"}}},

	{"load-end-unmarked", "a load whose marker did not go durably cannot be completed",
		target{"lsm/dump", "TestLastStepOfALoadAgain"}, []edit{
			{"internal/feature/transfer/load.go", "\t\t_ = writeMarker(l.db, &l.marker) // the",
				"\t\t// the"}}},

	{"load-skips-a-block", "a load goes on behind a block that is not in the database",
		target{"internal/testkit/crash", "TestLoadFaults"}, []edit{
			{"internal/feature/transfer/load.go", "\t\t\tl.d.last = last\n", "\t\t\t_ = last\n"}}},

	{"load-creates-on", "a cancelled load creates its other keyspaces first",
		target{"lsm/dump", "TestLoadOfManyKeyspaces"}, []edit{
			{"internal/feature/transfer/writer.go", "if err := w.ctx.Err(); err != nil {",
				"if err := w.ctx.Err(); err != nil && i == 0 {"}}},

	{"dump-of-many-times", "the keyspaces of a dump are of the time at which they are read",
		target{"lsm/dump", "TestDumpBesideWrites"}, []edit{
			{"internal/feature/transfer/state.go", "NoFillCache: true, Snapshot: s.snap",
				"NoFillCache: true"}}},

	{"dump-without-end", "a dump that was cut between blocks is whole",
		target{"lsm/dump", "TestDamage"}, []edit{
			{"internal/feature/transfer/decoder.go",
				"\tcase err != nil:\n\t\treturn false, err\n\tcase f.kind == endFrame",
				"\tcase err != nil && d.last == nil:\n\t\treturn false, err\n\tcase err != " +
					"nil:\n\t\treturn false, nil\n\tcase f.kind == endFrame"}}},

	{"copy-not-synced", "the copied end of a log is not synced",
		target{"internal/testkit/crash", "TestCopyStates"}, []edit{
			{"internal/os/vfs/copy.go", "\t\terr = out.Sync()\n",
				"\t\terr = nil\n"}}},

	{"backup-half-released", "a panic behind the name of a catalog deletes what the catalog lists",
		target{"lsm/backup", "TestPanicInTheLastStep"}, []edit{
			{"internal/feature/backup/create.go", "err := base.Protect(func() error { // after a",
				"err := func(f func() error) error { return f() }(func() error { // after a"}}},

	{"copy-name-not-synced", "the name of a checkpoint is not durable",
		target{"internal/testkit/crash", "TestCopyStates"}, []edit{
			{"internal/feature/backup/stage.go", "s.outer.SyncDir(filepath.Dir(s.to))",
				"error(nil)"}}},

	{"copy-links-open-log", "a log is linked that was not synced and closed",
		target{"internal/testkit/crash", "TestCopyStates"}, []edit{
			{"internal/feature/backup/checkpoint.go",
				"i < len(img.logs)-1 && c.src.SyncFull(l.Num)", "i < len(img.logs)-1"}}},

	{"copy-without-marker", "what a crash leaves of a checkpoint is not known for that",
		target{"lsm", "TestCheckpointAgain"}, []edit{
			{"internal/feature/backup/stage.go",
				"\t\tif slices.Contains(names, marker) {\n\t\t\treturn true, err",
				"\t\tif slices.Contains(names, marker) && names == nil {\n" +
					"\t\t\treturn true, err"}}},

	{"copy-of-two-times", "logs became obsolete that the MANIFEST of a checkpoint needs",
		target{"lsm", "TestCheckpointBesideWrites"}, []edit{
			{"internal/feature/backup/capture.go", "release := s.HoldLogs()",
				"release := func() {}"}}},

	{"copy-logs-first", "the logs of a checkpoint are those of a time before its MANIFEST",
		target{"lsm", "TestCheckpointOrder"}, []edit{
			{"internal/feature/backup/capture.go", "\tcur, err := current.Read(s.FS, s.Dir)\n",
				"\tlogs, err := s.Logs()\n\tif err != nil {\n\t\treturn err\n\t}\n\tcur, err := " +
					"current.Read(s.FS, s.Dir)\n"},
			{"internal/feature/backup/capture.go", "\tlogs, err := s.Logs()\n\tif err != nil " +
				"{\n\t\treturn err\n\t}\n\tst := &res.State", "\tst := &res.State"}}},

	{"copy-stage-in-the-database", "the stage of a checkpoint is opened through the database's " +
		"held directory", target{"lsm", "TestLockGuardsAfterCheckpoint"}, []edit{
		{"internal/os/vfs/dir_unix.go", "{ return holdDir(h.OS, h, dir) }",
			"{ return h, nil, nil }"},
		{"internal/os/vfs/dir_unix.go", "if name != filepath.Join(h.path, base.LockName) {",
			"if name == \"\" {"}}},

	{"copy-files-are-the-database's", "a file outside of the held directory is watched as " +
		"one in it", target{"internal/os/vfs", "TestHeldDirsApart"}, []edit{
		{"internal/os/vfs/dir_unix.go", "\tif err != nil || in == nil {\n\t\treturn f, nil, " +
			"err\n\t}\n", "\tif err != nil {\n\t\treturn f, nil, err\n\t}\n\tif in == nil " +
			"{\n\t\tin = h\n\t}\n"}}},

	{"copy-not-checked", "a checkpoint does not notice that a file was taken out of it",
		target{"internal/testkit/strangers", "TestStrangers/checkpoint"}, []edit{
			{"internal/feature/backup/stage.go", "s.made.Check(fsys, s.dir); err != nil",
				"s.made.Check(fsys, s.dir); false && err != nil"},
			{"internal/feature/backup/stage.go", "if err != nil || !info.Mode().IsRegular() || " +
				"info.Size() < size {", "if false && info.Size() < size {"}}},

	{"copy-no-last-look", "what is taken out of a copy after it got its name is not noticed",
		target{"internal/testkit/strangers", "TestTakenFile/restore"}, []edit{
			{"internal/feature/backup/stage.go", "return s.lastLook(made)", "return nil"}}},

	{"backup-no-last-look", "what is taken out of a backup before its catalog is written is not " +
		"noticed", target{"internal/testkit/strangers", "TestTakenFile/backup"}, []edit{
		{"internal/feature/backup/create.go", "err = f.lastLook(c, made)", "err = nil"}}},

	{"copy-by-name-alone", "a file that another program put in the place of one of a copy is " +
		"not noticed", target{"internal/testkit/strangers", "TestTakenFile/restore"}, []edit{
		{"internal/os/fileid/made.go", "own = !ok || !f.known || id == f.id",
			"own = !ok || !f.known || id.Dev == f.id.Dev"}}},

	{"export-follows-chdir", "an export looks its target up again",
		target{"lsm", "TestExportChdir"}, []edit{
			{"internal/feature/transfer/export.go", "if to, err = vfs.Absolute(dst.FS, to); err " +
				"!= nil {", "if _, err = vfs.Absolute(dst.FS, to); err != nil {"}}},

	{"copy-without-pins", "tables are deleted that a checkpoint is about to link",
		target{"lsm", "TestCheckpointBesideWrites"}, []edit{
			{"internal/feature/backup/capture.go", "s.Files.Pin()", "s.Files.Pin(base.LockName)"},
			{"internal/feature/backup/capture.go", "s.Files.Pin(img.names(s.Format)...)",
				"s.Files.Pin(base.LockName)"}}},

	{"copy-beside-drops", "keyspaces are created and dropped while a checkpoint takes its state",
		target{"lsm", "TestCheckpointBesideWrites"}, []edit{
			{"internal/store/keyspace.go",
				"\tks.db.spaces.mu.Lock()\n\tdefer ks.db.spaces.mu.Unlock()\n\treturn f()",
				"\treturn f()"}}},

	{"backup-without-sync", "an object is not synced before the catalog",
		target{"internal/testkit/crash", "TestBackupStates"}, []edit{
			{"internal/feature/backup/batch.go", "return f.out.Sync()", "return nil"}}},

	{"backup-batch-forgotten", "a sync that failed does not fail the backup",
		target{"internal/feature/backup", "TestBatch"}, []edit{
			{"internal/feature/backup/batch.go",
				"return base.Protect(func() error { return f.then(err) })",
				"_ = f.then(err)\n\treturn nil"}}},

	{"backup-names-not-synced", "the names of objects are not durable before the catalog",
		target{"internal/testkit/crash", "TestBackupStates"}, []edit{
			{"internal/feature/backup/create.go",
				"return c.folder.fs.SyncDir(filepath.Join(c.folder.path, objectsDir))",
				"return nil"}}},

	{"backup-catalog-name-not-synced", "the name of a catalog is not durable",
		target{"internal/testkit/crash", "TestBackupStates"}, []edit{
			{"internal/feature/backup/create.go", "\t\terr = f.fs.SyncDir(f.path)\n",
				"\t\terr = nil\n"}}},

	{"backup-objects-before-catalog", "objects are deleted before the deletion of their catalog " +
		"is durable", target{"internal/testkit/crash", "TestBackupStates"}, []edit{
		{"internal/feature/backup/folder.go", "\tif serr := f.fs.SyncDir(f.path); serr != nil " +
			"{\n\t\tf.unsure = serr\n\t\treturn errors.Join(err, serr)\n\t}\n", ""}}},

	{"backup-deletion-leaks", "after a deletion that fails the objects of those before stay",
		target{"lsm/backup", "TestDeletionFails"}, []edit{
			{"internal/feature/backup/folder.go", "\t\t\tids = ids[:i]\n\t\t\tbreak\n",
				"\t\t\t_ = i\n\t\t\treturn err\n"}}},

	{"backup-catalog-replaced", "a replaced catalog gives up what it did not refer to",
		target{"lsm/backup", "TestReplacedCatalog"}, []edit{
			{"internal/feature/backup/folder.go", "err == nil && c.info() != info",
				"err == nil && c.info() != info && c == nil"}}},

	{"backup-reads-twice", "a table of the size of another one is read twice",
		target{"lsm/backup", "TestSameSize"}, []edit{
			{"internal/feature/backup/create.go", "fingerprint{it.size, it.crc, it.hasCRC}",
				"fingerprint{it.size, 0, false}"},
			{"internal/feature/backup/catalog.go", "fingerprint{s.object.size, s.crc, s.hasCRC}",
				"fingerprint{s.object.size, 0, false}"}}},

	{"backup-number-twice", "the number of a deleted backup is given out again",
		target{"lsm/backup", "TestBackups"}, []edit{
			{"internal/feature/backup/folder.go", "ext != catalogExt && ext != deletedExt {",
				"ext != catalogExt {"}}},

	{"backup-number-forgotten", "a number is given out again after a creation that failed",
		target{"lsm/backup", "TestNumberAfterAFailure"}, []edit{
			{"internal/feature/backup/folder.go", "if id == f.named {", "if id == f.last {"}}},

	{"backup-unreadable-shared", "a backup shares contents that the disk cannot read",
		target{"lsm/backup", "TestUnreadableIsNotShared"}, []edit{
			{"internal/feature/backup/restore.go", "if errors.Is(reads.last, syscall.EIO) {",
				"if errors.Is(reads.last, syscall.EAGAIN) {"}}},

	{"backup-without-comparison", "a damaged table gets into a backup",
		target{"lsm/backup", "TestDamagedTable"}, []edit{
			{"internal/feature/backup/create.go", "return it.table.checkSum(s.crc)",
				"return nil"}}},

	{"restore-without-comparison", "a damaged backup is restored",
		target{"lsm/backup", "TestDamage"}, []edit{
			{"internal/feature/backup/restore.go", "s.sha != file.object.sum", "len(s.sha) == 0"}}},

	{"backup-known-by-name", "a table is taken for one that was read, by name and size",
		target{"lsm/backup", "TestUnchangedTablesAreNotRead"}, []edit{
			{"internal/feature/backup/create.go", "known[s.key(s.object.size)]",
				"s.source = identity{}; known[s.key(s.object.size)]"},
			{"internal/feature/backup/create.go", "if id, ok := c.known[it.key(it.size)]; ok && " +
				"it.source != (identity{})", "was := it.source; it.source = identity{}; if id, " +
				"ok := c.known[it.key(it.size)]; ok && was != (identity{})"}}},

	{"backup-frees-beside-damage", "objects are deleted that a damaged catalog may need",
		target{"lsm/backup", "TestDamagedCatalog"}, []edit{
			{"internal/feature/backup/folder.go", "\t\tif info.Err != nil {\n\t\t\treturn false\n",
				"\t\tif info.Err != nil {\n\t\t\treturn true\n"}}},

	{"backup-frees-nothing", "objects that no backup needs stay",
		target{"lsm/backup", "TestBackups"}, []edit{
			{"internal/feature/backup/folder.go", "\t\tif o.refs > 0 {\n\t\t\tcontinue\n",
				"\t\tif o.refs >= 0 {\n\t\t\tcontinue\n"}}},

	{"backup-restored-unheld", "the objects of a backup that is being restored are deleted with it",
		target{"lsm/backup", "TestDeleteBesideRestore"}, []edit{
			{"internal/feature/backup/folder.go", "\tf.refer(c)\n\treturn c, nil",
				"\treturn c, nil"},
			{"internal/feature/backup/folder.go", "\tdefer f.mu.Unlock()\n\tf.dropLocked(c)\n",
				"\tdefer f.mu.Unlock()\n"}}},

	{"backup-viewed-unheld", "the objects of a backup that a view shows are deleted with it",
		target{"lsm/backup", "TestView"}, []edit{
			{"internal/feature/backup/folder.go", "\tf.refer(c)\n\treturn c, nil",
				"\treturn c, nil"},
			{"internal/feature/backup/folder.go", "\tdefer f.mu.Unlock()\n\tf.dropLocked(c)\n",
				"\tdefer f.mu.Unlock()\n"}}},

	{"holes-copied", "what follows the last record of a log is copied, a hole of any length too",
		target{"lsm/backup", "TestHoleBehindALog"}, []edit{
			{"internal/store/host.go", "size = min(size, end)", "_ = end"}}},

	{"backup-view-cut", "a view shows a file of another length",
		target{"lsm/backup", "TestViewOfDamage"}, []edit{
			{"internal/feature/backup/view.go", "if r.Size() != id.size {", "if false {"}}},

	{"backup-frees-shared", "deleting a backup frees objects that others need",
		target{"lsm/backup", "TestBackups"}, []edit{
			{"internal/feature/backup/folder.go", "f.objects[c.files[i].object].refs--",
				"f.objects[c.files[i].object].refs = 0"}}},

	{"backup-keeps-the-oldest", "Keep deletes the newest backups",
		target{"lsm/backup", "TestBackups"}, []edit{
			{"internal/feature/backup/folder.go", "range slices.Backward(ids)",
				"range slices.All(ids)"}}},

	{"backup-keeps-one-less", "Keep deletes one backup too many",
		target{"lsm/backup", "TestSeveralDatabases"}, []edit{
			{"internal/feature/backup/folder.go", "kept[info.Database] > n",
				"kept[info.Database] >= n"}}},

	{"backup-keeps-of-all", "Keep counts the backups of several databases together",
		target{"lsm/backup", "TestSeveralDatabases"}, []edit{
			{"internal/feature/backup/folder.go", "if kept[info.Database]++; info.Err == nil && " +
				"kept[info.Database] > n", "if kept[\"\"]++; info.Err == nil && kept[\"\"] > n"}}},

	{"backup-shares-damage", "damage that Verify named is shared by the next backup",
		target{"lsm/backup", "TestDamageIsNotShared"}, []edit{
			{"internal/feature/backup/create.go", "!o.there || o.damaged", "!o.there"}}},

	{"backup-damage-forgotten", "damage that Verify named is forgotten when the folder is closed",
		target{"lsm/backup", "TestDamageIsNotShared"}, []edit{
			{"internal/feature/backup/folder.go", "o.damaged, o.marked = true, true",
				"o.marked = true"}}},

	{"backup-delete-while-made", "objects that a backup under way shares are deleted with an " +
		"older one", target{"lsm/backup", "TestSideBySide"}, []edit{
		{"internal/feature/backup/create.go", "\to.refs++\n\treturn true\n", "\treturn true\n"}}},
}
