package lsm

import "github.com/loamdb/loam/internal/engine"

// ResourcesOptions says what databases share. The zero value of a field shares nothing of
// that kind, but for BackgroundJobs. Its fields:
//
//   - Memory is how many bytes the databases have together: the block cache, which takes what the
//     rest leaves, memtables, indexes and filters of tables, and buffers of flushes,
//     compactions and iterators; at least 8 MiB. The Go heap, stacks and the program come on top.
//     The default, 0: each database has its own Options.
//   - BackgroundJobs is how many flushes and pieces of compactions run at once. The default is the
//     number of processors that Go uses, at least 2.
//   - IOBytesPerSecond bounds what flushes and compactions read and write. It is lifted for a
//     database whose writers would wait. The default, 0, is no bound.
//   - OpenFiles is how many descriptors of tables the databases have together. The default, 0,
//     is the process's bound.
type ResourcesOptions = engine.ResourcesOptions

// Resources is what any number of databases of a process share: see Options.Resources and
// docs/resources.md. It is safe for concurrent use. Make one with NewResources. Its methods:
//
//   - Close gives up the caller's hold; databases that are open keep what they share, and the
//     memory goes with the last of them. Open with it fails with ErrClosed from then on.
//     Closing twice is harmless.
//   - Set changes a limit while databases are open: memory (up to what it was at first, at least
//     8 MiB), background_jobs, io_bytes_per_second or open_files. It fails with ErrInvalidArgument; of memory that is gone with ErrClosed.
//   - Metrics says how much is in use.
type Resources = engine.Resources

// ResourcesMetrics says how much of what is shared is in use. Its fields are Memory (the limit
// in bytes; 0: memory is not shared), the bytes of which there are CacheBytes (blocks in the
// cache), TableBytes (indexes, filters and cache slots of open tables), MemtableBytes (those
// that iterators keep included) and BufferBytes (of flushes, compactions and iterators of the whole
// process), Jobs (flushes and pieces of compactions that run) and OpenFiles (descriptors of tables).
type ResourcesMetrics = engine.ResourcesMetrics

// NewResources makes Resources. Close them when no database will be opened with them any more.
func NewResources(o ResourcesOptions) *Resources { return engine.NewResources(o) }
