package cache_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/testkit/script"
)

// TestScripts runs testdata/scripts. The commands:
//
//	cache kb=N              a cache of so many KiB
//	table NAME blocks=N     slots for a table
//	read NAME from=N to=M kb=K times=N
//	                        reads blocks through the cache, in turn, and says how many hit
//	pin NAME block=N, release NAME block=N
//	reserve kb=N            memory that filters and indexes take
//	capacity kb=N           changes the limit
//	free NAME               evicts the table
//	cached NAME             how many blocks are cached
//	stats
func TestScripts(t *testing.T) {
	script.RunDir(t, "testdata/scripts", func(t *testing.T) func(*script.Command) string {
		x := &cacheScript{t: t, tables: map[string]*cache.Slots{}, pins: map[string]cache.Frame{}}
		t.Cleanup(func() {
			for _, f := range x.pins {
				f.Release()
			}
			for _, s := range x.tables {
				s.Free()
			}
			x.c.Unref()
		})
		return x.run
	})
}

type cacheScript struct {
	t      *testing.T
	c      *cache.Cache
	tables map[string]*cache.Slots
	pins   map[string]cache.Frame
}

func (x *cacheScript) run(c *script.Command) string {
	var name string
	for _, a := range c.Args() {
		if len(a.Values) == 0 {
			name = a.Key
		}
	}
	s := x.tables[name]
	switch c.Name {
	case "cache":
		x.c = cache.New(int64(c.Int("kb", 64)) << 10)
	case "table":
		x.tables[name] = x.c.NewSlots(c.Int("blocks", 1))
	case "read":
		hits, all := 0, 0
		for range c.Int("times", 1) {
			for i := c.Int("from", 0); i <= c.Int("to", 0); i++ {
				all++
				if bare(x.c, s, i, c.Int("kb", 4)<<10) {
					hits++
				}
			}
		}
		return fmt.Sprintf("%d of %d hit", hits, all)
	case "pin":
		i := c.Int("block", 0)
		f, _ := load(x.t, x.c, s, 1, i, c.Int("kb", 4)<<10)
		x.pins[fmt.Sprint(name, i)] = f
	case "release":
		key := fmt.Sprint(name, c.Int("block", 0))
		f := x.pins[key]
		check(x.t, f, 1, c.Int("block", 0))
		f.Release()
		delete(x.pins, key)
	case "reserve":
		x.c.Reserve(int64(c.Int("kb", 0)) << 10)
	case "capacity":
		return fmt.Sprint(x.c.SetCapacity(int64(c.Int("kb", 0)) << 10))
	case "free":
		s.Free()
		delete(x.tables, name)
	case "cached":
		return fmt.Sprint(s.Cached())
	case "stats":
		v := x.c.Stats()
		return strings.Join([]string{
			fmt.Sprintf("capacity %d KiB, reserved %d, frames %d, transient %d", v.Capacity>>10,
				v.Reserved>>10, v.Frames>>10, v.Transient>>10),
			fmt.Sprintf("%d hits, %d misses, %d inserts, %d evictions", v.Hits, v.Misses, v.Inserts,
				v.Evictions)}, "\n")
	default:
		return c.Unknown()
	}
	return ""
}
