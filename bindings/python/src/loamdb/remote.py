"""Databases behind loamd: ``with loamdb.connect("loam://a:7070,b:7070") as db: ...``.

Pure Python over sockets; libloam is not loaded. docs/loamd.md describes the server.
"""

from __future__ import annotations

import json
import math
import os
import random
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator as Iterating, Mapping

from . import _wire, errors
from ._types import Any, Buffer, Self
from ._wire import AnswerError, Connection, Fields, LostError, plain, sized

__all__ = ["Local", "Remote", "RemoteBatch", "RemoteSnapshot", "RemoteTransaction", "connect"]

_LEARN = 2.0  # seconds between looks for the leader
_ADDRESS = re.compile(r"(?:\[([^\[\]\s/]+)\]|([^\[\]:\s/]+)):([0-9]{1,5})")
_LONGEST = 1 << 20  # seconds; sockets take no more than 2**31 milliseconds
_POOL = 8  # connections to one node that calls share; snapshots may need further ones


def connect(
    url: str,
    *,
    token: str | None = None,
    tls: Any = None,
    cluster: str = "",
    timeout: float = 10.0,
    try_timeout: float = 3.0,
) -> Remote:
    """A database behind loamd. url: ``loam://host:port,host:port``, or ``loams://`` for TLS.
    tls: the path of the authority's certificate (ca.pem), an ssl.SSLContext, or True for the
    system's authorities. token: what the nodes want to know, LOAM_TOKEN in the environment by
    default. cluster: nodes of others refuse. timeout: what a call tries in all, and try_timeout
    what one that may be tried again waits for one node, in seconds.

    It does not wait for a node."""
    return Remote(
        url, token=token, tls=tls, cluster=cluster, timeout=timeout, try_timeout=try_timeout
    )


def _addresses(url: str) -> tuple[bool, list[tuple[str, int]]]:
    scheme, colon, rest = url.partition("://")
    if not colon or scheme not in ("loam", "loams"):
        raise errors.InvalidArgumentError(f"{url!r} is not loam://host:port,host:port")
    found = []
    for part in rest.rstrip("/").split(","):
        address = _address(part.strip())
        if address is None:
            raise errors.InvalidArgumentError(
                f"{part!r} in {url!r} is not host:port, an IPv6 address in brackets"
            )
        if address not in found:
            found.append(address)
    return scheme == "loams", found


def _address(text: str) -> tuple[str, int] | None:
    found = _ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[3]) < 65536:
        return None
    return found[1] or found[2], int(found[3])


def _context(tls: Any) -> Any:
    if not tls:
        return None
    import ssl

    if isinstance(tls, ssl.SSLContext):
        return tls
    return ssl.create_default_context(cafile=None if tls is True else os.fspath(tls))


def _seconds(name: str, value: float) -> float:
    """A time; longer ones than sockets take are the longest."""
    if not value >= 0:
        raise errors.InvalidArgumentError(f"{name} is {value}, want 0 or more seconds")
    return min(value, _LONGEST)


def _behind(prefix: bytes) -> bytes | None:
    """The first key behind those with a prefix; None: there is none."""
    prefix = prefix.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


def _bounds(
    prefix: Buffer | None, start: Buffer | None, stop: Buffer | None
) -> tuple[bytes | None, bytes | None]:
    lower = None if start is None else plain(start)
    upper = None if stop is None else plain(stop)
    if prefix is not None:
        first, behind = plain(prefix), _behind(plain(prefix))
        lower = first if lower is None else max(lower, first)
        if behind is not None:
            upper = behind if upper is None else min(upper, behind)
    return lower, upper


