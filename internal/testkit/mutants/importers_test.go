package mutants

// importers are mutants of the importers, which are a module of their own.
var importers = []mutant{
	{"import-is-not-compared", "a keyspace that differs from its source is taken",
		target{"importers", "TestConvertDiffers"}, []edit{{"importers/digest.go",
			"case !t.stay.same(&now.stay):", "case false:"}}},
	{"import-leaves-its-stage", "a failed conversion leaves its copy",
		target{"importers", "TestConvertFails"}, []edit{{"importers/convert.go",
			"err = errors.Join(err, destroyed(stage))", "_ = destroyed"}}},
	{"import-forgets-times", "times to live are not written",
		target{"importers", "TestConvert"}, []edit{{"importers/convert.go",
			"b.PutTTL(e.Key, e.Value, left)", "b.Put(e.Key, e.Value)"}}},
	{"import-panics", "a library that panics at damaged data ends the program",
		target{"importers", "TestConvertPanics"}, []edit{{"importers/convert.go",
			"err = Guard(func() error { return c.from.Each(name, visit) })",
			"err = c.from.Each(name, visit)"}}},
}
