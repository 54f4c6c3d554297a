package vfs

import "testing"

// BenchmarkPwrite compares the two ways in which a small append reaches the
// kernel: never may a busy log take the short one.
func BenchmarkPwrite(b *testing.B) {
	for _, way := range []struct {
		name string
		calm bool
	}{{"raw", true}, {"plain", false}} {
		b.Run(way.name, func(b *testing.B) {
			benchLog(b, Default, b.TempDir(), 141, 16<<20, false, func(l Log) { l.(*osLog).calm.Store(way.calm) })
		})
	}
}
