package mutants

// encryption are mutants of the encryption of files.
var encryption = []mutant{
	{"former-key-again", "reading goes on with the key of a former life of a log, for ever",
		target{"internal/format/record", "TestSealedFormerLife"}, []edit{
			{"internal/format/record/sealed.go", "if errors.Is(err, base.ErrCorruption) { // it is",
				"if errors.Is(err, io.EOF) { // it is"},
			{"internal/format/record/chain_reader.go", "r.resume = 0 // an error", "// an error"}}},

	{"seal-cut-nonce", "what is written in place of a failed append has the same nonce",
		target{"internal/format/record", "TestSealedNonces"}, []edit{
			{"internal/format/record/writer.go", "if w.cuts++; w.whole == 0 {",
				"if w.whole == 0 {"}}},

	{"seal-one-data-key", "a log that is begun again has the nonces and the key of the one before",
		target{"internal/format/record", "TestSealedLives"}, []edit{
			{"internal/os/seal/keys.go", "\tdataKey := random[nonceLen:]\n",
				"\tdataKey := random[nonceLen:]\n\tclear(dataKey)\n"}}},

	{"seal-place", "a chunk opens in the place of its neighbour",
		target{"internal/os/seal", "TestChangedByte"}, []edit{
			{"internal/os/seal/cipher.go", "PutUint64(c.nonce[:], at)",
				"PutUint64(c.nonce[:], at&^1)"}}},

	{"seal-last", "a file that is cut between two chunks opens",
		target{"internal/os/seal", "TestChangedByte"}, []edit{
			{"internal/os/seal/cipher.go", "PutUint32(c.nonce[8:], turn)",
				"PutUint32(c.nonce[8:], 0)"}}},

	{"seal-number", "a file opens in the place of another one",
		target{"internal/os/seal", "TestNumbers"}, []edit{
			{"internal/os/seal/fs.go", "if num != 0 && num != h.Number {", "if false {"}}},

	{"seal-chunk-header", "the header of a log's chunk is not authenticated",
		target{"internal/format/record", "TestSealedDamage"}, []edit{
			{"internal/format/record/sealed.go", "\t\tchunk[4:o.header])", "\t\tnil)"},
			{"internal/format/record/writer.go", "w.cuts, dst[head+4:head+w.header])",
				"w.cuts, nil)"}}},

	{"seal-spill", "what is no file of the database is written in clear",
		target{"lsm", "TestRepairWithDamagedManifest"}, []edit{
			{"internal/os/seal/fs.go", "if f.keys == nil || staysClear(name) {",
				"if f.keys == nil || staysClear(name) || f.number(name) == 0 {"}}},

	{"seal-clear-log", "a log is written in clear",
		target{"internal/testkit/crash", "TestNothingInClear"}, []edit{
			{"internal/format/record/writer.go", "\tkeys, _ := l.(sealing)\n",
				"\tvar keys sealing\n"}}},

	{"seal-clear-read", "a clear table is read in an encrypted database",
		target{"internal/os/seal", "TestChangedByte"}, []edit{
			{"internal/os/seal/fs.go", "if f.keys.AllowClear() || !f.mustBeSealed(name) {",
				"if true {"}}},

	{"seal-key-id", "the id of the key is not written",
		target{"internal/os/seal", "TestWrongKeys"}, []edit{
			{"internal/os/seal/keys.go", "KeyID: w.id}", "KeyID: \"\"}"}}},

	{"repair-seals-leveldb", "a repair seals a MANIFEST of LevelDB's format",
		target{"lsm", "TestLevelDBFormatIsNotSealed"}, []edit{{
			"internal/feature/repair/repair.go", "r.format == base.LevelDB && seal.KeysOf",
			"r.format > base.Native && seal.KeysOf"}}},

	{"repair-panic-leaves-values", "a repair that panics leaves files of values open",
		target{"lsm", "TestPanicsCloseFiles"}, []edit{{
			"internal/feature/repair/repair.go", "if r.values != nil {",
			"if r.values != nil && r.report.Manifest != \"\" {"}}},

	{"repair-takes-half-headers", "a repair leaves files whose headers Open refuses",
		target{"lsm", "TestRepairOfDamagedHeaders"}, []edit{{
			"internal/os/seal/fs.go", "\tstrict.salvage = false\n", ""}}},

	{"repair-loses-half-headers", "a repair does not read values behind half of a header",
		target{"lsm", "TestRepairOfDamagedHeaders"}, []edit{{
			"internal/os/seal/fs.go", " || h.Number == f.number(name)) {", ") {"}}},

	{"seal-second-copy", "the second copy of a header is not read",
		target{"internal/os/seal", "TestSalvage"}, []edit{
			{"internal/os/seal/header.go", "len(b) >= copyLen; b = b[copyLen:] {",
				"len(b) > copyLen; b = b[copyLen:] {"}}},

	{"seal-copies-differ", "a damaged copy of a header is not noticed beside the intact one",
		target{"internal/testkit/crash", "TestEncryptedCorruption"}, []edit{
			{"internal/os/seal/header.go", "if !bytes.Equal(b[:copyLen], b[copyLen:HeaderLen]) {",
				"if h := Salvage(b); h != nil {\n\t\treturn h, nil\n\t}\n\tif !bytes.Equal(" +
					"b[:copyLen], b[copyLen:HeaderLen]) {"}}},

	{"seal-log-key-lost", "a repair does not look for the data key of a damaged MANIFEST",
		target{"lsm", "TestRepairWithDamagedManifest"}, []edit{
			{"internal/format/record/sealed.go",
				"if h := seal.Salvage(b[:n]); h != nil && h.Kind", "if h := seal.Salvage(nil); " +
					"h != nil && h.Kind"}}},

	{"seal-gathered", "a failed write of what was gathered is not told where the file is ended",
		target{"internal/os/seal", "TestGatheredWrites"}, []edit{
			{"internal/os/seal/chunks.go", "\t\tw.err = vfs.StartSync(w.f)\n\t}\n\treturn w.err\n",
				"\t\tw.err = vfs.StartSync(w.f)\n\t}\n\treturn nil\n"}}},

	{"seal-abandoned", "the end of an abandoned file is written",
		target{"internal/os/seal", "TestGatheredWrites"}, []edit{
			{"internal/os/seal/chunks.go", "\tw.ended = true\n\treturn errors.Join(w.err,",
				"\t_ = w.end()\n\treturn errors.Join(w.err,"}}},

	{"rekey-leaves-tables", "Rekey leaves the tables with the old key",
		target{"lsm", "TestRekey"}, []edit{
			{"internal/store/rekey.go", "case t == base.FileTable && table,",
				"case table && !table,"}}},

	{"rekey-takes-unfinished", "Rekey replaces tables that are being written",
		target{"lsm", "TestRekeyWhileTablesAreWritten"}, []edit{
			{"internal/store/rekey.go", "case t == base.FileTable && table,",
				"case t == base.FileTable && (table || !table),"}}},

	{"rekey-keeps-log", "Rekey goes on with a log of the old key that has no entries",
		target{"lsm", "TestRekeyWhileTablesAreWritten"}, []edit{
			{"internal/store/rekey.go", "err := db.pipeline.Exclusive(db.rotateLog)",
				"err := error(nil)"}}},

	{"repair-of-clear", "a repair drops the clear tables of a database that was not encrypted",
		target{"lsm", "TestRepairOfClear"}, []edit{
			{"internal/os/seal/dir.go", "if err == nil && table {", "if table && err != nil {"}}},
}
