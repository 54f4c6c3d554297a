package mutants

var (
	flushDrops    = target{"internal/store/work", "TestFlushDropsDeletions"}
	emptiedLeaves = target{"internal/store/work", "TestEmptiedTableLeaves"}
	quietFlush    = target{"internal/store/work", "TestQuietFlush"}
	denseHeld     = target{"internal/store/work", "TestDenseUnderSnapshot"}
	pickScript    = target{"internal/tree/picker", "TestPickScript"}
)

var inEmpties = target{"internal/tree/iters", "TestCursorInEmptyRanges"}

// cuts writes into known-empty ranges in every way.
var cuts = target{"lsm", "TestEmptiesAreCut"}

const (
	emptySet    = "internal/tree/empties/empties.go"
	emptyFacts  = "internal/tree/empties/facts.go"
	emptyWrites = "internal/tree/tree.go"
	scouting    = "internal/tree/scouts.go"

	memtableVersions = "internal/tree/memtable/source_at.go"
)

var wornOut = target{"internal/tree/empties", "TestRefilledRangeGoes"}

var manyVersions = target{"internal/tree/memtable", "TestManyVersions"}

// deletes are mutants of what lets deletions go by themselves, and of known-empty ranges.
var deletes = []mutant{
	{"txn-neighbours", "a commit looks for a key in the table that a range delete up to it ends",
		target{"lsm", "TestTxnConflictAtEndOfRangeDelete"}, []edit{
			{"internal/tree/newer.go", "base.LastSeqNum, flags)", "base.MaxSeqNum, flags)"}}},

	{"flush-records-no-log", "a table of a flush does not say which logs it ends",
		target{"lsm", "TestRepairOfLogsKeptForValues"}, []edit{
			{"internal/store/work/flush.go", "next, _ := state.OldestLog(oldest)",
				"next := oldest.FirstLog"}}},

	{"recovery-records-no-log", "a table of a recovery does not say which logs it ends",
		target{"lsm", "TestRepairOfLogsKeptForValues"}, []edit{
			{"internal/store/recovery.go", "s, next := k.Tables[0], r.end",
				"s, next := k.Tables[0], uint64(0)"}}},

	{"compaction-records-no-log", "a table of a compaction has its keyspace's first log of old",
		target{"lsm", "TestRepairOfLogsKeptForValues"}, []edit{
			{"internal/format/manifest/keyspace.go", "max(k.firstLog, s.LogNum())",
				"k.firstLog"}}},

	{"repair-forgets-range-deletes", "a table that a repair keeps has no range tombstones",
		target{"lsm", "TestRepairKeepsRangeDeletes"}, []edit{
			{"internal/feature/repair/table.go",
				"RangeDels: uint64(reader.RangeDels().Count()), ", ""}}},

	{"range-delete-waits", "a range tombstone that empties tables waits for the next write",
		target{"internal/store/work", "TestQuietRangeDelete"}, []edit{
			{"internal/store/work/deletes.go", "coversTables(state, least) {",
				"coversTables(state, least) && least == 0 {"}}},

	{"range-delete-in-table", "a range tombstone within a table waits for the next write",
		target{"internal/store/work", "TestQuietRangeDelete"}, []edit{
			{"internal/store/work/deletes.go", "n += s.partWithin(m, list)", "n += 0"}}},

	{"range-delete-untold", "a range tombstone alone is not looked at",
		target{"internal/store/work", "TestQuietRangeDelete"}, []edit{
			{"internal/tree/memtable/range_dels.go", "\tm.tell()\n", ""}}},

	{"flush-drops-unasked", "a flush drops deletions of keys in older tables that are not open",
		flushDrops, []edit{{"internal/store/work/compaction.go",
			"return !ok || r.MayContain(", "return ok && r.MayContain("}}},

	{"flush-drops-for-snapshot", "a deletion goes together with what it deletes, which a " +
		"snapshot sees", flushDrops, []edit{{"internal/tree/compact/collapse.go",
		"t.Kind().IsTombstone() && c.stripe(t.Seq()) == 0 &&", "t.Kind().IsTombstone() &&"}}},

	{"flush-before-older", "a newer memtable is flushed, and drops deletions, before an older one",
		target{"internal/store/work", "TestFlushKeepsDeletionsForQueued"}, []edit{
			{"internal/store/work/flush.go",
				"oldest := state.Sealed[len(state.Sealed)-1]",
				"oldest := state.Sealed[0]"}}},

	{"drop-where-tables-meet", "a deletion goes though the second of two tables that meet at its " +
		"key has older entries", target{"internal/tree/compact", "TestSurviveScript"}, []edit{
		{"internal/tree/compact/elide.go", "range files { // one", "range files[:min(1, " +
			"len(files))] { // one"}}},

	{"no-quiet-flush", "deletions stay in the memtable when nobody writes", emptiedLeaves,
		[]edit{{"internal/store/work/deletes.go", "worth[k] = s.worthFlushing(state)",
			"worth[k] = state == nil"}}},

	{"quiet-flush-once", "later deletions are not told of after a look at the memtable", quietFlush,
		[]edit{{"internal/store/work/deletes.go", "\tstate.Mem.TellAgain()\n", ""}}},

	{"quiet-look-for-ever", "a memtable without writes is looked at again and again", emptiedLeaves,
		[]edit{{"internal/store/work/deletes.go", "return k.deletes.saw(state)",
			"return false"}}},

	{"quiet-flush-for-ever", "an empty memtable is sealed again and again", emptiedLeaves,
		[]edit{{"internal/store/work/deletes.go", "if n == 0 || 2*n < state.Mem.Points() {",
			"if 2*n < state.Mem.Points() {"}, {"internal/store/work/deletes.go",
			"return n >= manyDeletes ||", "return n >= 0 ||"}}},

	{"quiet-flush-beside-writes", "a memtable that is written is flushed for its deletions",
		quietFlush, []edit{{"internal/store/work/deletes.go", "case k.deletes.saw(state):",
			"case k.deletes.saw(state) || true:"}, {"internal/store/work/deletes.go",
			"\tif !k.deletes.saw(state) {\n\t\treturn false\n",
			"\tif false {\n\t\treturn false\n"}}},

	{"later-look-first", "a tree that is to be looked at soon waits for the look at another one",
		target{"internal/store/work", "TestSoonerLook"}, []edit{{"internal/store/work/idle.go",
			"if !s.calmAt.IsZero() && !s.trees.soonest.Before(s.calmAt) {",
			"if !s.calmAt.IsZero() {"}}},

	{"quiet-flush-without-room", "more memtables wait than may be",
		target{"internal/store/work", "TestQuietFlushWaitsForRoom"}, []edit{
			{"internal/store/work/deletes.go", "return cause == \"\" && err == nil",
				"return cause != \"-\" && err == nil"}}},

	{"quiet-flush-read-only", "a read-only database seals a memtable",
		target{"internal/store/work", "TestNoQuietFlushAfterEnd"}, []edit{
			{"internal/store/work/deletes.go", "if s.closing || s.opts.Writable() != nil {",
				"if s.closing {"}, {"internal/store/work/deletes.go",
				"if s.opts.Writable() != nil || k.dropped {", "if k.dropped {"}}},

	{"dense-for-ever", "tables of deletions that a snapshot holds are compacted again and again",
		denseHeld, []edit{{"internal/store/work/deletes.go",
			"if !s.olderSnapshot(newest) {", "if true {"}}},

	{"empty-range-dels-unheld", "range tombstones over nothing are dropped beside older snapshots",
		target{"lsm", "TestRangeDeletesOfNothingConflict"}, []edit{
			{"internal/tree/picker/covered.go", " || p.Held != nil && p.Held(f) {", " {"}}},
	{"dense-after-release", "deletions stay when the snapshot that held them is closed", denseHeld,
		[]edit{{"internal/store/work/deletes.go", "time.AfterFunc(minWatch, s.lookAtHeld)",
			"_ = minWatch"}}},

	{"dense-held-by-any", "a snapshot that sees the deletions holds what they delete", denseHeld,
		[]edit{{"internal/store/work/deletes.go", "return any && (newest == 0 || oldest < newest)",
			"return any || newest < oldest"}}},

	{"dense-without-older", "a table of level 0 goes below an older one, whose keys it deletes",
		pickScript, []edit{{"internal/tree/picker/pick.go",
			"files := p.withOlder([]*manifest.FileMeta{f})\n\t\tplan :=",
			"files := []*manifest.FileMeta{f}\n\t\tplan :="}}},

	{"dense-at-any-price", "much is merged for the sake of a few deletions", pickScript,
		[]edit{{"internal/tree/picker/pick.go",
			"return deletes == 0 || denseShare*deletes >= entries",
			"return deletes == 0 || denseShare*entries >= entries"}}},

	{"empty-survives-put", "a known-empty range has a key that was put", cuts, []edit{{emptyWrites,
		"err = base.Guarded(t.cmp, (*Tree).cutEmpties, t, batch)", "_ = batch"}}},

	{"empty-survives-keyspaces", "a known-empty range has a key of a batch over keyspaces", cuts,
		[]edit{{emptyWrites, "err = base.Guarded(t.cmp, (*Tree).cutEmpty, t, key)", "_ = key"}}},

	{"empty-survives-merge", "a known-empty range has a key that was merged into", cuts,
		[]edit{{"internal/base/kind.go", "return k.IsPoint() && !k.IsTombstone()",
			"return k == KindSet"}}},

	{"empty-survives-ingest", "a known-empty range has a key of an ingested table", cuts,
		[]edit{{"internal/store/work/ingest.go",
			"k.StopLearning(m.Smallest.User, m.Largest.User)", "_ = m"}}},

	{"empty-cut-early", "a writer looks at known-empty ranges before its entry is in the memtable",
		target{"internal/tree", "TestEmptiesCutBetween"}, []edit{{emptyWrites,
			"err := t.lead.mem.Apply(batch, seq)\n",
			"t.cutEmpties(batch)\n\terr := t.lead.mem.Apply(batch, seq)\n"}, {emptyWrites,
			"\t\terr = base.Guarded(t.cmp, (*Tree).cutEmpties, t, batch)\n", ""}}},

	{"empty-for-older", "a known-empty range is used by an older snapshot",
		target{"lsm", "TestEmptiesAreOfLaterReaders"}, []edit{{emptySet,
			"f.Seq <= v.Seq && ", ""}}},

	{"empty-for-pinned", "a known-empty range is used by a snapshot of an earlier state",
		target{"lsm", "TestEmptiesOfFilters"}, []edit{{emptySet, "f.State <= v.State && ", ""}}},

	{"empty-before-expiry", "a known-empty range is used by a reader of before values expired",
		target{"lsm", "TestEmptiesOfTime"}, []edit{{emptySet, " && f.Now <= v.Now", ""}}},

	{"empty-widened", "a known-empty range begins before what was passed over",
		target{"lsm", "TestEmptiesOfBounds"}, []edit{{"internal/tree/iters/empties.go",
			"append(p.Lo[:0], key...), open, p.edge", "append(p.Lo[:0], key[:min(1, " +
				"len(key))]...), open, p.edge"}}},

	{"empty-from-no-start", "a cursor takes the first known-empty range for one that has all " +
		"keys before it", inEmpties, []edit{{emptySet,
		"func(r *Range) bool { return r.FromStart }", "func(*Range) bool { return true }"}}},

	{"empty-ends-at-start", "a cursor that runs backward begins at a key not before its own",
		inEmpties, []edit{{"internal/tree/iters/empties.go", "c.m.cmp.Cmp(f.Lo, key) >= 0",
			"false"}}},

	{"empty-before-own-writes", "a transaction does not see what it wrote at the beginning of a " +
		"known-empty range", target{"lsm", "TestEmptiesOfOwnWrites"}, []edit{
		{"internal/tree/iters/empties.go", "len(c.m.in) > 0 && c.m.in[0].own", "false"}}},

	{"empty-from-nil", "a cursor takes the empty key for the first one, or the last one",
		inEmpties, []edit{{"internal/tree/iters/empties.go", "if p.edge = edge; !c",
			"edge = key == nil\n\tif p.edge = edge; !c"}}},

	{"empty-forgets-expiry", "what had expired in a known-empty range is not said of one that is " +
		"learned with it", inEmpties, []edit{{"internal/tree/iters/empties.go",
		"\tp.expired = p.expired || f.Now > 0\n", ""}}},

	{"empty-joined-out-of-order", "a range from the first key on comes behind others",
		target{"internal/tree/empties", "TestSetModel"}, []edit{{emptyFacts,
			"\tif !f.FromStart {\n", "\tif true {\n"}}},

	{"empty-never-worn", "each write into a range that is filled again cuts it", wornOut,
		[]edit{{emptySet, "w.cuts.Add(1) > w.most", "w.cuts.Add(1) < 0"}}},

	{"empty-worn-for-ever", "a range that is learned again goes after the cuts of before", wornOut,
		[]edit{{emptyFacts, "f.Dead += o.Dead", "f.Dead, f.wear = f.Dead+o.Dead, o.wear"}}},

	{"empty-by-own-writes", "what a transaction deleted is known as empty to others",
		target{"lsm", "TestEmptiesOfOwnWrites"}, []edit{{"internal/tree/iters/empties.go",
			"p.own || c.m.err", "c.m.err"}}},

	{"empty-unexamined", "a learner does not look for entries that came before it announced",
		target{"internal/tree", "TestEmptiesInterleavings"}, []edit{{"internal/tree/empties.go",
			"if t.Seq() > since && ", "if false && "}}},

	{"empty-unannounced", "writers do not look at announced ranges",
		target{"internal/tree", "TestEmptiesInterleavings"}, []edit{{emptySet,
			"len(l.chunks)+len(l.announced) > 0", "len(l.chunks) > 0"}}},

	{"empty-list-first", "a reader has the list of known-empty ranges of before its number",
		target{"internal/tree", "TestEmptiesListLast"}, []edit{
			{emptySet, "l := s.list.Load()\n\tif l == nil {\n\t\treturn nil", "l := v.old.(*list)" +
				"\n\tif l == nil {\n\t\treturn nil"},
			{emptySet, "\tState uint64 // the", "\told any\n\tState uint64 // the"},
			{emptySet, "// load returns the list", "func (s *Set) Early() View {\n" +
				"\treturn View{old: s.list.Load()}\n}\n\n// load returns the list"},
			{"internal/tree/iterator.go", "s, seq, err := acquire(t, o.Snapshot)",
				"early := t.empties.Early()\n\ts, seq, err := acquire(t, o.Snapshot)"},
			{"internal/tree/iterator.go",
				"it.state, it.view = s, empties.View{State: s.ordinal, Seq: seq}",
				"it.state, it.view = s, early\n\tit.view.State, it.view.Seq = s.ordinal, seq"}}},

	{"empty-survives-replay", "a follower's known-empty range has a key of a log's entry",
		target{"lsm", "TestEmptiesOfFollowers"}, []edit{{"internal/feature/follow/logs.go",
			"s.tree.Replayed(kind, key)", "_, _, _ = s, kind, key"}}},

	{"empty-unlearned-at-open", "a follower that was just opened learns no known-empty range",
		target{"lsm", "TestEmptiesOfFollowersAreKnown"}, []edit{
			{"internal/feature/follow/follower.go",
				"\tl.resume()\n\tf.note()\n\treturn nil\n", "\tf.note()\n\treturn nil\n"}}},

	{"follower-without-scouts", "a follower's readers pass over what each catch-up deleted",
		target{"lsm", "TestFollowersLookFirst"}, []edit{{"internal/tree/scouts.go",
			"if t.cmp.Serial() || !t.enoughForScout(n) {", "if true {"}}},

	{"follower-waits-for-itself", "a catch-up that looks where much was deleted waits for its end",
		target{"internal/tree", "TestScoutsOfCatchUps"}, []edit{{"internal/tree/iterator.go",
			"acquire = (*Tree).acquireShown", "acquire = (*Tree).acquireAt"}}},

	{"scout-folds", "a catch-up calls the merge operator, whose reads wait for its end",
		target{"internal/tree", "TestScoutsOfCatchUps"}, []edit{{"internal/tree/iterator.go",
			"o.Merge, o.Folds = keyOnly, nil", "o.Folds = nil"}}},

	{"follower-scouts-end", "a follower whose readers come often looks no more after catch-ups",
		target{"lsm", "TestFollowersLookFirst"}, []edit{{"internal/tree/scouts.go",
			"\ts.looks.Store(0)\n\ts.mu.Lock()\n",
			"\ts.looks.Store(9)\n\ts.mu.Lock()\n\ts.inVain = 99\n"}}},

	{"empty-survives-version", "a follower's known-empty range has a key of another version",
		target{"lsm", "TestEmptiesOfFollowers"}, []edit{{"internal/tree/follow.go",
			"if next.Version != old.Version || !next.has(old.Mem) {", "if false {"}}},

	{"empty-learned-in-replay", "a range is learned while entries come that no state has",
		target{"internal/tree", "TestEmptiesReplayInterleavings"}, []edit{{emptySet,
			"return &list{l.facts, nil, stopped} })",
			"return &list{l.facts, l.announced, l.since} })"}}},

	{"empty-learned-before-version", "a range is learned of the state before while another " +
		"version replaces it", target{"internal/tree/empties", "TestLearningStops"}, []edit{
		{emptySet, "return &list{facts{}, nil, stopped}", "return &list{facts{}, nil, 0}"}}},

	{"empty-learned-of-before", "learning resumes for readers of the state before a replay",
		target{"internal/tree/empties", "TestLearningStops"}, []edit{{emptySet,
			"announced, state} })", "announced, 0 * state} })"}}},

	{"empty-of-snapshot-for-all", "what a snapshot's readers learn beside newer entries is for all",
		target{"lsm", "TestEmptiesWindows"}, []edit{{"internal/tree/empties.go",
			"it.snap.empties(it.tree, true).Add(", "it.tree.empties.Add("}}},

	{"empty-unknown-to-snapshot", "a snapshot's readers pass over deleted entries at each look",
		target{"lsm", "TestEmptiesOfSnapshots"}, []edit{{"internal/tree/empties.go",
			"if it.snap != nil && !it.knows(&f.Range) {", "if false {"}}},

	{"empty-newer-unseen", "a snapshot's readers pass over newer entries at each look",
		target{"lsm", "TestEmptiesOfSnapshots"}, []edit{{"internal/tree/empties.go",
			"!it.learns || newer && it.snap == nil", "!it.learns || newer"}}},

	{"empty-examined-late", "a learner begins to look behind entries that it did not see",
		target{"internal/tree/memtable", "TestBehind"}, []edit{{
			"internal/tree/memtable/memtable.go", "return uint64(o.marks[i-1].off)",
			"return uint64(o.marks[min(i, len(o.marks)-1)].off)"}}},

	{"empty-examined-in-order", "a learner takes entries for ascending that are not",
		target{"internal/tree/memtable", "TestBehind"}, []edit{{
			"internal/tree/memtable/memtable.go", "if i == 0 || m.disorder.Load() {",
			"if i == 0 {"}}},

	{"newer-from-early", "a snapshot's reader takes entries that it sees for newer ones",
		target{"internal/tree/memtable", "TestModel"}, []edit{{
			"internal/tree/memtable/memtable.go", "\t\treturn o.marks[i].off",
			"\t\treturn o.marks[max(i-1, 0)].off"}}},

	{"newer-in-order", "a snapshot's reader takes entries for ascending that are not",
		target{"internal/tree/memtable", "TestBehind"}, []edit{{
			"internal/tree/memtable/memtable.go", "m.marked.Load() || m.disorder.Load() {",
			"m.marked.Load() {"}}},

	{"newer-hide-the-next", "a key is hidden whose newer versions fill a leaf that was passed over",
		target{"internal/tree/memtable", "TestNewerLeaves"}, []edit{{
			"internal/tree/memtable/source_at.go", "s.at, s.returned = s.n, false",
			"s.at = s.n"}}},

	{"newer-put-in-order", "a memtable is ordered for a reader of before its first entry",
		target{"internal/tree/memtable", "TestSourceOfEarlierReader"}, []edit{{
			"internal/tree/memtable/source.go", "if newer > arenaStart {", "if true {"}}},

	{"deletions-unordered", "deletions are ordered when somebody iterates, not before",
		target{"internal/tree/memtable", "TestDeletionsAreOrdered"}, []edit{{
			"internal/tree/memtable/memtable.go", "\t\t\tm.order.on.Store(true)\n", ""}}},

	{"empty-never-resumed", "a follower learns nothing after its first catch-up",
		target{"lsm", "TestEmptiesOfFollowersAreKnown"}, []edit{{
			"internal/feature/follow/follower.go", "if f.logs.paused {", "if false {"}}},

	{"empty-hits-uncounted", "known-empty ranges that are used are not counted",
		target{"lsm", "TestEmptyRangeMetrics"}, []edit{{"internal/tree/empties.go",
			"it.dead, it.hits = it.dead+dead, it.hits+ranges", "it.dead += dead"}}},

	{"empty-unlimited", "there are as many known-empty ranges as readers find",
		target{"internal/tree/empties", "TestSetIsBounded"}, []edit{{emptyFacts,
			"return l.n > maxFacts || l.bytes > maxBytes", "return l.bytes > maxBytes"}}},

	{"empty-unlimited-keys", "known-empty ranges have as many bytes of keys as readers find",
		target{"internal/tree/empties", "TestSetOfLongKeys"}, []edit{{emptyFacts,
			"return l.n > maxFacts || l.bytes > maxBytes", "return l.n > maxFacts"}}},

	{"empty-remembered-cut", "what a range was for earlier readers has a key that was written",
		target{"internal/tree/empties", "TestFactsOfBefore"}, []edit{{emptySet,
			"left.was, right.was = nil, nil", "_ = left"}}},

	{"empty-remembers-all", "a range remembers all that it was",
		target{"internal/tree/empties", "TestFactsOfBefore"}, []edit{{emptyFacts,
			"n > 0 && f.age(f.was[n-1]) == f.age(w)", "n > 0 && false"}}},

	{"empty-forgets-early", "a range that grows is of no use to readers of before",
		target{"internal/tree/empties", "TestFactsOfBefore"}, []edit{{emptyFacts,
			"\t\tjoined.remember(most)\n", ""}}},

	{"empty-in-pieces", "a range that is filled again falls into as many ranges as rows",
		target{"internal/tree/empties", "TestSetIsBounded"}, []edit{{emptySet,
			" && !(p.piece() && crowded)", ""}}},

	{"empty-loses-pieces", "what was deleted between two new messages is passed over again",
		target{"lsm", "TestEmptiesAreKnown"}, []edit{{emptySet,
			"p.piece() && crowded", "p.piece()"}}},

	{"versions-one-by-one", "an iterator passes over all versions of a key in a memtable",
		manyVersions, []edit{{memtableVersions, "if s.at-i >= manyVersions && s.at == s.n {",
			"if false {"}}},

	{"versions-too-new", "an iterator passes over all versions of a key that are newer than it",
		manyVersions, []edit{{memtableVersions, "many := s.n-s.at >= manyVersions &&",
			"many := false &&"}}},

	{"versions-oldest", "an iterator that runs backward shows an old version of a key",
		manyVersions, []edit{{memtableVersions, "if s.more() && s.old(s.at) {", "if false {"}}},

	{"empty-behind-turn", "an iterator that turns round has left out a part of its own writes",
		target{"lsm", "TestEmptiesWindows"}, []edit{{"internal/tree/iters/merge.go",
			"m.leapt && !in.own", "false"}}},

	{"scout-takes-the-next", "what a scout learns has the key at which it gave up",
		target{"internal/tree/iters", "TestMost"}, []edit{{"internal/tree/iters/empties.go",
			"c.setEnd(key, true)\n\t\tif dead", "c.setEnd(key, false)\n\t\tif dead"}}},

	{"scout-unbounded", "a scout passes over as much as there is",
		target{"internal/tree/iters", "TestMost"}, []edit{{"internal/tree/iters/empties.go",
			"if dead-p.base >= c.most {", "if false {"}}},

	{"scouts-never", "nobody passes over deletions before readers do",
		target{"internal/tree", "TestScoutsComeFirst"}, []edit{{emptyWrites,
			"if t.wantsScout() {\n\t\tt.sendScout(lastDeleted", "if false {\n\t\t" +
				"t.sendScout(lastDeleted"}}},

	{"scouts-counted", "what scouts pass over is counted as if readers did",
		target{"internal/tree", "TestScoutsComeFirst"}, []edit{{scouting,
			"\tit.dead, it.hits = 0, 0 // readers are counted\n", ""}}},

	{"scouts-seldom", "scouts come seldom although readers pass over much",
		target{"internal/tree", "TestScoutsComeOften"}, []edit{{scouting,
			"\t\ts.fine.Store(scouting.credit)\n", ""}}},

	{"scouts-for-nobody", "scouts come often although nobody reads",
		target{"internal/tree", "TestScoutsComeOften"}, []edit{{scouting,
			"CompareAndSwap(fine, fine-1)", "CompareAndSwap(fine, fine)"}}},

	{"scouts-in-vain", "scouts that learn nothing come again and again",
		target{"internal/tree", "TestScoutsInVain"}, []edit{{scouting,
			"s.skip = min(1<<min(s.failed, 10), maxSkip)", "s.skip = 0"}}},

	{"scouts-late", "readers wait for scouts that get no processor",
		target{"internal/tree", "TestScoutsAreLate"}, []edit{{scouting,
			"\t\tt.shared.Late.Store(t)\n", ""}}},

	{"scouts-late-unbounded", "a writer passes over whatever scouts have left",
		target{"internal/tree", "TestScoutsAreLate"}, []edit{{scouting,
			"min(scouting.most*step, sweepPiece)", "scouting.most*step"}}},

	{"scouts-late-for-nobody", "no writer goes in place of a scout that is late",
		target{"lsm", "TestWritersScout"}, []edit{{"internal/store/keyspace.go",
			"\t\tlate.ScoutNow()\n", "\t\t_ = late\n"}}},

	{"scouts-stall", "a write that must not wait goes in place of a scout",
		target{"lsm", "TestWritersScout"}, []edit{{"internal/store/keyspace.go",
			"late != nil && mode&write.NoStall == 0", "late != nil"}}},

	{"scout-goes-round", "a scout looks again and again at what readers know by then",
		target{"internal/tree", "TestScoutsGoOnce"}, []edit{{scouting,
			"it.dead-before < it.most", "it.dead == before"}}},

	{"scout-outlives", "a scout is under way in a tree that was closed",
		target{"internal/tree", "TestScoutsAtTheEnd"}, []edit{{scouting,
			"\tif ended != nil {", "\tif false {"}}},

	{"scout-hides-panic", "nobody is told of a comparer that panics in a scout",
		target{"internal/tree", "TestScoutsMeetAPanic"}, []edit{{scouting,
			"t.failOnPanic(c.Err())", "_ = c.Err()"}}},

	{"scout-calls-back", "a scout calls a comparer of the callers' threads",
		target{"internal/tree", "TestNoScoutsOnCallersThreads"}, []edit{{scouting,
			"key == nil || t.cmp.Serial()", "key == nil"}}},

	{"drop-fails-group", "a write into another keyspace fails with those into a dropped one",
		target{"lsm", "TestDropBesideGroup"}, []edit{
			{"internal/store/work/stall.go", "if errors.Is(err, base.ErrNoKeyspace) {",
				"if errors.Is(err, errStopped) {"}}},
}
