package mutants

// A mutant is a change of the engine's source and the test that must fail
// with it. Each old text must stand exactly once in its file; a refactoring
// that changes the text changes the row.
type mutant struct {
	name, what string
	found      target
	edits      []edit
}

// target is a test: its package below the module's root and what -run selects.
type target struct{ pkg, test string }

type edit struct{ file, old, new string }

var (
	metamorphic = target{"internal/testkit/metamorphic", "TestHistories"}
	states      = target{"internal/testkit/crash", "TestCrashStates"}
	trees       = target{"internal/testkit/crash", "TestTreeStates"}
	rotation    = target{"internal/testkit/crash", "TestCrashStates/native/rotate"}
	faults      = target{"internal/testkit/crash", "TestFaults"}
	snapshots   = target{"internal/testkit/history", "TestBank"}
	serial      = target{"internal/testkit/history", "TestSerializable"}
	hermitage   = target{"lsm", "TestHermitage"}
	afterClose  = target{"internal/testkit/lifetimes", "TestAfterClose"}
	readers     = target{"internal/tree/memtable", "TestReadersBesideInserts"}
	counts      = target{"internal/tree/compact", "TestLostEntriesAreAnError"}
	memory      = target{"internal/testkit/memory", "TestMemoryFaults"}
	unordered   = target{"lsm", "TestFlushKeepsWhatItCannotOrder"}
)

func surrounding(test string) target { return target{"internal/testkit/surroundings", test} }

