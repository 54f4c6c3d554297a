package lsm

import (
	"fmt"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

// BenchmarkOpenKeyspaces opens and closes a database of one keyspace, and of 1,001, each of which
// had one put; closing is not in the time.
func BenchmarkOpenKeyspaces(b *testing.B) {
	for _, n := range []int{0, 1000} {
		for _, flushed := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/tables=%v", n, flushed), func(b *testing.B) {
				o := &Options{FS: vfs.Default, Format: FormatNative}
				dir := b.TempDir()
				db, err := Open(dir, o)
				if err != nil {
					b.Fatal(err)
				}
				for i := range n {
					k, err := db.Keyspace(fmt.Sprint("keyspace", i), nil)
					if err != nil {
						b.Fatal(err)
					}
					if !flushed {
						continue
					}
					if err := k.Put([]byte("key"), []byte("value"), NoSync); err != nil {
						b.Fatal(err)
					}
				}
				if err := db.Close(); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					db, err := Open(dir, o)
					if err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					if err := db.Close(); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			})
		}
	}
}
