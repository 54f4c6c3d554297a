// Package lsm is Loam: an ordered, persistent key-value store in one directory
// of the file system, embedded in the program that imports it.
//
// Open a directory, put, get, delete, and walk over keys in order. Writes go to
// a log and a memtable, which is flushed into sorted tables that compactions
// merge in the background. Reads take no lock.
//
// # Formats
//
// A new database is in Loam's native format, which no other engine opens. With
// Options.Format = FormatLevelDB it is in LevelDB's, which any LevelDB opens, and its
// tools. A directory that exists keeps its format: Loam opens what any LevelDB wrote,
// and any LevelDB opens it again afterwards. Keyspaces, merges and range deletes need the
// native format; elsewhere they fail with ErrNeedsNative. Upgrade makes a LevelDB
// directory a native one, Export writes a directory of either format.
//
// # Durability
//
// A write that returned is in the kernel: it survives the death of the process.
// With Sync it is on disk. After a power cut a suffix of the unsynced writes
// may be gone, never one in the middle; batches are whole. Damaged bytes are
// reported as a *CorruptionError, never passed over.
//
// # Failures
//
// Want of space, memory or descriptors (ErrNoSpace, ErrNoMemory, ErrTooManyFiles)
// fails the call that met it and nothing else; background work is tried again. Any
// other failed write to the log or the manifest makes the database read-only, with
// the cause in every later error; Close and Open to recover. So does a panic of a
// comparer, file system, listener or logger of the caller's.
//
// # Lifetimes
//
// Keys and values given to Loam are copied. Get appends to a buffer of the
// caller. Iterator keys and values are valid until the next move. Iterators and
// snapshots must be closed.
//
// See the examples of DB, Batch, Snapshot and Iterator.
package lsm
