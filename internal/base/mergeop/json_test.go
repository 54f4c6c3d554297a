package mergeop

import (
	"runtime"
	"strings"
	"testing"
)

// TestDeepObjects: what a merge of objects that nest deeply takes is proportional to their length.
func TestDeepObjects(t *testing.T) {
	const depth = 3000
	doc := []byte(strings.Repeat(`{"a":`, depth) + "1" + strings.Repeat("}", depth))
	allocated := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.TotalAlloc
	}
	before := allocated()
	full, err := patchFull(nil, nil, doc, [][]byte{doc})
	joined, ok := patchPartial(nil, nil, doc, doc)
	if err != nil || !ok || string(full) != string(doc) || string(joined) != string(doc) {
		t.Errorf("%d and %d bytes of %d, %v, %v", len(full), len(joined), len(doc), err, ok)
	}
	if n := allocated() - before; n > 16<<20 {
		t.Errorf("%d bytes of memory for objects of %d", n, len(doc))
	}
}