class _Reader:
    """What can be read of a state."""

    __slots__ = ()

    def _view(self) -> bytes:
        raise NotImplementedError

    def _read(self, operation: int, args: bytes) -> bytes:
        raise NotImplementedError

    def _scan_first(self, args: bytes) -> tuple[bytes, Connection | None]:
        return self._read(_wire.SCAN, args), None

    def get(self, key: Buffer, default: Any = None) -> Any:
        """The value of a key, or default when it has none."""
        found = Fields(self._read(_wire.GET, self._view() + sized(key)))
        if found.flag():
            return found.rest()
        found.end()
        return default

    def has(self, key: Buffer) -> bool:
        """Whether the key has a value."""
        return _wire.said(self._read(_wire.HAS, self._view() + sized(key)))

    def multi_get(self, keys: Iterable[Buffer]) -> list[bytes | None]:
        """The values of many keys in one state; None for a key without one."""
        wanted = [sized(key) for key in keys]
        args = self._view() + _wire.number(len(wanted)) + b"".join(wanted)
        found = Fields(self._read(_wire.MULTI_GET, args))
        values = [found.sized() if found.flag() else None for _ in wanted]
        found.end()
        return values

    def items(
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        reverse: bool = False,
    ) -> RemoteIterator:
        """Keys with their values, in key order, of one state."""
        return RemoteIterator(self, _bounds(prefix, start, stop), reverse, 0, lambda k, v: (k, v))

    def keys(
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        reverse: bool = False,
    ) -> RemoteIterator:
        """Keys in order."""
        bounds = _bounds(prefix, start, stop)
        return RemoteIterator(self, bounds, reverse, _wire.KEYS_ONLY, lambda k, _: k)

    def values(
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
        reverse: bool = False,
    ) -> RemoteIterator:
        """Values in the order of their keys."""
        return RemoteIterator(self, _bounds(prefix, start, stop), reverse, 0, lambda _, v: v)

    def count(
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
    ) -> int:
        """The number of keys in a range, by a scan over it."""
        with self.keys(prefix=prefix, start=start, stop=stop) as keys:
            return sum(1 for _ in keys)

    def __getitem__(self, key: Buffer) -> bytes:
        value: bytes | None = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __contains__(self, key: object) -> bool:
        return self.has(key)  # type: ignore[arg-type]

    def __iter__(self) -> RemoteIterator:
        return self.keys()

    def __reversed__(self) -> RemoteIterator:
        return self.keys(reverse=True)

    def __len__(self) -> int:
        return self.count()

    def __bool__(self) -> bool:
        """True, empty or not: asking for it costs no scan."""
        return True


class RemoteIterator(Iterating[Any]):
    """Walks over one state by chunks. It ends with the loop, or close(), or a with block."""

    __slots__ = ("_entries", "_flags", "_lower", "_of", "_pick", "_size", "_snapshot", "_upper")

    def __init__(
        self,
        of: _Reader,
        bounds: tuple[bytes | None, bytes | None],
        reverse: bool,
        flags: int,
        pick: Callable[[bytes, bytes], Any],
    ) -> None:
        self._of, self._pick = of, pick
        self._lower, self._upper = bounds
        self._flags = flags | (_wire.BACKWARD if reverse else 0)
        self._size = 16 << 10
        self._snapshot: RemoteSnapshot | None = None
        self._entries: Iterating[tuple[bytes, bytes]] | None = iter(())
        result, connection = of._scan_first(of._view() + self._scan(_wire.KEEP))
        kept = self._take(result)
        if kept and connection is not None and isinstance(of, Remote | Local):
            self._snapshot = RemoteSnapshot(of._remote(), connection, kept)

    def _scan(self, keep: int = 0) -> bytes:
        flags = self._flags | keep
        args = b""
        if self._lower is not None:
            flags |= _wire.LOWER
            args += sized(self._lower)
        if self._upper is not None:
            flags |= _wire.UPPER
            args += sized(self._upper)
        return bytes([flags]) + args + _wire.number(0) + _wire.number(self._size)

    def _take(self, result: bytes) -> int:
        """Takes a chunk, and returns the ID of the snapshot that was kept for the next one."""
        f = Fields(result)
        more, kept = f.flag(), f.number()
        entries = []
        while f:
            key = f.sized()
            entries.append((key, b"" if self._flags & _wire.KEYS_ONLY else f.sized()))
        if more and not entries:
            raise _wire.malformed()
        lower, upper = self._lower, self._upper
        if not more:
            lower = upper = b""  # nothing is there
        elif self._flags & _wire.BACKWARD:
            upper = entries[-1][0]
        else:
            lower = entries[-1][0] + b"\x00"
        taken = iter(entries)
        # Without a call in between, behind which a signal handler may raise.
        self._lower, self._upper, self._entries = lower, upper, taken
        return kept

    def __next__(self) -> Any:
        if self._entries is None:
            raise StopIteration
        for key, value in self._entries:
            return self._pick(key, value)
        if self._upper == b"":
            self.close()
            raise StopIteration
        of = self._snapshot or self._of
        self._size = min(2 * self._size, 512 << 10)
        self._take(of._read(_wire.SCAN, of._view() + self._scan()))
        return next(self)

    def close(self) -> None:
        """Ends the iteration."""
        self._entries = None
        if self._snapshot is not None:
            self._snapshot.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __del__(self) -> None:
        snapshot = getattr(self, "_snapshot", None)
        if snapshot is not None:
            snapshot._forget()


