"""Loam for asyncio: the same database, with calls that do not block the event loop.

    async with loamdb.aio.open("path") as db:
        await db.put(b"key", b"value")
        async for key, value in db.items(prefix=b"k"):
            ...

A read that memory can answer is answered at once; everything else runs on threads of
the database's own, at most as many at a time as the option threads says.
"""

from __future__ import annotations

import asyncio
import functools
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import islice
from typing import Any, Generic, Self, TypeVar

from . import _fast, db as _db
from ._types import Buffer, Progress, StrPath
from .changes import Change, Changes as Feed
from .errors import ConflictError, DeadlockError, LockTimeoutError
from .iterator import Iterator

__all__ = [
    "DB",
    "Batch",
    "Changes",
    "Entries",
    "Keyspace",
    "Prefixed",
    "Snapshot",
    "Transaction",
    "open",
]

T = TypeVar("T")

# How many entries an iterator fetches at a time: few at first, as many programs stop early.
FIRST_FETCH, MOST_FETCH = 64, 4096

# Seconds that a thread waits for a change at a time: Python waits for its threads at its end, also
# where nobody has closed the feed.
WAIT = 0.5

_BLOCKS = object()


class _Call:
    """A call that a thread makes once. It gives up what it refers to when it begins, as the
    thread may still have it when the result is there: a database would be closed only then."""

    __slots__ = ("_call",)

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._call: Any = functools.partial(function, *args, **kwargs)

    def __call__(self) -> Any:
        call, self._call = self._call, None
        return call()


