"""Databases, snapshots, batches and prefixed views."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from datetime import timedelta
from types import TracebackType
from typing import NamedTuple

from . import _fast, _ttl
from ._dump import is_path, run_file
from ._handles import Handle, batch_append, batch_count, batch_in, batch_size, encode_name
from ._library import ffi, load
from ._options import Cache, MergeOperator, Resources, encode_path, option_name, option_text
from ._types import (
    Any,
    Buffer,
    CompactionFilter,
    Compare,
    Logger,
    Progress,
    Self,
    StrPath,
    TypeVar,
    cast,
    overload,
)
from .ingest import ingest, load_entries
from .errors import CallbackError, ClosedError, InvalidArgumentError, NeedsNativeError
from .iterator import Iterator

_D = TypeVar("_D")
_Missing = object()


class _Ranges:
    """The iterators of databases, snapshots and prefixed views.

    All take the same arguments: only keys that begin with prefix, from start up to,
    not including, stop; reverse goes from the last to the first; fill_cache=False
    leaves the block cache as it is, for scans that are made once.
    """

    __slots__ = ()

    def _source(self) -> tuple[_fast.Database, _fast.Snapshot | None]:
        raise NotImplementedError

    def _iterate(
        self,
        mode: int,
        prefix: Buffer | None,
        start: Buffer | None,
        stop: Buffer | None,
        reverse: bool,
        fill_cache: bool,
    ) -> Iterator[Any]:
        return Iterator(*self._source(), start, stop, prefix, mode, reverse, fill_cache)

    def items(
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        reverse: bool = False,
        fill_cache: bool = True,
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys with their values, in key order."""
        return self._iterate(_fast.ITEMS, prefix, start, stop, reverse, fill_cache)

    def keys(
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        reverse: bool = False,
        fill_cache: bool = True,
    ) -> Iterator[bytes]:
        """Keys in order."""
        return self._iterate(_fast.KEYS, prefix, start, stop, reverse, fill_cache)

    def values(
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        reverse: bool = False,
        fill_cache: bool = True,
    ) -> Iterator[bytes]:
        """Values in the order of their keys."""
        return self._iterate(_fast.VALUES, prefix, start, stop, reverse, fill_cache)

    def __iter__(self) -> Iterator[bytes]:
        return self.keys()

    def __reversed__(self) -> Iterator[bytes]:
        return self.keys(reverse=True)

    def _ends(self, **bounds: Any) -> tuple[bytes, bytes] | None:
        """The first and the last key of a range, both in one state; None if there are no keys."""
        with self.keys(**bounds, fill_cache=False) as keys:
            for first in keys:
                keys.seek_to_stop()
                return first, keys.prev()
        return None

    def count(
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
    ) -> int:
        """The number of keys in a range, by a scan over it."""
        with self.keys(prefix=prefix, start=start, stop=stop, fill_cache=False) as keys:
            return keys._count()

    def __len__(self) -> int:
        """The number of keys, by a scan over all of them: no engine of this kind keeps a count."""
        try:
            return self.count()
        except TypeError as error:  # a comparator's; list() would take it for "has no length"
            raise CallbackError(str(error)) from error

    def __bool__(self) -> bool:
        """True, empty or not: asking for it costs no scan."""
        return True


