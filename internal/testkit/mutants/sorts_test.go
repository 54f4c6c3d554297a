package mutants

// sorts are mutants of the sort of memtables.
var sorts = []mutant{
	{"stale-same", "a sorted entry counts as a version of the key that was written before it",
		target{"internal/tree/memtable", "TestAscendingWithVersions"}, []edit{
			{"internal/tree/memtable/radix_sort.go", "\t\ta[i].Same = false\n", ""},
			{"internal/tree/memtable/radix_sort.go", "\t\t\ta[j].Same = false\n", ""}}},

	{"scratch-kept", "of the two memories of a sort, the one without the result is kept",
		target{"internal/tree/memtable", "TestTies"}, []edit{
			{"internal/tree/memtable/radix_sort.go", "if &sorted[0] != &r.pairs[0] {",
				"if &sorted[0] == &r.pairs[0] {"}}},
}
