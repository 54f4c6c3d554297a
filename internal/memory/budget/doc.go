// Package budget is what the databases of a process share besides the block cache: one number of
// bytes of memory (Memory), the workers of flushes and compactions (Pool), and the rate of
// their reads and writes (Rate). It knows neither trees nor caches.
//
// # Memory
//
// The block cache takes what nothing else takes: Memory charges it with the memtables, whose sizes
// come by Account.Add, and with the buffers of flushes, compactions and iterators.
// Filters, indexes and slots of open tables are charged where they are made (cache.Reserve).
//
// Buffers need no bookkeeping: they are the off-heap allocations of the whole process that are
// attributed to no other part (offheap.Unattributed). So buffers of databases that do not share
// a Memory count against it, too.
//
// When the memtables of all databases have half of their limit, writers seal the largest of their
// own; when they have all of it, a writer waits for the flush of its own database,
// unless that has less than its share. So no database waits for another one's disk.
//
// # Workers
//
// A flush begins at once unless as many flushes run as there are workers; then the database
// under the greatest pressure goes first. A compaction begins while fewer jobs run than there are
// workers: the database with the greatest need first, of equals the one that was served
// longest ago. While flushes or urgent compactions make the jobs too many, the compactions
// that began last pause. A job that has made no progress for some time waits for its disk and
// uses no processor: it is not counted until it goes on.
//
// All types are safe for concurrent use. Their locks are leaves, except that Memory charges the
// cache.
package budget
