"""plyvel's API, name for name: ``import loamdb.plyvel as plyvel``.

Different from plyvel: ``in`` on a database raises TypeError instead of scanning it,
a database, snapshot or iterator may be closed while other threads use it, checksums
are always verified (verify_checksums and paranoid_checks are accepted), bytes-like
keys are accepted, ``prev()`` of an iterator stays within its range, a reverse
iterator whose range holds only the entry at its start returns that entry,
prefixes, those of PrefixedDB included, are refused by iterators of a database with
a comparator, whose order may put other keys between those with a prefix, repair_db
raises IOError where there is no database or it is open, options that are not
given have Loam's defaults, such as a cache and a write buffer of 64 MiB each, and
in a child of fork() what was opened before raises RuntimeError.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from . import _fast, _handles
from ._handles import Handle, batch_append, batch_size
from ._types import Any, Buffer, NoReturn
from .errors import ClosedError, CorruptionError, Error, InvalidArgumentError, IOError

__all__ = [
    "CorruptionError",
    "DB",
    "Error",
    "IOError",
    "IteratorInvalidError",
    "PrefixedDB",
    "RawIterator",
    "Snapshot",
    "Iterator",
    "WriteBatch",
    "destroy_db",
    "repair_db",
]

__version__ = "1.5.1"  # the version of plyvel whose API this is
__leveldb_version__ = "1.23"  # the version of LevelDB whose files are read and written


class IteratorInvalidError(Error):
    """The raw iterator is not at an entry."""


def _bytes(name: str, value: object) -> Any:
    """value, which must be bytes-like; None stays None."""
    if value is not None and not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"Argument '{name}' has incorrect type (expected bytes, got {type(value).__name__})"
        )
    return value


def _directory(name: object) -> str | bytes:
    if not isinstance(name, (str, bytes)):
        raise TypeError("'name' arg must be a byte string or a unicode string")
    return name


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """loamdb's options for all of plyvel's, which the constructor of DB lists. LevelDB clips
    sizes to what it can do, so this clips to Loam's limits."""
    compression, bits = options["compression"], options["bloom_filter_bits"]
    comparator, comparator_name = options["comparator"], options["comparator_name"]
    if isinstance(compression, bytes):
        compression = compression.decode()
    if compression is not None and not isinstance(compression, str):
        raise TypeError("'compression' must be None or a string")
    if compression not in (None, "snappy"):
        raise ValueError("'compression' must be None or 'snappy'")
    if (comparator is None) != (comparator_name is None):
        raise ValueError("'comparator' and 'comparator_name' must be specified together")
    if comparator is not None and not isinstance(comparator_name, bytes):
        raise TypeError("'comparator_name' must be a byte string")
    if comparator is not None and not callable(comparator):
        raise TypeError("custom comparator object must be callable")
    return {
        "format": "leveldb",
        "error_if_missing": not options["create_if_missing"],
        "create_dirs": False,  # LevelDB makes the directory, not its parents
        "error_if_exists": bool(options["error_if_exists"]),
        "write_buffer_size": _clip(options, "write_buffer_size", 64 << 10, 1 << 30),
        "max_open_files": _clip(options, "max_open_files", 64, 50000),
        "cache_size": _clip(options, "lru_cache_size", 0, 1 << 46),
        "block_size": _clip(options, "block_size", 1 << 10, 4 << 20),
        "block_restart_interval": _clip(options, "block_restart_interval", 1, 1 << 16),
        "max_file_size": _clip(options, "max_file_size", 1 << 20, 1 << 30),
        "compression": compression or "none",
        # A filter is Loam's default; LevelDB's own kind is written only when asked for.
        "bloom_bits": min(bits, 64) if bits > 0 else None,
        "leveldb_filter": bits > 0,
        "comparator": comparator,
        "comparator_name": comparator_name,
    }


def _clip(options: dict[str, Any], name: str, least: int, most: int) -> int | None:
    value = options[name]
    if value is None:
        return None
    if not isinstance(value, int):
        raise TypeError(f"'{name}' must be an integer")
    return min(max(value, least), most)


def _not_subscriptable(self: object, *args: object) -> NoReturn:
    """plyvel's objects are no mappings."""
    raise TypeError(
        f"'{type(self).__name__}' object is not subscriptable; use get(), put() and delete()"
    )


