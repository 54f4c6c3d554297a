package crash

import (
	"bytes"
	"sync"
	"testing"

	"github.com/loamdb/loam/lsm"
)

var fuzzed = []func() (*golden, error){
	sync.OnceValues(func() (*golden, error) { return makeGolden(1, lsm.FormatNative) }),
	sync.OnceValues(func() (*golden, error) { return makeGolden(1, lsm.FormatLevelDB) }),
}

// FuzzDirectory replaces a stretch of a file of a golden database, LevelDB's if file is 128 or
// more. What is read then, and what Repair makes of it, was written at some time.
func FuzzDirectory(f *testing.F) {
	for _, format := range []uint8{0, 128} {
		f.Add(format, uint16(0), []byte("MANIFEST-000001\n"))
		for file := range uint8(8) {
			f.Add(format+file, uint16(100), []byte{0, 1, 2, 3})
			f.Add(format+file, uint16(4000), bytes.Repeat([]byte{0}, 60))
			f.Add(format+file, uint16(9), []byte{0xff, 0xff, 0xff, 0xff, 0x7f})
		}
	}
	f.Fuzz(func(t *testing.T, file uint8, at uint16, patch []byte) {
		g, err := fuzzed[file>>7]()
		if err != nil {
			t.Fatal(err)
		}
		name := g.files[int(file&127)%len(g.files)]
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
