package write

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

func BenchmarkPut(b *testing.B) {
	p := New(nopEnv(), 0)
	key, value := make([]byte, 16), make([]byte, 100)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Put(0, base.KindSet, key, value, 0); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWriters has n writers on a file that is written to and synced as a
// log is.
func BenchmarkWriters(b *testing.B) {
	for _, mode := range []Mode{0, Sync} {
		for _, n := range []int{1, 2, 4, 16, 64} {
			b.Run(fmt.Sprintf("sync=%v/writers=%d", mode == Sync, n), func(b *testing.B) {
				benchWriters(b, n, mode)
			})
		}
	}
}

func benchWriters(b *testing.B, n int, mode Mode) {
	const size = 64 << 20
	f, err := os.Create(filepath.Join(b.TempDir(), "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := preallocate(f, size); err != nil {
		b.Fatal(err)
	}
	var off int64
	var syncs int
	var buf []byte
	env := nopEnv()
	env.Append = func(group [][]byte) error {
		buf = buf[:0]
		for _, g := range group {
			buf = append(buf, g...)
		}
		if off+int64(len(buf)) > size {
			off = 0
		}
		_, err := f.WriteAt(buf, off)
		off += int64(len(buf))
		return err
	}
	env.Sync = func() error { syncs++; return datasync(f) }
	env.Publish = func(base.SeqNum) {}
	p := New(env, 0)
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range n {
		wg.Add(1)
		go func() {
			defer wg.Done()
			key, value := make([]byte, 16), make([]byte, 100)
			for left.Add(-1) >= 0 {
				if err := p.Put(0, base.KindSet, key, value, mode); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
	if syncs > 0 {
		b.ReportMetric(float64(b.N)/float64(syncs), "puts/sync")
	}
}
