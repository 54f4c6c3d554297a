package mutants

// sorts are mutants of the sort of memtables, and of their memory.
var sorts = []mutant{
	{"stale-same", "a sorted entry counts as a version of the key that was written before it",
		target{"internal/tree/memtable", "TestAscendingWithVersions"}, []edit{
			{"internal/tree/memtable/radix_sort.go", "\t\ta[i].Same = false\n", ""},
			{"internal/tree/memtable/radix_sort.go", "\t\t\ta[j].Same = false\n", ""}}},

	{"memory-before-order", "a read beside the first write looks for the entry in no memory",
		target{"internal/tree/memtable", "TestGetBesideFirstWrite"}, []edit{
			{"internal/tree/memtable/lazy_order.go",
				"\tif err := m.order.complete(); err != nil {\n\t\tif base.Transient(err) {",
				"\tmem := m.mem.Load()\n" +
					"\tif err := m.order.complete(); err != nil {\n\t\tif base.Transient(err) {"},
			{"internal/tree/memtable/lazy_order.go", "\tmem := m.mem.Load() // after covered",
				"\t// after covered"}}},

	{"scratch-kept", "of the two memories of a sort, the one without the result is kept",
		target{"internal/tree/memtable", "TestTies"}, []edit{
			{"internal/tree/memtable/radix_sort.go", "if &sorted[0] != &r.pairs[0] {",
				"if &sorted[0] == &r.pairs[0] {"}}},

	{"large-after-few", "a memtable that follows a small one allocates all of its memory at once",
		target{"internal/tree/memtable", "TestFewEntries"}, []edit{
			{"internal/tree/memtable/memtable.go", "whole: (o.Large || o.Filled) &&",
				"whole: o.EntrySize > 0 &&"}}},

	{"first-pages-counted", "an account is told of an arena's first pages before they are written",
		target{"internal/tree/memtable", "TestFewEntries"}, []edit{
			{"internal/tree/memtable/memtable.go", "step, least = 4<<10, 0", "step = 4<<10"}}},

	{"pages-move-twice", "pages that became another arena's are kept for a third one",
		target{"internal/memory/offheap", "TestPagesMove"}, []edit{
			{"internal/memory/offheap/extent.go", "\t\tfrom.mem = from.mem[:n]\n",
				"\t\t_ = n\n"}}},

	{"pages-stay", "the memory of a flushed memtable is kept beside those that follow",
		target{"internal/tree/memtable", "TestSpareMoves"}, []edit{
			{"internal/memory/arena/spare.go", "\tif s.arena == nil || !s.moves(s.arena) ||",
				"\tif s != nil || !s.moves(s.arena) ||"}}},

	{"spare-index-uncounted", "the index that is kept for the next memtable counts as nothing",
		target{"internal/tree/memtable", "TestSpareCountsItsIndex"}, []edit{
			{"internal/memory/arena/spare.go", "\tn := cap(s.index) // which",
				"\tn := 0 // which"}}},

	{"spare-not-for-readers", "memory for the next memtable stays half a second beside readers",
		target{"internal/store/work", "TestSpareIsGivenBackToReaders"}, []edit{
			{"internal/memory/arena/idle.go", "d >= IdleLook && lookups",
				"d >= IdleWriter && lookups"}}},
}