class Remote(_Reader):
    """A database behind loamd: an ordered mapping from bytes to bytes, as loamdb.DB is. Reads see
    everything that had returned when they began; a write that returned is on stable storage of a
    majority of the nodes.

    A write that fails with UnknownOutcomeError may have happened; one that fails with another
    error did not. Writes take once, an idempotency key: text or bytes that belong to this one
    write, which takes effect once, however often it is tried. With it a write is tried again by
    itself where the outcome is unknown. Any number of threads may use it.

    A connection has one call at a time, and one that gets no answer in time closes it. An answer
    that is damaged is an error as that of a lost connection: UnavailableError, of a write
    UnknownOutcomeError."""

    __slots__ = (
        "__weakref__",
        "_context",
        "_given",
        "_greeting",
        "_home",
        "_leader",
        "_looked",
        "_mutex",
        "_nodes",
        "_pools",
        "_timeout",
        "_try",
        "_url",
        "closed",
    )

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        tls: Any = None,
        cluster: str = "",
        timeout: float = 10.0,
        try_timeout: float = 3.0,
    ) -> None:
        secure, self._given = _addresses(url)
        self._context = _context(tls if tls is not None else secure)
        if token is None:
            token = os.environ.get("LOAM_TOKEN", "")
        self._url = url
        self._greeting = _wire.greeting(cluster, token)
        self._timeout = _seconds("timeout", timeout)
        self._try = _seconds("try_timeout", try_timeout)
        self._mutex = threading.Lock()  # of what follows
        self._nodes = list(self._given)
        self._home = random.choice(self._nodes)
        self._leader: tuple[str, int] | None = None
        self._looked = 0.0
        self._pools: dict[tuple[str, int], list[Connection]] = {}
        self.closed = False
        _remotes.add(self)

    def __repr__(self) -> str:
        return f"<loamdb.Remote {self._url!r}{' (closed)' if self.closed else ''}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        with self._mutex:
            self.closed = True
            pools, self._pools = self._pools, {}
        for pool in pools.values():
            for connection in pool:
                connection.end()

    def _remote(self) -> Remote:
        return self

    # ---- Calls ----

    def _connection(self, address: tuple[str, int], timeout: float) -> Connection:
        """A connection to a node, locked."""
        with self._mutex:
            if self.closed:
                raise errors.ClosedError("the connection to the database was closed")
            pool = self._pools.setdefault(address, [])
            pool[:] = [c for c in pool if c.usable()]
            for c in pool:
                if c.lock.acquire(blocking=False):
                    return c
            shared = random.choice(pool) if len(pool) >= _POOL else None
        if shared is not None:
            shared.acquire(timeout)
            return shared
        c = Connection(address, self._greeting, self._context, timeout)
        c.lock.acquire()
        with self._mutex:
            if self.closed:
                c.close()
            else:
                self._pools.setdefault(address, []).append(c)
        return c

    def _close_idle(self, address: tuple[str, int]) -> None:
        """Closes the connections to a node that are not in use, as another one was lost: a call
        would learn of each one that it is lost, too, when its time is over."""
        with self._mutex:
            for c in self._pools.get(address, ()):
                if c.snapshots == 0 and c.lock.acquire(blocking=False):
                    c.close("another connection was lost")
                    c.lock.release()

    def _avoid(self, address: tuple[str, int]) -> tuple[str, int]:
        """Says that a node did not answer, and returns the next one."""
        with self._mutex:
            if self._leader == address:
                self._leader = None
            at = self._nodes.index(address) if address in self._nodes else -1
            following = self._nodes[(at + 1) % len(self._nodes)]
            if self._home == address:
                self._home = following
            self._looked = 0.0
            return following

    def _learn(self, c: Connection, deadline: float) -> None:
        """Asks a node for the leader and the members from time to time."""
        now = time.monotonic()
        with self._mutex:
            if self._looked and now - self._looked < _LEARN:
                return
            self._looked = now
        status = c.call(_wire.STATUS, b"", deadline)
        try:
            told = json.loads(status)
            members = [_address(m["addr"]) for m in told["members"]]
            leader = _address(told["leader_addr"])
        except (ValueError, LookupError, TypeError):
            return  # a malformed status says nothing
        with self._mutex:
            self._leader = leader
            self._nodes = list(dict.fromkeys(self._given + [m for m in members if m]))

    def _call(
        self, operation: int, args: bytes, *, write: bool = False, again: bool = True
    ) -> tuple[bytes, Connection]:
        """Makes a call on some node, and tries again where that is safe. Returns the connection,
        too, which is not locked any more. again: it may be made twice."""
        end = time.monotonic() + self._timeout
        with self._mutex:
            address = self._leader if write and self._leader else self._home
        doubt, pause = False, 0.002
        while True:
            why: Exception
            c, sent = None, False
            limit = min(end, time.monotonic() + self._try)
            try:
                c = self._connection(address, max(limit - time.monotonic(), 0.001))
                self._learn(c, limit)
                sent = True
                return c.call(operation, args, limit if again else end), c
            except AnswerError as error:
                why = error
                applied = write and sent and not error.flags & _wire.NOT_APPLIED
                doubt = doubt or applied
                transient = error.flags & (
                    _wire.UNAVAILABLE | _wire.HALTED | _wire.UNKNOWN | 1 << 8
                )
                if not transient:
                    raise self._conclude(why, write, doubt) from None
            except LostError as error:
                why = error
                doubt = doubt or write and sent and error.sent
                if sent:
                    self._close_idle(address)
            except errors.ClosedError as error:
                if doubt:
                    raise errors.UnknownOutcomeError(str(error)) from None
                raise
            finally:
                if c is not None:
                    c.release()
            address = self._avoid(address)  # also where this call is over: the next one goes there
            if doubt and not again or time.monotonic() + pause >= end:
                raise self._conclude(why, write, doubt) from why
            time.sleep(pause)
            pause = min(2 * pause, 0.2)

    def _conclude(self, why: Exception, write: bool, doubt: bool) -> errors.Error:
        if doubt:
            return errors.UnknownOutcomeError(str(why))
        if isinstance(why, AnswerError):
            return why.public()
        return errors.UnavailableError(str(why))

    def _view(self) -> bytes:
        return _wire.LINEARIZABLE

    def _read(self, operation: int, args: bytes) -> bytes:
        return self._call(operation, args)[0]

    def _scan_first(self, args: bytes) -> tuple[bytes, Connection | None]:
        return self._call(_wire.SCAN, args)

    # ---- Writes ----

    def _change(
        self,
        once: Buffer | str | None,
        operations: list[bytes],
        conditions: list[bytes] | None = None,
        ranges: list[bytes] | None = None,
    ) -> bool:
        encoded = _wire.change(once, operations, conditions, ranges)
        result, _ = self._call(_wire.WRITE, encoded, write=True, again=bool(once))
        try:
            return _wire.said(result)
        except errors.UnavailableError as error:
            raise errors.UnknownOutcomeError(str(error)) from None

    def put(self, key: Buffer, value: Buffer, *, once: Buffer | str | None = None) -> None:
        """Stores a value under a key."""
        self._change(once, [_wire.put(key, value)])

    def delete(self, key: Buffer, *, once: Buffer | str | None = None) -> None:
        """Removes a key, whether it exists or not."""
        self._change(once, [_wire.delete(key)])

    def delete_range(
        self, start: Buffer, stop: Buffer, *, once: Buffer | str | None = None
    ) -> None:
        """Removes all keys from start up to, not including, stop. It costs as much as one put."""
        if plain(start) > plain(stop):
            raise errors.InvalidArgumentError("start is behind stop")
        self._change(once, [], None, [sized(start) + sized(stop)])

    def compare_and_swap(
        self,
        key: Buffer,
        old: Buffer | None,
        value: Buffer | None,
        *,
        once: Buffer | str | None = None,
    ) -> bool:
        """Stores a value if the key has the value old now, and says whether it did. None is no
        value: as old, the key must have none; as value, it is removed."""
        operation = _wire.delete(key) if value is None else _wire.put(key, value)
        return self._change(once, [operation], [_wire.condition(key, old)])

    def put_if_absent(
        self, key: Buffer, value: Buffer, *, once: Buffer | str | None = None
    ) -> bool:
        """Stores a value if the key has none, and says whether it did."""
        return self.compare_and_swap(key, None, value, once=once)

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer) -> None:
        self.delete(key)

    def batch(self, *, once: Buffer | str | None = None) -> RemoteBatch:
        """Collects writes that take effect together: ``with db.batch() as b: ...``. Written when
        the block ends, discarded when it raises."""
        return RemoteBatch(self, once)

    def transaction(self, *, once: Buffer | str | None = None) -> RemoteTransaction:
        """Reads one state, and writes when the block ends, if nothing that it read has changed
        meanwhile: ``with db.transaction() as tx: ...``. Else ConflictError."""
        return RemoteTransaction(self, once)

    def update(
        self, other: Any = (), *, once: Buffer | str | None = None, timeout: float | None = None
    ) -> Any:
        """Given a function, calls it with a transaction, commits, and returns its result; after a
        conflict again, until timeout seconds are over, those of connect by default. Given a
        mapping or iterable, stores all pairs, together or not at all."""
        if callable(other):
            return self._run(other, once, self._timeout if timeout is None else timeout)
        pairs = other.items() if isinstance(other, Mapping) or hasattr(other, "items") else other
        with self.batch(once=once) as batch:
            for key, value in pairs:
                batch.put(key, value)
        return None

    def _run(
        self, f: Callable[[RemoteTransaction], Any], once: Buffer | str | None, timeout: float
    ) -> Any:
        end, pause = time.monotonic() + timeout, 0.001
        while True:
            try:
                with self.transaction(once=once) as tx:
                    result = f(tx)
                return result
            except (errors.ConflictError, errors.SnapshotGoneError):
                if time.monotonic() + pause >= end:
                    raise
            time.sleep(pause * random.random())
            pause = min(2 * pause, 0.1)

    def clear(
        self,
        *,
        prefix: Buffer | None = None,
        start: Buffer | None = None,
        stop: Buffer | None = None,
    ) -> None:
        """Removes all keys of a range, those that are there when it is called; without bounds,
        all. It costs as much as one put."""
        lower, upper = _bounds(prefix, start, stop)
        with self.keys(prefix=prefix, start=start, stop=stop, reverse=True) as keys:
            for last in keys:
                self.delete_range(lower or b"", last + b"\x00" if upper is None else upper)
                break

    # ---- States ----

    def snapshot(self) -> RemoteSnapshot:
        """The present state, kept readable: ``with db.snapshot() as s: ...``. It belongs to a
        connection to one node: SnapshotGoneError says that this was lost, or that the snapshot
        was not used for a minute."""
        result, connection = self._call(_wire.SNAPSHOT, _wire.LINEARIZABLE)
        return RemoteSnapshot(self, connection, Fields(result).number())

    def local(self, max_lag: float | None = None) -> Local:
        """What a node has, which may be old: it has everything that had returned max_lag seconds
        before a read began. None or inf: any age, for which no leader is needed. Reads raise
        TooOldError, too."""
        return Local(self, max_lag)

    # ---- The cluster ----

    def status(self) -> dict[str, Any]:
        """What a node knows about itself and the cluster."""
        try:
            status: dict[str, Any] = json.loads(self._call(_wire.STATUS, b"")[0])
        except ValueError:
            raise _wire.malformed() from None
        return status

    def add_voter(self, id: str, address: str) -> None:
        """Adds a node, which was started first, or makes a reader a voter."""
        args = sized(id.encode()) + sized(address.encode())
        self._call(_wire.ADD_VOTER, args, write=True)

    def add_reader(self, id: str, address: str) -> None:
        """Adds a node that gets all changes and has no vote."""
        args = sized(id.encode()) + sized(address.encode())
        self._call(_wire.ADD_READER, args, write=True)

    def remove(self, id: str) -> None:
        """Takes a node out of the cluster."""
        self._call(_wire.REMOVE, sized(id.encode()), write=True)

    def transfer_leader(self, id: str = "") -> None:
        """Makes another voter the leader, any by default."""
        self._call(_wire.TRANSFER, sized(id.encode()), write=True, again=False)


