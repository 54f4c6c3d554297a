"""Folders of backups."""

from __future__ import annotations

from . import errors
from ._handles import Handle, parse
from ._library import Job, check, error_slot, ffi, forks, load, same_process, take_text
from ._options import encode_path
from ._types import Any, NoReturn, Progress, StrPath


class Backup:
    """What a folder says of a backup. Where error is set, why it cannot be read, only id is
    known."""

    __slots__ = ("bytes", "created", "database", "error", "files", "format", "id", "new_bytes")

    id: int
    created: float  #: seconds since 1970
    database: str  #: its directory
    format: str  #: "native" or "leveldb"
    files: int
    bytes: int
    new_bytes: int  #: of these, what no earlier backup had
    error: str | None

    def __init__(self, values: dict[str, Any]) -> None:
        self.created = values.pop("created_ms") / 1000
        for name, value in values.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return (
            f"<loamdb.Backup {self.id} of {self.database!r}, {self.error or f'{self.bytes} bytes'}>"
        )


Listed = list[Backup]


class Backups:
    """A folder of backups, which may be of several databases: ``with loamdb.Backups(path) as b``.
    It is made in a directory that exists, unless error_if_missing is set, and locked until it is
    closed (LockedError); any number of read_only openings share it. It is one object: it cannot be
    copied.

    Where a method takes them, bytes_per_second bounds what is read, and progress is called some
    ten times a second with the bytes done and the bytes in all; an exception from it, like
    Ctrl-C, ends the call, and nothing is left of what it made."""

    def __init__(
        self, path: StrPath, *, read_only: bool = False, error_if_missing: bool = False
    ) -> None:
        self._handle: Any = None
        lib, name = load(), encode_path(path)
        flags = (lib.LOAM_BACKUP_READ_ONLY if read_only else 0) | (
            lib.LOAM_BACKUP_ERROR_IF_MISSING if error_if_missing else 0
        )
        slot, err = ffi.new("loam_backup **"), error_slot()
        check(lib.loam_backup_open(name, flags, slot, err), err)
        self._handle, self._lib, self._forks = slot[0], lib, forks()
        # looked up now: at the interpreter's end there are no imports
        self._end = lib.loam_backup_close

    def __reduce__(self) -> NoReturn:
        raise TypeError("Backups cannot be copied or pickled")

    def close(self) -> None:
        """Ends what is under way in other threads, with ClosedError, and gives the folder back.
        Closing twice is harmless."""
        handle, self._handle = self._handle, None
        if handle is not None and self._forks == forks():
            check(self._end(handle))

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __enter__(self) -> Backups:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _call(self, function: str, *args: Any) -> None:
        if self._handle is None:
            raise errors.ClosedError("the folder of backups is closed")
        same_process(self._forks)
        err = error_slot()
        check(getattr(self._lib, function)(self._handle, *args, err), err)

    def _run(
        self,
        function: str,
        args: tuple[Any, ...],
        rate: int | None,
        progress: Progress | None,
        finish: Any = None,
    ) -> Any:
        with Job() as job:
            self._call(function, *args, rate or 0, job.slot)
            return job.wait(progress, finish)

    def create(
        self, db: Handle, *, bytes_per_second: int | None = None, progress: Progress | None = None
    ) -> Backup:
        """Makes a backup of what db has now, all keyspaces and unsynced writes included, while
        writes go on. What an earlier backup has is not copied again."""

        def fetch(job: Any) -> Any:
            slot, err = ffi.new("char **"), error_slot()
            check(self._lib.loam_job_report(job, slot, err), err)
            return parse(take_text(slot))

        if not isinstance(db, Handle):
            raise TypeError(f"a backup is made of a database, not of {type(db).__name__}")
        return Backup(
            self._run("loam_backup_create_start", (db._c(),), bytes_per_second, progress, fetch)
        )

    def list(self) -> Listed:
        """The backups, oldest first."""
        slot = ffi.new("char **")
        self._call("loam_backup_list", slot)
        return [Backup(values) for values in parse(take_text(slot))]

    def verify(
        self, id: int, *, bytes_per_second: int | None = None, progress: Progress | None = None
    ) -> None:
        """Reads all files of a backup and compares them with their checksums. Raises
        CorruptionError, whose message names every damaged file; DoesNotExistError, as restore
        and delete do, where there is no such backup."""
        self._run("loam_backup_verify_start", (id,), bytes_per_second, progress)

    def restore(
        self,
        id: int,
        path: StrPath,
        *,
        bytes_per_second: int | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Makes path a database as it was at the backup. path must not exist, or be an empty
        directory (ExistsError), in a directory that exists. What is damaged raises
        CorruptionError."""
        self._run("loam_backup_restore_start", (id, encode_path(path)), bytes_per_second, progress)

    def delete(self, id: int) -> None:
        """Deletes a backup, and what no other needs of it."""
        self._call("loam_backup_delete", id)

    def keep(self, n: int) -> None:
        """Deletes, of the backups of each database directory, all but the newest n."""
        self._call("loam_backup_keep", n)
