//go:build linux && !race

package memtable

import (
	"fmt"
	"os"
	"testing"

	"github.com/loamdb/loam/internal/base"
)

func residentPages(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	var size, resident int
	if _, err := fmt.Sscan(string(b), &size, &resident); err != nil {
		t.Fatal(err)
	}
	return resident
}

// TestFootprint fills tables with a few entries each: what is resident must
// follow what was written, not the size that the tables may reach.
func TestFootprint(t *testing.T) {
	const tables = 100
	var all [tables]*MemTable
	before := residentPages(t)
	for i := range all {
		all[i] = New(Options{Comparer: base.Bytewise, Size: 64 << 20})
		for j := range 30 {
			all[i].Add(base.SeqNum(j+1), base.KindSet, fmt.Append(nil, j), []byte("value"))
		}
		all[i].NewSource().Close()
	}
	each := (residentPages(t) - before) * os.Getpagesize() / tables
	if each > 256<<10 {
		t.Errorf("a table with 30 entries holds %d bytes", each)
	}
	for _, m := range all {
		m.Unref()
	}
	if left := (residentPages(t) - before) * os.Getpagesize(); left > 4<<20 {
		t.Errorf("%d bytes stay after the last Unref", left)
	}
}
