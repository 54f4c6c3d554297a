// Package txn is what a transaction keeps in memory until it commits: its writes, with
// an order over them (Batch), and what it has read (Reads).
//
// # Own writes
//
// A Batch is a write batch in its wire form, which the commit appends to the log as it
// is, and beside it a skip list for each keyspace. A node refers to its entry by the
// entry's offset in the batch. The list is sorted by key and then by offset, newest
// first; so a later write of a key comes before an earlier one, and a reader that was
// opened when the batch had n bytes passes over entries with offsets of n and more.
//
// A Source of a Batch takes part in a merge beside memtables and tables. Its entries
// have sequence numbers above all others, so that they hide what the database holds; the
// merge has to show them whatever the sequence number is that it reads at.
//
// # Reads
//
// Reads lists keys, each with a sequence number, and ranges. Neither a key nor anything in a range
// may change after that number. Who reads reports here; a commit asks the trees.
//
// Nothing here is safe for concurrent use; a Source takes the lock of its transaction.
package txn
