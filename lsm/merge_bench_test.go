package lsm

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// BenchmarkMerge is db_bench's mergerandom beside fillrandom: 8-byte values of random keys.
func BenchmarkMerge(b *testing.B) {
	for _, name := range []string{"put", "merge"} {
		b.Run(name, func(b *testing.B) {
			db, err := Open(b.TempDir(), &Options{FS: vfs.Default, Format: FormatNative,
				MergeOperator: MergeOperatorNamed("uint64add")})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			key, one := make([]byte, 16), u64(1)
			b.ReportAllocs()
			for b.Loop() {
				binary.BigEndian.PutUint64(key[8:], rng.Uint64N(1<<20))
				if name == "put" {
					err = db.Put(key, one, NoSync)
				} else {
					err = db.Merge(key, one, NoSync)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
