"""Transactions: ``with db.transaction() as tx: ...``."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from datetime import timedelta

from . import _fast, _ttl, db as _db
from ._handles import data, pointer
from ._library import check, error_slot, ffi, forks, load, owned, same_process
from ._options import c_name
from ._types import Any, Buffer, Self, cast
from .errors import (
    ClosedError,
    ConflictError,
    DeadlockError,
    InvalidArgumentError,
    LockTimeoutError,
    NeedsNativeError,
)
from .iterator import Iterator

__all__ = ["Transaction"]


def _milliseconds(seconds: float) -> int:
    """A time for locks as C takes it: -1 is without end, 0 the default there."""
    if math.isnan(seconds):
        raise InvalidArgumentError("lock_timeout is no number")
    return -1 if seconds < 0 or math.isinf(seconds) else max(int(seconds * 1000), 1)


class Transaction(_db._Mapping):
    """Reads one state of the database, that of its beginning, with its own writes on top; its
    writes take effect together when the ``with`` block ends, or not at all: an exception rolls them
    back, and commit() and rollback() may come earlier. ConflictError: another writer was faster;
    ``db.update`` tries again. Any number of threads may use it.

    It is a mapping, as the database is. Iterators see what was written before they were made,
    so that a loop may write what it walks over."""

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_db",
        "_ended",
        "_forks",
        "_handle",
        "_prefix",
        "_root",
        "_sync",
    )

    def __init__(
        self,
        db: _db.DB,
        *,
        serializable: bool = False,
        lock: bool = False,
        lock_timeout: float | None = None,
        name: str | None = None,
        sync: bool = False,
    ) -> None:
        self._handle: Any = None
        self._root = self
        self._ended = False
        lib, slot = load(), ffi.new("loam_txn **")
        text = ffi.NULL
        if name is not None:
            text = ffi.new("char[]", c_name("transaction", name))
        options = ffi.new("loam_txn_options *")
        options.struct_size = ffi.sizeof("loam_txn_options")
        options.flags = (lib.LOAM_TXN_SERIALIZABLE if serializable else 0) | (
            lib.LOAM_TXN_LOCK if lock else 0
        )
        if lock_timeout is not None:
            options.lock_timeout_ms = _milliseconds(lock_timeout)
        options.name = text
        self._sync = sync
        self._db = db
        self._prefix = b""
        self._callbacks = db._callbacks
        db._call("loam_txn_begin", options, slot)
        self._handle, self._forks = owned(slot[0], lib.loam_txn_close), forks()

    def in_(self, place: _db.DB | _db.Prefixed) -> Transaction:
        """The transaction in a keyspace of its database, or in a prefixed view, where keys stand
        without the prefix: ``tx.in_(users)[b"ann"] = b"1"``. Writes through either are of one
        transaction, which ends once."""
        other = Transaction.__new__(Transaction)
        other._handle, other._root, other._sync = None, self._root, self._sync
        if isinstance(place, _db.Prefixed):
            other._db, other._prefix = place._writable(), place._prefix
        elif isinstance(place, _db.DB):
            other._db, other._prefix = place, b""
        else:
            raise TypeError(f"not a keyspace or a prefixed view: {type(place).__name__}")
        other._callbacks = other._db._callbacks
        return other

    def __repr__(self) -> str:
        closed = " (closed)" if self._root._handle is None else ""
        return f"<loamdb.Transaction of {self._db!r}{closed}>"

    def _c(self) -> Any:
        handle = self._root._handle
        if handle is None:
            raise ClosedError("the transaction was closed")
        same_process(self._root._forks)
        return handle

    def _call(self, function: str, *args: Any) -> int:
        """A call on the transaction itself."""
        err = error_slot()
        return check(getattr(load(), function)(self._c(), *args, err), err, self._callbacks)

    def _here(self, function: str, *args: Any) -> int:
        """A call on the transaction in this keyspace."""
        return self._call(function, self._db._c(), *args)

    def _key(self, key: Buffer) -> tuple[Any, int]:
        return data(_fast.joined(self._prefix, key) if self._prefix else key)

    # ---- Reading ----

    def _source(self) -> tuple[_fast.Database, _fast.Snapshot | None]:
        return self._db, None

    def _iterate(
        self,
        mode: int,
        prefix: Buffer | None,
        start: Buffer | None,
        stop: Buffer | None,
        reverse: bool,
        fill_cache: bool,
    ) -> Iterator[Any]:
        own = self._prefix
        if own:
            start, stop = (None if key is None else _fast.joined(own, key) for key in (start, stop))
            prefix = own if prefix is None else _fast.joined(own, prefix)
        handle = int(ffi.cast("uintptr_t", self._c()))
        iterator = _db._PrefixedIterator(
            self._db, None, start, stop, prefix, mode, reverse, fill_cache, len(own), handle
        )
        return iterator._of(own)

    def _get(self, function: str, key: Buffer, default: Any) -> Any:
        value, length = ffi.new("void **"), ffi.new("size_t *")
        if self._here(function, *self._key(key), value, length) == load().LOAM_NOT_FOUND:
            return default
        try:
            return bytes(ffi.buffer(value[0], length[0]))
        finally:
            load().loam_free(value[0])

    def get(self, key: Buffer, default: Any = None) -> Any:
        """The value of a key, or default when it has none."""
        return self._get("loam_txn_get", key, default)

    def get_for_update(self, key: Buffer, default: Any = None) -> Any:
        """Like get, of a key that the rest depends on: another write of it is a
        ConflictError. With lock=True it locks the key."""
        return self._get("loam_txn_get_for_update", key, default)

    def has(self, key: Buffer) -> bool:
        """Whether the key has a value."""
        return bool(self._here("loam_txn_has", *self._key(key)) != load().LOAM_NOT_FOUND)

    def multi_get(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The values of many keys; None for a key without one."""
        pairs = [self._key(key) for key in keys]
        n = len(pairs)
        data, lengths = (
            ffi.new("void *[]", [p for p, _ in pairs]),
            ffi.new("size_t[]", [length for _, length in pairs]),
        )
        values, sizes, memory = ffi.new("void *[]", n), ffi.new("size_t[]", n), ffi.new("void **")
        self._here("loam_txn_multi_get", n, data, lengths, values, sizes, memory)
        try:
            return [
                None if values[i] == ffi.NULL else bytes(ffi.buffer(values[i], sizes[i]))
                for i in range(n)
            ]
        finally:
            load().loam_free(memory[0])

    def __getitem__(self, key: Buffer) -> bytes:
        value: bytes | None = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.has(cast(Buffer, key))

    # ---- Writing ----

    def put(self, key: Buffer, value: Buffer) -> None:
        """Stores a value under a key."""
        self._here("loam_txn_put", *self._key(key), *data(value))

    def put_ttl(self, key: Buffer, value: Buffer, ttl: float | timedelta) -> None:
        """Stores a value that expires: ttl seconds after the commit the key has none."""
        self._here("loam_txn_put_ttl", *self._key(key), *data(value), _ttl.seconds(ttl))

    def delete(self, key: Buffer) -> None:
        """Removes a key, whether it has a value or not."""
        self._here("loam_txn_delete", *self._key(key))

    def merge(self, key: Buffer, operand: Buffer) -> None:
        """Adds an operand to a key, see DB.merge; it counts as a write of the key."""
        self._here("loam_txn_merge", *self._key(key), *data(operand))

    def delete_range(self, start: Buffer, stop: Buffer) -> None:
        """Removes all keys from start up to, not including, stop. It takes no locks; another
        write in the range is a ConflictError at the commit."""
        self._here("loam_txn_delete_range", *self._key(start), *self._key(stop))

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer) -> None:
        self.delete(key)

    def update(  # type: ignore[override]
        self, other: Mapping[Any, Any] | Iterable[tuple[Buffer, Buffer]] = ()
    ) -> None:
        """Stores all pairs of a mapping or iterable."""
        pairs = other.items() if isinstance(other, Mapping) or hasattr(other, "items") else other
        for key, value in pairs:
            self.put(key, value)

    def clear(  # type: ignore[override]
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
    ) -> None:
        """Removes all keys of a range, those that the transaction sees; without bounds, all. In
        the native format it is one range delete."""
        bounds: dict[str, Any] = {"prefix": prefix, "start": start, "stop": stop}
        ends = self._ends(**bounds)
        if ends is None:
            return
        try:
            self.delete_range(*ends)
            self.delete(ends[1])
        except NeedsNativeError:
            with self.keys(**bounds, fill_cache=False) as keys:
                for key in keys:
                    self.delete(key)

    # ---- Savepoints and the end ----

    def savepoint(self) -> int:
        """Remembers what has been written until now, for rollback_to."""
        slot = ffi.new("uint64_t *")
        self._call("loam_txn_savepoint", slot)
        return int(slot[0])

    def rollback_to(self, savepoint: int) -> None:
        """Takes back what was written since a savepoint; later ones are gone."""
        self._call("loam_txn_rollback_to", savepoint)

    def commit(self, *, sync: bool | None = None) -> None:
        """Writes all or, with an exception, nothing. Either ends the transaction."""
        options = ffi.new("loam_write_options *")
        options.struct_size = ffi.sizeof("loam_write_options")
        options.flags = load().LOAM_SYNC if (self._sync if sync is None else sync) else 0
        self._root._ended = True
        self._call("loam_txn_commit", options)

    def rollback(self) -> None:
        """Ends the transaction without a trace; one that has ended stays as it is. A call of
        another thread that waits for a lock raises TransactionDoneError."""
        self._root._ended = True
        self._call("loam_txn_rollback")

    def close(self) -> None:
        """Rolls back what was not committed and frees the memory."""
        handle, self._root._handle = self._root._handle, None
        if handle is not None:
            ffi.release(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        try:
            if kind is None and not self._root._ended:
                self.commit()
        finally:
            self.close()


def run(
    db: _db.DB,
    function: Callable[[Transaction], Any],
    timeout: float | None,
    options: dict[str, Any],
) -> Any:
    """What ``db.update(function)`` does: again after a conflict, with pauses."""
    import random  # costs more than the rest of loamdb to import

    end = None if timeout is None else time.monotonic() + timeout
    pause = 50e-6
    while True:
        try:
            with Transaction(db, **options) as tx:
                return function(tx)
        except (ConflictError, DeadlockError, LockTimeoutError):
            if end is not None and not time.monotonic() < end:  # also if it is NaN
                raise
        time.sleep(random.uniform(0, pause))  # noqa: S311  it spreads writers, and guards nothing
        pause = min(2 * pause, 20e-3)


def swap(db: _db.DB, key: Buffer, old: Buffer | None, value: Buffer | None, sync: bool) -> bool:
    """What ``db.compare_and_swap`` does."""
    lib = load()
    options = ffi.new("loam_write_options *")
    options.struct_size = ffi.sizeof("loam_write_options")
    options.flags = lib.LOAM_SYNC if sync else 0
    status = db._call("loam_compare_and_swap", options, *data(key), *_value(old), *_value(value))
    return bool(status != lib.LOAM_MISMATCH)


def _value(value: Buffer | None) -> tuple[Any, int]:
    """NULL is no value; an empty one needs an address."""
    data, length = pointer(value)
    return (ffi.new("char[1]"), 0) if value is not None and length == 0 else (data, length)


MutableMapping.register(Transaction)
