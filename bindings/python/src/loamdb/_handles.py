"""What both faces, loamdb and loamdb.plyvel, do with a database's handle: opening,
closing and the calls that are not made per key."""

from __future__ import annotations

import atexit
from collections.abc import Sequence

from . import _fast
from ._library import Job, check, error_slot, ffi, load, take_text
from ._options import Options, encode_path
from ._types import Any, Buffer, Progress, StrPath
from .errors import Error, ClosedError, InUseError, InvalidArgumentError

# Databases with callbacks into Python, closed at exit before the interpreter goes.
# Others are left to their last reference: handlers that a program registered with
# atexit before it imported loamdb may still use them.
# A weak set, made when the first of them opens.
_open: Any = ()


@atexit.register
def _close_all() -> None:
    for db in list(_open):
        try:
            db.close()
        except Error:
            pass  # what could not be closed is recovered by the next open


def _close_at_exit(db: Handle) -> None:
    global _open
    if _open == ():
        from weakref import WeakSet

        _open = WeakSet()
    _open.add(db)


class Handle(_fast.Database):
    """An open database."""

    __slots__ = ("__weakref__", "_callbacks", "_has_callbacks")

    def _open(self, path: StrPath, settings: dict[str, Any]) -> None:
        if hasattr(self, "_callbacks"):
            raise RuntimeError("the database was opened before; make another object")
        lib = load()
        name = encode_path(path)

        with Options(settings) as options:

            def fetch(job: Any) -> None:
                slot, err = ffi.new("loam_db **"), error_slot()
                try:
                    check(lib.loam_job_db(job, slot, err), err)
                    self._callbacks, self._has_callbacks = options.callbacks, options.has_callbacks
                    handle = int(ffi.cast("uintptr_t", slot[0]))
                    self._attach(handle, options.callbacks, options.has_callbacks)
                except BaseException:
                    if slot[0] != ffi.NULL and not self._has(slot[0]):
                        lib.loam_close(slot[0], ffi.NULL)
                    raise

            with Job() as job:
                err = error_slot()
                check(lib.loam_open_start(name, options.handle, job.slot, err), err)
                job.wait(finish=fetch, callbacks=options.callbacks)
        if options.has_callbacks:
            _close_at_exit(self)

    def _open_keyspace(self, db: Handle, name: str, settings: dict[str, Any]) -> None:
        slot = ffi.new("loam_db **")
        with Options(settings, db._callbacks) as options:
            db._call("loam_keyspace_open", encode_name(name), options.handle, slot)
            self._callbacks, self._has_callbacks = (
                options.callbacks,
                options.has_callbacks or db._has_callbacks,
            )
            self._attach(
                int(ffi.cast("uintptr_t", slot[0])), options.callbacks, self._has_callbacks
            )
        if options.has_callbacks:
            _close_at_exit(db)

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        try:
            self.close()
        except Error:
            if kind is None:  # else that is the exception to be seen
                raise

    def __del__(self) -> None:
        # Before the collector takes a cycle apart that callbacks are part of.
        self._release()

    def close(self) -> None:
        """Stops background work, finishes what is running and releases the directory.
        Iterators and snapshots of the database are of no use afterwards. Closing
        twice is harmless."""
        handle = self._detach()
        if handle == 0:
            return
        lib, err = load(), error_slot()
        with Job() as job:
            try:
                check(lib.loam_close_start(ffi.cast("loam_db *", handle), job.slot, err), err)
            except InUseError:
                self._reattach(handle)
                raise
            if _open:
                _open.discard(self)
            job.wait(callbacks=self._callbacks)

    def _call(self, function: str, *args: Any) -> int:
        """A call whose first argument is the database and whose last takes a message."""
        handle, err = self._c(), error_slot()
        return check(getattr(load(), function)(handle, *args, err), err, self._callbacks)

    def _c(self) -> Any:
        return ffi.cast("loam_db *", self._handle)

    def _has(self, handle: Any) -> bool:
        try:
            return bool(self._c() == handle)
        except ClosedError:
            return False

    def _job(self, function: str, *args: Any, progress: Progress | None = None) -> None:
        with Job() as job:
            self._call(function, *args, job.slot)
            job.wait(progress, callbacks=self._callbacks)

    def _compact(
        self, start: Buffer | None, stop: Buffer | None, progress: Progress | None = None
    ) -> None:
        self._job("loam_compact_start", *pointer(start), *pointer(stop), progress=progress)

    def _property(self, name: str) -> str | None:
        slot = ffi.new("char **")
        if self._call("loam_property", name.encode(), slot) == load().LOAM_NOT_FOUND:
            return None
        return take_text(slot)

    def _text(self, function: str, *args: Any) -> str:
        slot = ffi.new("char **")
        self._call(function, *args, slot)
        return take_text(slot)

    def _json(self, function: str) -> Any:
        return parse(self._text(function))

    def _sizes(self, ranges: Sequence[tuple[Buffer | None, Buffer | None]]) -> list[int]:
        n = len(ranges)
        starts, limits = [pointer(r[0]) for r in ranges], [pointer(r[1]) for r in ranges]
        sizes = ffi.new("uint64_t[]", n)
        columns = []
        for side in (starts, limits):
            columns.append(ffi.new("void *[]", [p for p, _ in side]))
            columns.append(ffi.new("size_t[]", [length for _, length in side]))
        self._call("loam_approximate_sizes", n, *columns, sizes)
        return list(sizes)