class DB(Handle):
    """A database; see plyvel's documentation of DB."""

    __slots__ = ("_name", "_compare")

    def __init__(
        self,
        name: str | bytes,
        *,
        create_if_missing: bool = False,
        error_if_exists: bool = False,
        paranoid_checks: Any = None,
        write_buffer_size: int | None = None,
        max_open_files: int | None = None,
        lru_cache_size: int | None = None,
        block_size: int | None = None,
        block_restart_interval: int | None = None,
        max_file_size: int | None = None,
        compression: Any = "snappy",
        bloom_filter_bits: int = 0,
        comparator: Callable[[bytes, bytes], int] | None = None,
        comparator_name: bytes | None = None,
    ) -> None:
        options = {k: v for k, v in locals().items() if k not in ("self", "name", "__class__")}
        directory = _directory(name)
        settings = _settings(options)
        self._name = name
        self._compare = comparator
        self._open(directory, settings)

    @property
    def name(self) -> str | bytes:
        return self._name

    def __repr__(self) -> str:
        closed = " (closed)" if self.closed else ""
        return f"<loamdb.plyvel.DB with name {self._name!r}{closed} at {id(self):#x}>"

    def __enter__(self) -> DB:
        return self

    get = _fast.Database._get_plyvel

    __getitem__ = __setitem__ = __delitem__ = _not_subscriptable
    __contains__ = None  # type: ignore[assignment]

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        return WriteBatch(self, None, transaction, sync)

    def __iter__(self) -> Iterator:
        return self.iterator()

    def iterator(self, **options: Any) -> Iterator:
        return Iterator(self, None, None, **options)

    def raw_iterator(self, *, verify_checksums: Any = False, fill_cache: Any = True) -> RawIterator:
        return RawIterator(self, None, fill_cache)

    def snapshot(self) -> Snapshot:
        return Snapshot(db=self)

    def get_property(self, name: bytes) -> bytes | None:
        if not isinstance(name, bytes):
            raise TypeError(
                f"Argument 'name' has incorrect type (expected bytes, got {type(name).__name__})"
            )
        value = self._property(name.decode("latin-1")) if b"\0" not in name else None
        return None if value is None else value.encode()

    def compact_range(self, *, start: bytes | None = None, stop: bytes | None = None) -> None:
        try:
            self._compact(_bytes("start", start), _bytes("stop", stop))
        except InvalidArgumentError:
            # As with LevelDB, a range that ends before it starts has nothing to compact.
            if start is None or stop is None or not self._is_before(stop, start):
                raise

    def _is_before(self, a: bytes, b: bytes) -> bool:
        return a < b if self._compare is None else self._compare(a, b) < 0

    def approximate_size(self, start: bytes, stop: bytes) -> int:
        return self.approximate_sizes((start, stop))[0]

    def approximate_sizes(self, *ranges: tuple[bytes, bytes]) -> list[int]:
        pairs = []
        for start, stop in ranges:
            if not isinstance(start, bytes) or not isinstance(stop, bytes):
                raise TypeError("Start and stop of range must be byte strings")
            pairs.append((start, stop))
        return self._sizes(pairs)

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        return PrefixedDB(db=self, prefix=prefix)


class PrefixedDB:
    """The keys of a database that begin with a prefix, without it."""

    __slots__ = ("__weakref__", "_db", "_prefix")

    def __init__(self, *, db: DB, prefix: bytes) -> None:
        if not isinstance(db, DB) or not isinstance(prefix, bytes):
            raise TypeError("a PrefixedDB needs a DB and a byte string")
        self._db = db
        self._prefix = prefix

    @property
    def db(self) -> DB:
        return self._db

    @property
    def prefix(self) -> bytes:
        return self._prefix

    def __repr__(self) -> str:
        return f"<loamdb.plyvel.PrefixedDB with prefix {self._prefix!r} at {id(self):#x}>"

    def get(
        self,
        key: bytes,
        default: Any = None,
        *,
        verify_checksums: Any = False,
        fill_cache: Any = True,
    ) -> Any:
        return self._db._get_plyvel(_fast.joined(self._prefix, key), default, fill_cache=fill_cache)

    def put(self, key: bytes, value: bytes, *, sync: bool = False) -> None:
        self._db.put(_fast.joined(self._prefix, key), value, sync=sync)

    def delete(self, key: bytes, *, sync: bool = False) -> None:
        self._db.delete(_fast.joined(self._prefix, key), sync=sync)

    def write_batch(self, *, transaction: bool = False, sync: bool = False) -> WriteBatch:
        return WriteBatch(self._db, self._prefix, transaction, sync)

    __contains__ = None

    def __iter__(self) -> Iterator:
        return self.iterator()

    def iterator(self, **options: Any) -> Iterator:
        return Iterator(self._db, None, self._prefix, **options)

    def snapshot(self) -> Snapshot:
        return Snapshot(db=self._db, prefix=self._prefix)

    def prefixed_db(self, prefix: bytes) -> PrefixedDB:
        return PrefixedDB(db=self._db, prefix=self._prefix + prefix)


