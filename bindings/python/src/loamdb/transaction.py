"""Transactions: ``with db.transaction() as tx: ...``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from . import db as _db
from ._handles import pointer
from ._library import check, error_slot, ffi, load
from ._types import Any, Buffer, Self
from .errors import ClosedError, ConflictError, DeadlockError, LockTimeoutError

__all__ = ["Transaction"]


class Transaction:
    """Reads one state of the database, that of its beginning, with its own writes on top;
    its writes take effect together when the ``with`` block ends, or not at all: an
    exception rolls them back. ConflictError: another writer was faster; ``db.update``
    tries again. Any number of threads may use it."""

    __slots__ = ("__weakref__", "_callbacks", "_handle", "_sync")

    def __init__(
        self, db: _db.DB, *, serializable: bool = False, lock: bool = False, lock_timeout: float | None = None, name: str | None = None,
        sync: bool = False,
    ) -> None:
        self._handle: Any = None
        lib, err, slot = load(), error_slot(), ffi.new("loam_txn **")
        text = ffi.NULL if name is None else ffi.new("char[]", name.encode())
        options = ffi.new("loam_txn_options *")
        options.struct_size = ffi.sizeof("loam_txn_options")
        options.flags = (lib.LOAM_TXN_SERIALIZABLE if serializable else 0) | (lib.LOAM_TXN_LOCK if lock else 0)
        if lock_timeout is not None:
            options.lock_timeout_ms = max(int(lock_timeout * 1000), 1) if lock_timeout >= 0 else -1
        options.name = text
        self._sync = sync
        self._callbacks = db._callbacks
        db._call("loam_txn_begin", options, slot)
        self._handle = ffi.gc(slot[0], lib.loam_txn_close)

    def _call(self, function: str, *args: Any) -> int:
        if self._handle is None:
            raise ClosedError("the transaction was closed")
        err = error_slot()
        return check(getattr(load(), function)(self._handle, *args, err), err, self._callbacks)

    def _get(self, function: str, key: Buffer, default: Any) -> Any:
        value, length = ffi.new("void **"), ffi.new("size_t *")
        if self._call(function, ffi.NULL, *_bytes(key), value, length) == load().LOAM_NOT_FOUND:
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
        return self.get(key) is not None

    def put(self, key: Buffer, value: Buffer) -> None:
        """Stores a value under a key."""
        self._call("loam_txn_put", ffi.NULL, *_bytes(key), *_bytes(value))

    def delete(self, key: Buffer) -> None:
        """Removes a key, whether it has a value or not."""
        self._call("loam_txn_delete", ffi.NULL, *_bytes(key))

    def __getitem__(self, key: Buffer) -> bytes:
        value: bytes | None = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer) -> None:
        self.delete(key)

    def __contains__(self, key: Buffer) -> bool:
        return self.has(key)

    def items(
        self, *, prefix: Buffer | None = None, start: Buffer | None = None, stop: Buffer | None = None, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        """Keys with their values, in key order, with what was written before the call."""
        lib, slot = load(), ffi.new("loam_iter **")
        options = ffi.new("loam_iter_options *")
        options.struct_size = ffi.sizeof("loam_iter_options")
        kept = [pointer(start), pointer(stop), pointer(prefix)]
        (options.lower, options.lower_len), (options.upper, options.upper_len), (options.prefix, options.prefix_len) = kept
        self._call("loam_txn_iter_create", ffi.NULL, options, slot)
        return self._walk(ffi.gc(slot[0], lib.loam_iter_close), reverse)

    def _walk(self, handle: Any, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
        lib, err, entry = load(), error_slot(), ffi.new("loam_entry *")
        move = lib.loam_iter_prev if reverse else lib.loam_iter_next
        try:
            while check(move(handle, entry, err), err, self._callbacks) != lib.LOAM_END:
                yield bytes(ffi.buffer(entry.key, entry.key_len)), bytes(ffi.buffer(entry.value, entry.value_len))
        finally:
            ffi.release(handle)

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
        self._call("loam_txn_commit", options)

    def rollback(self) -> None:
        """Ends the transaction without a trace; one that has ended stays as it is."""
        self._call("loam_txn_rollback")

    def close(self) -> None:
        """Rolls back what was not committed and frees the memory."""
        handle, self._handle = self._handle, None
        if handle is not None:
            ffi.release(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        try:
            if kind is None:
                self.commit()
        finally:
            self.close()


def run(db: _db.DB, function: Callable[[Transaction], Any], timeout: float | None, options: dict[str, Any]) -> Any:
    """What ``db.update(function)`` does: again after a conflict, with pauses."""
    import random  # costs more than the rest of loamdb to import

    end = None if timeout is None else time.monotonic() + timeout
    pause = 50e-6
    while True:
        try:
            with Transaction(db, **options) as tx:
                return function(tx)
        except (ConflictError, DeadlockError, LockTimeoutError):
            if end is not None and time.monotonic() >= end:
                raise
        time.sleep(random.uniform(0, pause))  # noqa: S311  it spreads writers, and guards nothing
        pause = min(2 * pause, 20e-3)


def swap(db: _db.DB, key: Buffer, old: Buffer | None, value: Buffer | None, sync: bool) -> bool:
    """What ``db.compare_and_swap`` does."""
    lib = load()
    options = ffi.new("loam_write_options *")
    options.struct_size = ffi.sizeof("loam_write_options")
    options.flags = lib.LOAM_SYNC if sync else 0
    status = db._call("loam_compare_and_swap", options, *_bytes(key), *_value(old), *_value(value))
    return bool(status != lib.LOAM_MISMATCH)


def _bytes(key: Buffer) -> tuple[Any, int]:
    """A key or a value, which None is not."""
    data = ffi.from_buffer(key)
    return data, len(data)


def _value(value: Buffer | None) -> tuple[Any, int]:
    """NULL is no value; an empty one needs an address."""
    data, length = pointer(value)
    return (ffi.new("char[1]"), 0) if value is not None and length == 0 else (data, length)
