"""The exceptions of Loam. Each is an Error and, where Python has a fitting built-in
exception, that too."""

from __future__ import annotations

import builtins

__all__ = [
    "CancelledError",
    "ClosedError",
    "ComparatorMismatchError",
    "CorruptionError",
    "DoesNotExistError",
    "Error",
    "ExistsError",
    "ForkedError",
    "InUseError",
    "InternalError",
    "InvalidArgumentError",
    "IOError",
    "LibraryError",
    "LockedError",
    "NotADatabaseError",
    "ReadOnlyError",
    "TooLargeError",
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
    """A file or directory could not be used; the message says why."""


class ReadOnlyError(IOError):
    """The database was opened read-only, or became so by a failed write."""


class LockedError(IOError):
    """The directory is open elsewhere, in this process or another."""


class NotADatabaseError(Error):
    """The directory holds something else."""


class ExistsError(IOError, FileExistsError):
    """error_if_exists was set and the database exists."""


class DoesNotExistError(IOError, FileNotFoundError):
    """There is no database and none was to be created."""


class ComparatorMismatchError(Error, ValueError):
    """The database was created with another comparator."""


class TooLargeError(Error, ValueError):
    """A key, value, batch or count above the limit."""


class ForkedError(Error, RuntimeError):
    """Used in a child after fork(); start processes with "spawn"."""


class InUseError(Error, RuntimeError):
    """Another thread is using the iterator or batch."""


class CancelledError(Error):
    """The operation was cancelled."""


class InternalError(Error, RuntimeError):
    """A fault in Loam; the message has the details."""


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
    -13: (MemoryError, "out of memory"),
    -14: (ForkedError, "loamdb does not work in a child after fork(); use the \"spawn\" start method"),
    -15: (InUseError, "another thread is using it"),
    -16: (CancelledError, "the operation was cancelled"),
    -17: (InternalError, "internal fault"),
    -18: (IOError, "no space left on the disk"),
    -19: (IOError, "too many open files"),
    -20: (InternalError, "a callback failed"),
    -21: (LibraryError, "libloam is of another version"),
}


def from_status(status: int, message: str) -> Exception:
    """The exception for a status of libloam."""
    kind, standard = _BY_STATUS.get(status, (InternalError, f"unknown status {status}"))
    return kind(message or standard)