class _Reads:
    """The reads of databases, snapshots, views and transactions."""

    __slots__ = ("_executor", "_sync")

    _sync: Any
    _executor: ThreadPoolExecutor

    async def _run(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        call: Callable[[], T] = _Call(function, args, kwargs)
        try:
            future = asyncio.get_running_loop().run_in_executor(self._executor, call)
        # the threads went with the database, or the transaction: the call fails at once
        except RuntimeError:
            return call()
        return await future

    async def get(self, key: Buffer, default: Any = None, *, fill_cache: bool = True) -> Any:
        """The value of a key, or default when it has none."""
        value = self._sync._peek(key, _BLOCKS) if fill_cache else _BLOCKS
        if value is _BLOCKS:
            return await self._run(self._sync.get, key, default, fill_cache=fill_cache)
        return default if value is None else value

    async def get_pinned(self, key: Buffer) -> _fast.PinnedValue:
        """The value of a key where it lies in memory: ``with await db.get_pinned(key) as value``
        has a memoryview of it. KeyError: the key has none."""
        return await self._run(self._sync.get_pinned, key)

    async def has(self, key: Buffer) -> bool:
        """Whether the key has a value."""
        return await self._run(self._sync.has, key)

    async def multi_get(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The values of many keys in one state of the database; None for a key without one."""
        return await self._run(self._sync.multi_get, list(keys))

    async def count(self, **bounds: Any) -> int:
        """The number of keys in a range, by a scan over it."""
        return await self._run(self._sync.count, **bounds)

    def items(self, **bounds: Any) -> Entries[tuple[bytes, bytes]]:
        """Keys with their values, in key order; prefix, start, stop, reverse and fill_cache
        are those of loamdb.DB.items."""
        return Entries(self, self._sync.items, bounds)

    def keys(self, **bounds: Any) -> Entries[bytes]:
        """Keys in order."""
        return Entries(self, self._sync.keys, bounds)

    def values(self, **bounds: Any) -> Entries[bytes]:
        """Values in the order of their keys."""
        return Entries(self, self._sync.values, bounds)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.keys().__aiter__()


class DB(_Reads):
    """An open database; made by ``await open(path)`` or ``async with open(path)``."""

    __slots__ = ("__weakref__",)

    def __init__(self, db: _db.DB, executor: ThreadPoolExecutor) -> None:
        self._sync = db
        self._executor = executor

    @property
    def db(self) -> _db.DB:
        """The database itself, whose calls block."""
        database: _db.DB = self._sync
        return database

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self.db.closed

    async def put(self, key: Buffer, value: Buffer, *, sync: bool = False) -> None:
        """Stores a value under a key. sync: return when it is on disk."""
        await self._run(self.db.put, key, value, sync=sync)

    async def put_ttl(
        self, key: Buffer, value: Buffer, ttl: float | timedelta, *, sync: bool = False
    ) -> None:
        """Stores a value that expires after ttl seconds; see loamdb.DB.put_ttl."""
        await self._run(self.db.put_ttl, key, value, ttl, sync=sync)

    async def ttl(self, key: Buffer) -> float | None:
        """How many seconds the key has its value; see loamdb.DB.ttl."""
        return await self._run(self.db.ttl, key)

    async def delete(self, key: Buffer, *, sync: bool = False) -> None:
        """Removes a key, whether it has a value or not. sync: return when it is on disk."""
        await self._run(self.db.delete, key, sync=sync)

    async def merge(self, key: Buffer, operand: Buffer, *, sync: bool = False) -> None:
        """Adds an operand to a key. sync: return when it is on disk."""
        await self._run(self.db.merge, key, operand, sync=sync)

    async def delete_range(self, start: Buffer, stop: Buffer, *, sync: bool = False) -> None:
        """Removes all keys from start up to, not including, stop."""
        await self._run(self.db.delete_range, start, stop, sync=sync)

    async def clear(self, **bounds: Any) -> None:
        """Removes all keys of a range; see loamdb.DB.clear."""
        await self._run(self.db.clear, **bounds)

    def batch(self, *, sync: bool = False) -> Batch:
        """Collects writes that take effect together: ``async with db.batch() as b: ...``."""
        return Batch(self, sync)

    async def snapshot(self) -> Snapshot:
        """The present state, kept readable: ``async with await db.snapshot() as s: ...``."""
        return Snapshot(self, await self._run(self.db.snapshot))

    async def keyspace(self, name: str, **options: Any) -> Keyspace:
        """A key space of its own within the database, as ``DB.keyspace`` of loamdb."""
        return Keyspace(await self._run(self.db.keyspace, name, **options), self._executor)

    async def keyspaces(self) -> list[str]:
        """The names of all keyspaces, "default" first."""
        return await self._run(self.db.keyspaces)

    async def drop_keyspace(self, name: str) -> None:
        """Drops a keyspace with all that is in it, at once."""
        await self._run(self.db.drop_keyspace, name)

    def prefixed(self, prefix: Buffer) -> Prefixed:
        """The keys that begin with prefix, as a view in which they stand without it."""
        return Prefixed(self.db.prefixed(prefix), self._executor)

    def transaction(self, **options: Any) -> Transaction:
        """Reads and writes that take effect together: ``async with db.transaction() as tx: ...``.
        Options are those of loamdb.DB.transaction."""
        return Transaction(self, options)

    async def update(
        self,
        function: Callable[[Transaction], Awaitable[T]],
        *,
        timeout: float | None = None,
        **options: Any,
    ) -> T:
        """Awaits function(tx) and commits; after a conflict again, until timeout seconds are
        over."""
        end = None if timeout is None else time.monotonic() + timeout
        pause = 50e-6
        while True:
            try:
                async with self.transaction(**options) as tx:
                    return await function(tx)
            except (ConflictError, DeadlockError, LockTimeoutError):
                if end is not None and not time.monotonic() < end:  # also if it is NaN
                    raise
            await asyncio.sleep(random.uniform(0, pause))  # noqa: S311  it spreads writers
            pause = min(2 * pause, 20e-3)

    async def compare_and_swap(
        self, key: Buffer, old: Buffer | None, value: Buffer | None, *, sync: bool = False
    ) -> bool:
        """Stores a value if the key has the value old now; see loamdb.DB.compare_and_swap."""
        return await self._run(self.db.compare_and_swap, key, old, value, sync=sync)

    async def put_if_absent(self, key: Buffer, value: Buffer, *, sync: bool = False) -> bool:
        """Stores a value if the key has none, and says whether it did."""
        return await self._run(self.db.put_if_absent, key, value, sync=sync)

    async def metrics(self) -> dict[str, Any]:
        """All counters."""
        return await self._run(self.db.metrics)

    async def recovery_report(self) -> dict[str, Any]:
        """What opening found in the logs."""
        return await self._run(self.db.recovery_report)

    async def approximate_size(
        self, start: Buffer | None = None, stop: Buffer | None = None
    ) -> int:
        """Bytes on disk of the keys from start up to, not including, stop."""
        return await self._run(self.db.approximate_size, start, stop)

    async def flush(self) -> None:
        """Writes what is in memory into tables."""
        await self._run(self.db.flush)

    async def compact(
        self,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Merges everything from start up to, not including, stop. progress is called on another
        thread."""
        await self._run(self.db.compact, start, stop, progress=progress)

    async def verify(self, *, progress: Progress | None = None) -> None:
        """Reads every table whole and checks it. progress is called on another thread."""
        await self._run(self.db.verify, progress=progress)

    async def rekey(self) -> None:
        """Encrypts all files with the current key of the option encryption."""
        await self._run(self.db.rekey)

    async def keys_in_use(self) -> list[dict[str, Any]]:
        """The keys of the files in the directory; see loamdb.DB.keys_in_use."""
        keys: list[dict[str, Any]] = await self._run(self.db.keys_in_use)
        return keys

    async def checkpoint(self, path: StrPath) -> None:
        """Makes path a database of its own that has what this one has now."""
        await self._run(self.db.checkpoint, path)

    async def set_option(self, name: str, value: object) -> None:
        """Changes an option while the database is open."""
        await self._run(self.db.set_option, name, value)

    async def option(self, name: str) -> str:
        """The value of an option that is in force, as text."""
        value: str = await self._run(self.db.option, name)
        return value

    async def catch_up(self) -> None:
        """Moves a follower on to what the writer has written up to this call."""
        await self._run(self.db.catch_up)

    async def lag(self) -> _db.Lag:
        """How far a follower is behind its directory."""
        lag: _db.Lag = await self._run(self.db.lag)
        return lag

    async def dump(
        self,
        file: StrPath | Any,
        *,
        compression: str | None = None,
        resume: bool = False,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Writes one state of all keyspaces into a file, a path or a binary file object."""
        said: dict[str, Any] = await self._run(
            self.db.dump, file, compression=compression, resume=resume, progress=progress
        )
        return said

    async def load(
        self, file: StrPath | Any, *, overwrite: bool = False, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Puts what a dump has into the database."""
        said: dict[str, Any] = await self._run(
            self.db.load, file, overwrite=overwrite, progress=progress
        )
        return said

    def changes(self, from_: int = 0, *, durable: bool = False) -> Changes:
        """A feed for ``async for change in db.changes()``; see loamdb.DB.changes."""
        return Changes(self, from_, durable)

    async def ingest(
        self,
        paths: Iterable[StrPath],
        *,
        move: bool = False,
        excise: tuple[Buffer, Buffer] | None = None,
    ) -> None:
        """Takes tables of TableWriter into the database, all or none of them."""
        await self._run(self.db.ingest, paths, move=move, excise=excise)

    async def bulk_load(self, entries: Iterable[tuple[Buffer, Buffer]], *, memory: int = 0) -> None:
        """Puts all pairs of an iterable, in any order, which is read on another thread."""
        await self._run(self.db.bulk_load, entries, memory=memory)

    async def sync(self) -> None:
        """Returns when all earlier writes are on disk."""
        await self._run(self.db.sync)

    async def close(self) -> None:
        """Finishes what is running and releases the directory. Closing twice is harmless."""
        await self._run(self.db.close) if not self.closed else None
        self._executor.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class Keyspace(DB):
    """A key space of its own within a database; made by ``await db.keyspace(name)``."""

    __slots__ = ()

    async def close(self) -> None:
        """Gives this object up. Closing twice is harmless."""
        await self._run(self.db.close)


class open:  # noqa: N801  a function to its callers
    """Opens a database: ``await open(path, ...)`` or ``async with open(path, ...) as db``.
    The options are those of loamdb.open; threads is how many calls run at a time."""

    __slots__ = ("_options", "_path", "_opened", "_threads")

    def __init__(self, path: StrPath, *, threads: int = 4, **options: Any) -> None:
        self._path = path
        self._threads = threads
        self._options = options

    async def _open(self) -> DB:
        executor = ThreadPoolExecutor(self._threads, thread_name_prefix="loamdb")
        opened: list[_db.DB] = []  # not the call's result, see _Call

        def make(path: StrPath, options: dict[str, Any]) -> None:
            opened.append(_db.DB(path, **options))

        try:
            await asyncio.get_running_loop().run_in_executor(
                executor, _Call(make, (self._path, self._options), {})
            )
        except BaseException:
            executor.shutdown(wait=False)
            raise
        return DB(opened.pop(), executor)

    def __await__(self) -> Generator[Any, None, DB]:
        return self._open().__await__()

    async def __aenter__(self) -> DB:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(self, *exc: object) -> None:
        await self._opened.close()


class Snapshot(_Reads):
    """A state of the database that later writes do not change."""

    __slots__ = ("__weakref__",)

    def __init__(self, db: DB, snapshot: _db.Snapshot) -> None:
        self._sync = snapshot
        self._executor = db._executor

    async def close(self) -> None:
        """Gives the snapshot up. Closing twice is harmless."""
        await self._run(self._sync.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()


class Batch(_db.Batch):
    """Writes that take effect together or not at all. Filling it does not wait; it is
    written at the end of ``async with``, or by ``await batch.commit()``. What is added while a
    commit waits is of the next one."""

    __slots__ = ("_owner", "_turn")

    def __new__(cls, db: DB, sync: bool = False) -> Self:
        return _fast.Batch.__new__(cls, db.db)

    def __init__(self, db: DB, sync: bool = False) -> None:
        super().__init__(db.db, sync)
        self._owner = db
        self._turn = asyncio.Lock()  # of commits

    def use(self, keyspace: DB | _db.DB | None) -> None:
        """Operations that are added from now on go to a keyspace of the same database."""
        super().use(keyspace.db if isinstance(keyspace, DB) else keyspace)

    async def commit(self) -> None:
        """Writes the operations, which the batch has no more from then on, but after an exception.
        After a cancellation it has them if the write had not begun."""
        async with self._turn:
            taken = _db.Batch(self._db, self._sync)
            taken.append(self)
            self.clear()
            unwritten = {0: taken}  # a thread writes what it finds

            def write() -> None:
                batch = unwritten.pop(0, None)
                if batch is not None:
                    batch.write()

            try:
                await self._owner._run(write)
            except BaseException as error:
                begun = unwritten.pop(0, None) is None
                if not (begun and isinstance(error, asyncio.CancelledError)):
                    taken.append(self)
                    self.clear()
                    self.append(taken)
                raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        if kind is None:
            await self.commit()
        else:
            self.clear()


class Transaction(_Reads):
    """A transaction; see loamdb.Transaction. With the option lock its calls run on a thread of
    their own, as they may wait for other transactions."""

    __slots__ = ("__weakref__", "_db", "_options", "_own")

    def __init__(self, db: DB, options: dict[str, Any]) -> None:
        self._db = db
        self._options = options
        self._sync: Any = None
        self._executor = db._executor
        self._own: ThreadPoolExecutor | None = None

    def in_(self, place: DB | Prefixed) -> Transaction:
        """The transaction in a keyspace of its database, or in a prefixed view."""
        other = Transaction(self._db, self._options)
        other._executor, other._sync = self._executor, self._sync.in_(place._sync)
        return other

    async def get(self, key: Buffer, default: Any = None) -> Any:  # type: ignore[override]
        """The value of a key, or default when it has none."""
        return await self._run(self._sync.get, key, default)

    async def get_for_update(self, key: Buffer, default: Any = None) -> Any:
        """Like get, of a key that the rest depends on."""
        return await self._run(self._sync.get_for_update, key, default)

    async def put(self, key: Buffer, value: Buffer) -> None:
        """Stores a value under a key."""
        await self._run(self._sync.put, key, value)

    async def put_ttl(self, key: Buffer, value: Buffer, ttl: float | timedelta) -> None:
        """Stores a value that expires ttl seconds after the commit."""
        await self._run(self._sync.put_ttl, key, value, ttl)

    async def delete(self, key: Buffer) -> None:
        """Removes a key, whether it has a value or not."""
        await self._run(self._sync.delete, key)

    async def merge(self, key: Buffer, operand: Buffer) -> None:
        """Adds an operand to a key."""
        await self._run(self._sync.merge, key, operand)

    async def delete_range(self, start: Buffer, stop: Buffer) -> None:
        """Removes all keys from start up to, not including, stop."""
        await self._run(self._sync.delete_range, start, stop)

    async def clear(self, **bounds: Any) -> None:
        """Removes all keys of a range, those that the transaction sees."""
        await self._run(self._sync.clear, **bounds)

    async def savepoint(self) -> int:
        """Remembers what has been written until now."""
        return await self._run(self._sync.savepoint)

    async def rollback_to(self, savepoint: int) -> None:
        """Takes back what was written since a savepoint."""
        await self._run(self._sync.rollback_to, savepoint)

    async def commit(self, *, sync: bool | None = None) -> None:
        """Writes all or, with an exception, nothing. Either ends the transaction."""
        await self._run(self._sync.commit, sync=sync)

    async def rollback(self) -> None:
        """Ends the transaction without a trace."""
        await self._run(self._sync.rollback)

    async def __aenter__(self) -> Self:
        if self._options.get("lock"):
            self._executor = self._own = ThreadPoolExecutor(1, thread_name_prefix="loamdb-lock")
        try:
            self._sync = await self._run(self._db.db.transaction, **self._options)
        except BaseException:
            self._shut()
            raise
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        try:
            # its thread may wait for a lock: that ends
            if self._own is not None and kind is not None:
                await self._db._run(self._sync.rollback)
            await self._run(self._sync.__exit__, kind, None, None)
        finally:
            self._shut()

    def _shut(self) -> None:
        if self._own is not None:
            self._own.shutdown(wait=False)


class Prefixed(_Reads):
    """The keys that begin with a prefix, without it; made by ``db.prefixed(prefix)``."""

    __slots__ = ("__weakref__",)

    def __init__(self, view: _db.Prefixed, executor: ThreadPoolExecutor) -> None:
        self._sync = view
        self._executor = executor

    @property
    def prefix(self) -> bytes:
        """The prefix, that of outer views included."""
        prefix: bytes = self._sync.prefix
        return prefix

    async def put(self, key: Buffer, value: Buffer, *, sync: bool = False) -> None:
        """Stores a value under a key. sync: return when it is on disk."""
        await self._run(self._sync.put, key, value, sync=sync)

    async def put_ttl(
        self, key: Buffer, value: Buffer, ttl: float | timedelta, *, sync: bool = False
    ) -> None:
        """Stores a value that expires after ttl seconds."""
        await self._run(self._sync.put_ttl, key, value, ttl, sync=sync)

    async def ttl(self, key: Buffer) -> float | None:
        """How many seconds the key has its value."""
        return await self._run(self._sync.ttl, key)

    async def delete(self, key: Buffer, *, sync: bool = False) -> None:
        """Removes a key, whether it has a value or not."""
        await self._run(self._sync.delete, key, sync=sync)

    async def merge(self, key: Buffer, operand: Buffer, *, sync: bool = False) -> None:
        """Adds an operand to a key."""
        await self._run(self._sync.merge, key, operand, sync=sync)

    async def delete_range(self, start: Buffer, stop: Buffer, *, sync: bool = False) -> None:
        """Removes all keys from start up to, not including, stop."""
        await self._run(self._sync.delete_range, start, stop, sync=sync)

    async def clear(self, **bounds: Any) -> None:
        """Removes all keys of a range; see loamdb.DB.clear."""
        await self._run(self._sync.clear, **bounds)

    async def update(self, other: Any, *, sync: bool = False) -> None:
        """Stores all pairs of a mapping or iterable, together or not at all."""
        await self._run(self._sync.update, other, sync=sync)

    async def snapshot(self) -> Prefixed:
        """The present state of this view, kept readable while it lives."""
        return Prefixed(await self._run(self._sync.snapshot), self._executor)

    def prefixed(self, prefix: Buffer) -> Prefixed:
        """A view inside this view."""
        return Prefixed(self._sync.prefixed(prefix), self._executor)


class Changes:
    """A feed of changes for ``async for``, on a thread of its own while it waits; each loop over it
    begins anew."""

    __slots__ = ("_durable", "_from", "_owner")

    def __init__(self, owner: DB, from_: int, durable: bool) -> None:
        self._owner, self._from, self._durable = owner, from_, durable

    async def __aiter__(self) -> AsyncIterator[Change]:
        loop = asyncio.get_running_loop()
        executor = ThreadPoolExecutor(1, thread_name_prefix="loamdb-changes")
        feed: Feed | None = None
        try:
            feed = await loop.run_in_executor(
                executor,
                functools.partial(self._owner.db.changes, self._from, durable=self._durable),
            )
            while True:
                change = feed.next(0)
                while change is None:
                    change = await loop.run_in_executor(executor, feed.next, WAIT)
                yield change
        finally:
            if feed is not None:
                feed.close()
            executor.shutdown(wait=False)  # the close has ended what its thread waits for


class Entries(Generic[T]):
    """A range for ``async for``; each loop over it begins anew."""

    __slots__ = ("_bounds", "_make", "_reads")

    def __init__(
        self, reads: _Reads, make: Callable[..., Iterator[T]], bounds: dict[str, Any]
    ) -> None:
        self._reads = reads
        self._make = make
        self._bounds = bounds

    async def __aiter__(self) -> AsyncIterator[T]:
        run = self._reads._run
        entries = await run(self._make, **self._bounds)
        n = FIRST_FETCH

        def fetch() -> list[T]:
            return list(islice(entries, n))

        try:
            while fetched := await run(fetch):
                for entry in fetched:
                    yield entry
                if len(fetched) < n:
                    return
                n = min(4 * n, MOST_FETCH)
        finally:
            entries.close()

    async def all(self) -> list[T]:
        """The whole range as a list."""
        return [entry async for entry in self]