def repair_db(name: str | bytes, **options: Any) -> None:
    """Saves what can be saved of a damaged database. The options are those of DB."""
    known: dict[str, Any] = DB.__init__.__kwdefaults__ or {}
    for option in options.keys() - known.keys():
        raise TypeError(f"repair_db() got an unexpected keyword argument {option!r}")
    settings = _settings({**known, **options})
    settings.update(error_if_missing=None, error_if_exists=None)
    _handles.repair(_directory(name), settings)


def destroy_db(name: str | bytes) -> None:
    """Deletes a database and, when nothing else is in it, its directory."""
    directory = _directory(name)
    _handles.destroy(directory)
    try:
        os.rmdir(directory)
    except OSError:
        pass  # gone already, or holds other files


class WriteBatch(_fast.Batch):
    """Puts and deletes that are written together."""

    __slots__ = ("__weakref__", "_db", "_transaction", "_sync")

    def __new__(cls, db: DB, prefix: bytes | None, transaction: bool, sync: bool) -> WriteBatch:
        return super().__new__(cls if prefix is None else _PrefixedWriteBatch, db)

    def __init__(self, db: DB, prefix: bytes | None, transaction: bool, sync: bool) -> None:
        self._db = db
        self._transaction = transaction
        self._sync = bool(sync)

    __setitem__ = __delitem__ = _not_subscriptable

    def clear(self) -> None:
        self._check_open()
        self._clear()

    def write(self) -> None:
        self._db._write(self, self._sync)

    def approximate_size(self) -> int:
        self._check_open()
        return batch_size(self)

    def append(self, source: WriteBatch) -> None:
        if not isinstance(source, WriteBatch):
            raise TypeError(
                f"Argument 'source' has incorrect type (expected WriteBatch, got "
                f"{type(source).__name__})"
            )
        self._check_open()
        batch_append(self, source)

    def _check_open(self) -> None:
        if self._db.closed:
            raise ClosedError("Database is closed")

    def __enter__(self) -> WriteBatch:
        self._check_open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if not (self._transaction and kind is not None):
            self.write()
        self.clear()


class _PrefixedWriteBatch(WriteBatch):
    """A WriteBatch of a PrefixedDB."""

    __slots__ = ("_prefix",)

    def __init__(self, db: DB, prefix: bytes, transaction: bool, sync: bool) -> None:
        super().__init__(db, prefix, transaction, sync)
        self._prefix = prefix

    def put(self, key: Buffer, value: Buffer) -> None:
        super().put(_fast.joined(self._prefix, key), value)

    def delete(self, key: Buffer) -> None:
        super().delete(_fast.joined(self._prefix, key))


class Snapshot(_fast.Snapshot):
    """A state of the database that later writes do not change."""

    __slots__ = ("__weakref__", "_db", "_prefix")

    def __new__(cls, *, db: DB, prefix: bytes | None = None) -> Snapshot:
        return super().__new__(cls, db)

    def __init__(self, *, db: DB, prefix: bytes | None = None) -> None:
        self._db = db
        self._prefix = prefix

    __getitem__ = _not_subscriptable
    __contains__ = None  # type: ignore[assignment]

    def get(  # type: ignore[override]
        self,
        key: bytes,
        default: Any = None,
        *,
        verify_checksums: Any = False,
        fill_cache: Any = True,
    ) -> Any:
        if self._prefix is not None:
            key = _fast.joined(self._prefix, key)
        return self._get_plyvel(key, default, fill_cache=fill_cache)

    def release(self) -> None:
        self.close()

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __iter__(self) -> Iterator:
        return self.iterator()

    def iterator(self, **options: Any) -> Iterator:
        if self.closed:
            raise ClosedError("Database or snapshot is closed")
        return Iterator(self._db, self, self._prefix, **options)

    def raw_iterator(self, *, verify_checksums: Any = False, fill_cache: Any = True) -> RawIterator:
        if self.closed:
            raise ClosedError("Database or snapshot is closed")
        return RawIterator(self._db, self, fill_cache)


