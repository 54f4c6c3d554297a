package lsm

import "github.com/loamdb/loam/internal/store"

// ResourcesOptions says what databases share. A zero field leaves each database its own; only
// BackgroundJobs is always shared.
type ResourcesOptions struct {
	// Memory bounds the memory of all databases together, in bytes: memtables, indexes and filters
	// of tables, buffers of flushes, compactions and iterators, and the block cache, which takes
	// what the others leave. It is at least 8 MiB, or AutoMemory. The Go heap, stacks and the
	// program come on top. With the default, 0, each database is bounded by its own Options.
	Memory int64
	// BackgroundJobs is how many flushes and pieces of compactions run at once. The default, 0, is
	// the number of processors that Go uses, at least 2.
	BackgroundJobs int
	// IOBytesPerSecond bounds what flushes and compactions read and write. It is lifted for a
	// database whose writers would wait. The default, 0, is no bound.
	IOBytesPerSecond int64
	// OpenFiles is how many descriptors of tables the databases have together. The default, 0, is
	// the bound of the process: half of its limit, at most 16,384.
	OpenFiles int
}

// AutoMemory stands for a quarter of the memory that the process may use: of the lowest limit of
// its cgroup and the cgroups above, or of the machine's memory. It follows changes of that limit,
// up to four times its first value.
const AutoMemory = store.AutoMemory

// Resources bounds memory, background work and descriptors that databases of a process share, see
// Options.Resources and docs/resources.md. Make it with NewResources. Safe for concurrent use.
type Resources struct{ r *store.Resources }

// NewResources makes Resources. Close them when no database will be opened with them any more.
func NewResources(o ResourcesOptions) *Resources {
	return &Resources{store.NewResources(store.ResourcesOptions(o))}
}

// Close gives up the caller's hold: open databases keep their share, and the memory is freed with
// the last of them. Open with it fails with ErrClosed from then on. Closing twice is harmless.
func (r *Resources) Close() {
	if r.r != nil {
		r.r.Close()
	}
}

// Set changes a limit while databases are open: memory (8 MiB up to its first value, or auto for
// AutoMemory), background_jobs, io_bytes_per_second or open_files. A value is a number, with KiB,
// MiB or GiB after it. It fails with ErrInvalidArgument, or ErrClosed once its memory is freed.
func (r *Resources) Set(name, value string) error { return r.inside().Set(name, value) }

// Metrics returns how much is in use.
func (r *Resources) Metrics() ResourcesMetrics { return ResourcesMetrics(r.inside().Metrics()) }

// inside is what the engine shares: nil of a nil r, and closed of a zero one.
func (r *Resources) inside() *store.Resources {
	switch {
	case r == nil:
		return nil
	case r.r == nil:
		return &store.Resources{}
	}
	return r.r
}

// ResourcesMetrics is the present use of shared resources.
type ResourcesMetrics struct {
	Memory     int64 // Memory is the limit in bytes; 0: memory is not shared.
	CacheBytes int64 // CacheBytes is the memory of cached blocks.
	// TableBytes is the memory of indexes, filters and cache slots of open tables.
	TableBytes int64
	// MemtableBytes is the memory of memtables, those that only iterators keep included.
	MemtableBytes int64
	// BufferBytes is the memory of buffers of flushes, compactions and iterators, and a part of the
	// Go heap.
	BufferBytes int64
	// Jobs is the number of flushes and pieces of compactions that run.
	Jobs      int
	OpenFiles int // OpenFiles is the number of descriptors of tables.
}