// table has a row a mutant. {name, what is wrong, found by, edits}
var table = []mutant{
	{"span-taken-for-zero", "small pieces of pages that had others are not cleared",
		target{"internal/memory/offheap", "TestZeroedAndDisjoint"}, []edit{
			{"internal/memory/offheap/slab.go", "dirty: dirty != ", "dirty: dirty == "}}},

	{"cut-file-unnoticed", "zeros of a page with the end of a file that was cut off are taken " +
		"for its bytes", target{"internal/format/inplace", "TestCutFile"}, []edit{
		{"internal/format/inplace/inplace.go", "if bytes.Equal(b.data[len(b.data)-tailLen:], " +
			"b.tail[:]) {", "if bytes.Equal(b.tail[:], b.tail[:]) {"}}},

	{"range-tombstone-cut-short", "a range tombstone that is cut where tables meet goes on " +
		"behind the first key of the second",
		target{"internal/tree/compact", "TestRangeDelsAreCut"}, []edit{
			{"internal/tree/compact/range_dels.go", "o.cut = border",
				"o.cut = append(append([]byte{}, border...), 0)"}}},

	{"range-tombstone-dropped-early", "a range tombstone is dropped above tables that it covers",
		target{"internal/tree/compact", "TestSurviveScript"}, []edit{
			{"internal/tree/compact/range_dels.go", " && !v.HasWithin(c.cmp, first, f.Start, " +
				"f.Limit) {", " {"}}},

	{"range-tombstone-for-all", "a range tombstone drops what a snapshot under it sees",
		target{"internal/tree/compact", "TestSurviveScript"}, []edit{
			{"internal/tree/compact/range_dels.go",
				"s > t.Seq() && c.stripe(s) == c.stripe(t.Seq())", "s > t.Seq()"}}},

	{"range-tombstone-backward", "iterators look at no range tombstones on their way back",
		target{"lsm", "TestDeleteRange"}, []edit{
			{"internal/tree/iters/cursor.go",
				"if c.dels != nil { // see findNextUserEntry", "if false {"}}},

	{"range-tombstone-not-jumped", "iterators step through what range tombstones cover",
		target{"lsm", "TestDeleteRangeIsJumped"}, []edit{
			{"internal/tree/iters/covers.go", "\tcase d.source < source:\n\t\tc.jump(in, " +
				"source)\n\t\treturn true\n", ""}}},

	{"covered-tables-early", "tables that range tombstones cover are dropped though a snapshot " +
		"sees them", target{"lsm", "TestDeleteRangeFreesSpace"}, []edit{
		{"internal/store/work/range_dels.go", "if !any {", "if any || !any {"}}},

	{"mapping-after-fault", "a mapping is used again after a fault",
		target{"internal/format/inplace", "TestFault"}, []edit{
			{"internal/format/inplace/inplace.go",
				"if off > b.end || n > b.end-off || b.gone.Load() {\n\t\treturn nil, false",
				"if off > b.end || n > b.end-off {\n\t\treturn nil, false"}}},

	{"unverified-in-place", "blocks are read in place before they were verified",
		target{"internal/format/inplace", "TestBlocks"}, []edit{
			{"internal/format/inplace/inplace.go", "if b == nil || !b.isVerified(i) {",
				"if b == nil {"}}},

	{"missing-pages-touched", "reads in place do not ask for their pages while some are missing",
		target{"internal/format/inplace", "TestMissingPages"}, []edit{
			{"internal/format/inplace/watch.go", "\treturn in\n", "\treturn true\n"}}},

	{"seen-faults-stay-seen", "page faults that were seen once are taken for new ones",
		target{"internal/format/inplace", "TestWatch"}, []edit{
			{"internal/format/inplace/watch.go", "was > 0 && faults >= was", "was > 0"}}},

	{"txn-lost-update", "a commit does not look for newer entries of the keys that it writes",
		hermitage, []edit{
			{"internal/feature/txn/commit.go",
				"if !tx.o.Lock && !tx.blind && tx.batch != nil { // else", "if false { // else"}}},

	{"txn-write-skew", "a serializable commit does not look for newer entries of the keys that " +
		"were read", serial, []edit{
		{"internal/feature/txn/commit.go", "\ttx.reads.Keys(newer)\n", ""}}},

	{"txn-phantom", "a serializable commit does not look into the ranges that were read", hermitage,
		[]edit{
			{"internal/feature/txn/commit.go", "err := c.checkRanges(&c.unions[i]); err != nil {",
				"err := c.checkRanges(&c.unions[i]); err != nil && i < 0 {"}}},

	{"txn-one-step", "what is written between the first step of a check and the lead is not " +
		"looked at", serial, []edit{
		{"internal/feature/txn/commit.go", "if last == c.seen {", "if last >= c.seen {"}}},

	{"txn-late-phantom", "of what is written between the two steps of a check, ranges are not " +
		"looked at", serial, []edit{
		{"internal/feature/txn/commit.go", "if u.Holds(k.Comparer(), key) {", "if false {"}}},

	{"txn-group", "of a group of transactions the first alone is checked against what is in the " +
		"memtable", target{"internal/store/write", "TestCondition"}, []edit{
		{"internal/store/write/condition.go", "end != nil && end.condition == nil;",
			"end != nil;"}}},

	{"txn-unlocked-table", "a lock is not given back when its transaction ends", hermitage, []edit{
		{"internal/feature/txn/txn.go", "tx.m.lockTable().ReleaseAll(tx.owner)", "_ = tx.owner"}}},

	{"txn-dropped-keyspace",
		"a commit does not look whether a keyspace that it has read was dropped",
		target{"lsm", "TestTxnMeetsDroppedKeyspace"}, []edit{
			{"internal/feature/txn/commit.go",
				"if k.ID() == base.DefaultKeyspace || !c.hasRead(k.ID()) {", "if true {"}}},

	{"txn-range-blind", "a commit does not look into the ranges that the transaction deleted",
		target{"lsm", "TestRangeConflicts"}, []edit{
			{"internal/feature/txn/commit.go", "tx.batch.eachRange(tx.reads.addRange)",
				"_ = tx.reads.addRange"}}},

	{"txn-range-unseen", "an iterator of a transaction does not see its range deletes",
		target{"lsm", "TestTxnKinds"}, []edit{
			{"internal/tree/iters/covers.go", "\tif r.Own {\n\t\treturn base.MaxSeqNum",
				"\tif r.Own {\n\t\treturn d.seq"}}},

	{"txn-range-stays", "a rollback to a savepoint leaves range deletes that were read",
		target{"lsm", "TestTxnKinds"}, []edit{
			{"internal/feature/txn/range_dels.go", "d.lists, d.listed = nil, 0", "d.listed = n"}}},

	{"txn-operand-below", "an operand of a transaction is folded with what its range delete hides",
		target{"lsm", "TestTxnKinds"}, []edit{
			{"internal/feature/txn/batch.go", "case sequence(s.list.nodes[n].off) < covered || " +
				"kind.IsTombstone():", "case kind.IsTombstone():"}}},

	{"skip-dir-fsync", "the directory is not synced after CURRENT was renamed", states, []edit{
		{"internal/format/current/current.go", "if err := c.syncDir(filepath.Dir(c.target)); err " +
			"!= nil { // the new pointer",
			"if err := error(nil); err != nil { // the new pointer"}}},

	{"current-before-manifest", "CURRENT names a MANIFEST that is not synced", states, []edit{
		{"internal/format/manifest/apply.go", "calls := []func() error{w.Sync, ",
			"calls := []func() error{"}}},

	{"current-before-log", "CURRENT names a MANIFEST that relies on a log that is not synced",
		states, []edit{
			{"internal/store/recovery.go", "beside = append(beside, db.wal.SyncFirst)",
				"_ = beside"}}},

	{"current-before-its-file", "CURRENT is renamed before its contents are synced", states, []edit{
		{"internal/format/current/current.go", "if err := c.file.Sync(); err != nil {",
			"if err := error(nil); err != nil {"}}},

	{"unlink-early", "the old MANIFEST goes before the rename of CURRENT is durable", states,
		[]edit{
			{"internal/format/manifest/apply.go", "\tif renamed, err := next.Commit(",
				"\t_ = s.opts.FS.Remove(s.path(s.format.FileName(base.FileManifest, " +
					"s.manifest.Load())))\n\tif renamed, err := next.Commit("}}},

	{"upgrade-removes-current-first", "an upgrade removes LevelDB's CURRENT before the native " +
		"one names a MANIFEST", target{"internal/testkit/crash", "TestUpgradeStates"}, []edit{
		{"internal/format/current/current.go", "\treturn c.made, c.fs.MkdirAll(c.made)",
			"\t_ = c.fs.Remove(filepath.Join(c.dir, base.CurrentName))\n\tc.removes = " +
				"false\n\treturn c.made, c.fs.MkdirAll(c.made)"}}},

	{"strangers-are-deleted",
		"in a native directory, files with names of LevelDB's count as its own",
		target{"lsm", "TestStrangersOfTheOtherFormat"}, []edit{
			{"internal/format/manifest/set.go", "t == base.FileInfoLog || num >= s.levelDBBelow",
				"t == base.FileInfoLog"}}},

	{"reuse-file-number", "a file number is given out twice", states, []edit{
		{"internal/format/manifest/set.go", "return s.nextFile.Add(1) - 1",
			"return s.nextFile.Load()"}}},

	{"no-sync-at-rotation", "the next log is written to before the last one is synced", rotation,
		[]edit{
			{"internal/store/wal/set.go", "if old.err = old.w.Sync(); old.err != nil {",
				"if old.err != nil {"}}},

	{"split-batch", "a batch is appended to the log in two records", states, []edit{
		{"internal/store/batch.go", "\terr := k.commit(b, mode)\n\tfor err",
			`	for it := batchrepr.ReadDraft(b.Repr, k.ID()); b.Count() > 1; {
		id, kind, key, value, ok := it.Next()
		if !ok {
			return it.Err()
		}
		one := Batch{Repr: batchrepr.Init(nil)}
		one.AddIn(k.db.keyspaceByID(id), kind, key, value)
		if err := k.Commit(&one, mode); err != nil {
			return err
		}
	}
	err := k.commit(b, mode)
	for err`}}},

	{"keyspace-tables-before-logs", "a keyspace's tables are live before the logs with the rest " +
		"of their batches are durable", trees, []edit{
		{"internal/store/work/keyspaces.go", "return s.opts.WAL.SyncBefore(next)",
			"_ = next\n\treturn nil"}}},

	{"keyspace-logs-of-others", "a flush deletes logs that another keyspace needs", trees, []edit{
		{"internal/store/work/install.go", "oldest = min(oldest, log)", "_ = log"}}},

	{"keyspace-id-again", "a keyspace gets the ID of one that was dropped", trees, []edit{
		{"internal/format/manifest/keyspace.go", "s.maxID++ // used up, whatever comes",
			"for s.maxID = 1; s.find(s.maxID) != nil; s.maxID++ {\n\t}"}}},

	{"keyspace-replayed-twice", "recovery reads back what a keyspace has in tables",
		target{"lsm", "TestRotationLeavesOtherKeyspaces"}, []edit{
			{"internal/store/replay/replay.go", "s == nil || log < s.FirstLog", "s == nil"}}},

	{"keyspace-keeps-logs", "a keyspace that is seldom written keeps all logs",
		target{"lsm", "TestSeldomWrittenKeyspaceKeepsNoLogs"}, []edit{
			{"internal/store/work/group.go", "for _, k := range pinning {",
				"for _, k := range pinning[:0] {"}}},

	{"keyspace-drop-not-seen", "jobs of a keyspace that was dropped make the database read-only",
		target{"lsm", "TestDroppedWhileCompacting"}, []edit{
			{"internal/store/work/install.go", "if errors.Is(err, base.ErrNoKeyspace) {",
				"if errors.Is(err, base.ErrNoKeyspace) && false {"}}},

	{"append-error-ignored", "writes go on after a failed append", faults, []edit{
		{"internal/store/write/pipeline.go", "p.env.Append(p.batches); err != nil {",
			"p.env.Append(p.batches); false {"}}},

	{"sync-error-ignored", "writes go on after a failed sync", faults, []edit{
		{"internal/store/write/pipeline.go", "p.env.Sync(); err != nil {",
			"p.env.Sync(); false {"}}},

	{"publish-early", "a sequence number is visible before its entries", snapshots, []edit{
		{"internal/store/write/pipeline.go", "\tfor _, b := range p.batches {\n\t\tif err := " +
			"p.target.Apply(",
			"\tp.env.Publish(p.last + 1)\n\tfor _, b := range p.batches {\n\t\tif err := " +
				"p.target.Apply("}}},

	{"eio-is-eof", "a failure to read the log counts as its end",
		target{"internal/format/record", "TestReadErrorIsNotDamage"}, []edit{
			{"internal/format/record/blocks.go", "n < len(p) {\n",
				"n < len(p) {\n\t\tif err != nil {\n\t\t\treturn io.EOF\n\t\t}\n"}}},

	{"skip-chain", "a chunk need not name the checksum of the one before it",
		target{"internal/format/record", "TestTwoHistories"}, []edit{
			{"internal/format/record/chain_reader.go", "h.previous() == r.previous &&",
				"true &&"}}},

	{"ignore-durable", "what later chunks say was durable does not count",
		target{"internal/format/record", "TestEveryByte"}, []edit{
			{"internal/format/record/chain_reader.go", "durable := max(r.durable, r.synced)",
				"durable := r.synced"}}},

	{"ignore-next-log", "what a log says of the one before it does not count",
		target{"internal/store/wal", "TestChainedLogs"}, []edit{
			{"internal/store/wal/chained.go", "case gap.Num == before.Num && before.Durable > " +
				"gap.End,", "case false,"}}},

	{"replay-behind-gap", "a log is replayed behind one that lost its end",
		target{"internal/store/wal", "TestChainedLogs"}, []edit{
			{"internal/store/wal/chained.go", "case gap == nil:\n\t\treturn false\n",
				"case gap == nil, true:\n\t\treturn false\n"}}},

	{"replay-copies", "what a recovery copied before it was cut off is replayed again",
		target{"internal/store/wal", "TestInterruptedRecovery"}, []edit{
			{"internal/store/wal/chained.go", "case isCopy:\n\t\treturn true\n",
				"case isCopy:\n\t\treturn false\n"}}},

	{"full-log-unvouched", "the MANIFEST does not know that the logs of a flush are durable",
		target{"lsm", "TestOldestLogIsDurableAfterFlush"}, []edit{
			{"internal/store/wal/set.go", "s.raiseDurable(record.LogEnd{Num: o.num, End: o.bytes})",
				"_ = o.bytes"}}},

	{"log-without-marker", "a log does not say that the numbers before its end were taken",
		target{"lsm", "TestNumbersInNoLog"}, []edit{
			{"internal/store/wal/set.go", "(s.next <= last || s.installed != 0)", "false"}}},

	{"batch-without-marker", "a log does not say that numbers between two records were taken",
		target{"lsm", "TestNumbersInNoLog"}, []edit{
			{"internal/store/wal/set.go", "if first > s.next || s.installed != 0 {",
				"if false {"}}},

	{"recycle-needed-log", "a log becomes the next one before its entries are in tables",
		target{"internal/store/wal", "TestReuse"}, []edit{
			{"internal/store/wal/set.go", "\ts.kept.Add(old.bytes)\n",
				"\ts.kept.Add(old.bytes)\n\ts.reusable = s.full[0].num\n"}}},

	{"skip-log-damage", "the log is read on behind a damaged record", states, []edit{
		{"internal/store/wal/replay.go",
			"\t\tcase errors.Is(err, base.ErrCorruption):\n\t\t\ttorn :=",
			"\t\tcase err != nil && reader.Resume():\n\t\t\tcontinue\n\t\tcase errors.Is(err, " +
				"base.ErrCorruption):\n\t\t\ttorn :="}}},

	{"skip-crc", "block checksums are not looked at",
		target{"internal/format/block", "TestSealAndOpen"}, []edit{
			{"internal/format/block/block.go", "got != want {", "got != want && false {"}}},

	{"batch-count", "a batch whose count is wrong is accepted", metamorphic, []edit{
		{"internal/format/batchrepr/batchrepr.go", "if seen != n {", "if false {"}}},

	{"drop-tombstone", "a tombstone goes while a deeper level holds its key", metamorphic, []edit{
		{"internal/tree/compact/collapse.go", "!c.deeper.mayHold(key)",
			"(!c.deeper.mayHold(key) || true)"}}},

	{"drop-operand", "a read leaves out the oldest operand",
		target{"internal/tree", "TestOperandsAreFolded"}, []edit{
			{"internal/tree/resolve.go",
				"\t\tr.fold.Operand(buf)\n\t\tr.found = true\n\t\treturn true\n",
				"\t\tr.fold.Operand(buf)\n\t\tr.found = true\n\t\treturn r.fold.Len() < 3\n"}}},

	{"operands-reversed", "an iterator that runs forward applies operands newest first",
		metamorphic, []edit{
			{"internal/tree/iters/cursor_fold.go", "return c.show(key, true)",
				"return c.show(key, false)"}}},

	{"fold-across-snapshot", "a compaction folds operands that a snapshot tells apart", metamorphic,
		[]edit{
			{"internal/tree/compact/fold.go", "(first || w.collapse.stripe(t.Seq()) != f.stripe)",
				"first"}}},

	{"fold-above-older", "a compaction takes operands for all that there is of a key", metamorphic,
		[]edit{
			{"internal/tree/compact/fold.go", "!w.collapse.deeper.mayHold(key)", "true"}}},

	{"failed-fold-drops", "a merge operator that fails in a compaction costs the operands",
		target{"lsm", "TestFailingOperatorKeepsOperands"}, []edit{
			{"internal/tree/compact/fold.go", "\t\tw.foldFailed(err)\n\t\treturn false, nil\n",
				"\t\tw.foldFailed(err)\n\t\tw.res.Dropped += uint64(f.n)\n\t\tf.n = " +
					"0\n\t\tf.ops.Reset()\n\t\treturn true, nil\n"}}},

	{"drop-snapshot-key", "an entry goes that a snapshot needs", metamorphic, []edit{
		{"internal/tree/compact/collapse.go", "(len(c.snapshots) == 0 || c.stripe(c.lastSeq) == " +
			"c.stripe(seq))", "true"}}},

	{"forget-l0-input", "a compaction leaves out an overlapping table of level 0", metamorphic,
		[]edit{
			{"internal/tree/picker/inputs.go", "\tplan.Inputs[from] = files\n\tall :=",
				"\tif from == 0 && len(files) > 1 {\n\t\tfiles = " +
					"files[:len(files)-1]\n\t}\n\tplan.Inputs[from] = files\n\tall :="}}},

	{"direction-change", "an iterator that turns round skips an entry", metamorphic, []edit{
		{"internal/tree/iters/cursor.go", "\t\tc.hide = true\n\tcase !c.past:",
			"\t\tc.hide = true\n\t\tif len(m.ord) > 0 {\n\t\t\tm.advance(m.in[m.ord[0].in].i - " +
				"1)\n\t\t}\n\tcase !c.past:"}}},

	{"bloom-miss", "the filter denies a key that is there", metamorphic, []edit{
		{"internal/format/filter/bloom.go", "MayContain(h uint64) bool {\n",
			"MayContain(h uint64) bool {\n\tif h%8 == 0 {\n\t\treturn false\n\t}\n"}}},

	{"free-block-early", "an iterator's block is released while it is read", metamorphic, []edit{
		{"internal/format/sstable/blocktable/source.go",
			"\t\t\ts.view.Prefetch(s.n - 1)\n\t\t}\n\t}\n",
			"\t\t\ts.view.Prefetch(s.n - 1)\n\t\t}\n\t}\n\ts.releaseFrame()\n"}}},

	{"unlock-on-failure", "a failed opening gives up the lock of the open database",
		target{"internal/os/vfs", "TestLock"}, []edit{
			{"internal/os/vfs/lock_unix.go", "\t\t\treturn nil, errLockedHere\n",
				"\t\t\tl.f.Close()\n\t\t\tdelete(held.files, l.key)\n\t\t\treturn nil, " +
					"errLockedHere\n"}}},

	{"failed-is-empty", "a memtable that could not be ordered counts as empty", unordered, []edit{
		{"internal/tree/memtable/source.go", "\treturn -1, f.err\n", "\treturn -1, nil\n"},
		{"internal/store/work/flush.go", "\tif err == nil && i < 0 {\n\t\terr = fmt.Errorf(",
			"\tif err == nil && i < 0 {\n\t\t_ = fmt.Errorf("},
		{"internal/store/work/flush.go", "\treturn smallest, slices.Clone(e.Key(i)), nil\n",
			"\treturn smallest, smallest, nil\n"},
		{"internal/tree/compact/run.go", "case w.exactly != nil && *w.exactly != r.EntriesIn:",
			"case w.exactly == nil && r == nil:"}}},

	{"flush-uncounted", "a flush does not compare its entries with the memtable's",
		target{"internal/tree/compact", "TestSurviveScript"}, []edit{
			{"internal/tree/compact/run.go", "case w.exactly != nil && *w.exactly != r.EntriesIn:",
				"case w.exactly == nil && r == nil:"}}},

	{"tables-unsynced", "the last tables of a merge are live before they are synced",
		target{"internal/tree/compact", "TestAllAreSyncedInTheEnd"}, []edit{
			{"internal/tree/compact/run.go", "err = w.out.sync()", "err = nil"}}},

	{"blocks-uncounted", "a compaction does not look for blocks that it left out", counts, []edit{
		{"internal/tree/compact/counts.go", "case r.From > to:", "case r.From > to && r.To < 0:"},
		{"internal/tree/compact/counts.go", "\tif to != first.Blocks {",
			"\tif to > first.Blocks {"}}},

	{"index-entry-lost", "a table goes on after an index entry found no memory", memory, []edit{
		{"internal/format/sstable/blocktable/writer.go",
			"\tif w.Fail(w.hashes.Reserve(8)) {\n\t\treturn\n",
			"\tif w.Err = w.hashes.Reserve(8); w.Err != nil {\n\t\treturn\n"},
		{"internal/format/sstable/ldb/writer.go", "\tif w.Err == nil && w.index.Count() != " +
			"w.Meta.Blocks {", "\tif w.Err == nil && w.index.Count() < 0 {"}}},

	{"replay-leak", "a failed open keeps its replayed memtables",
		target{"lsm", "TestFailedOpenLeavesNothing"}, []edit{
			{"internal/store/open.go", "\tdefer r.free()\n", ""}}},

	{"rotate-without-memory", "a memtable is sealed before there is memory for the next", memory,
		[]edit{
			{"internal/tree/tree.go", "\treturn mem, mem.Room(bytes, entries)\n",
				"\treturn mem, nil\n"}}},

	{"stale-slots", "an index that grows forgets every eighth key",
		target{"internal/tree/memtable", "TestKeysBuiltToMeet"}, []edit{
			{"internal/tree/memtable/hash_index.go", "\t\tif s == 0 {\n\t\t\tcontinue",
				"\t\tif s == 0 || i%8 == 7 {\n\t\t\tcontinue"}}},

	{"public-hash", "the memtable's index has the hash that anybody can compute",
		target{"internal/tree/memtable", "TestKeysBuiltToMeet"}, []edit{
			{"internal/tree/memtable/hash_index.go", "return maphash.Bytes(seed, key)",
				"_ = maphash.Bytes(seed, nil)\n\treturn base.Hash(key)"}}},

	{"copied-order", "a copy of a comparer keeps the original's order",
		target{"internal/base", "TestCopiedComparer"}, []edit{
			{"internal/base/comparer.go", "\tif c == &bytewise {\n\t\treturn bytes.Compare",
				"\tif c.Name == bytewise.Name {\n\t\treturn bytes.Compare"}}},

	{"widened-short", "abbreviations keep a byte that has left them when a prefix shrinks by eight",
		target{"internal/base/prefix", "TestWidening"}, []edit{
			{"internal/base/prefix/prefix.go", "8 * min(leave, 8)", "8 * min(leave, 7)"}}},

	{"any-prefix", "a key of the right length counts as one with the prefix",
		target{"internal/base/prefix", "TestRangeAgreesWithComparing"}, []edit{
			{"internal/base/prefix/prefix.go", "return bytes.HasPrefix(key, p)",
				"return bytes.HasPrefix(key[:0], p[:0]) && len(key) >= len(p)"}}},

	{"exact-anyway", "keys of several lengths count as equal when their abbreviations are",
		target{"internal/tree/memtable", "TestTies"}, []edit{
			{"internal/base/prefix/prefix.go", "return l >= 0 && int(l)", "return int(l)"}}},

	{"spare-with-old-slots", "the index of a flushed memtable is used again as it is",
		target{"internal/tree/memtable", "TestSpare"}, []edit{
			{"internal/memory/arena/spare.go", "\tclear(index)\n", ""}}},

	{"spare-before-readers-end", "a memtable's memory is another one's while reads that have no " +
		"reference may look at it", target{"internal/tree", "TestSpareWaitsForReads"}, []edit{
		{"internal/tree/state.go", "s.tree.shared.Reads.Retire(func() {\n\t\tif s.refs.Settle() " +
			"{\n\t\t\ts.free()\n\t\t}\n\t})", "if s.refs.Settle() {\n\t\ts.free()\n\t}"},
		{"internal/tree/state.go", "s.tree.shared.Reads.Retire(s.free)", "s.free()"}}},

	{"spare-before-sources-end", "a memtable's memory is another one's while an iterator reads it",
		target{"internal/tree/memtable", "TestSpareWaitsForReaders"}, []edit{
			{"internal/tree/memtable/memtable.go", "\tif n != 0 {\n", "\tif n > 1 {\n"}}},

	{"spare-shrunk-too-far", "pages with entries are given back when nobody writes",
		target{"internal/tree/memtable", "TestShrink"}, []edit{
			{"internal/tree/memtable/memtable.go", "m.arena.ReleaseFrom(int(m.pos))",
				"m.arena.ReleaseFrom(0)"}}},

	{"torn-leaf", "a memtable's reader copies a leaf while it changes", readers, []edit{
		{"internal/tree/memtable/leaf_copy.go", "return v&1 == 0 && x.version.Load() == v",
			"return v == v"},
		{"internal/tree/memtable/leaf_copy.go", "x.version.Load() != v ||", "v != v ||"}}},

	{"torn-branch", "a memtable's reader goes down while branches change", readers, []edit{
		{"internal/tree/memtable/leaf_copy.go", "if shape&1 != 0 || o.shape.Load() != shape {",
			"if shape != shape {"},
		{"internal/tree/memtable/leaf_copy.go", "|| o.shape.Load() != shape {",
			"|| shape != shape {"}}},

	{"iterator-of-closed", "an iterator of a closed database releases the cache once more",
		afterClose, []edit{
			{"internal/tree/tree.go", "\tif err == nil {\n\t\ts.ref()\n\t}\n\tg.Exit()\n",
				"\tif err == nil {\n\t\ts.ref()\n\t} else " +
					"{\n\t\tt.shared.Holders.n.Add(1)\n" +
					"\t\tt.shared.Holders.Release()\n\t}\n\tg.Exit()\n"}}},

	{"cache-closed-twice", "a second Close of a cache takes a database's reference", afterClose,
		[]edit{
			{"lsm/cache.go", "!c.closed.Swap(true)", "(!c.closed.Swap(true) || true)"}}},

	{"cache-revived", "a cache is referenced after the last reference was given back",
		target{"internal/memory/cache", "TestRefAfterTheLast"}, []edit{
			{"internal/memory/cache/cache.go", "if n <= 0 {\n\t\t\treturn false",
				"if n < 0 {\n\t\t\treturn false"}}},

	{"closed-snapshot", "a closed snapshot goes on answering", afterClose, []edit{
		{"internal/tree/sequences.go", "if snap.closed.Load() {", "if false {"}}},

	{"foreign-snapshot", "another database's snapshot is read at",
		target{"internal/testkit/lifetimes", "TestOpen"}, []edit{
			{"internal/tree/sequences.go", "snap.of != t.shared.Seqs {", "snap.of == nil {"}}},

	{"snapshot-then-state", "a snapshot is found open before the read state is loaded that may " +
		"lack its entries", target{"lsm", "TestSnapshotReadsBesideItsClose"}, []edit{
		{"internal/tree/get.go", "\th.state, seq, err = t.stateFor(h.guard, snap)\n",
			"\th.state, seq, err = t.stateFor(h.guard, snap)\n\tif s := t.state.Load(h.guard); s " +
				"!= nil {\n\t\th.state = s\n\t}\n"}}},

	{"commit-after-close", "a writer that waited behind Close commits to a closed database",
		target{"lsm", "TestWritesBesideClose"}, []edit{
			{"internal/store/open.go", "\t\tdb.pipeline.Poison(base.ErrDatabaseClosed)\n", ""}}},

	{"io-in-guard", "a read waits for the disk inside its guard",
		target{"lsm", "TestBlockedReadHoldsOnlyItsView"}, []edit{
			{"internal/tree/walk.go", "\th.addRef()\n\treturn r.GetAt(", "\treturn r.GetAt("}}},

	{"one-domain", "all databases share their guards",
		target{"internal/memory/epoch", "TestDomainsAreApart"}, []edit{
			{"internal/memory/epoch/epoch.go", "\td := &Domain{onPanic: onPanic}\n",
				"\td := only\n"},
			{"internal/memory/epoch/epoch.go", "// Guard is an entered",
				"var only = new(Domain)\n\n// Guard is an entered"}}},

	{"retired-panic", "nobody hears of a panic in a retired function",
		target{"lsm", "TestPanicInRetiredFunction"}, []edit{
			{"internal/memory/epoch/epoch.go", "v != nil && d.onPanic != nil {",
				"v != nil && false {"}}},

	{"late-deletion", "files are deleted after the directory was given back",
		target{"internal/store/files", "TestLeave"}, []edit{
			{"internal/store/files/obsolete.go", "\tq.closed = true\n", ""}}},

	{"leave-beside-deletion", "the directory is given back while a file is being deleted",
		target{"internal/store/files", "TestLeaveOnSlowDisk"}, []edit{
			{"internal/store/files/obsolete.go", "for q.running {", "for false {"}}},

	{"iterator-error-sticks", "a failed iterator is never good again",
		target{"lsm", "TestIteratorTriesAgain"}, []edit{
			{"internal/tree/iters/merge.go", "m.back, m.err = back, nil", "m.back = back"},
			{"internal/tree/iters/cursor.go", "\t\tm.err = nil\n", ""}}},

	{"iterator-closed-error", "Close makes an iteration that ended well an error",
		target{"lsm", "TestIteratorAfterItsClose"}, []edit{
			{"internal/tree/iterator.go", "\tit.err = it.Err()\n", "\tit.err = base.ErrClosed\n"}}},

	{"scan-without-error", "a scan takes no place for its error", target{"lsm", "TestScanError"},
		[]edit{
			{"lsm/iterator.go", "\tif err == nil {\n\t\tpanic(",
				"\tif err == nil {\n\t\terr = new(error)\n\t}\n\tif false {\n\t\tpanic("}}},

	{"relative-path", "the directory of a custom file system is found by a relative path",
		surrounding("TestChangeOfWorkingDirectoryCustomFS"), []edit{
			{"internal/os/vfs/dir.go", "filepath.Abs(dir); err == nil {",
				"filepath.Abs(dir); err == nil && abs == dir {"}}},

	{"directory-by-name", "the directory is not held by a descriptor",
		surrounding("TestDirectoryIsRenamed"), []edit{
			{"internal/os/vfs/dir.go", "\t}:\n\t\treturn f.hold(dir)\n",
				"\t}:\n\t\treturn fsys, nil, nil\n"}}},

	{"lost-lock", "files are deleted and created although LOCK is another one",
		surrounding("TestLockIsRemoved"), []edit{
			{"internal/os/vfs/dir_unix.go", "if err := h.lock.still(h.fd); err != nil {",
				"if err := error(nil); err != nil {"}}},

	{"sync-without-name", "a synced write is acknowledged although its log was removed",
		surrounding("TestDirectoryIsRemoved"), []edit{
			{"internal/os/vfs/dir_unix.go", "err != nil || st.Nlink > 0 || !l.counted {",
				"true {"}}},

	{"stray-numbers", "any number in a name counts", surrounding("TestStrayNames"), []edit{
		{"internal/format/manifest/set.go", "if num >= s.reach {", "if false {"}}},

	{"two-names", "a name with leading zeros means the same file",
		surrounding("TestLogUnderTwoNames"), []edit{
			{"internal/base/filename.go", "if len(s) < width || len(s) > width && s[0] == '0' {",
				"if len(s) == 0 {"}}},

	{"irregular-deleted", "links and FIFOs with a database's names are deleted",
		surrounding("TestIrregularStrays"), []edit{
			{"internal/store/files/obsolete.go", "err != nil || !info.Mode().IsRegular() {",
				"err != nil || info == nil {"}}},

	{"readers-exclude", "a reader takes the exclusive lock", surrounding("TestReadersShare"),
		[]edit{
			{"internal/os/vfs/dir.go", "d.lock, err = s.LockShared(name)",
				"_, d.lock, err = s, io.Closer(nil), base.ErrLocked"}}},

	{"orphaned-lock", "a forked child keeps the lock of its dead parent",
		surrounding("TestForkedChildKeepsNoLock"), []edit{
			{"internal/os/filelock/locks_linux.go", "h.fcntl && orphaned(fd):",
				"h.fcntl && orphaned(fd) && false:"}}},

	{"lock-not-renewed", "what was lost of the lock is not taken again",
		surrounding("TestForkedChildKeepsNoLock"), []edit{
			{"internal/os/filelock/locks_linux.go", "\t\th.orphaned = flock(fd, shared)",
				"\t\t_ = flock(fd, shared)"}}},

	{"repair-link", "repair follows a link to where it sets files aside",
		surrounding("TestRepairFollowsNoLink"), []edit{
			{"internal/feature/repair/repair.go", "case err == nil && !info.IsDir():",
				"case err == nil && !info.IsDir() && false:"}}},

	{"holes-are-bytes", "a block may be as long as the file, holes and all",
		target{"internal/format/sstable/ldb", "TestSparseTable"}, []edit{
			{"internal/format/sstable/blocktable/table.go", "if n > t.maxRead {", "if false {"}}},

	{"versions-in-one-block", "older versions of a key in the next block are not found",
		target{"internal/format/sstable/ldb", "TestSuite/Read/OlderVersions"}, []edit{
			{"internal/format/sstable/blocktable/get.go",
				"more = t.cmp.Cmp(s.place.upper.User, key) == 0", "more = false"}}},

	{"index-as-data", "a salvage takes the index for data when all data blocks are lost",
		target{"internal/format/sstable/ldb", "TestSalvageOfTheIndexAlone"}, []edit{
			{"internal/format/sstable/ldb/walk.go", "\tcase handles && len(found) == 0 && off > " +
				"0:\n\t\treturn unclearBlock\n", ""}}},

	{"foreign-kinds", "a block may have kinds that LevelDB's format does not",
		target{"internal/format/block", "TestDamagedRows"}, []edit{
			{"internal/format/block/rows.go", "if !t.Kind().InLevelDB() {", "if false {"}}},

	{"swapped-table", "a native table is opened under the number of another one",
		target{"internal/format/sstable/native", "TestSwappedTable"}, []edit{
			{"internal/format/sstable/native/reader.go",
				"if err == nil && r.Env.FileNum != 0 && f.fileNum != 0 && f.fileNum != " +
					"r.Env.FileNum {", "if false {"}}},

	{"padding-unchecked", "padding of a native table may hold anything",
		target{"internal/format/sstable/native", "TestPaddingIsChecked"}, []edit{
			{"internal/format/sstable/native/format.go",
				"\tfor _, c := range b[end:] {\n\t\tif c != 0 {",
				"\tfor _, c := range b[end:] {\n\t\tif c != c {"}}},

	{"frame-anywhere", "a frame of a native table is whole wherever it lies",
		target{"internal/format/sstable/native", "TestSalvageOfTableInTable"}, []edit{
			{"internal/format/sstable/native/format.go", "(fileNum ^ off*0x9e3779b97f4a7c15)",
				"(fileNum ^ 0*off)"}}},

	{"key-in-two-parts", "the filter of a part lacks the key that the part before ends with",
		target{"internal/format/sstable/native", "TestPartitionedSuite/Read/OlderVersions"}, []edit{
			{"internal/format/sstable/native/writer_parts.go",
				"max(w.blocks.hashes[p.from-1]-1, 0)", "w.blocks.hashes[p.from-1]"}}},

	{"bomb-again", "a block that is damaged for good is unpacked each time",
		target{"internal/format/sstable/ldb", "TestBadBlockIsRemembered"}, []edit{
			{"internal/format/sstable/blocktable/table.go", "\tt.bad.any.Store(true)\n", ""}}},

	{"no-descriptor-ends-process", "Open does not see to descriptors for Go's poller",
		surrounding("TestFewDescriptors"), []edit{
			{"internal/os/vfs/dir.go", "err := startPoller(path); err != nil {",
				"err := error(nil); err != nil {"}}},

	{"slow-appends-stored", "appends that wait are stored all the same, and hold up the world",
		target{"internal/os/vfs", "TestLogStoresOnlyFastAppends"}, []edit{
			{"internal/os/vfs/window_linux.go", "slow := page >= slowPage &&",
				"slow := false &&"}}},

	{"no-pace", "writers run into the end of the last memtable instead of being slowed down before",
		target{"internal/store/work", "TestPaceSpreadsTheWait"}, []edit{
			{"internal/store/work/stall.go", "pace > perKiB && mode&write.NoStall == 0 {",
				"pace > perKiB && false {"}}},

	{"log-after-flush", "the log that a rotation took is replaced after the flush only",
		target{"internal/store/work", "TestRotationFindsItsLog"}, []edit{
			{"internal/store/work/flush.go",
				"\t\ts.prepareLog()\n\t\tjob, err := s.beginFlushJob(k)\n",
				"\t\tjob, err := s.beginFlushJob(k)\n"},
			{"internal/store/work/flush.go", "\t\tjob.End()\n",
				"\t\tjob.End()\n\t\ts.prepareLog()\n"}}},

	{"stop-below-patience", "level 0 is left alone while writers wait for it",
		target{"lsm", "TestNoWriterWaitsForNothing"}, []edit{
			{"internal/tree/picker/pick.go", "min(2*p.L0Trigger, (p.L0Trigger+p.L0Stop)/2)",
				"2*p.L0Trigger"}}},

	{"flush-answers-early", "Flush returns nil when an older memtable's flush failed and then " +
		"succeeded", target{"internal/store/work", "TestFlushWaitsForItsMemtable"}, []edit{
		{"internal/store/work/flush.go", "case s.flush.err != nil && s.flush.failed > since:",
			"case s.flush.failed > since:"}}},

	{"listener-in-place", "the listener is called by whoever has something to tell",
		target{"internal/base/events", "TestPanicAndGoexit"}, []edit{
			{"internal/base/events/events.go", "\tif q.idle == nil {\n",
				"\tcall()\n\tif q.idle == nil {\n"}}},

	{"manifest-shortage-final", "a full disk is as final for the MANIFEST as a broken one",
		target{"internal/format/manifest", "TestFaultAnywhere"}, []edit{
			{"internal/format/manifest/set.go", "if errors.Is(err, current.ErrUnsynced) || " +
				"!base.IsShortage(err) {", "if true {"}}},

	{"manifest-goes-on", "edits follow one of which nobody knows how much is in the MANIFEST",
		target{"internal/format/manifest", "TestFaultAnywhere"}, []edit{
			{"internal/format/manifest/apply.go", "s.log == nil || s.broken != nil ||",
				"s.log == nil ||"},
			{"internal/format/manifest/apply.go", "err != nil || s.broken == nil {", "true {"}}},

	{"manifest-given-away", "a MANIFEST that may be in force is given to deletion",
		target{"internal/format/manifest", "TestFaultAnywhere"}, []edit{
			{"internal/format/manifest/set.go", "s.err != nil || s.broken != nil {",
				"s.err != nil {"}}},

	{"orphans-stay", "the tables of an edit that the disk refused stay for ever",
		target{"lsm", "TestManifestShortageHeals"}, []edit{
			{"internal/store/work/install.go",
				"\t\ts.opts.Files.Obsolete(a.Meta)\n\t}\n\ts.discardValues",
				"\t\t_ = a\n\t}\n\ts.discardValues"}}},

	{"opened-after-edit", "the background opens tables that others may have retired",
		target{"lsm", "TestTablesAreOpenedBeforeTheirEdit"}, []edit{
			{"internal/store/work/flush.go",
				"\t\t\ts.openDense(r)\n\t\t\treturn s.installFlush(k, m, r)\n",
				"\t\t\terr := s.installFlush(k, m, r)\n\t\t\ts.openDense(r)\n\t\t\treturn err\n"}}},

	{"manual-never-yields", "a writer waits for a step of a manual compaction",
		target{"lsm", "TestManualCompactionYields"}, []edit{
			{"internal/store/work/manual.go", "\t\tstop(errYield)\n", "\t\t_ = stop\n"}}},

	{"leftovers-stay", "CompactRange leaves what closed snapshots held",
		target{"lsm", "TestCompactRangeDropsWhatSnapshotsKept"}, []edit{
			{"internal/tree/compact/output.go", "Leftovers: older || meta.Deletes > 0 || " +
				"meta.RangeDels > 0", "Leftovers: false"}}},

	{"verify-without-checksum", "Verify does not compare the checksums of whole files",
		target{"internal/store/files", "TestVerifyComparesWithTheManifest"}, []edit{
			{"internal/store/files/verify.go", "m.HasChecksum && sum != m.Checksum", "false"}}},

	{"verify-without-counts", "Verify does not count entries",
		target{"internal/store/files", "TestVerifyComparesWithTheManifest"}, []edit{
			{"internal/store/files/verify.go", "c.known && c.have != c.say", "false"}}},

	{"close-waits-for-flush", "Close waits for a flush on a slow disk",
		target{"lsm", "TestCloseEndsFlushes"}, []edit{
			{"internal/store/work/flush.go", "if s.stopFlush.Load() || ", "if "}}},

	{"close-waits-for-merge", "a merge looks for a stop only at its end",
		target{"internal/tree/compact", "TestStopIsAskedOften"}, []edit{
			{"internal/tree/compact/run.go",
				"\tif w.env.Stop != nil {\n\t\treturn w.env.Stop()\n\t}\n", ""}}},

	{"urgent-merges-wait", "merges for space wait until level 0 has nothing to merge",
		target{"internal/tree/picker", "TestPickScript"}, []edit{
			{"internal/tree/picker/pick.go", "\t\tabove = p.inProgressDownTo()\n",
				"\t\tabove = 0\n"}}},

	{"space-behind-level0", "merges for space wait until level 0 is below its limit",
		target{"internal/tree/picker", "TestPickScript"}, []edit{
			{"internal/tree/picker/space.go", "return p.spacePressure() > p.zeroPressure()",
				"return false"}}},

	{"merge-without-space", "a merge of level 0 takes more space than there is",
		target{"internal/tree/picker", "TestPickScript"}, []edit{
			{"internal/tree/picker/space.go", "return float64(bytes) <= p.room()", "return true"}}},

	{"whole-merges", "runs are merged whole, however large",
		target{"internal/tree/picker", "TestSimulateOverwrite"}, []edit{
			{"internal/tree/picker/slice.go", "if sum(p.runs[from:to+1]) <= p.sliceBytes() {",
				"if true {"}}},

	{"hidden-is-live", "what newer entries hide counts as live",
		target{"internal/tree/picker", "TestLive"}, []edit{
			{"internal/tree/picker/live.go", "!hidden && !k.tombstone",
				"(!hidden || true) && !k.tombstone"}}},

	{"idle-for-ever", "a tree of one run waits to be merged",
		target{"internal/tree/picker", "TestPickScript"}, []edit{
			{"internal/tree/picker/idle.go", "return runs <= 1", "return runs <= 0"}}},

	{"idle-in-the-way", "the merge of an idle tree goes on beside a writer",
		target{"internal/store/work", "TestIdleMergeGivesWay"}, []edit{
			{"internal/store/work/idle.go", "if now == seq {", "if now >= seq {"}}},

	{"logs-kept-for-ever", "the logs that were kept to be the next ones stay while a tree of one " +
		"run is idle", target{"internal/store/work", "TestLogsAreGivenBack"}, []edit{
		{"internal/store/work/flush.go", "\t\t\ts.trimLaterLocked()\n", ""}}},

	{"spare-kept-from-readers", "memory for the next memtable stays long after the last write",
		target{"internal/store/work", "TestSpareIsGivenBack"}, []edit{
			{"internal/store/work/trim.go", "left > 0 && !s.idleWritersLocked()",
				"left > 0"}}},

	{"spare-taken-from-writers", "memory for the next memtable goes while there are writes",
		target{"internal/store/work", "TestSpareIsGivenBack"}, []edit{
			{"internal/memory/arena/idle.go", "written != i.written",
				"written < i.written"}}},

	{"keyspace-edit-torn", "a damaged edit that made a keyspace passes for a torn one",
		target{"lsm", "TestDamagedKeyspaceEdit"}, []edit{
			{"internal/format/manifest/apply.go", "adds || e.NewKeyspace != nil || e.DropKeyspace",
				"adds || e.DropKeyspace"}}},

	{"strangers-decide", "one file with a native name makes a LevelDB directory without CURRENT " +
		"a native one", target{"lsm", "TestStrangersWithoutCurrent"}, []edit{
		{"internal/feature/repair/directory.go",
			"if found[base.Native] > found[base.LevelDB] && (", "if found[base.Native] > 0 && ("}}},

	{"space-costs-nothing", "writers are not delayed for the space taken",
		target{"internal/store/work", "TestDelayCountsSpace"}, []edit{
			{"internal/tree/picker/space.go", "return max(zero, min(space, maxSpacePressure))",
				"_ = space\n\treturn zero"}}},

	{"gets-do-not-count", "runs that Gets search in vain stay", target{"lsm", "TestGetsMergeRuns"},
		[]edit{
			{"internal/tree/tree.go", "if n > 0 && rand.Uint32()%soughtSample == 0 {",
				"if n > 0 && rand.Uint32()%soughtSample == soughtSample {"}}},

	{"repair-panics", "a panic of the file system ends a repair's process",
		target{"internal/testkit/callbacks", "TestCallbacks"}, []edit{
			{"internal/store/directory.go",
				"base.Protect(func() error { return do(d) })", "do(d)"}}},
}
