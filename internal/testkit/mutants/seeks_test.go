package mutants

var seekExact = target{"internal/tree", "TestSeekExact"}

// seeks are mutants of point reads, which some seeks find their key by.
var seeks = []mutant{
	{"zero-ordered", "the tables of level 0 of a repaired LevelDB are searched by their numbers",
		target{"lsm", "TestUnorderedLevelZero"}, []edit{
			{"internal/tree/walk.go", "return m.Unordered &&", "return m.Num == 0 &&"}}},

	{"zero-compacted-in-parts", "of tables of level 0 without an order only older ones go along",
		target{"lsm", "TestUnorderedLevelZero"}, []edit{
			{"internal/tree/picker/inputs.go", "(j > i || f.Unordered && other.Unordered)",
				"j > i"}}},

	{"exact-beyond-bounds", "a seek finds its key outside of the bounds", seekExact, []edit{
		{"internal/tree/exact.go", "unlikely || !it.inBounds(s.key) ||", "unlikely ||"}}},

	{"exact-at-present", "a seek finds what is newer than its iterator", seekExact, []edit{
		{"internal/tree/exact.go", "s.key, it.view.Seq, flags)", "s.key, base.MaxSeqNum, flags)"}}},

	{"exact-deletion", "a seek finds a key that is deleted", seekExact, []edit{
		{"internal/tree/exact.go", "t.Kind() != base.KindSet {",
			"false && t.Kind() != base.KindSet {"}}},

	{"exact-stays", "an iterator moves on from its key to the key", seekExact, []edit{
		{"internal/tree/exact.go", "return ok && it.cursor.Next()", "return ok"}}},

	{"exact-for-ever", "seeks look for keys that are not there", target{"internal/tree",
		"TestSeekExactPaysOff"}, []edit{{"internal/tree/exact.go", "s.luck = max(s.luck-1, " +
		"-maxLuck) // the", "// the"}}},
}