class Iterator(_fast.Cursor[Any]):
    """Entries in key order, with plyvel's bounds."""

    __slots__ = ("__weakref__", "_snapshot", "_prefix")

    _snapshot: Snapshot | None  # kept open while the iterator is
    _prefix: bytes | None

    def __new__(
        cls,
        db: DB,
        snapshot: Snapshot | None,
        db_prefix: bytes | None,
        *,
        reverse: Any = False,
        start: bytes | None = None,
        stop: bytes | None = None,
        include_start: Any = True,
        include_stop: Any = False,
        prefix: bytes | None = None,
        include_key: Any = True,
        include_value: Any = True,
        verify_checksums: Any = False,
        fill_cache: Any = True,
    ) -> Iterator:
        start, stop, prefix = _bytes("start", start), _bytes("stop", stop), _bytes("prefix", prefix)
        if prefix is not None and (start is not None or stop is not None):
            raise TypeError("'prefix' cannot be used together with 'start' or 'stop'")
        if db.closed:
            raise ClosedError("Database or iterator is closed")
        if db_prefix is not None:
            prefix = db_prefix + (prefix or b"")
            start = None if start is None else db_prefix + start
            stop = None if stop is None else db_prefix + stop
        if (
            db._compare is not None
            and not (include_start and not include_stop)
            and snapshot is None
        ):
            snapshot = Snapshot(db=db)  # the bounds and the iterator must see one state
        empty = False
        if start is not None and not include_start:
            start = _after(db, snapshot, start)
            empty = start is None
        if stop is not None and include_stop:
            stop = _after(db, snapshot, stop)
        if empty:
            start, stop = b"", b""
        mode = (_fast.KEYS if include_key else 0) | (_fast.VALUES if include_value else 0)
        strip = len(db_prefix) if db_prefix is not None else 0
        self = super().__new__(
            cls, db, snapshot, start, stop, prefix, mode, bool(reverse), bool(fill_cache), strip
        )
        self._snapshot = snapshot
        self._prefix = db_prefix
        return self

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def seek(self, target: Buffer) -> None:
        super().seek(target if self._prefix is None else _fast.joined(self._prefix, target))

    def __enter__(self) -> Iterator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _after(db: DB, snapshot: Snapshot | None, key: bytes) -> bytes | None:
    """The least key greater than key; None when no key of the database is."""
    if db._compare is None:
        return bytes(key) + b"\0"
    cursor = _fast.Cursor[bytes](db, snapshot, mode=_fast.KEYS)
    cursor.seek(key)
    return next((other for other in cursor if db._compare(other, key) != 0), None)


class RawIterator:
    """An iterator like LevelDB's own: at an entry, or invalid."""

    __slots__ = ("__weakref__", "_cursor", "_item", "_snapshot")

    def __init__(self, db: DB, snapshot: Snapshot | None, fill_cache: Any) -> None:
        self._snapshot = snapshot
        self._cursor = _fast.Cursor[Any](db, snapshot, fill_cache=bool(fill_cache))
        self._item: tuple[bytes, bytes] | None = None

    def close(self) -> None:
        self._cursor.close()
        self._item = None

    def __enter__(self) -> RawIterator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def valid(self) -> bool:
        self._check_open()
        return self._item is not None

    def seek_to_first(self) -> None:
        self._item = self._cursor._move(_fast.MOVE_FIRST)

    def seek_to_last(self) -> None:
        self._item = self._cursor._move(_fast.MOVE_LAST)

    def seek(self, target: bytes) -> None:
        self._item = self._cursor._move(_fast.MOVE_SEEK, target)

    def next(self) -> None:
        self.item()
        self._item = self._cursor._move(_fast.MOVE_NEXT)

    def prev(self) -> None:
        self.item()
        self._item = self._cursor._move(_fast.MOVE_PREV)

    def item(self) -> tuple[bytes, bytes]:
        self._check_open()
        if self._item is None:
            raise IteratorInvalidError()
        return self._item

    def key(self) -> bytes:
        return self.item()[0]

    def value(self) -> bytes:
        return self.item()[1]

    def _check_open(self) -> None:
        if self._cursor.closed:
            raise ClosedError("Database or iterator is closed")
