package mutants

// blocks are bugs of the native format's data block, and of buffers for blocks.
var blocks = []mutant{
	{"order-by-address", "blocks of a comparer are damaged for another one of its name", entries,
		[]edit{
			{"internal/format/colblk/block.go", "v.order() != want && !v.ofNamesake(cmp)",
				"v.order() != want"}}},

	{"plain-without-abbreviations", "a plain block is searched as if it had abbreviations", entries,
		[]edit{
			{"internal/format/colblk/view.go", "case v.order() == plain:", "case false:"}}},

	{"block-ends-unchecked", "a block's ends may lie outside of it", damaged, []edit{
		{"internal/format/colblk/block.go", "if end-last > room-last {",
			"if false && end-last > room-last {"}}},

	{"block-lengths-unchecked", "a key's abbreviation may stand for more bytes than it has",
		damaged, []edit{
			{"internal/format/colblk/block.go", "l > k || l < k && v.tailLen(i) > 0",
				"l < k && v.tailLen(i) > 0"}}},

	{"short-reads-ahead", "a short value at a block's end is read in whole words", damaged, []edit{
		{"internal/format/colblk/short.go", "if s+n+wideCopy <= readable {", "if true {"}}},

	{"short-overruns", "a literal may be longer than the value",
		target{"internal/format/colblk", "TestDamagedShort"}, []edit{
			{"internal/format/colblk/short.go", "if n > len(dst)-d || n > len(src)-s {",
				"if n > len(src)-s {"}}},

	{"index-bounded-as-a-block", "an index of long keys with one prefix is a bomb",
		target{"lsm", "TestIndexesOfLongKeys"}, []edit{
			{"internal/format/sstable/native/reader.go", "viewLimit(r.MaxIndex(), len(b))",
				"viewLimit(r.Env.MaxDecoded, len(b))"}}},

	{"sample-of-chosen-keys", "a sample of keys that were chosen by their hashes has no bound",
		target{"internal/base", "TestSampleOfChosenHashes"}, []edit{
			{"internal/base/sample.go", "for len(s.keys) > s.most() {",
				"if len(s.keys) > s.most() {"}}},

	{"part-bounded-as-a-block", "an index of long keys that is one part is a bomb",
		target{"lsm", "TestEvictedIndexesOfLongKeys"}, []edit{
			{"internal/format/sstable/native/block.go", "most = t.MaxIndex()",
				"most += 0 * t.MaxIndex()"}}},

	{"empty-key-is-no-border", "tombstones are not cut at an empty key between others",
		target{"lsm", "TestTableFromTheEmptyKeyOn"}, []edit{
			{"internal/tree/compact/output.go", "o.finish(append([]byte{}, key...))",
				"o.finish(append([]byte(nil), key...))"}}},

	{"empty-key-is-no-end", "a table that ends with the empty key, between others, has no end",
		target{"lsm", "TestTableUpToTheEmptyKey"}, []edit{
			{"internal/base/key.go", "User: append([]byte{}, k.User...)",
				"User: append([]byte(nil), k.User...)"}}},

	{"blocks-unbounded", "a part of an index may lead to any number of blocks",
		target{"internal/format/sstable/native", "TestPartsOfTooManyBlocks"}, []edit{
			{"internal/format/sstable/native/parts.go",
				"uint64(part.Blocks) > (part.DataEnd-end)/headerLen", "part.DataEnd < end"}}},

	{"separators-unbounded", "a salvage keeps any number of long separators",
		target{"internal/format/sstable/ldb", "TestSalvageKeepsFewSeparators"}, []edit{
			{"internal/format/sstable/ldb/salvage.go", "room -= len(k.User); room >= 0",
				"room -= len(k.User); room < 1<<50"}}},

	{"lost-keys-unbounded", "a salvage reports any number of long keys",
		target{"internal/format/sstable/native", "TestSalvageKeepsFewKeys"}, []edit{
			{"internal/format/sstable/blocktable/salvager.go", "s.lost > MaxLostKeys",
				"s.lost < 0"}}},

	{"tombstones-bounded-as-values", "range tombstones of short keys are a bomb",
		target{"lsm", "TestManyRangeDeletesOfShortKeys"}, []edit{
			{"internal/format/sstable/native/reader.go",
				" + blocktable.ViewColumns*int64(c.Len())", ""}}},

	{"packed-beyond-readers", "a value is packed that readers do not unpack",
		target{"lsm", "TestCompressibleBeyondMaxDecodedBlock"}, []edit{
			{"internal/format/colblk/writer.go", "if o.MaxPacked > 0 {", "if o.MaxPacked < 0 {"}}},

	{"blocks-beyond-readers", "a block is written whose View readers refuse",
		target{"lsm", "TestCompressibleBeyondMaxDecodedBlock"}, []edit{
			{"internal/format/sstable/native/writer.go", "w.open.view+w.open.values > w.packing.",
				"-w.open.view-w.open.values > w.packing."}}},

	{"rows-beyond-readers", "a block of rows is compressed that readers do not decompress",
		target{"lsm", "TestCompressibleBeyondMaxDecodedBlock"}, []edit{
			{"internal/format/sstable/ldb/writer.go", "w.pack.Max = blocktable.MaxView(&o)",
				"w.pack.Max += 0 * blocktable.MaxView(&o)"}}},

	{"exact-is-a-prefix", "a key is found whose first bytes are another key", entries, []edit{
		{"internal/format/colblk/search.go", "if len(key) == v.prefixLen()+v.abbrevLen() && v",
			"if v"}}},

	{"versions-are-distinct", "a block with versions of a key says that it has none", entries,
		[]edit{
			{"internal/format/colblk/encode.go", "f.repeated = bytes.Equal(keys[from-size:from], " +
				"keys[from:end])", "f.repeated = bytes.Equal(nil, keys[from:end])"}}},

	{"heap-for-ever", "a heap is kept when the values suit no heap",
		target{"internal/format/colblk", "TestPackAuto"}, []edit{
			{"internal/format/colblk/packing.go", "w.auto.left = sampleEvery",
				"w.auto.left = 1 << 40"}}},

	{"all-keys-smaller", "a flush believes a comparer that calls each of two keys the smaller one",
		target{"lsm", "TestComparerThatCallsAllSmaller"}, []edit{
			{"internal/tree/compact/range_dels.go",
				"if o.env.Comparer.Cmp(f.Largest.User, f.Smallest.User) < 0 {", "if false {"}}},

	{"verified-scratch", "the index of a table is not verified behind a read in place",
		target{"internal/format/sstable/ldb", "TestDamagedIndexAfterReadsInPlace"}, []edit{
			{"internal/format/sstable/blocktable/scratch.go",
				"s.partTable, s.place, s.Verified = nil, place{}, false",
				"s.partTable, s.place = nil, place{}"}}},
}

var (
	damaged = target{"internal/format/colblk", "TestDamagedBytes"}
	entries = target{"internal/format/colblk", "TestBlockHoldsEntries"}
)