class _Mapping(_Ranges):
    """The methods of a dict, for databases and prefixed views. The methods that read and then
    write are not atomic beside other writers."""

    __slots__ = ()

    @overload
    def pop(self, key: Buffer) -> bytes: ...
    @overload
    def pop(self, key: Buffer, default: _D) -> bytes | _D: ...
    def pop(self: Any, key: Buffer, default: Any = _Missing) -> Any:
        """Removes a key and returns its value; without one, default or KeyError."""
        value = self.get(key, _Missing)
        if value is not _Missing:
            self.delete(key)
        elif default is _Missing:
            raise KeyError(key)
        else:
            value = default
        return value

    def popitem(self: Any) -> tuple[bytes, bytes]:
        """Removes the last key and returns it with its value; KeyError when there is none."""
        with self.items(reverse=True) as items:
            for key, value in items:
                self.delete(key)
                return key, value
        raise KeyError("popitem(): the database is empty")

    def setdefault(self: Any, key: Buffer, default: Buffer = b"") -> bytes:
        """The value of a key, which becomes default when there is none."""
        value = self.get(key)
        if value is None:
            self[key] = default
            value = bytes(default)
        return cast(bytes, value)

    def update(
        self: Any,
        other: Mapping[Any, Any] | Iterable[tuple[Buffer, Buffer]] = (),
        *,
        sync: bool = False,
    ) -> None:
        """Stores all pairs of a mapping or iterable, together or not at all."""
        pairs = other.items() if isinstance(other, Mapping) or hasattr(other, "items") else other
        with self.batch(sync=sync) as batch:
            for key, value in pairs:
                batch.put(key, value)

    def clear(
        self: Any,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        sync: bool = False,
    ) -> None:
        """Removes the keys of a range that are there when it is called; without bounds, all
        keys. In the native format it is one write, however many keys there are; in LevelDB's
        format it takes effect in steps of some thousand keys."""
        if self._clear_range(prefix, start, stop, sync):
            return
        with self.keys(prefix=prefix, start=start, stop=stop, fill_cache=False) as keys:
            while True:
                with self.batch() as batch:
                    for _, key in zip(range(4096), keys, strict=False):
                        batch.delete(key)
                    n = len(batch)
                if n == 0:
                    break
        if sync:
            with self.batch(sync=True):
                pass

    def _clear_range(
        self: Any, prefix: Buffer | None, start: Buffer | None, stop: Buffer | None, sync: bool
    ) -> bool:
        """clear by a range delete, where the format has these: from the first key of the range
        to the last one, and that key itself, so that the range may be open."""
        ends = self._ends(prefix=prefix, start=start, stop=stop)
        try:
            with self.batch(sync=sync) as batch:
                if ends is not None:
                    batch.delete_range(*ends)
                    batch.delete(ends[1])
        except NeedsNativeError:
            return False
        return True


class Lag(NamedTuple):
    """How far a follower is behind its directory."""

    operations: int  #: that it does not show
    seconds: float  #: at most so long ago there were none; 0.0 if there are none


