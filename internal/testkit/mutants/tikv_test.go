package mutants

// tikvs are mutants of the store on TiKV, which is a module of its own.
var tikvs = []mutant{
	{"tikv-reads-unchecked", "a transaction commits though what it read was changed",
		target{"tikv", "TestUpdateSeesItsReads"}, []edit{{"tikv/batch.go",
			"t.err = t.lockReads(ctx)", "_ = t.lockReads"}}},

	{"tikv-unknown-is-not-applied", "a commit without an answer counts as one that did not happen",
		target{"tikv", "TestUnknown"}, []edit{{"tikv/batch.go",
			"\"tikv: %w: %w\", ErrUnknown, err", "\"tikv: %w: %w\", ErrNotApplied, err"}}},

	{"tikv-reverse-leaves-its-bounds", "an iterator that goes back shows keys of other stores",
		target{"tikv", "TestPrefixes"}, []edit{{"tikv/iterator.go",
			"it.reverse && bytes.Compare(it.scan.Key(), it.lower) < 0", "false"}}},

	{"tikv-newer-point-is-enough", "a state older than what PD keeps is not kept",
		target{"tikv", "TestKeeper"}, []edit{{"tikv/gc.go",
			"k.point != 0 && k.point <= ts &&", "k.point != 0 &&"}}},

	{"tikv-expired-point-is-enough", "a state is not kept after PD forgot the one before",
		target{"tikv", "TestKeeper"}, []edit{{"tikv/gc.go",
			"&& k.now().Before(k.expiry)", ""}}},

	{"tikv-refusal-is-missed", "a state that PD does not keep is read",
		target{"tikv", "TestKeeperFails"}, []edit{{"tikv/gc.go",
			"if smallest <= oldest {", "if smallest != 0 {"}}},

	{"tikv-collects-what-is-read", "a collection goes beyond an open snapshot",
		target{"tikv", "TestCollect"}, []edit{{"tikv/gc.go",
			"point = min(point, smallest)", "_ = smallest"}}},

	{"tikv-empty-is-missing", "an empty value comes back as none",
		target{"tikv", "TestStore"}, []edit{{"tikv/store.go",
			"return append([]byte{}, stored[1:]...), nil",
			"return append([]byte(nil), stored[1:]...), nil"}}},
}
