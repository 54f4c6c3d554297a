package store

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/memory/budget"
	"github.com/loamdb/loam/internal/memory/cache"
	"github.com/loamdb/loam/internal/os/memlimit"
	"github.com/loamdb/loam/internal/store/files"
)

// ResourcesOptions is lsm.ResourcesOptions.
type ResourcesOptions struct {
	Memory           int64 // bytes; 0: each database has its own limits; or AutoMemory
	BackgroundJobs   int   // at once; 0: as many as processors, at least 2
	IOBytesPerSecond int64 // 0: no bound
	OpenFiles        int   // descriptors of tables; 0: the process's bound
}

// Resources is what databases share, see lsm.Resources.
type Resources struct {
	cache  *cache.Cache   // nil: memory is not shared
	memory *budget.Memory // nil as cache
	pool   *budget.Pool
	rate   *budget.Rate
	files  *files.Group
	closed atomic.Bool // no further database gets them
	most   int64       // bytes that the cache was made for
}

// AutoMemory is lsm.AutoMemory, autoText its text.
const (
	AutoMemory = -1
	autoText   = "auto"
)

// leastMemory is the smallest bound on memory in bytes.
const leastMemory = 8 << 20

// NewResources makes Resources, whose Close is to be called.
func NewResources(o ResourcesOptions) *Resources {
	if o.BackgroundJobs <= 0 {
		o.BackgroundJobs = max(2, runtime.GOMAXPROCS(0))
	}
	r := &Resources{pool: budget.NewPool(o.BackgroundJobs),
		rate: budget.NewRate(max(o.IOBytesPerSecond, 0)), files: files.NewGroup(o.OpenFiles)}
	switch {
	case o.Memory > 0:
		r.share(o.Memory)
	case o.Memory == AutoMemory:
		n := r.followed()
		r.share(max(n, min(n*followGrowth, memlimit.Machine()/followShare)))
		r.memory.Follow(r.followed)
	}
	return r
}

// share makes the memory that databases share, n bytes at most.
func (r *Resources) share(n int64) {
	r.cache = cache.NewShared(max(n, leastMemory))
	r.most = r.cache.Capacity()
	r.memory = budget.NewMemory(r.most, r.cache)
	r.cache.OnFill(r.memory.Settle)
}

const (
	// followShare is the part of the system's limit that databases have: a quarter. The rest is
	// the program's, the Go heap's and the page cache's, which counts in a cgroup.
	followShare = 4
	// followGrowth is how many times its first value the limit may become.
	followGrowth = 4
	// unknownMemory is taken for the limit of a system that does not tell.
	unknownMemory = 1 << 30
)

// followed is the memory that databases have under the limit of the system, see lsm.AutoMemory.
func (r *Resources) followed() int64 {
	n, err := memlimit.Least()
	if err != nil {
		n = unknownMemory
	}
	n = max(n/followShare, leastMemory)
	if r.most > 0 {
		n = min(n, r.most)
	}
	return n
}

// Close gives up the caller's hold.
func (r *Resources) Close() {
	if !r.closed.Swap(true) && r.cache != nil {
		r.cache.Unref()
	}
}

// Bounded reports whether databases share memory.
func (r *Resources) Bounded() bool { return r != nil && r.cache != nil }

// MaxWhole is the memory of an index and a filter above which new tables have them in parts, so
// that the cache can evict them; 0 if databases do not share memory.
func (r *Resources) MaxWhole() int {
	if !r.Bounded() {
		return 0
	}
	return int(min(max(r.memory.Limit()>>10, 64<<10), 4<<20))
}

// Cache is the block cache that databases share, with a reference.
func (r *Resources) Cache() (*cache.Cache, error) {
	if r.closed.Load() || !r.cache.Ref() {
		return nil, errResourcesClosed
	}
	return r.cache, nil
}

var errResourcesClosed = fmt.Errorf("%w: the shared resources", base.ErrClosed)

// group is that of descriptors, or nil.
func (r *Resources) group() *files.Group {
	if r == nil {
		return nil
	}
	return r.files
}

// ResourcesMetrics is lsm.ResourcesMetrics.
type ResourcesMetrics struct {
	Memory        int64 // the limit in bytes; 0: memory is not shared
	CacheBytes    int64 // of blocks
	TableBytes    int64 // of indexes, filters and cache slots of open tables
	MemtableBytes int64 // those that iterators keep included
	BufferBytes   int64 // of flushes, compactions, iterators, and a part of the Go heap
	Jobs          int   // flushes and pieces of compactions that run
	OpenFiles     int   // descriptors of tables
}

// Metrics says how much is in use.
func (r *Resources) Metrics() (u ResourcesMetrics) {
	if r.pool == nil { // not of NewResources
		return u
	}
	if m := r.memory; m != nil && r.cache.Ref() {
		m.Look()
		use := m.Usage()
		r.cache.Unref()
		u = ResourcesMetrics{Memory: m.Limit(), CacheBytes: use.Blocks, TableBytes: use.Tables,
			MemtableBytes: use.MemTables, BufferBytes: use.Buffers}
	}
	u.Jobs, _ = r.pool.Running()
	u.OpenFiles, _ = r.files.Open()
	return u
}

// Set changes a limit; see lsm.Resources.Set.
func (r *Resources) Set(name, value string) error {
	if r.pool == nil {
		return errResourcesClosed
	}
	if name == "memory" && value == autoText {
		return r.setMemory(func() bool { r.memory.Follow(r.followed); return true }, value)
	}
	n, ok := base.ParseSize(value)
	if !ok || n < 0 || n > 1<<46 {
		return base.Invalidf("resource %s = %q: want a number, with KiB, MiB or GiB behind it if "+
			"you like", name, value)
	}
	switch name {
	case "memory":
		return r.setMemory(func() bool { return r.memory.SetLimit(n) }, value)
	case "background_jobs":
		if n < 1 || n > 1<<16 {
			return base.Invalidf("resource background_jobs = %s: want 1 to 65536", value)
		}
		r.pool.SetLimit(int(n))
	case "io_bytes_per_second":
		r.rate.Set(n)
	case "open_files":
		r.files.SetMax(int(n))
	default:
		names := []string{"memory", "background_jobs", "io_bytes_per_second", "open_files"}
		return base.Invalidf("no resource %q; did you mean %q?", name, base.Nearest(name, names))
	}
	return nil
}

// setMemory changes the bound on memory by set, which reports whether that is possible.
func (r *Resources) setMemory(set func() bool, value string) error {
	if r.memory != nil {
		if !r.cache.Ref() {
			return errResourcesClosed // it went with the last database
		}
		defer r.cache.Unref()
		if set() {
			return nil
		}
	}
	return base.Invalidf("resource memory = %s: want auto, or 8 MiB up to what it was at first; "+
		"more needs new Resources", value)
}

// joinResources makes the database one of those that share o.Resources. limits gets what the
// scheduler shares.
func (db *DB) joinResources() error {
	r := db.opts.Resources
	if r == nil {
		return nil
	}
	if r.closed.Load() || r.pool == nil {
		return errResourcesClosed
	}
	j := &db.opts.Jobs
	j.Pool, j.Rate = r.pool, r.rate
	if r.memory != nil {
		j.Account = r.memory.Open(func() { db.health.relieve() })
	}
	return nil
}

// relieve seals the largest memtable, for other databases that share the memory.
func (h *Health) relieve() {
	w := h.workers.Load()
	if w == nil || h.Writable() != nil {
		return
	}
	// A failure shows again at the next write.
	_ = base.Protect(func() error { return w.pipeline.Exclusive(w.jobs.SealLargest) })
}
