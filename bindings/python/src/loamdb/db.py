"""Databases, snapshots and batches."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from collections.abc import Generator, Iterable
from typing import TYPE_CHECKING, Any

from . import _fast
from ._handles import Handle, Progress, batch_append, batch_c, batch_clear, batch_size
from ._library import load
from ._options import Cache, Compare, StrPath
from .iterator import Iterator

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer, Self


class _Ranges:
    """The iterators of databases and snapshots.

    All take the same arguments: only keys that begin with prefix, from start up to,
    not including, stop; reverse goes from the last to the first; fill_cache=False
    leaves the block cache as it is, for scans that are made once.
    """

    __slots__ = ()

    def _source(self) -> tuple[_fast.Database, _fast.Snapshot | None]:
        raise NotImplementedError

    def items(
        self,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        reverse: bool = False,
        *,
        fill_cache: bool = True,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys with their values, in key order."""
        return Iterator(*self._source(), start, stop, prefix, _fast.ITEMS, reverse, fill_cache)

    def keys(
        self,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        reverse: bool = False,
        *,
        fill_cache: bool = True,
    ) -> Iterator[bytes]:
        """Keys in order."""
        return Iterator(*self._source(), start, stop, prefix, _fast.KEYS, reverse, fill_cache)

    def values(
        self,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        reverse: bool = False,
        *,
        fill_cache: bool = True,
    ) -> Iterator[bytes]:
        """Values in the order of their keys."""
        return Iterator(*self._source(), start, stop, prefix, _fast.VALUES, reverse, fill_cache)

    def __iter__(self) -> Iterator[bytes]:
        return self.keys()


class DB(_Ranges, Handle):
    """An open database: an ordered mapping from bytes to bytes.

    Keys and values may be anything with the buffer interface (bytes, bytearray,
    memoryview); what is returned is bytes. Any number of threads may use a database
    at once. Options left at None have Loam's defaults; sizes are bytes, or text such
    as "64MiB". ``loamdb.options()`` describes them.
    """

    __slots__ = ("_path",)

    def __init__(
        self,
        path: StrPath,
        *,
        error_if_missing: bool | None = None,
        error_if_exists: bool | None = None,
        read_only: bool | None = None,
        cache_size: int | str | None = None,
        write_buffer_size: int | str | None = None,
        max_memtables: int | None = None,
        max_open_files: int | None = None,
        block_size: int | str | None = None,
        block_restart_interval: int | None = None,
        max_file_size: int | str | None = None,
        compression: str | None = None,
        zstd_level: int | None = None,
        bloom_bits: int | None = None,
        leveldb_filter: bool | None = None,
        max_decoded_block: int | str | None = None,
        max_background_jobs: int | None = None,
        max_subcompactions: int | None = None,
        l0_compaction: int | None = None,
        l0_stop: int | None = None,
        wal_preallocate: int | str | None = None,
        disable_compaction: bool | None = None,
        comparator: str | Compare | None = None,
        comparator_name: str | None = None,
        cache: Cache | None = None,
        logger: logging.Logger | None = None,
    ) -> None:
        settings = {k: v for k, v in locals().items() if k not in ("self", "path", "__class__")}
        self._path = os.fsdecode(path)
        self._open(path, settings)

    @property
    def path(self) -> str:
        """The directory, as it was given."""
        return self._path

    def __repr__(self) -> str:
        return f"<loamdb.DB {self._path!r}{' (closed)' if self.closed else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self.closed:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self)

    def _source(self) -> tuple[_fast.Database, _fast.Snapshot | None]:
        return self, None

    def batch(self, *, sync: bool = False) -> Batch:
        """Collects writes that take effect together: ``with db.batch() as b: ...``.
        Written when the block ends, discarded when it raises."""
        return Batch(self, sync)

    def snapshot(self) -> Snapshot:
        """The present state, kept readable: ``with db.snapshot() as s: ...``."""
        return Snapshot(self)

    def flush(self) -> None:
        """Writes what is in memory into tables."""
        self._job("loam_flush_start")

    def compact(
        self, start: Buffer | None = None, stop: Buffer | None = None, *, progress: Progress | None = None
    ) -> None:
        """Merges everything from start to stop, both included. progress is called some
        ten times a second with the bytes done and the bytes in all; an exception from
        it, like Ctrl-C, ends the compaction."""
        self._compact(start, stop, progress)

    @contextlib.contextmanager
    def compaction_paused(self) -> Generator[None]:
        """No automatic compaction inside the ``with`` block. Blocks nest."""
        self._call("loam_pause_compaction")
        try:
            yield
        finally:
            if not self.closed:
                self._call("loam_resume_compaction")

    def resume(self) -> None:
        """Retries failed background work now, say after room was made on the disk."""
        self._call("loam_resume")

    def sync(self) -> None:
        """Returns when all earlier writes are on disk."""
        self._write(_fast.Batch(self), True)

    def property(self, name: str) -> str | None:
        """One of LevelDB's properties, such as "leveldb.stats"; None when unknown."""
        return self._property(name)

    def metrics(self) -> dict[str, Any]:
        """All counters."""
        metrics: dict[str, Any] = self._json("loam_metrics")
        return metrics

    def recovery_report(self) -> dict[str, Any]:
        """What opening found in the logs."""
        report: dict[str, Any] = self._json("loam_recovery_report")
        return report

    def comparator_name(self) -> str:
        """The name of the order of the keys."""
        return self._text("loam_comparator_name")

    def approximate_size(self, start: Buffer | None = None, stop: Buffer | None = None) -> int:
        """Bytes on disk of the keys from start up to, not including, stop."""
        return self._sizes([(start, stop)])[0]

    def approximate_sizes(self, ranges: Iterable[tuple[Buffer | None, Buffer | None]]) -> list[int]:
        """Bytes on disk of many ranges of keys."""
        return self._sizes(list(ranges))


class Snapshot(_Ranges, _fast.Snapshot):
    """A state of the database that later writes do not change."""

    __slots__ = ("__weakref__", "_db")

    def __init__(self, db: DB) -> None:
        self._db = db

    def _source(self) -> tuple[_fast.Database, _fast.Snapshot | None]:
        return self._db, self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Batch(_fast.Batch):
    """Writes that take effect together or not at all; made by ``db.batch()``. One
    thread at a time may use it."""

    __slots__ = ("__weakref__", "_db", "_sync")

    def __new__(cls, db: DB, sync: bool = False) -> Self:
        return super().__new__(cls, db)

    def __init__(self, db: DB, sync: bool = False) -> None:
        self._db = db
        self._sync = sync

    def __len__(self) -> int:
        """The number of operations."""
        return int(load().loam_batch_count(batch_c(self)))

    def __bool__(self) -> bool:
        return True

    @property
    def size(self) -> int:
        """Bytes it takes in the log."""
        return batch_size(self)

    def append(self, other: Batch) -> None:
        """Adds the operations of another batch behind those of this one."""
        batch_append(self, other)

    def clear(self) -> None:
        """Drops all operations."""
        batch_clear(self)

    def write(self) -> None:
        """Writes the operations and clears the batch."""
        self._db._write(self, self._sync)
        batch_clear(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.write()
        else:
            self.clear()
