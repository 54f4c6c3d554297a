"""The exceptions of Loam. Each is an Error and, where Python has a fitting built-in
exception, that too."""

from __future__ import annotations

import builtins
import errno
import os
import sys

__all__ = [
    "BusyError",
    "CallbackError",
    "CancelledError",
    "ClosedError",
    "ComparatorMismatchError",
    "ConflictError",
    "CorruptionError",
    "DeadlockError",
    "DoesNotExistError",
    "EncryptionError",
    "Error",
    "ExistsError",
    "ForkedError",
    "GapError",
    "InUseError",
    "InternalError",
    "InvalidArgumentError",
    "LibraryError",
    "LockTimeoutError",
    "LockedError",
    "NoMemoryError",
    "NoSpaceError",
    "NeedsNativeError",
    "NewerFormatError",
    "NoKeyspaceError",
    "NoMergeOperatorError",
    "MergeFailedError",
    "NotADatabaseError",
    "NotAppliedError",
    "ReadOnlyError",
    "RefusedError",
    "SnapshotGoneError",
    "TooLargeError",
    "TooManyFilesError",
    "TooOldError",
    "TransactionDoneError",
    "UnavailableError",
    "UnknownOutcomeError",
]


class Error(Exception):
    """What all exceptions of Loam have in common."""


class InvalidArgumentError(Error, ValueError):
    """An option, bound or argument that cannot be."""


class ClosedError(Error, RuntimeError):
    """The database, snapshot, iterator or batch was closed."""


class CorruptionError(Error):
    """Damaged bytes on disk; the message says where."""


class IOError(Error, builtins.OSError):
    """A file or directory could not be used: errno, strerror and filename are those of
    the operating system's error. The message says what Loam was about to do."""

    message: str

    def __str__(self) -> str:
        return getattr(self, "message", None) or super().__str__()


class NoSpaceError(IOError):
    """The disk or quota is full; work resumes when there is room."""


class TooManyFilesError(IOError):
    """The process or system is out of file descriptors; work resumes when there are some."""


class ReadOnlyError(IOError):
    """The database was opened read-only, or became so by a failed write."""


class LockedError(IOError, BlockingIOError):
    """The directory is open elsewhere, in this process or another."""


# As builtins.OSError has subclasses for some numbers, so has IOError.


class PermissionError(IOError, builtins.PermissionError):
    """The operating system does not permit it."""


class FileNotFoundError(IOError, builtins.FileNotFoundError):
    """A file or directory is missing."""


class NotADirectoryError(IOError, builtins.NotADirectoryError):
    """Something in the path is no directory."""


class IsADirectoryError(IOError, builtins.IsADirectoryError):
    """A directory stands where a file should be."""


class NotADatabaseError(Error):
    """The directory holds something else."""


class NewerFormatError(Error):
    """A newer version of Loam wrote the directory."""


class NeedsNativeError(Error):
    """LevelDB's format, which the directory has, cannot hold it. loamdb.upgrade makes the
    database a native one."""


class NoMergeOperatorError(Error):
    """merge_operator was not named, or the operands are another operator's."""


class MergeFailedError(Error):
    """The merge operator failed on a key, which the message names. Its operands stay."""


class NoKeyspaceError(Error, LookupError):
    """There is no keyspace of that name, or it was dropped."""


class ConflictError(Error):
    """Another write of a key that the transaction depends on; the message names the key.
    Nothing was written: begin the transaction again, as db.update does."""


class DeadlockError(Error):
    """To wait for a lock would never end; the message names both transactions."""


class LockTimeoutError(Error, TimeoutError):
    """Another transaction did not give a lock back in time."""


class TransactionDoneError(Error, RuntimeError):
    """The transaction was committed or rolled back."""


class EncryptionError(Error):
    """A key of an encrypted database is missing or wrong, or a file of it is not encrypted; the
    message names the file and the id of the key."""


class GapError(Error, LookupError):
    """What a feed of changes was to go on with is in no log any more; the message says which
    sequence number that is, and with which a feed can begin."""


class ExistsError(IOError, FileExistsError):
    """error_if_exists was set and the database exists."""


class DoesNotExistError(FileNotFoundError):
    """There is no database and none was to be created."""


class ComparatorMismatchError(Error, ValueError):
    """The database was created with another comparator."""


class TooLargeError(Error, ValueError):
    """A key, value, batch or count above the limit."""


class ForkedError(Error, RuntimeError):
    """An object of before fork(), used in the child, which must open its own."""


class InUseError(Error, RuntimeError):
    """Another thread is using the iterator or batch, or loads a dump into the database."""


