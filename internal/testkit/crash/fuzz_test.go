package crash

import (
	"bytes"
	"sync"
	"testing"
)

var fuzzed = sync.OnceValues(func() (*golden, error) { return makeGolden(1) })

// FuzzDirectory replaces a stretch of a file of the golden database. What is
// read then, and what Repair makes of it, was written at some time.
func FuzzDirectory(f *testing.F) {
	f.Add(uint8(0), uint16(0), []byte("MANIFEST-000001\n"))
	f.Add(uint8(2), uint16(100), []byte{0, 1, 2, 3})
	f.Add(uint8(3), uint16(4000), bytes.Repeat([]byte{0}, 60))
	f.Add(uint8(4), uint16(9), []byte{0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, file uint8, at uint16, patch []byte) {
		g, err := fuzzed()
		if err != nil {
			t.Fatal(err)
		}
		name := g.files[int(file)%len(g.files)]
		old := g.bytes[name]
		cut := min(int(at), len(old))
		b := append(bytes.Clone(old[:cut]), patch...)
		b = append(b, old[min(cut+len(patch), len(old)):]...)
		fs, err := g.replace(name, b)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.verify(fs.Clone(), true); err != nil {
			t.Errorf("%s, %d bytes at %d: %v", name, len(patch), cut, err)
		}
		if err := g.repairDamage(fs, true); err != nil {
			t.Errorf("%s, %d bytes at %d: %v", name, len(patch), cut, err)
		}
	})
}
