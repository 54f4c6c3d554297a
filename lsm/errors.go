package lsm

import (
	"github.com/loamdb/loam/internal/base"
)

// Errors. Test with errors.Is; every error that concerns a file names it. Texts do
// not name this library: the program adds the name of the opened database when it wraps them.
var (
	// ErrNotFound: the key has no value.
	ErrNotFound = base.ErrNotFound
	// ErrClosed: the database, snapshot, iterator or another object has been closed; the text says
	// which.
	ErrClosed = base.ErrClosed
	// ErrCorruption: bytes on disk are damaged; errors.As with
	// *CorruptionError gives file, offset and reason.
	ErrCorruption = base.ErrCorruption
	// ErrReadOnly: the database was opened read-only, or a failed write to the log or
	// manifest, or a panic, made it so; the cause is wrapped.
	ErrReadOnly = base.ErrReadOnly
	// ErrLocked: another opening, in this process or another, has the directory. The text names the
	// other process where the system knows it. OpenFollower reads the directory meanwhile.
	ErrLocked = base.ErrLocked
	// ErrBusy: a NoStall write would have had to wait.
	ErrBusy = base.ErrBusy
	// ErrWouldBlock: TryGet could not answer from memory.
	ErrWouldBlock = base.ErrWouldBlock
	// ErrInvalidArgument: an option, a name or the bytes of a batch are malformed or
	// out of range, or a snapshot is another database's.
	ErrInvalidArgument = base.ErrInvalidArgument
	// ErrNotADatabase: the directory holds something else.
	ErrNotADatabase = base.ErrNotADatabase
	// ErrNewerFormat: a newer version of Loam wrote the directory.
	ErrNewerFormat = base.ErrNewerFormat
	// ErrNeedsNative: LevelDB's format, which the directory has, cannot hold what was
	// asked for. Upgrade makes it a native one.
	ErrNeedsNative = base.ErrNeedsNative
	// ErrNoKeyspace: there is no keyspace of that name, or it was dropped.
	ErrNoKeyspace = base.ErrNoKeyspace
	// ErrExists: the database exists, and Options.ErrorIfExists is set.
	ErrExists = base.ErrExists
	// ErrDoesNotExist: there is no database, and Options.ErrorIfMissing or ReadOnly
	// is set.
	ErrDoesNotExist = base.ErrDoesNotExist
	// ErrInUse: a callback made a call that would wait for it; docs/locking.md lists which calls
	// callbacks may make.
	ErrInUse = base.ErrInUse
	// ErrComparerMismatch: the database was created with another comparer.
	ErrComparerMismatch = base.ErrComparerMismatch
	// ErrNoMergeOperator: Merge, and reads of merged keys, need Options.MergeOperator, or the
	// operator differs from that of the operands.
	ErrNoMergeOperator = base.ErrNoMergeOperator
	// ErrMergeFailed: the merge operator failed on the named key, with its error. The
	// operands stay; a Put or Delete of the key ends the failures.
	ErrMergeFailed = base.ErrMergeFailed
	// ErrCompactionFilter: the compaction filter failed, so a compaction did. Nothing is
	// lost; compactions pause, and are tried again after a while, at once after Resume.
	ErrCompactionFilter = base.ErrCompactionFilter
	// ErrTooLarge: a key, value or batch is above the limit.
	ErrTooLarge = base.ErrTooLarge
	// ErrDirectoryChanged: files of the open database, LOCK among them, were
	// removed or replaced by another program. What was written last may be gone.
	ErrDirectoryChanged = base.ErrDirectoryChanged

	// The next three are shortages: no later operation fails because of one,
	// and what the background has to do is tried again, at once after Resume.

	// ErrNoSpace: a shortage that heals. The disk or a quota is full, or a file would pass
	// RLIMIT_FSIZE.
	ErrNoSpace = base.ErrNoSpace
	// ErrNoMemory: a shortage that heals. The system refused memory.
	ErrNoMemory = base.ErrNoMemory
	// ErrTooManyFiles: a shortage that heals. The process or the system has no descriptor left.
	ErrTooManyFiles = base.ErrTooManyFiles
)

// CorruptionError says where damaged bytes are and why they were refused. errors.As finds it
// in an error for which errors.Is(err, ErrCorruption) holds.
type CorruptionError struct {
	File   string // name within the directory; "" if unknown
	Offset int64  // bytes from the start of the file; -1 if unknown
	Length int64  // bytes concerned; 0 if unknown
	Kind   string // the structure, such as "table block"
	Reason string // what is wrong, in words, lower case
	Final  bool   // the checksum is right: another read gives the same bytes
}

// Error names file, place, structure and reason.
func (e *CorruptionError) Error() string { return (*base.Corruption)(e).Error() }

// Is makes errors.Is(e, ErrCorruption) hold.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorruption }

// CallbackError is what a comparer panics with to report that it cannot compare: the
// database becomes read-only with this cause, and loses nothing.
type CallbackError struct {
	Callback string // what failed: "comparator"
	Reason   string // why, in the callback's words
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
