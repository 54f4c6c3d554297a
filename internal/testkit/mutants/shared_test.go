package mutants

// shared are mutants of what databases share, and of options that change.
var shared = []mutant{
	{"budget-without-memtables", "the cache does not give way to memtables",
		target{"internal/memory/budget", "TestCharges"}, []edit{
			{"internal/memory/budget/memory.go", "m.room.Charge(m.pending.Swap(0))",
				"m.pending.Swap(0)"}}},

	{"budget-without-buffers", "the cache does not give way to buffers",
		target{"internal/memory/budget", "TestSettle"}, []edit{
			{"internal/memory/budget/memory.go", "m.room.Charge(now - m.buffers.Swap(now))",
				"m.buffers.Swap(now)"}}},

	{"budget-waits-for-others", "a database waits for memory that another one's blocked disk holds",
		target{"internal/memory/budget", "TestWeigh"}, []edit{
			{"internal/memory/budget/memory.go",
				"total > limit && sealed > 0 && active+sealed > share", "total > limit"}}},

	{"budget-idle-memtable",
		"a database that does not write keeps its memtable while others are pressed",
		target{"internal/memory/budget", "TestWeigh"}, []edit{
			{"internal/memory/budget/memory.go", "a != asking && n > most",
				"a == asking && n > most"}}},

	{"budget-keeps-memtables", "memory of memtables that were freed stays counted",
		target{"lsm", "TestTinyResources"}, []edit{
			{"internal/tree/memtable/memtable.go", "\tm.held.Set(0, 0)\n", ""}}},

	{"budget-filters-stay", "filters and indexes of all open tables stay in memory",
		target{"lsm", "TestFiltersGiveWay"}, []edit{
			{"internal/store/files/set.go", "if !c.Crowded(parts) {", "if parts > 0 {"}}},

	{"budget-level0-gives-way", "filters of level 0 give way as early as those below",
		target{"lsm", "TestFiltersGiveWay"}, []edit{
			{"internal/store/files/set.go", "if m.Level.Load() == 0 {",
				"if m.Level.Load() < 0 {"}}},

	{"budget-whole-filters", "tables have no parts where databases share memory",
		target{"lsm", "TestFiltersGiveWay"}, []edit{
			{"internal/format/sstable/native/writer_parts.go", "n <= most && whole > 0 {",
				"n > most && whole > 0 {"}}},

	{"budget-reads-unsettled", "a database that is only read does not notice that buffers grow",
		target{"internal/memory/cache", "TestOnFill"}, []edit{
			{"internal/memory/cache/cache.go", "first%settleEvery == 0 && c.settle != nil {",
				"first < 0 && c.settle != nil {"}}},

	{"budget-no-yield", "a writer at full speed keeps a processor from those who use other " +
		"databases", target{"internal/memory/budget", "TestWroteYields"}, []edit{
		{"internal/memory/budget/memory.go", "\t\truntime.Gosched()\n", "\t\truntime.NumCPU()\n"}}},

	{"pool-stuck-jobs", "jobs that wait for a blocked disk hold all workers",
		target{"internal/memory/budget", "TestStuckJobs"}, []edit{
			{"internal/memory/budget/pool.go", "&& j.beat.Load() > old {",
				"&& j.beat.Load() > 0*old {"}}},

	{"pool-no-pause", "compactions do not pause for flushes",
		target{"internal/memory/budget", "TestUrgentCompaction"}, []edit{
			{"internal/memory/budget/pool.go",
				"\t\tcase o == j:\n\t\t\treturn p.givesWayLocked(j)\n",
				"\t\tcase o == j:\n\t\t\treturn false\n"}}},

	{"pool-no-turn", "the database that was served last goes first",
		target{"internal/memory/budget", "TestCompactionsInTurn"}, []edit{
			{"internal/memory/budget/pool.go", "o.need == need && o.served < c.served",
				"o.need == need && o.served > c.served"},
			{"internal/memory/budget/pool.go", "c.need == next.need && c.served < next.served",
				"c.need == next.need && c.served > next.served"}}},

	{"rate-flush-waits", "flushes wait as compactions do",
		target{"internal/memory/budget", "TestRate"}, []edit{
			{"internal/memory/budget/rate.go", "\t\tdebt -= flushDebt\n", ""}}},

	{"option-of-all", "an option of the database overrides what a keyspace has of its own",
		target{"internal/testkit/metamorphic", "TestHistories"}, []edit{
			{"internal/base/options/live.go", "range l.own[part] {\n\t\tchange(&o)",
				"range l.own[Root] {\n\t\tchange(&o)"}}},

	{"option-half-set", "an option that is refused stays", target{"lsm", "TestOptionsInForce"},
		[]edit{
			{"internal/base/options/live.go", "\t\tl.given = given\n", "\t\t_ = given\n"}}},

	{"resources-share-stays", "a database that was closed keeps its share of the memory",
		target{"internal/testkit/resources", "TestSharesComeBack"}, []edit{
			{"internal/store/work/shared.go", "\ts.opts.Account.Close()\n", ""}}},

	{"resources-open-after-end", "databases are opened with resources that were closed",
		target{"internal/testkit/resources", "TestEveryOrder"}, []edit{
			{"internal/store/shared.go", "if r.closed.Load() || !r.cache.Ref() {",
				"if !r.cache.Ref() {"},
			{"internal/store/shared.go", "if r.closed.Load() || r.pool == nil {",
				"if r.pool == nil {"}}},

	{"resources-any-memory", "a limit on memory below the least is set",
		target{"internal/testkit/resources", "TestSetBeside"}, []edit{
			{"internal/memory/budget/memory.go", "if n < leastLimit || !m.room.SetCapacity(n) {",
				"if !m.room.SetCapacity(n) {"}}},

	{"rate-beside-a-waiter", "a flush keeps to the rate although a writer waits for its memory",
		target{"internal/store/work", "TestRateIsLiftedForWaiters"}, []edit{
			{"internal/store/work/shared.go", " || s.waits.Load()", ""}}},
}
