package lsm

import (
	"fmt"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/cache"
)

// Cache is a block cache that any number of databases may share, see Options.Cache. It is safe for
// concurrent use. Make one with NewCache.
type Cache struct {
	c      *cache.Cache
	closed atomic.Bool
}

// NewCache makes a cache of the given capacity in bytes, which includes its own metadata and the
// indexes and filters of tables. The memory lies outside the Go heap and is taken as it fills.
// A capacity below 0 counts as 0. Close the cache when no database will be opened with it any more.
func NewCache(capacity int64) *Cache { return &Cache{c: cache.New(max(capacity, 0))} }

// Close gives up the caller's hold. Open databases go on using the cache, and the last of them
// frees the memory; Open with it fails with ErrClosed from then on. Closing twice is harmless.
func (c *Cache) Close() {
	if c.c != nil && !c.closed.Swap(true) {
		c.c.Unref()
	}
}

// hold returns the cache with a reference.
func (c *Cache) hold() (*cache.Cache, error) {
	if c.c == nil {
		return nil, base.Invalidf("the cache was not made by NewCache")
	}
	if c.closed.Load() || !c.c.Ref() {
		return nil, fmt.Errorf("%w: the shared cache", ErrClosed)
	}
	return c.c, nil
}
