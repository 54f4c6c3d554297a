// Package lsm is Loam: an ordered, persistent key-value store in one directory of the file system,
// embedded in the program that imports it. Keys and values are byte strings.
//
// Writes go to a write-ahead log and a memtable, which is flushed into sorted tables that
// compactions merge in the background. Reads take no lock. The package example opens a database,
// writes a key and reads it; most of what follows has examples, too.
//
// # Databases
//
// [Open] opens the database in a directory as a [DB], and creates it if there is none; [Options]
// configures it. Every field of Options has a default, so nil is a good choice. [DB.Close] releases
// the directory. Only one opening at a time can write to a directory; meanwhile, [OpenFollower]
// reads it. Without a writer, any number of openings with [Options].ReadOnly share it. [Destroy]
// deletes a database.
//
// # Reading
//
// [DB.Get] and [DB.MultiGet] look up keys, [DB.All], [DB.Backward] and [DB.Prefix] loop over
// ranges of them, and [DB.Iter] opens an [Iterator], which moves in both directions. DB, Keyspace,
// Snapshot and Txn have all of these methods, and the interface [Reader], which has only some.
// [DB.Snapshot] keeps one state to read from.
//
// # Writing
//
// [DB.Put] and [DB.Delete] write one key, [DB.DeleteRange] deletes a range at the cost of one
// write, and [DB.Write] makes the writes of a [Batch] take effect together. [DB.PutIfAbsent] and
// [DB.CompareAndSwap] write depending on the present value. [DB.PutTTL] writes a value that
// expires. A [WriteMode] says what each write waits for.
//
// # Keyspaces and transactions
//
// A database has any number of named [Keyspace] values, each with an order, a memtable and tables
// of its own; the methods of DB work on the keyspace "default". Batches, snapshots and transactions
// cover all of them. A [Txn] reads one state and commits its writes together:
// [DB.Update] runs a function as a transaction and repeats it after a conflict, [DB.Begin] leaves
// that to the caller, and [TxnOptions] chooses isolation and locks.
//
// # What a program plugs in
//
// A [Comparer] orders the keys, a [MergeOperator] combines the operands of [DB.Merge] into values,
// a [CompactionFilter] drops or changes entries in compactions, a [KeyProvider] supplies the keys
// by which the files are encrypted, an [FS] replaces the file system, and an [EventListener]
// receives events of background work. A panic in one of them is an error of the call, or makes the
// database read-only; it never ends the program.
//
// # Loading and copying
//
// [DB.BulkLoad] loads entries in any order; [DB.Ingest] adds tables that a [TableWriter] wrote
// elsewhere. [DB.Checkpoint] copies an open database by hard links, package backup makes
// incremental backups, package dump writes a stream for other machines and versions, package
// replicate keeps a replica up to date in another directory or an object store, and [DB.Changes] is
// a feed of all commits.
//
// # Watching and tuning
//
// [DB.Metrics] returns counters and latencies, which package loamhttp serves by HTTP; [DB.Property]
// returns LevelDB's properties, and [DB.ApproximateSizes] estimates the space of ranges.
// [DB.SetOption] changes an option of an open database. Several databases can share a [Cache], or
// memory and background work by [Resources]. [DB.Flush] and [DB.CompactRange] do work at once that
// the background would do later.
//
// # Formats
//
// A new database is in Loam's native format, which no other engine opens. With Options.Format =
// [FormatLevelDB] it is in LevelDB's, which LevelDB and its tools open. An existing directory keeps
// its format: Loam opens the directories of any LevelDB, and any LevelDB opens them again
// afterwards. Keyspaces, merges, range deletes, times to live and encryption need the native
// format; in LevelDB's they fail with [ErrNeedsNative]. [Upgrade] converts a LevelDB directory to
// the native format, [Export] writes a copy in either format.
//
// # Durability
//
// A write that returned is in the kernel: it survives the death of the process. With [Sync] it is
// on disk. After a power cut a suffix of the unsynced writes may be gone, never one in the middle;
// batches are whole. [DB.RecoveryReport] says what an Open found. Damaged bytes are reported as a
// [*CorruptionError], never passed over; [DB.Verify] looks for them, and [Repair] keeps what is
// readable.
//
// # Errors
//
// Test errors with errors.Is and the Err variables; errors.As gives the details of a
// [*CorruptionError], [*EncryptionError], [*ConflictError], [*DeadlockError], [*GapError] or
// [*CallbackError]. [Open]
// lists the errors of openings, [DB.Get] those of reads and [DB.Put] those of writes; other methods
// name what they add. A nil context, or a nil function or result that a method needs, is
// [ErrInvalidArgument].
//
// A lack of space, memory or descriptors ([ErrNoSpace], [ErrNoMemory], [ErrTooManyFiles]) fails the
// call that met it and nothing else; background work is retried. Any other failed write to the log
// or the manifest makes the database read-only, with the cause in every later error; to recover,
// Close it and Open it again. A panic in a comparer, file system, listener or logger of the program
// does so, too.
//
// # Goroutines and lifetimes
//
// Methods of DB, Keyspace, Snapshot, Txn, Cache and Resources are safe for concurrent use. An
// Iterator, Batch, MultiResult, TableWriter, BulkLoader or PinnedValue is for one goroutine.
//
// Keys and values given to Loam are copied. Get appends to a buffer of the caller. Keys and values
// of an iterator are valid until its next move. What has a Close method must be closed: an open
// snapshot keeps overwritten entries, an open iterator keeps memory and files. Values of a type are
// made by the functions that return it; the zero value is usable only where the type says so.
package lsm
