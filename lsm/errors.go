package lsm

import (
	"github.com/loamdb/loam/internal/base"
	"github.com/loamdb/loam/internal/feature/locks"
	"github.com/loamdb/loam/internal/feature/txn"
)

// Errors of openings. Test errors with errors.Is; an error that concerns a file names it. The texts
// do not name this library: the program adds the name of its database when it wraps them.
var (
	// ErrLocked: another opening, in this process or another, has the directory. The text names the
	// other process where the system knows it. OpenFollower reads the directory meanwhile.
	ErrLocked = base.ErrLocked
	// ErrDoesNotExist: there is no database, and Options.ErrorIfMissing or ReadOnly is set.
	ErrDoesNotExist = base.ErrDoesNotExist
	// ErrExists: the database exists, and Options.ErrorIfExists is set; or the target of a copy is
	// not empty.
	ErrExists = base.ErrExists
	// ErrNotADatabase: the directory holds something else.
	ErrNotADatabase = base.ErrNotADatabase
	// ErrNewerFormat: a newer version of Loam wrote the directory.
	ErrNewerFormat = base.ErrNewerFormat
	// ErrComparerMismatch: the database, keyspace or table was created with another comparer.
	ErrComparerMismatch = base.ErrComparerMismatch
)

// Errors of calls.
var (
	// ErrNotFound: the key has no value.
	ErrNotFound = base.ErrNotFound
	// ErrInvalidArgument: an option, a name or the bytes of a batch are malformed or out of range,
	// or an object belongs to another database.
	ErrInvalidArgument = base.ErrInvalidArgument
	// ErrTooLarge: a key, value or batch is above the limit, nearly 4 GiB.
	ErrTooLarge = base.ErrTooLarge
	// ErrClosed: the database, snapshot, iterator or another object has been closed; the text says
	// which.
	ErrClosed = base.ErrClosed
	// ErrReadOnly: the database was opened read-only, or a failed write to the log or manifest, or
	// a panic, made it so; the cause is wrapped.
	ErrReadOnly = base.ErrReadOnly
	// ErrBusy: a NoStall write would have had to wait for flushes or compactions.
	ErrBusy = base.ErrBusy
	// ErrWouldBlock: TryGet found no answer in memory.
	ErrWouldBlock = base.ErrWouldBlock
	// ErrInUse: a callback made a call that would wait for the callback; docs/locking.md lists the
	// calls that callbacks may make.
	ErrInUse = base.ErrInUse
	// ErrNoKeyspace: there is no keyspace of that name, or it was dropped.
	ErrNoKeyspace = base.ErrNoKeyspace
	// ErrNeedsNative: LevelDB's format, which the directory has, cannot hold what was asked for.
	// Upgrade makes it a native one.
	ErrNeedsNative = base.ErrNeedsNative
)

// Errors of merges and compaction filters.
var (
	// ErrNoMergeOperator: Merge, and reads of merged keys, need the MergeOperator of Options or
	// KeyspaceOptions, or the operator differs from that of the operands.
	ErrNoMergeOperator = base.ErrNoMergeOperator
	// ErrMergeFailed: the merge operator failed on the named key, with its error. The operands
	// stay; a Put or Delete of the key ends the failures.
	ErrMergeFailed = base.ErrMergeFailed
	// ErrCompactionFilter: the compaction filter failed, and so did a compaction. Nothing is lost;
	// compactions pause, and are tried again after a while, at once after Resume.
	ErrCompactionFilter = base.ErrCompactionFilter
)

// Errors of transactions.
var (
	// ErrConflict: a key that the transaction depends on was written after it began; errors.As with
	// *ConflictError gives the key. Nothing was written. Begin it again, as Update does.
	ErrConflict = txn.ErrConflict
	// ErrTxnDone: the transaction was committed or rolled back.
	ErrTxnDone = txn.ErrDone
	// ErrDeadlock: the wait for the lock would never end; errors.As with *DeadlockError gives both
	// parties. Roll back, and begin again.
	ErrDeadlock = locks.ErrDeadlock
	// ErrLockTimeout: another transaction did not give the lock back in time.
	ErrLockTimeout = locks.ErrTimeout
)

// Errors of damage and loss.
var (
	// ErrCorruption: bytes on disk are damaged; errors.As with *CorruptionError says where and why.
	ErrCorruption = base.ErrCorruption
	// ErrEncryption: a key is missing or wrong, or a file is not encrypted in a database that is;
	// errors.As with *EncryptionError gives file and key.
	ErrEncryption = base.ErrEncryption
	// ErrDirectoryChanged: files of the open database, LOCK among them, were removed or replaced by
	// another program. What was written last may be gone.
	ErrDirectoryChanged = base.ErrDirectoryChanged
	// ErrGap: the logs that a feed of changes needs are gone; errors.As with *GapError gives the
	// place. See DB.Changes.
	ErrGap = base.ErrGap
)

// Shortages. No later operation fails because of one, and background work is tried again, after
// Resume at once.
var (
	// ErrNoSpace: the disk or a quota is full, or a file would pass RLIMIT_FSIZE.
	ErrNoSpace = base.ErrNoSpace
	// ErrNoMemory: the system refused memory.
	ErrNoMemory = base.ErrNoMemory
	// ErrTooManyFiles: the process or the system has no descriptor left.
	ErrTooManyFiles = base.ErrTooManyFiles
)

// CorruptionError says where damaged bytes are and why they were refused. errors.As finds it
// in an error for which errors.Is(err, ErrCorruption) holds.
type CorruptionError struct {
	File string // File is the name within the directory; "" if unknown.
	// Offset is where the damage begins, in bytes from the start of the file; -1 if unknown.
	Offset int64
	Length int64  // Length is the number of bytes concerned; 0 if unknown.
	Kind   string // Kind is the damaged structure, such as "table block".
	Reason string // Reason describes the damage in words, lower case.
	// Final reports that the checksum is right: another read gives the same bytes.
	Final bool
}

// Error names file, place, structure and reason.
func (e *CorruptionError) Error() string { return (*base.Corruption)(e).Error() }

// Is makes errors.Is(e, ErrCorruption) hold.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorruption }

// CallbackError is what a comparer panics with to report that it cannot compare: the
// database becomes read-only with this cause, and loses nothing.
type CallbackError struct {
	Callback string // Callback is what failed: "comparator".
	Reason   string // Reason says why, in the callback's words.
}

// Error says which callback failed, and why.
func (e *CallbackError) Error() string { return (*base.CallbackError)(e).Error() }

// As lets the engine recognize the error; programs do not call it.
func (e *CallbackError) As(target any) bool {
	to, ok := target.(**base.CallbackError)
	if ok {
		*to = (*base.CallbackError)(e)
	}
	return ok
}
