package base

import "testing"

// TestKinds has the properties of every kind there is. All other numbers are
// unknown, also those that RocksDB and Pebble give to kinds of theirs.
func TestKinds(t *testing.T) {
	type properties struct{ known, levelDB, tombstone, value, ends, rng bool }
	kinds := map[Kind]properties{
		KindDelete: {known: true, levelDB: true, tombstone: true, ends: true},
		KindSet:    {known: true, levelDB: true, value: true, ends: true},
		KindMerge:  {known: true, value: true},

		KindRangeDelete: {known: true, value: true, rng: true},
		KindValueHandle: {known: true, value: true, ends: true},
		KindSetExpiring: {known: true, value: true, ends: true},

		KindExpiringHandle: {known: true, value: true, ends: true},
	}
	for n := range 256 {
		k := Kind(n)
		got := properties{k.Known(), k.InLevelDB(), k.IsTombstone(), k.HasValue(), k.EndsLookup(),
			!k.IsPoint()}
		want := kinds[k]
		want.value = k != KindDelete // a kind to come has one
		if got != want {
			t.Errorf("kind %d: %+v, want %+v", n, got, want)
		}
		if k.InBatch() != (want.known && k != KindValueHandle && k != KindExpiringHandle) {
			t.Errorf("kind %d: in batches: %v", n, k.InBatch())
		}
		if got.known && (k >= KindForSeek || MakeTrailer(5, KindForSeek) <= MakeTrailer(5, k)) {
			t.Errorf("a seek does not come before an entry of kind %d", n)
		}
	}
	if MakeTrailer(5, KindForSeek) >= MakeTrailer(6, 0) || MaxTrailer.Seq() != MaxSeqNum ||
		MaxTrailer.Kind() != KindForSeek {
		t.Error("a seek comes before newer entries")
	}
}