class DB(_Mapping, Handle):
    """An open database: an ordered mapping from bytes to bytes.

    Keys and values may be anything with the buffer interface (bytes, bytearray,
    memoryview); what is returned is bytes. Any number of threads may use a database
    at once. Options left at None have Loam's defaults; sizes are bytes, or text such
    as "64MiB". ``loamdb.options()`` describes them. format is that of a new database:
    "native" by default, or "leveldb", which LevelDB and its tools open.
    """

    __slots__ = ("_path",)

    def __init__(
        self,
        path: StrPath,
        *,
        error_if_missing: bool | None = None,
        error_if_exists: bool | None = None,
        read_only: bool | None = None,
        format: str | None = None,
        cache_size: int | str | None = None,
        write_buffer_size: int | str | None = None,
        max_memtables: int | None = None,
        max_memtable_bytes: int | str | None = None,
        max_open_files: int | None = None,
        block_size: int | str | None = None,
        block_restart_interval: int | None = None,
        max_file_size: int | str | None = None,
        compression: str | Sequence[str] | None = None,
        zstd_level: int | None = None,
        bloom_bits: int | None = None,
        prefix_length: int | None = None,
        leveldb_filter: bool | None = None,
        max_decoded_block: int | str | None = None,
        max_background_jobs: int | None = None,
        max_subcompactions: int | None = None,
        compaction_rate: int | str | None = None,
        l0_compaction: int | None = None,
        l0_stop: int | None = None,
        max_space_amplification: float | None = None,
        wal_preallocate: int | str | None = None,
        max_wal_size: int | str | None = None,
        wal_retention_bytes: int | str | None = None,
        wal_retention_seconds: int | str | None = None,
        mmap: str | None = None,
        compaction_direct_io: bool | None = None,
        disable_compaction: bool | None = None,
        create_dirs: bool | None = None,
        comparator: str | Compare | None = None,
        comparator_name: str | None = None,
        compaction_filter: str | CompactionFilter | None = None,
        merge_operator: str | MergeOperator | None = None,
        max_merge_operands: int | None = None,
        large_value: int | str | None = None,
        default_ttl: float | str | None = None,
        follow: bool | None = None,
        follow_interval: float | str | None = None,
        encryption: str | None = None,
        allow_clear: bool | None = None,
        inspect: bool | None = None,
        cache: Cache | None = None,
        resources: Resources | None = None,
        logger: Logger | None = None,
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

    def __del__(self) -> None:
        try:
            if not self.closed and not sys.is_finalizing():
                import warnings

                warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self)
        finally:
            self._release()

    def _source(self) -> tuple[_fast.Database, _fast.Snapshot | None]:
        return self, None

    def batch(self, *, sync: bool = False) -> Batch:
        """Collects writes that take effect together: ``with db.batch() as b: ...``.
        Written when the block ends, discarded when it raises."""
        return Batch(self, sync)

    def snapshot(self, *, of: Snapshot | None = None) -> Snapshot:
        """A snapshot of the present state: ``with db.snapshot() as s: ...``. of: the state of
        another snapshot of the database, perhaps one that another keyspace made, which must stay
        open."""
        return Snapshot(self, of)

    def transaction(self, **options: Any) -> Transaction:
        """Reads and writes that take effect together: ``with db.transaction() as tx: ...``.
        Committed when the block ends, rolled back when it raises. Options: serializable
        (what was read must not have changed either), lock (writes and get_for_update
        lock their keys), lock_timeout (seconds; 1 by default, negative: none), name (in
        errors about locks), sync."""
        return Transaction(self, **options)

    def update(
        self: Any,
        other: Any = (),
        *,
        sync: bool = False,
        timeout: float | None = None,
        **options: Any,
    ) -> Any:
        """Given a function, calls it with a transaction, commits, and returns its result. After
        a conflict it is called again, with pauses, until timeout seconds are over. Options are
        those of transaction. Given a mapping or iterable, stores all pairs, together or not at
        all."""
        if not callable(other):
            return super().update(other, sync=sync)
        return run(self, other, timeout, {"sync": sync, **options})

    def compare_and_swap(
        self, key: Buffer, old: Buffer | None, value: Buffer | None, *, sync: bool = False
    ) -> bool:
        """Stores a value if the key has the value old now, and returns whether it did. None
        stands for no value: with old None, the key must have none; with value None, the key is
        removed."""
        return swap(self, key, old, value, sync)

    def put_if_absent(self, key: Buffer, value: Buffer, *, sync: bool = False) -> bool:
        """Stores a value if the key has none, and returns whether it did."""
        return self.compare_and_swap(key, None, value, sync=sync)

    def put_ttl(
        self, key: Buffer, value: Buffer, ttl: float | timedelta, *, sync: bool = False
    ) -> None:
        """Stores a value that expires: after ttl seconds, rounded up to whole ones, the key has
        no value. The next write of the key replaces the deadline; merges keep the later one.
        Raises NeedsNativeError in LevelDB's format."""
        _ttl.put(self, key, value, ttl, sync)

    def ttl(self, key: Buffer) -> float | None:
        """The seconds until the key's value expires: math.inf if it does not expire, None if the
        key has no value."""
        return _ttl.left(self, key)

    def prefixed(self, prefix: Buffer) -> Prefixed:
        """The keys that begin with prefix, as a mapping in which they appear without the prefix."""
        return Prefixed(self, prefix)

    def keyspace(
        self,
        name: str,
        *,
        comparator: str | None = None,
        compression: str | Sequence[str] | None = None,
        bloom_bits: int | None = None,
        prefix_length: int | None = None,
        compaction_filter: str | CompactionFilter | None = None,
        merge_operator: str | MergeOperator | None = None,
        default_ttl: float | str | None = None,
        error_if_missing: bool | None = None,
    ) -> Keyspace:
        """A keyspace: a separate key space within the database, which is created if there is
        none of that name. Raises NeedsNativeError in LevelDB's format. Functions are kept until
        the database is closed."""
        settings = {k: v for k, v in locals().items() if k not in ("self", "name")}
        return Keyspace(self, name, settings)

    def keyspaces(self) -> list[str]:
        """The names of all keyspaces, "default" first."""
        names: list[str] = self._json("loam_keyspace_list")
        return names

    def drop_keyspace(self, name: str) -> None:
        """Drops a keyspace with all its contents, at once. Its space is reclaimed in the
        background; what is open of it raises NoKeyspaceError."""
        self._call("loam_keyspace_drop", encode_name(name))

    def flush(self) -> None:
        """Writes the memtables into tables."""
        self._job("loam_flush_start")

    def compact(
        self,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Merges everything from start up to, not including, stop. progress is called about ten
        times a second with the bytes done and the bytes in all; an exception from it, like
        Ctrl-C, ends the compaction."""
        self._compact(start, stop, progress)

    def verify(self, *, progress: Progress | None = None) -> None:
        """Reads every table whole, from the disk and past the cache, and checks it. Raises
        CorruptionError, whose message names every damaged table; filename is the first. progress
        is as for compact; Ctrl-C ends the call. It changes nothing."""
        self._job("loam_verify_start", progress=progress)

    def rekey(self) -> None:
        """Encrypts all files with the current key of the option encryption, while reads and
        writes go on. The option, and a key file, are read when the database is opened: open it
        with the new key first. Ctrl-C ends the call; the next call continues. Raises
        InvalidArgumentError without the option."""
        self._job("loam_rekey_start")

    def keys_in_use(self) -> list[dict[str, Any]]:
        """The keys of the files in the directory: the provider, the id, and the number of files
        of each; "" as provider and id stands for files that are not encrypted."""
        keys: list[dict[str, Any]] = self._json("loam_keys_in_use")
        return keys

    def checkpoint(self, path: StrPath) -> None:
        """Makes path a separate database with the present contents of this one, all keyspaces
        and unsynced writes included, while writes go on. Tables are hard links, or copies where
        links are impossible. path must not exist, or be an empty directory (ExistsError); its
        parent must exist. Ctrl-C ends the call, and leaves nothing."""
        self._job("loam_checkpoint_start", encode_path(path))

    def catch_up(self) -> None:
        """Makes a follower show everything that the writer has written up to this call, or more.
        See loamdb.follow. Ctrl-C ends the call."""
        self._job("loam_catch_up_start")

    def lag(self) -> Lag:
        """How far a follower is behind its directory. Raises the error of the last catch-up if
        that failed."""
        sequences, microseconds = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        self._call("loam_lag", sequences, microseconds)
        return Lag(sequences[0], microseconds[0] / 1e6)

    def dump(
        self,
        file: StrPath | Any,
        *,
        snapshot: Snapshot | None = None,
        compression: str | None = None,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Writes one state of all keyspaces, that of snapshot or the present one, into a file, a
        path or a binary file object, as a stream that load reads, on any machine and into any
        format. A path in the database's directory is an InvalidArgumentError. compression is
        "snappy", "zstd" or "none". Returns what the dump has. resume completes a dump that was
        cut, in the file that a path names, if the database is as it was at its beginning, or
        snapshot is the same. progress is as for compact, with 0 for bytes in all; an exception
        from it, like Ctrl-C, ends the call."""
        lib = load()
        if resume and not is_path(file):
            raise TypeError("a dump is resumed in a file, by its path")
        at = ffi.NULL if snapshot is None else ffi.cast("loam_snapshot *", snapshot._handle)
        # before a file is cut off
        if compression is not None and compression not in ("none", "snappy", "zstd"):
            raise InvalidArgumentError(f"compression is {compression!r}, want none, snappy or zstd")
        packed = ffi.NULL if compression is None else compression.encode()
        flags = os.O_RDWR | os.O_CREAT | (0 if resume else os.O_TRUNC)
        args = (at, packed, lib.LOAM_DUMP_CONTINUE if resume else 0)
        return run_file(self, "loam_dump_start", args, file, flags, True, progress)

    def load(
        self, file: StrPath | Any, *, overwrite: bool = False, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Puts what a dump has into the database, durably: a path, or a binary file object, of
        which more may be read than the dump. Keyspaces of the dump must be empty or missing
        (ExistsError), unless overwrite is set. A call that failed, or was ended by a crash, is
        repeated with the same dump from its beginning, and goes on where the first one ended.
        Returns what the dump has. progress is as for compact."""
        args = (load().LOAM_LOAD_OVERWRITE if overwrite else 0,)
        return run_file(self, "loam_load_start", args, file, os.O_RDONLY, False, progress)

    def changes(self, from_: int = 0, *, durable: bool = False) -> Changes:
        """A feed of all commits, over all keyspaces, from sequence number from_ on: every
        operation once and in order. 0 begins with the first one that the logs still have; the
        options wal_retention_bytes and wal_retention_seconds keep more of them. durable shows
        only changes that a power cut cannot take back. Raises GapError if from_ is no longer in
        a log."""
        return Changes(self, from_, durable)

    def ingest(
        self,
        paths: Iterable[StrPath],
        *,
        move: bool = False,
        excise: tuple[Buffer, Buffer] | None = None,
    ) -> None:
        """Takes tables of TableWriter into the database, all or none of them: newer than all
        that is there, invisible to open snapshots and iterators, durable when it returns. The
        files are read first; they stay, and must not be changed afterwards, or with move are
        removed. excise=(start, stop) deletes what there is from start up to, not including,
        stop, in the same step. Raises InvalidArgumentError where tables overlap, or are no
        TableWriter's for this format, and NeedsNativeError in LevelDB's format over entries that
        are there."""
        ingest(self, paths, move, excise)

    def bulk_load(self, entries: Iterable[tuple[Buffer, Buffer]], *, memory: int = 0) -> None:
        """Loads all pairs of an iterable, in any order: they are sorted, with the help of files
        in the directory, and ingested as tables, all in one step. Of pairs with the same key the
        last one counts. Into a range without entries it is several times as fast as writes, and
        leaves nothing to compact. memory is how many bytes of pairs are sorted at once; 0 means
        4 * write_buffer_size."""
        load_entries(self, entries, memory)

    def compaction_paused(self) -> Paused:
        """Pauses automatic compaction inside the ``with`` block. Blocks nest."""
        return Paused(self)

    def resume(self) -> None:
        """Retries failed background work now, say after room was made on the disk."""
        self._call("loam_retry")

    def sync(self) -> None:
        """Returns when all earlier writes are on disk."""
        self._write(_fast.Batch(self), True)

    def set_option(self, name: str, value: object) -> None:
        """Changes an option while the database is open, until it is closed: for the whole
        database and all keyspaces that have no value of their own, or for this keyspace.
        ``loamdb.options()`` says which options are dynamic; others need a reopen (ValueError).
        It holds from the next memtable, table or compaction on."""
        self._call("loam_set_option", option_name(name), option_text(name, value))

    def option(self, name: str) -> str:
        """The value of an option that is in force, as text."""
        return self._text("loam_option", option_name(name))

    def property(self, name: str | bytes) -> str | None:
        """One of LevelDB's properties, such as "leveldb.stats"; None when unknown."""
        if isinstance(name, bytes):
            name = name.decode("latin-1")
        elif not isinstance(name, str):
            raise TypeError(f"the name of a property is a string, not {type(name).__name__}")
        return None if "\0" in name else self._property(name)

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


class Keyspace(DB):
    """A key space of its own within a database; made by ``db.keyspace(name)``. It does
    what a database does, with its own keys; verify, rekey, keys_in_use, recovery_report, resume
    and compaction_paused concern the whole database. To close it is to give up this object;
    after the database was closed it is of no use."""

    __slots__ = ("_db", "_name", "_root")

    def __init__(self, db: DB, name: str, settings: dict[str, Any]) -> None:
        self._db = db
        self._name = name
        self._path = db._path
        db._c()  # raises if it is closed
        self._root: DB = db._root if isinstance(db, Keyspace) else db
        self._open_keyspace(self._root, name, settings)

    @property
    def db(self) -> DB:
        """The database it was opened from."""
        return self._db

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    @property
    def closed(self) -> bool:
        """Whether it, or its database, was closed."""
        return super().closed or self._db.closed

    def __repr__(self) -> str:
        return (
            f"<loamdb.Keyspace {getattr(self, '_name', None)!r} of {getattr(self, '_db', None)!r}>"
        )

    def __del__(self) -> None:
        self._release()


class Paused:
    """The with statement of ``db.compaction_paused()``."""

    __slots__ = ("_db",)

    def __init__(self, db: DB) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db._call("loam_pause_compaction")

    def __exit__(self, *exc: object) -> None:
        if not self._db.closed:
            self._db._call("loam_resume_compaction")


class Snapshot(_Ranges, _fast.Snapshot):
    """A state of the database that later writes do not change."""

    __slots__ = ("__weakref__", "_db")

    def __init__(self, db: DB, of: Snapshot | None = None) -> None:
        self._db = db

    def _source(self) -> tuple[_fast.Database, _fast.Snapshot | None]:
        return self._db, self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Prefixed(_Mapping):
    """The keys of a database that begin with a prefix; in this view they stand without
    it. Made by ``db.prefixed(prefix)``. It needs an order by bytes: a comparator of
    another kind does not keep the keys of a prefix together."""

    __slots__ = ("__weakref__", "_db", "_prefix", "_snapshot")

    def __init__(self, db: DB, prefix: Buffer, snapshot: Snapshot | None = None) -> None:
        self._db = db
        self._prefix = _fast.joined(b"", prefix)
        self._snapshot = snapshot

    @property
    def db(self) -> DB:
        """The database it is a view of."""
        return self._db

    @property
    def prefix(self) -> bytes:
        """The prefix, that of outer views included."""
        return self._prefix

    def __repr__(self) -> str:
        return f"<loamdb.Prefixed {self._prefix!r} of {self._db!r}>"

    def _source(self) -> tuple[_fast.Database, _fast.Snapshot | None]:
        return self._db, self._snapshot

    def _reader(self) -> DB | Snapshot:
        return self._db if self._snapshot is None else self._snapshot

    def _key(self, key: Buffer) -> bytes:
        return _fast.joined(self._prefix, key)

    def _peek(self, key: Buffer, blocks: object) -> Any:
        return self._reader()._peek(self._key(key), blocks)

    def _iterate(
        self,
        mode: int,
        prefix: Buffer | None,
        start: Buffer | None,
        stop: Buffer | None,
        reverse: bool,
        fill_cache: bool,
    ) -> Iterator[Any]:
        return _PrefixedIterator(
            *self._source(),
            None if start is None else self._key(start),
            None if stop is None else self._key(stop),
            self._prefix if prefix is None else self._key(prefix),
            mode,
            reverse,
            fill_cache,
            len(self._prefix),
        )._of(self._prefix)

    def get(self, key: Buffer, default: Any = None, *, fill_cache: bool = True) -> Any:
        """The value of a key, or default when it has none."""
        return self._reader().get(self._key(key), default, fill_cache=fill_cache)

    def get_pinned(self, key: Buffer) -> _fast.PinnedValue:
        """The value of a key where it lies in memory, see DB.get_pinned."""
        return self._reader().get_pinned(self._key(key))

    def has(self, key: Buffer) -> bool:
        """Whether the key has a value."""
        return self._reader().has(self._key(key))

    def multi_get(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The values of many keys in one state of the database; None for a key without one."""
        return self._reader().multi_get([self._key(key) for key in keys])

    def put(self, key: Buffer, value: Buffer, *, sync: bool = False) -> None:
        """Stores a value under a key. sync: return when it is on disk."""
        self._writable().put(self._key(key), value, sync=sync)

    def put_ttl(
        self, key: Buffer, value: Buffer, ttl: float | timedelta, *, sync: bool = False
    ) -> None:
        """Stores a value that expires, see DB.put_ttl."""
        self._writable().put_ttl(self._key(key), value, ttl, sync=sync)

    def ttl(self, key: Buffer) -> float | None:
        """How many seconds the key has its value, see DB.ttl."""
        return self._writable().ttl(self._key(key))

    def delete(self, key: Buffer, *, sync: bool = False) -> None:
        """Removes a key, whether it has a value or not. sync: return when it is on disk."""
        self._writable().delete(self._key(key), sync=sync)

    def merge(self, key: Buffer, operand: Buffer, *, sync: bool = False) -> None:
        """Adds an operand to a key, see DB.merge. sync: return when it is on disk."""
        self._writable().merge(self._key(key), operand, sync=sync)

    def delete_range(self, start: Buffer, stop: Buffer, *, sync: bool = False) -> None:
        """Removes all keys from start up to, not including, stop; see DB.delete_range."""
        self._writable().delete_range(self._key(start), self._key(stop), sync=sync)

    def batch(self, *, sync: bool = False) -> PrefixedBatch:
        """Collects writes to this view that take effect together: ``with view.batch() as b:
        ...``."""
        return PrefixedBatch(self._writable(), self._prefix, sync)

    def snapshot(self) -> Prefixed:
        """The present state of this view, kept readable while it lives."""
        return Prefixed(self._db, self._prefix, self._db.snapshot())

    def prefixed(self, prefix: Buffer) -> Prefixed:
        """A view inside this view."""
        return Prefixed(self._db, self._key(prefix), self._snapshot)

    def _writable(self) -> DB:
        if self._snapshot is not None:
            raise TypeError("a snapshot takes no writes")
        return self._db

    def __getitem__(self, key: Buffer) -> bytes:
        value = self.get(key)
        if value is None:
            raise KeyError(key)
        return cast(bytes, value)

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer) -> None:
        self.delete(key)

    def __contains__(self, key: object) -> bool:
        return self.has(cast(Buffer, key))


class _PrefixedIterator(Iterator[Any]):
    """An iterator whose keys stand without a prefix, also those given to seek."""

    __slots__ = ("_prefix",)

    def _of(self, prefix: bytes) -> Self:
        self._prefix = prefix
        return self

    def seek(self, key: Buffer, /) -> None:
        super().seek(_fast.joined(self._prefix, key))


class Batch(_fast.Batch):
    """Writes that take effect together or not at all; made by ``db.batch()``. One
    thread at a time may use it."""

    __slots__ = ("__weakref__", "_db", "_sync")

    def __new__(cls, db: DB, sync: bool = False) -> Self:
        if isinstance(db, Keyspace) and db.closed:
            raise ClosedError("the database is closed")
        return super().__new__(cls, db)

    def __init__(self, db: DB, sync: bool = False) -> None:
        self._db = db
        self._sync = sync

    def __len__(self) -> int:
        """The number of operations."""
        return batch_count(self)

    def __bool__(self) -> bool:
        return True

    @property
    def size(self) -> int:
        """Bytes it takes in the log."""
        return batch_size(self)

    def put_ttl(self, key: Buffer, value: Buffer, ttl: float | timedelta) -> None:
        """Adds: store a value that expires ttl seconds after the batch is written."""
        if self._db.closed:
            raise ClosedError("the database is closed")
        _ttl.batch_put(self, key, value, ttl)

    def append(self, other: Batch) -> None:
        """Adds the operations of another batch behind those of this one."""
        if not isinstance(other, Batch):
            raise TypeError(f"only a Batch can be appended, not {type(other).__name__}")
        batch_append(self, other)

    def use(self, keyspace: DB | None) -> None:
        """Operations that are added from now on go to a keyspace of the same database; None:
        to the one that the batch was made by, as at the beginning."""
        if keyspace is not None and not isinstance(keyspace, DB):
            raise TypeError(f"not a keyspace: {type(keyspace).__name__}")
        batch_in(self, keyspace)

    def clear(self) -> None:
        """Drops all operations."""
        self._clear()

    def write(self) -> None:
        """Writes the operations and clears the batch."""
        self._db._write(self, self._sync)
        self._clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.write()
        else:
            self.clear()


class PrefixedBatch(Batch):
    """A batch of a prefixed view; its keys stand without the prefix."""

    __slots__ = ("_prefix",)

    def __new__(cls, db: DB, prefix: bytes, sync: bool = False) -> Self:
        return super().__new__(cls, db)

    def __init__(self, db: DB, prefix: bytes, sync: bool = False) -> None:
        super().__init__(db, sync)
        self._prefix = prefix

    def put(self, key: Buffer, value: Buffer) -> None:
        super().put(_fast.joined(self._prefix, key), value)

    def put_ttl(self, key: Buffer, value: Buffer, ttl: float | timedelta) -> None:
        super().put_ttl(_fast.joined(self._prefix, key), value, ttl)

    def delete(self, key: Buffer, /) -> None:
        super().delete(_fast.joined(self._prefix, key))

    def merge(self, key: Buffer, operand: Buffer, /) -> None:
        super().merge(_fast.joined(self._prefix, key), operand)

    def delete_range(self, start: Buffer, stop: Buffer, /) -> None:
        super().delete_range(_fast.joined(self._prefix, start), _fast.joined(self._prefix, stop))

    def __setitem__(self, key: Buffer, value: Buffer, /) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer, /) -> None:
        self.delete(key)


# Needs DB, and DB's annotations need it.
from .changes import Changes  # noqa: E402
from .transaction import Transaction, run, swap  # noqa: E402

MutableMapping.register(DB)
MutableMapping.register(Prefixed)
Mapping.register(Snapshot)