_remotes: weakref.WeakSet[Remote] = weakref.WeakSet()


def _in_child() -> None:
    """In a child after fork no thread gives back a lock that another thread of the parent had."""
    for db in list(_remotes):
        db._mutex = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class Local(_Reader):
    """What a node has, see Remote.local."""

    __slots__ = ("_db", "_kind")

    def __init__(self, db: Remote, max_lag: float | None) -> None:
        lag = 0
        if max_lag is not None and max_lag != math.inf:
            lag = max(int(_seconds("max_lag", max_lag) * 1000), 1)
        self._db, self._kind = db, b"\x01" + _wire.number(lag)

    def _remote(self) -> Remote:
        return self._db

    def _view(self) -> bytes:
        return self._kind

    def _read(self, operation: int, args: bytes) -> bytes:
        return self._db._call(operation, args)[0]

    def _scan_first(self, args: bytes) -> tuple[bytes, Connection | None]:
        return self._db._call(_wire.SCAN, args)


class RemoteSnapshot(_Reader):
    """A fixed state, see Remote.snapshot."""

    __slots__ = ("_connection", "_db", "_id", "closed")

    def __init__(self, db: Remote, connection: Connection, id: int) -> None:
        self._db, self._connection, self._id = db, connection, id
        self.closed = False
        connection.snapshots += 1

    def _view(self) -> bytes:
        return b"\x02" + _wire.number(self._id)

    def _read(self, operation: int, args: bytes) -> bytes:
        if self.closed:
            raise errors.ClosedError("the snapshot was closed")
        end = time.monotonic() + self._db._timeout
        try:
            self._connection.acquire(self._db._timeout)
        except LostError as error:
            raise errors.UnavailableError(str(error)) from None
        try:
            return self._connection.call(operation, args, end)
        except AnswerError as error:
            raise error.public() from None
        except LostError as error:
            if self._db.closed:
                raise errors.ClosedError("the connection to the database was closed") from None
            raise errors.SnapshotGoneError(str(error)) from error
        finally:
            self._connection.release()

    def close(self) -> None:
        """Releases the state."""
        if self.closed:
            return
        self.closed = True
        self._connection.snapshots -= 1
        try:
            with self._connection.lock:
                end = time.monotonic() + self._db._timeout
                self._connection.call(_wire.RELEASE, _wire.number(self._id), end)
        except (AnswerError, LostError):
            pass  # it is gone already

    def _forget(self) -> None:
        """close of a finalizer, which must not wait for a lock: the lease ends it otherwise."""
        if not self.closed and self._connection.lock.acquire(blocking=False):
            self._connection.lock.release()
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class RemoteBatch:
    """Writes that take effect together, see Remote.batch. Later writes of a key win."""

    __slots__ = ("_db", "_once", "_operations", "_written")

    def __init__(self, db: Remote, once: Buffer | str | None) -> None:
        self._db, self._once = db, once
        self._operations: list[bytes] = []
        self._written = False

    def put(self, key: Buffer, value: Buffer) -> None:
        """Stores a value under a key."""
        self._operations.append(_wire.put(key, value))

    def delete(self, key: Buffer) -> None:
        """Removes a key."""
        self._operations.append(_wire.delete(key))

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer) -> None:
        self.delete(key)

    def __len__(self) -> int:
        """The number of operations."""
        return len(self._operations)

    def __bool__(self) -> bool:
        return True

    def clear(self) -> None:
        """Empties the batch."""
        self._operations.clear()

    def write(self) -> None:
        """Writes the operations and clears the batch, which may be used again, but with once."""
        if self._written and self._once:
            raise errors.InvalidArgumentError("once is the key of the write before")
        self._db._change(self._once, self._operations)
        self._written = True
        self._operations.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is None and (self._operations or not self._written):
            self.write()


