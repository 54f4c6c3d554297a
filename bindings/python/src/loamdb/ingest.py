"""Tables written outside of a database, ingests and loads."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from . import _fast, _ttl, errors
from ._handles import Handle, batch_c, data, pointer
from ._library import Job, check, error_slot, ffi, forks, load, same_process
from ._options import Options, encode_path
from ._types import Any, Buffer, NoReturn, StrPath

# Bytes of entries that a load takes at once.
CHUNK = 256 * 1024


class TableWriter:
    """Writes a table outside of a database, for DB.ingest: ``with loamdb.TableWriter(path) as w``
    finishes it, or removes the file after an exception. path must not exist (ExistsError).

    Keys ascend, and come once each: otherwise InvalidArgumentError, and the table stays as it
    was. settings are options of databases: format and comparator, which must be those of the
    database, and what says how tables are written. It is one object: it cannot be copied."""

    def __init__(self, path: StrPath, **settings: Any) -> None:
        self._handle: Any = None
        lib, name = load(), encode_path(path)
        slot, err = ffi.new("loam_table_writer **"), error_slot()
        with Options(settings) as options:
            self._callbacks = options.callbacks
            check(
                lib.loam_table_writer_create(name, options.handle, slot, err),
                err,
                options.callbacks,
            )
        self._callbacks._outlive(False)
        self._handle, self._lib, self._forks = slot[0], lib, forks()
        # looked up now: at the interpreter's end there are no imports
        self._end = lib.loam_table_writer_close

    def __reduce__(self) -> NoReturn:
        raise TypeError("TableWriters cannot be copied or pickled")

    def _call(self, function: str, *args: Any) -> None:
        if self._handle is None:
            raise errors.ClosedError("the table was finished or given up")
        same_process(self._forks)
        err = error_slot()
        check(getattr(self._lib, function)(self._handle, *args, err), err, self._callbacks)

    def put(self, key: Buffer, value: Buffer, ttl: float | timedelta | None = None) -> None:
        """Adds a value, which with ttl lives for so many seconds from now on."""
        if ttl is None:
            self._call("loam_table_writer_put", *data(key), *data(value))
        else:
            self._call("loam_table_writer_put_ttl", *data(key), *data(value), _ttl.seconds(ttl))

    def delete(self, key: Buffer) -> None:
        """Adds a deletion: of what the database has when the table is ingested."""
        self._call("loam_table_writer_delete", *data(key))

    def delete_range(self, start: Buffer, stop: Buffer) -> None:
        """Adds the deletion of what the database has from start up to, not including, stop when
        the table is ingested. Ranges come in any order."""
        self._call("loam_table_writer_delete_range", *data(start), *data(stop))

    @property
    def size(self) -> int:
        """About how many bytes the file would have if the table were finished now."""
        slot = ffi.new("uint64_t *")
        self._call("loam_table_writer_size", slot)
        return int(slot[0])

    def finish(self) -> None:
        """Makes the table durable, under its name. If it fails the file is removed."""
        try:
            self._call("loam_table_writer_finish")
        finally:
            self.close()

    def close(self) -> None:
        """Gives up a table that was not finished, and removes its file. Closing twice is
        harmless."""
        handle, self._handle = self._handle, None
        if handle is not None and self._forks == forks():
            self._callbacks._outlive(True)
            check(self._end(handle))

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __enter__(self) -> TableWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is None and self._handle is not None:
            self.finish()
        else:
            self.close()


def ingest(
    db: Handle, paths: Iterable[StrPath], move: bool, excise: tuple[Buffer, Buffer] | None
) -> None:
    lib = load()
    if isinstance(paths, (str, bytes)):
        raise TypeError("ingest takes a list of paths")
    names = [ffi.new("char[]", encode_path(path)) for path in paths]
    options = ffi.new("loam_ingest_options *")
    options.struct_size = ffi.sizeof("loam_ingest_options")
    options.flags = (lib.LOAM_INGEST_MOVE if move else 0) | (
        lib.LOAM_INGEST_EXCISE if excise is not None else 0
    )
    ends = [pointer(end) for end in excise or ()]
    if excise is not None:
        (options.start, options.start_len), (options.stop, options.stop_len) = ends
    db._job("loam_ingest_start", options, len(names), ffi.new("char *[]", names))


def load_entries(db: Handle, entries: Iterable[tuple[Buffer, Buffer]], memory: int) -> None:
    lib, slot = load(), ffi.new("loam_bulk_load **")
    if memory < 0:
        raise errors.InvalidArgumentError(f"memory is {memory}, want 0 or more bytes")
    options = ffi.new("loam_bulk_load_options *")
    options.struct_size, options.memory = ffi.sizeof("loam_bulk_load_options"), memory
    db._call("loam_bulk_load_begin", options, slot)
    handle, err = slot[0], error_slot()
    try:
        batch, pairs, more = _fast.Batch(db), iter(entries), True
        while more:
            more = batch._fill(pairs, CHUNK)
            check(lib.loam_bulk_load_add(handle, batch_c(batch), err), err, db._callbacks)
            batch._clear()
        with Job() as job:
            check(lib.loam_bulk_load_finish_start(handle, job.slot, err), err, db._callbacks)
            job.wait(callbacks=db._callbacks)
    finally:
        lib.loam_bulk_load_close(handle)