def parse(text: str) -> Any:
    """The value of a JSON text of the library."""
    import json  # here: it is a tenth of what importing loamdb takes

    return json.loads(text)


def pointer(key: Buffer | None) -> tuple[Any, int]:
    """A key as C sees it; NULL for None. It holds on to the key while it lives."""
    return (ffi.NULL, 0) if key is None else data(key)


def data(value: Buffer) -> tuple[Any, int]:
    """A key or a value, which None is not. It holds on to the bytes while it lives."""
    _fast.check_bytes(value)
    view = ffi.from_buffer(value)
    return view, len(view)


def encode_name(name: str) -> bytes:
    """The name of a keyspace as C takes it."""
    if not isinstance(name, str):
        raise TypeError(f"the name of a keyspace is a string, not {type(name).__name__}")
    encoded = name.encode("utf-8", "surrogateescape")
    if b"\0" in encoded:
        raise InvalidArgumentError("the name of a keyspace has no null characters")
    return encoded


def batch_in(batch: _fast.Batch, keyspace: Handle | None) -> None:
    """Chooses the keyspace of further operations."""
    space = ffi.NULL if keyspace is None else keyspace._c()
    err = error_slot()
    check(load().loam_batch_in(batch_c(batch), space, err), err)


def batch_c(batch: _fast.Batch) -> Any:
    return ffi.cast("loam_batch *", batch._handle)


def batch_size(batch: _fast.Batch) -> int:
    """Bytes the batch takes in the log."""
    handle, data, length, err = (
        batch_c(batch),
        ffi.new("const void **"),
        ffi.new("size_t *"),
        error_slot(),
    )
    check(load().loam_batch_data(handle, data, length, err), err)
    return int(length[0])


def batch_count(batch: _fast.Batch) -> int:
    """The number of operations."""
    handle, count, err = batch_c(batch), ffi.new("size_t *"), error_slot()
    check(load().loam_batch_count(handle, count, err), err)
    return int(count[0])


def batch_append(batch: _fast.Batch, other: _fast.Batch) -> None:
    handle, more, err = batch_c(batch), batch_c(other), error_slot()
    check(load().loam_batch_append(handle, more, err), err)


def destroy(path: StrPath) -> None:
    """Deletes the database in a directory that is not open."""
    err = error_slot()
    check(load().loam_destroy(encode_path(path), ffi.NULL, err), err)


def _upkeep(
    start: str, names: list[bytes], settings: dict[str, Any], progress: Progress | None, fetch: Any
) -> Any:
    """Runs work on a database that is not open as a job."""
    with Options(settings) as options, Job() as job:
        err = error_slot()
        check(getattr(load(), start)(*names, options.handle, job.slot, err), err)
        return job.wait(progress, fetch, options.callbacks)


def repair(path: StrPath, settings: dict[str, Any], progress: Progress | None = None) -> Any:
    """Saves what can be saved of a damaged database; returns the report."""

    def fetch(job: Any) -> Any:
        slot, err = ffi.new("char **"), error_slot()
        check(load().loam_job_report(job, slot, err), err)
        return parse(take_text(slot))

    return _upkeep("loam_repair_start", [encode_path(path)], settings, progress, fetch)


def upgrade(path: StrPath, settings: dict[str, Any]) -> None:
    """Makes a LevelDB database a native one."""
    _upkeep("loam_upgrade_start", [encode_path(path)], settings, None, lambda job: None)


def export(
    path: StrPath,
    to: StrPath,
    format: str,
    settings: dict[str, Any],
    progress: Progress | None = None,
) -> None:
    """Writes what a database holds into a new one in another format."""
    if not isinstance(format, str):
        raise TypeError(f"the format is a string, not {type(format).__name__}")
    name = format.encode()
    if b"\0" in name:
        raise ValueError("embedded null byte in format")
    _upkeep(
        "loam_export_start",
        [encode_path(path), encode_path(to), name],
        settings,
        progress,
        lambda job: None,
    )
