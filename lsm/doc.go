// Package lsm is Loam: an ordered, persistent key-value store in one directory of the file system,
// embedded in the program that imports it. Keys and values are byte strings.
//
// Writes go to a write-ahead log and a memtable, which is flushed into sorted tables that
// compactions merge in the background. Reads take no lock. The package example opens a database,
// writes a key and reads it; each of the types below has examples, too.
//
// # Databases
//
// [Open] opens a directory as a [DB], and makes one where there is none; [Options] configures it.
// Every field of Options has a default, so that nil is a good choice. [DB.Close] gives the
// directory back. One opening writes a directory at a time; [OpenFollower] reads beside it. Without
// a writer, any number of openings with [Options].ReadOnly share it. [Destroy] deletes a database.
//
// # Reading
//
// [DB.Get] and [DB.MultiGet] look up keys, [DB.All], [DB.Backward] and [DB.Prefix] loop over
// ranges of them, and [DB.Iter] opens an [Iterator], which moves both ways. [DB.Snapshot] keeps one
// state to read from. What reads in the same way is a [Reader].
//
// # Writing
//
// [DB.Put] and [DB.Delete] write one key, [DB.DeleteRange] deletes a range at the cost of one
// write, and a [Batch] makes several writes take effect together by [DB.Write]. [DB.PutIfAbsent]
// and [DB.CompareAndSwap] depend on what is there. [DB.PutTTL] writes a value that expires. A
// [WriteMode] says what each write waits for.
//
// # Keyspaces and transactions
//
// A database has any number of named [Keyspace] values, each with an order, a memtable and tables
// of its own; the methods of DB are those of the keyspace "default". Batches, snapshots and
// transactions reach over all of them. A [Txn] reads one state and commits its writes together:
// [DB.Update] runs a function as a transaction and repeats it after a conflict, [DB.Begin] leaves
// that to the caller, and [TxnOptions] chooses isolation and locks.
//
// # What a program plugs in
//
// A [Comparer] orders the keys, a [MergeOperator] makes values of the operands of [DB.Merge], a
// [CompactionFilter] drops or changes entries in compactions, an [FS] replaces the file system, and
// an [EventListener] takes events of background work. A panic in one of them is an error of
// the call, or makes the database read-only; it never ends the program.
//
// # Loading and copying
//
// [DB.BulkLoad] loads entries in any order; [NewTableWriter] and [DB.Ingest] bring tables that were
// written elsewhere. [DB.Checkpoint] copies an open database by hard links, package backup keeps
// backups, package dump writes a stream for other machines and versions, and [DB.Changes] is a
// feed of all commits.
//
// # Watching and tuning
//
// [DB.Metrics] counts, [DB.Property] answers LevelDB's properties, and [DB.ApproximateSizes]
// estimates the space of ranges. [DB.SetOption] changes options of an open database, [Cache] and
// [Resources] are shared by several, and [DB.Flush] and [DB.CompactRange] do at once what the
// background does in time.
//
// # Formats
//
// A new database is in Loam's native format, which no other engine opens. With Options.Format =
// [FormatLevelDB] it is in LevelDB's, which LevelDB and its tools open. A directory that exists
// keeps its format: Loam opens what any LevelDB wrote, and any LevelDB opens it again afterwards.
// Keyspaces, merges, range deletes and times to live need the native format; in LevelDB's they fail
// with [ErrNeedsNative]. [Upgrade] makes a LevelDB directory a native one, [Export] writes a
// directory of either format.
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
// Errors are tested with errors.Is and the Err variables; errors.As gives the details of a
// [*CorruptionError], [*ConflictError], [*DeadlockError], [*GapError] or [*CallbackError]. [Open]
// lists the errors of openings, [DB.Get] those of reads and [DB.Put] those of writes; other methods
// name what they add. A nil context, or a nil function or result that a method needs, is
// [ErrInvalidArgument].
//
// A lack of space, memory or descriptors ([ErrNoSpace], [ErrNoMemory], [ErrTooManyFiles]) fails the
// call that met it and nothing else; background work is tried again. Any other failed write to the
// log or the manifest makes the database read-only, with the cause in every later error; Close and
// Open to recover. A panic in a comparer, file system, listener or logger of the program does so,
// too.
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
