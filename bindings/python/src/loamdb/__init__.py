"""Loam, an embedded ordered key-value store that opens LevelDB's directories, too.

    with loamdb.open("path") as db:
        db[b"key"] = b"value"
        for key, value in db.items(prefix=b"k"):
            ...

A new database is in Loam's native format; ``format="leveldb"`` makes one that LevelDB
and its tools open. An existing database keeps its format.

Importing starts no thread and loads no library; opening the first database does. A
child after fork() opens its own databases; objects of its parent raise ForkedError.
"""

from __future__ import annotations

import os

from . import _dump, _handles, errors
from ._fast import PinnedValue
from ._library import check, error_slot, ffi, take_text
from ._library import load as _library
from ._options import Cache, MergeOperator, Resources, prefix_filter
from ._types import TYPE_CHECKING, Any, Progress, StrPath
from .backup import Backup, Backups
from .changes import Change, Changes, Operation
from .db import DB, Batch, Keyspace, Lag, Prefixed, PrefixedBatch, Snapshot
from .errors import *  # noqa: F403
from .errors import IOError as IOError
from .ingest import TableWriter
from .iterator import Iterator
from .transaction import Transaction

__version__ = "0.3.0"

# Neither open nor IOError, which "from loamdb import *" would put before the built-in
# ones, nor the other exceptions, whose inherited members fill help(): they are in errors.
__all__ = [
    "Backup",
    "Backups",
    "Batch",
    "Cache",
    "Change",
    "Changes",
    "DB",
    "Iterator",
    "Keyspace",
    "Lag",
    "MergeOperator",
    "Operation",
    "PinnedValue",
    "Prefixed",
    "PrefixedBatch",
    "Resources",
    "Snapshot",
    "TableWriter",
    "Transaction",
    "connect",
    "destroy",
    "dump",
    "errors",
    "export",
    "follow",
    "library_version",
    "load",
    "options",
    "prefix_filter",
    "repair",
    "set_runtime",
    "upgrade",
    "verify_dump",
]

#: Opens a database, and creates it when there is none: ``with loamdb.open(path) as db``.
open = DB


def __dir__() -> list[str]:
    """What is public: __all__, open, the exceptions and the version."""
    return sorted(
        {
            *__all__,
            *errors.__all__,
            "open",
            "IOError",
            "__version__",
            "__doc__",
            "__file__",
            "__name__",
            "__path__",
        }
    )


def follow(path: StrPath, **options: Any) -> DB:
    """Opens a database for reading while another process, which may be LevelDB, writes it:
    ``with loamdb.follow(path) as db``. db.catch_up() shows the present state, and
    follow_interval=0.05 does so in the background. Nothing in the directory changes."""
    return DB(path, follow=True, **options)


if TYPE_CHECKING:
    from .remote import connect as connect
else:

    def connect(url, **options):
        """A database behind loamd, of class loamdb.remote.Remote: ``with
        loamdb.connect("loam://a:7070,b:7070") as db``. loamdb.remote.connect has the options:
        token, tls, cluster, timeout, try_timeout."""
        from . import remote  # ssl and its like are for programs that connect

        return remote.connect(url, **options)


def destroy(path: StrPath) -> None:
    """Deletes the database in a directory that is not open."""
    _handles.destroy(path)


def repair(
    path: StrPath, *, comparator: str | None = None, progress: Progress | None = None
) -> dict[str, Any]:
    """Brings a damaged database that is not open back to a state that opens, with everything
    that can still be read; returns a report."""
    report: dict[str, Any] = _handles.repair(path, {"comparator": comparator}, progress)
    return report


def upgrade(path: StrPath, *, comparator: str | None = None) -> None:
    """Converts the LevelDB database in a directory that is not open to the native format, in
    about the time of an opening. A native database stays as it is."""
    _handles.upgrade(path, {"comparator": comparator})


def export(
    path: StrPath,
    to: StrPath,
    *,
    format: str = "leveldb",
    comparator: str | None = None,
    progress: Progress | None = None,
) -> None:
    """Copies the database in a directory that is not open into a new one in the directory to,
    in LevelDB's format unless format says otherwise. progress is called about ten times a
    second with the bytes done and the bytes in all; Ctrl-C ends the export."""
    _handles.export(path, to, format, {"comparator": comparator}, progress)


def dump(db: DB, file: StrPath | Any, **options: Any) -> dict[str, Any]:
    """db.dump(file): writes the contents of the database into a file."""
    return db.dump(file, **options)


def load(db: DB, file: StrPath | Any, **options: Any) -> dict[str, Any]:
    """db.load(file): loads a dump into the database."""
    return db.load(file, **options)


def verify_dump(file: StrPath | Any, *, progress: Progress | None = None) -> dict[str, Any]:
    """Reads a dump, a path or a binary file object, and checks all of it. Returns what it has;
    raises CorruptionError if it is damaged or was cut."""
    return _dump.run_file(None, "loam_dump_verify_start", (), file, os.O_RDONLY, False, progress)


def options() -> list[dict[str, Any]]:
    """The options of open: name, what it does, unit, default, least and greatest value."""
    slot, err = ffi.new("char **"), error_slot()
    check(_library().loam_options_describe(slot, err), err)
    described: list[dict[str, Any]] = _handles.parse(take_text(slot))
    return described


def library_version() -> str:
    """The version of libloam."""
    version: str = ffi.string(_library().loam_version()).decode()
    return version


def set_runtime(*, maxprocs: int = 0, gogc: int = 0, memory_limit: int = 0) -> None:
    """Sets how many threads run Go code at once, the Go garbage collector's percentage
    (negative: off) and its soft memory limit in bytes (negative: none). 0 leaves as is."""
    err = error_slot()
    check(_library().loam_runtime_set(maxprocs, gogc, memory_limit, err), err)