class NoMemoryError(Error, MemoryError):
    """There is not enough memory; what was asked for did not happen."""


class CallbackError(Error, RuntimeError):
    """A comparator or logger failed; the cause is its exception."""


class CancelledError(Error):
    """The operation was cancelled."""


class InternalError(Error, RuntimeError):
    """A fault in Loam; the message has the details."""


# Those of servers, see loamdb.connect.


class UnknownOutcomeError(Error):
    """The change may have happened, or may happen yet: no answer came. Try again with the same
    once, or read what is there. A change that fails with any other error did not happen."""


class NotAppliedError(Error):
    """The change did not happen, and will not: it is safe to try again."""


class UnavailableError(Error, builtins.ConnectionError):
    """No node answered in time, or none leads."""


class RefusedError(Error, builtins.ConnectionError):
    """The node is of another cluster or version, or wants another token."""


class SnapshotGoneError(Error, RuntimeError):
    """The connection that had the snapshot was lost, or the snapshot was not used for too long."""


class TooOldError(Error):
    """The node's state is older than max_lag allows."""


class BusyError(Error, RuntimeError):
    """A limit of what one connection may have open."""


class LibraryError(Error, ImportError):
    """libloam could not be loaded, or is of another version."""


# loam.h's LOAM_ERR_* values, which never change.
_BY_STATUS: dict[int, tuple[type[Exception], str]] = {
    -1: (InvalidArgumentError, "invalid argument"),
    -2: (InternalError, "not a handle of this type"),
    -3: (ClosedError, "it is closed"),
    -4: (CorruptionError, "damaged data"),
    -5: (IOError, "input or output failed"),
    -6: (ReadOnlyError, "the database is read-only"),
    -7: (LockedError, "the directory is open elsewhere"),
    -8: (NotADatabaseError, "the directory is not a database"),
    -9: (ExistsError, "the database exists"),
    -10: (DoesNotExistError, "there is no database"),
    -11: (ComparatorMismatchError, "the database has another comparator"),
    -12: (TooLargeError, "too large"),
    -13: (NoMemoryError, "out of memory"),
    -14: (
        ForkedError,
        "what was opened before fork() is the parent's; open it anew in this "
        'process, or start processes with "spawn"',
    ),
    -15: (InUseError, "another thread is using it"),
    -16: (CancelledError, "the operation was cancelled"),
    -17: (InternalError, "internal fault"),
    -18: (NoSpaceError, "no space left on the disk"),
    -19: (TooManyFilesError, "too many open files"),
    -20: (CallbackError, "a callback failed"),
    -21: (LibraryError, "libloam is of another version"),
    -22: (NewerFormatError, "a newer version of Loam wrote the database"),
    -23: (NeedsNativeError, "it needs the native format"),
    -24: (NoKeyspaceError, "there is no such keyspace"),
    -25: (NoMergeOperatorError, "there is no merge operator"),
    -26: (MergeFailedError, "the merge operator failed"),
    -27: (ConflictError, "the transaction conflicts with another write"),
    -28: (DeadlockError, "to wait for the lock would never end"),
    -29: (LockTimeoutError, "the lock was not given back in time"),
    -30: (TransactionDoneError, "the transaction has ended"),
    -31: (GapError, "changes are gone"),
    -32: (EncryptionError, "a key is missing or wrong"),
}


# Where libloam knows no number of its own.
_NUMBERS = {
    NoSpaceError: errno.ENOSPC,
    TooManyFilesError: errno.EMFILE,
    ReadOnlyError: errno.EROFS,
    LockedError: errno.EAGAIN,
    ExistsError: errno.EEXIST,
    DoesNotExistError: errno.ENOENT,
    IOError: errno.EIO,
}
_BY_NUMBER = {
    errno.EACCES: PermissionError,
    errno.EPERM: PermissionError,
    errno.ENOENT: FileNotFoundError,
    errno.ENOTDIR: NotADirectoryError,
    errno.EISDIR: IsADirectoryError,
}


def from_status(status: int, message: str, number: int = 0, path: str | None = None) -> Exception:
    """The exception for a status of libloam, with the operating system's error number
    and the path concerned where they are known."""
    kind, standard = _BY_STATUS.get(status, (InternalError, f"unknown status {status}"))
    message = standard if kind is ForkedError else message or standard
    if not issubclass(kind, IOError):
        return kind(message)
    if number and sys.platform == "win32":
        number = OSError(0, "", None, number).errno or errno.EIO  # it is a code of Windows
    number = number or _NUMBERS[kind]
    if kind is IOError:
        kind = _BY_NUMBER.get(number, kind)
    exception = kind(number, os.strerror(number), path)
    exception.message = message
    return exception
