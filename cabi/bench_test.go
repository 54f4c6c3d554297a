//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loamdb/loam/lsm"
)

// BenchmarkOverhead measures what the C interface adds to the engine: the same
// work on equal databases from C and from Go, in turns. _over is C less Go.
func BenchmarkOverhead(b *testing.B) {
	const n = 100_000
	program := compile(b, false, "testdata/bench.c", "-O2", "-lloam")
	root := b.TempDir()
	filled := filepath.Join(root, "filled")
	fill(b, filled, n)
	results := map[string][]float64{}
	for range max(3, b.N) {
		// The work writes, so that each side needs a copy of its own.
		inGo := measure(b, duplicate(b, filled, filepath.Join(root, "go")), n)
		inC := map[string]float64{}
		for line := range strings.Lines(
			execute(b, program, duplicate(b, filled, filepath.Join(root, "c")), fmt.Sprint(n))) {
			var name string
			var ns float64
			if _, err := fmt.Sscanf(line, "%s %g", &name, &ns); err != nil {
				b.Fatalf("%v in %q", err, line)
			}
			inC[name] = ns
			results[name] = append(results[name], ns)
		}
		for name, ns := range inGo {
			results[name+"_over"] = append(results[name+"_over"], inC[name]-ns)
		}
	}
	for name, values := range results {
		slices.Sort(values)
		b.ReportMetric(values[len(values)/2], name+"-ns")
	}
	b.ReportMetric(0, "ns/op")
}

// duplicate makes to a copy of the directory from and returns it.
func duplicate(b *testing.B, from, to string) string {
	if err := os.RemoveAll(to); err != nil {
		b.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		b.Fatal(err)
	}
	return to
}

func appendKey(dst []byte, i int) []byte { return fmt.Appendf(dst, "key-%012d", i) }

func fill(b *testing.B, dir string, n int) {
	db, err := lsm.Open(dir, nil)
	if err != nil {
		b.Fatal(err)
	}
	value := make([]byte, 100)
	for i := range n {
		for j := range value {
			value[j] = byte(rand.Uint32())
		}
		if err := db.Put(appendKey(nil, i), value, lsm.NoSync); err != nil {
			b.Fatal(err)
		}
	}
	if err := db.CompactRange(nil, nil); err != nil {
		b.Fatal(err)
	}
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
}

// measure does bench.c's work in Go and returns nanoseconds.
func measure(b *testing.B, dir string, n int) map[string]float64 {
	db, err := lsm.Open(dir, &lsm.Options{PlainWAL: true}) // as in C
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	per := func(start int64, n int) float64 { return float64(threadTime(b)-start) / float64(n) }
	out := map[string]float64{}
	buf := make([]byte, 0, 256)
	key := make([]byte, 16)
	for range 5 {
		start := threadTime(b)
		for range n {
			putKey(key, int(rand.Uint32())%n)
			if _, err := db.Get(key, buf); err != nil {
				b.Fatal(err)
			}
		}
		least(out, "get", per(start, n))
	}
	for range 5 {
		it := db.Iter(nil)
		sum := 0
		start := threadTime(b)
		for ok := it.First(); ok; ok = it.Next() {
			k, v := it.Key(), it.Value()
			sum += len(v) + int(k[0]) + int(v[0])
		}
		least(out, "step", per(start, n))
		if err := it.Close(); err != nil || sum == 0 {
			b.Fatal(err)
		}
	}
	out["block"] = out["step"]
	value := make([]byte, 100)
	batch := lsm.NewBatch()
	for range 20 {
		batch.Clear()
		start := threadTime(b)
		for i := range 1000 {
			putKey(key, i)
			batch.Put(key, value)
		}
		least(out, "batch_put", per(start, 1000))
		if err := db.Write(batch, lsm.NoSync); err != nil {
			b.Fatal(err)
		}
		least(out, "batch", per(start, 1000))
	}
	start := threadTime(b)
	for i := range 20000 {
		putKey(key, i)
		if err := db.Put(key, value, lsm.NoSync); err != nil {
			b.Fatal(err)
		}
	}
	out["put"] = per(start, 20000)
	return out
}

// threadTime is the time this thread has worked, in nanoseconds: other programs
// on the machine are left out.
func threadTime(b *testing.B) int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return t.Nano()
}

// putKey is bench.c's key_of.
func putKey(key []byte, i int) {
	copy(key, "key-000000000000")
	for d := 15; i > 0; i, d = i/10, d-1 {
		key[d] = byte('0' + i%10)
	}
}

func least(out map[string]float64, name string, ns float64) {
	if old, ok := out[name]; !ok || ns < old {
		out[name] = ns
	}
}
