package record

import (
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/loamdb/loam/internal/os/vfs"
)

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{141, 4 << 10, 100 << 10} {
		rec := make([]byte, n)
		run := func(name string, chained bool, l vfs.Log) {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				w := NewWriter(l)
				if chained {
					if err := w.Begin(Begin{Num: 1}); err != nil {
						b.Fatal(err)
					}
				}
				b.SetBytes(int64(n))
				b.ReportAllocs()
				for range b.N {
					if err := w.Append(rec); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("framing", false, nullLog{})
		run("chained", true, nullLog{})
		l, err := vfs.Default.CreateLog(filepath.Join(b.TempDir(), "log"), 16<<20)
		if err != nil {
			b.Fatal(err)
		}
		run("file", false, l)
		l.Close()
	}
}

func BenchmarkRead(b *testing.B) {
	for _, n := range []int{141, 100 << 10} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			var recs [][]byte
			for sum := 0; sum < 8<<20; sum += n {
				recs = append(recs, make([]byte, n))
			}
			log := build(b, recs...)
			b.SetBytes(int64(len(log)))
			b.ResetTimer()
			for range b.N {
				r := newReader(log)
				for {
					if _, err := r.Next(); err == io.EOF {
						break
					} else if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
