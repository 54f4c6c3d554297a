package vfs

import (
	"fmt"
	"path/filepath"
	"testing"
)

// benchLog appends n bytes b.N times, to a new log whenever one has grown to
// 64 MiB, and syncs each time when told to.
func benchLog(b *testing.B, fsys FS, dir string, n int, ahead int64, sync bool, tune func(Log)) {
	p := make([]byte, n)
	var l Log
	left := 0
	b.SetBytes(int64(n))
	b.ReportAllocs()
	for i := range b.N {
		if left < n {
			b.StopTimer()
			if l != nil {
				l.Close()
			}
			name := filepath.Join(dir, fmt.Sprintf("%06d.log", i))
			var err error
			l, err = fsys.CreateLog(name, ahead)
			must(b, err)
			defer fsys.Remove(name)
			tune(l)
			left = 64 << 20
			b.StartTimer()
		}
		left -= n
		if err := l.Append(p); err != nil {
			b.Fatal(err)
		}
		if sync {
			if err := l.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.StopTimer()
	l.Close()
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{141, 1000, 4096, 100 << 10} {
		for _, ahead := range []int64{0, 16 << 20} {
			b.Run(fmt.Sprintf("os/%d/ahead=%dM", n, ahead>>20), func(b *testing.B) {
				benchLog(b, Default, b.TempDir(), n, ahead, false, func(Log) {})
			})
		}
	}
	b.Run("mem/141", func(b *testing.B) { benchLog(b, NewMem(), "/", 141, 0, false, func(Log) {}) })
}

func BenchmarkAppendSync(b *testing.B) {
	for _, ahead := range []int64{0, 16 << 20} {
		b.Run(fmt.Sprintf("ahead=%dM", ahead>>20), func(b *testing.B) {
			benchLog(b, Default, b.TempDir(), 141, ahead, true, func(Log) {})
		})
	}
}

func BenchmarkReadAt(b *testing.B) {
	name := filepath.Join(b.TempDir(), "f")
	writeFile(b, Default, name, string(make([]byte, 1<<20)))
	r, err := Default.Open(name)
	must(b, err)
	defer r.Close()
	p := make([]byte, 4096)
	for i := range b.N {
		if _, err := r.ReadAt(p, int64(i%256)*4096); err != nil {
			b.Fatal(err)
		}
	}
}
