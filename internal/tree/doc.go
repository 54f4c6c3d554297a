// Package tree is one keyspace of a database: its memtable, the sealed memtables
// that wait for their flush, and its version of tables.
//
// A ReadState is an immutable state of the three. Reads load the current one from
// an atomic pointer. Three events replace it: Rotate seals the memtable, Install
// makes the version of a manifest edit current, Close takes it away.
//
// # The order of a read
//
// A read loads the ReadState first and the visible sequence number afterwards. A newer state may
// have lost the entry visible at the number to a compaction. An older one lacks tables ingested
// meanwhile, but has writes after them: where it is not current any more, both are loaded again.
//
// # Lifetimes
//
// A read that looks at memory only stays in a guard of the database's
// epoch.Domain. No I/O happens inside a guard: iterators, MultiGet, and a Get from
// its first I/O on, hold a reference on their ReadState instead. A ReadState holds
// its memtables, its version, and the database's table files and block cache
// (Holders). So a reference on a ReadState keeps everything in it alive.
//
// The type of Tree.state, epoch.Pointer, has no load without a guard, but for the
// owner, the goroutine that may replace the state. A reference is taken only on the current
// ReadState, inside a guard or by that owner, or by a holder of another reference.
// The current state's own reference goes when the guards that may have seen it have
// exited. So no state is referenced again after its last reference went.
//
// The commit leader writes without a guard: it has a reference of its own on the
// memtable (writer), which nobody else replaces.
//
// # One database, many trees
//
// What all keyspaces of a database have in common is in Shared, above all the
// visible sequence number and the list of snapshots (Sequences). A Tree starts no
// goroutine, writes no log or manifest and deletes no file: package work flushes
// and compacts it, the commit leader fills it.
package tree
