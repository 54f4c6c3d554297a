package mutants

// replicas are mutants of the interface of all stores, and of the replicated store, which is a
// module of its own.
var replicas = []mutant{
	{"kv-empty-is-missing", "MultiGet of a Store takes an empty value for a missing one",
		target{"lsm/kv", "TestDB"}, []edit{{"lsm/kv/kv.go",
			"values[i] = append([]byte{}, v...)", "values[i] = append([]byte(nil), v...)"}}},

	{"kv-lower-is-lost", "an iterator of a Store begins before its lower bound",
		target{"lsm/kv", "TestDB"}, []edit{{"lsm/kv/kv.go",
			"Lower: o.Lower, Upper: o.Upper, KeysOnly", "Upper: o.Upper, KeysOnly"}}},

	{"kv-snapshot-reads-the-present", "a snapshot of a Store reads the present state",
		target{"lsm/kv", "TestDB"}, []edit{{"lsm/kv/kv.go",
			"return snapshot{reader{snap}, snap}, nil",
			"return snapshot{s.reader, snap}, nil"}}},
}