class RemoteTransaction:
    """A transaction, see Remote.transaction: it reads keys of one state with its own writes on
    top. It has no iterators: what is checked at the end is keys."""

    __slots__ = ("_db", "_done", "_once", "_read", "_snapshot", "_written")

    def __init__(self, db: Remote, once: Buffer | str | None) -> None:
        self._db, self._once = db, once
        self._snapshot = db.snapshot()
        self._read: dict[bytes, bytes] = {}  # the conditions, by key
        self._written: dict[bytes, bytes | None] = {}  # None: deleted
        self._done = False

    def _open(self) -> None:
        if self._done:
            raise errors.TransactionDoneError("the transaction was committed or rolled back")

    def get(self, key: Buffer, default: Any = None) -> Any:
        """The value of a key, or default when it has none."""
        self._open()
        key = plain(key)
        if key in self._written:
            value = self._written[key]
        else:
            value = self._snapshot.get(key)
            self._read[key] = _wire.condition(key, value)
        return default if value is None else value

    def has(self, key: Buffer) -> bool:
        """Whether the key has a value."""
        return self.get(key) is not None

    def put(self, key: Buffer, value: Buffer) -> None:
        """Stores a value under a key."""
        self._open()
        self._written[plain(key)] = plain(value)

    def delete(self, key: Buffer) -> None:
        """Removes a key."""
        self._open()
        self._written[plain(key)] = None

    def __getitem__(self, key: Buffer) -> bytes:
        value: bytes | None = self.get(key)
        if value is None:
            raise KeyError(key)
        return value

    def __setitem__(self, key: Buffer, value: Buffer) -> None:
        self.put(key, value)

    def __delitem__(self, key: Buffer) -> None:
        self.delete(key)

    def __contains__(self, key: object) -> bool:
        return self.has(key)  # type: ignore[arg-type]

    def commit(self) -> None:
        """Writes, if nothing that was read has changed: else ConflictError."""
        self._open()
        self.rollback()
        operations = [
            _wire.delete(k) if v is None else _wire.put(k, v) for k, v in self._written.items()
        ]
        if not operations:
            return
        if not self._db._change(self._once, operations, list(self._read.values())):
            raise errors.ConflictError("a key that the transaction read was written meanwhile")

    def rollback(self) -> None:
        """Ends the transaction without a write."""
        if not self._done:
            self._done = True
            self._snapshot.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        if kind is not None:
            self.rollback()
        elif not self._done:
            self.commit()
