package cache_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/memory/offheap"
)

// resident is the process's resident memory in bytes.
func resident(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// An empty cache takes no memory, a full one its capacity, and one whose tables are closed none
// again.
func TestResidentMemory(t *testing.T) {
	if offheap.Unmap {
		t.Skip("each frame has pages of its own")
	}
	const capacity = 256 << 20
	start := resident(t)
	c := cache.New(capacity)
	s := c.NewSlots(2 * capacity / 5000)
	if n := resident(t) - start; n > 4<<20 {
		t.Errorf("an empty cache costs %d KiB", n>>10)
	}
	bare(c, s, 0, 5000)
	if n := resident(t) - start; n > 4<<20 {
		t.Errorf("a cache with one block costs %d KiB", n>>10)
	}
	for i := range 2 * capacity / 5000 {
		bare(c, s, i, 5000)
	}
	full := resident(t) - start
	t.Logf("%d MiB resident for %d MiB, %+v", full>>20, capacity>>20, c.Stats())
	if full > capacity*115/100 {
		t.Errorf("a full cache of %d MiB costs %d MiB", capacity>>20, full>>20)
	}
	c.Reserve(capacity / 2)
	if n := resident(t) - start; n > capacity*6/10 {
		t.Errorf("with half reserved %d MiB are resident", n>>20)
	}
	c.Reserve(-capacity / 2)
	s.Free()
	if n := resident(t) - start; n > 16<<20 {
		t.Errorf("an emptied cache costs %d MiB", n>>20)
	}
	c.Unref()
}
