// Package memtable holds the latest writes in memory until a flush writes them into
// a table. A MemTable is append-only: entries lie in an arena in the order of their
// writes, and everything else refers to them by their 32-bit offsets.
//
// Most LSM trees use one skip list here for all that is asked of a memtable. A skip
// list pays for order at every write, with a cache miss a level; yet most memtables of
// a database that is written to in bulk are never read in order before their flush. So
// this package keeps order out of Put and Get, and makes it when somebody asks. Four
// algorithms take part, each in files of its own.
//
//  1. Arena and hash index (arena.go, hash_index.go). A write appends its entry to
//     the arena and stores the entry's offset in one slot of an open-addressing
//     table, which is what publishes it: two cache misses, however many entries there
//     are. The slot has half of the key's hash next to the offset, so that a Get compares one key,
//     and a Get of an absent key usually compares none. The
//     hash is seeded by the process: keys that are built to collide do not. With a
//     comparer whose equality is not that of bytes there is no index, and Get
//     searches in order (4).
//
//  2. Version chains with jump pointers (version_chain.go). The slot leads to the
//     newest entry of its key; each entry links to the one before it of the same key.
//     A reader at a snapshot follows the chain, and a key that is overwritten a
//     million times must not cost that reader a million steps. Each entry therefore
//     has a second link, further back, by the rule of a skew-binary list: any
//     version is found in a logarithmic number of steps, for 12 bytes an entry
//     and only for entries that overwrite. Unlike a balanced tree the links
//     are never changed once written, so readers need no lock.
//
//  3. Radix sort (radix_sort.go, sorted_array.go). A memtable that nobody iterates
//     over until its flush is sorted once, by Seal: that takes a third of the time of
//     inserting its entries one by one, and no memory until then. The sort looks
//     at the eight-byte abbreviations of package prefix, and at keys only where these
//     are equal. The first iterator over a memtable that already has many entries
//     sorts them too, in parts on several goroutines, because a caller waits for it.
//
//  4. B+tree (btree.go, btree_build.go, leaf_copy.go). Sorted entries become a B+tree
//     of offsets in full nodes, built from left to right. From the first iterator on,
//     the tree is kept: newer entries are inserted by the next goroutine that opens an iterator, or
//     in the background when enough of them wait (lazy_order.go decides), so that an iterator in
//     parallel to a writer pays for new entries only. One
//     goroutine at a time inserts; readers take no lock but copy a leaf of 64 offsets
//     and check by a version counter that it did not change meanwhile. Nodes are large
//     because a search in one of them costs two cache misses (package prefix), and
//     the entries of a leaf are scanned for one copy. Sorted runs that are merged in
//     the background were tried in place of the tree: beside a writer an iterator then
//     met five or six runs in each memtable and searched every one.
//
// What a reader at one sequence number sees of the tree is in source_at.go; source.go
// hands it out in chunks.
//
// # Memory
//
// The arena grows in place, and offsets stay good (offheap.Extent). The index is
// replaced by a larger one, and outgrown ones are kept until the memtable goes, as
// readers may hold them. When the system refuses memory, the memtable counts as full
// (ErrFull) and nothing that was written is lost. Nodes of the tree have their memory
// reserved before anything changes; a comparer is asked everything before, too, because
// it may panic.
//
// Later memtables, usually the next two, use the arena and the index of a released one again
// (arena.Spare); pages of a large arena move to the next one as it grows. A read of a freed
// memtable, which is a bug, would then find other entries instead of faulting, so invariants builds
// overwrite the memory first.
//
// # Concurrency
//
// One goroutine at a time may write (Room, Apply, Add). Get, Prefetch and NewSource may
// run beside it from any number of goroutines; Get takes no lock. Every user of a MemTable holds a
// reference, or is called while its caller holds one. A Source is used by
// one goroutine and holds its own reference.
package memtable
