"""Feeds of changes: ``for change in db.changes(): ...``."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator as AbstractIterator

from ._handles import Handle
from ._library import SLICE_MS, check, error_slot, ffi, forks, load, owned, same_process, take_text
from ._types import Any, Self
from .errors import ClosedError

__all__ = ["Change", "Changes", "Operation"]

_LONGEST = threading.TIMEOUT_MAX
_has_gil = getattr(sys, "_is_gil_enabled", lambda: True)()


class Operation:
    """One operation of a change."""

    __slots__ = ("expires", "key", "keyspace", "kind", "seq", "value")

    def __init__(
        self,
        kind: str,
        key: bytes,
        value: bytes | None,
        keyspace: str | None,
        expires: float | None,
        seq: int,
    ) -> None:
        #: "put", "delete", "merge" or "delete_range".
        self.kind = kind
        #: The key, or where a range begins.
        self.key = key
        #: The value, the operand, or where a range ends; None for a delete.
        self.value = value
        #: The name of the keyspace; None if it was dropped since.
        self.keyspace = keyspace
        #: When the value expires, in seconds since 1970; None: never.
        self.expires = expires
        #: The sequence number.
        self.seq = seq

    def __repr__(self) -> str:
        return f"<loamdb.Operation {self.seq}: {self.kind} {self.key!r} in {self.keyspace}>"


class Change:
    """A batch that was committed, or several ones that share a record of the log. Iterating
    gives its operations."""

    __slots__ = ("_names", "batch", "next", "seq")

    def __init__(self, batch: bytes, names: Any) -> None:
        #: The operations in wire form, see docs/format-batch.md.
        self.batch = batch
        #: The sequence number of the first operation.
        self.seq = int.from_bytes(batch[:8], "little")
        #: The sequence number behind the change, to go on from.
        self.next = self.seq + len(self)
        self._names = names

    def __len__(self) -> int:
        return int.from_bytes(self.batch[8:12], "little")

    def __repr__(self) -> str:
        return f"<loamdb.Change {self.seq}, {len(self)} operations>"

    def _decoded(self) -> AbstractIterator[tuple[int, Any, int]]:
        """The operations in C, each good until the next: its number, itself, its deadline."""
        lib, err = load(), error_slot()
        data, offset = ffi.from_buffer(self.batch), ffi.new("size_t *")
        o, expires = ffi.new("loam_operation *"), ffi.new("uint64_t *")
        for seq in range(self.seq, self.next):
            check(lib.loam_change_operation(data, len(data), offset, o, expires, err), err)
            yield seq, o, expires[0]

    def __iter__(self) -> AbstractIterator[Operation]:
        lib = load()
        kinds = {
            lib.LOAM_OP_DELETE: "delete",
            lib.LOAM_OP_MERGE: "merge",
            lib.LOAM_OP_DELETE_RANGE: "delete_range",
        }
        for seq, o, expires in self._decoded():
            yield Operation(
                kinds.get(o.kind, "put"),
                bytes(ffi.buffer(o.key, o.key_len)),
                None if o.kind == lib.LOAM_OP_DELETE else bytes(ffi.buffer(o.value, o.value_len)),
                self._names(o.keyspace),
                float(expires) if expires else None,
                seq,
            )


def _new_block() -> tuple[Any, Any]:
    """Where the library stores a block of changes, which is freed with the last reference, and its
    length."""
    free = load().loam_free

    def end(data: Any) -> None:
        free(data[0])

    return ffi.gc(ffi.new("void **"), end), ffi.new("size_t *")


def _first(block: tuple[Any, Any]) -> int:
    """The sequence number of the first operation of a block; 0 while nothing is stored."""
    data = block[0][0]
    return 0 if data == ffi.NULL else int.from_bytes(ffi.buffer(data, 12)[4:], "little")


class Changes:
    """A feed of what is committed in a database, in order, each operation once; made by
    db.changes(). Iterating waits for the next change, for ever; Ctrl-C ends that, and the feed
    goes on where it was. Several threads may share a feed: each change goes to one of them."""

    # A signal handler, and without a GIL another thread, may come at each call and each loop, and
    # raise: what the library has handed over stays in _block until _ready has it.
    __slots__ = ("__weakref__", "_block", "_db", "_forks", "_handle", "_known", "_ready", "_turn")

    def __init__(self, db: Handle, from_: int, durable: bool) -> None:
        self._handle: Any = None
        self._db = db
        self._known: dict[int, str] = {0: "default"}
        self._ready: list[Change] = []  # fetched, in reverse
        self._turn = threading.RLock()  # held to fetch
        self._block = _new_block()  # what is not in _ready yet
        lib, slot = load(), ffi.new("loam_changes **")
        db._call("loam_changes_open", from_, lib.LOAM_CHANGES_DURABLE if durable else 0, slot)
        self._handle, self._forks = owned(slot[0], lib.loam_changes_close), forks()

    def _c(self) -> Any:
        if self._handle is None:
            raise ClosedError("the feed was closed")
        same_process(self._forks)
        return self._handle

    @property
    def position(self) -> int:
        """The sequence number of the next operation: a feed that begins there goes on."""
        slot, err = ffi.new("uint64_t *"), error_slot()
        check(load().loam_changes_position(self._c(), slot, err), err)
        # In this order: what is fetched meanwhile was not handed out before.
        first = _first(self._block)
        try:
            return first or self._ready[-1].seq
        except IndexError:  # all that was fetched was handed out
            return int(slot[0])

    def _name(self, number: int) -> str | None:
        name = self._known.get(number)
        if name is None and self._handle is not None:
            slot, err = ffi.new("char **"), error_slot()
            if (
                check(load().loam_changes_keyspace(self._c(), number, slot, err), err)
                == load().LOAM_NOT_FOUND
            ):
                return None
            name = self._known[number] = take_text(slot)
        return name

    def _fetch(self, end: float | None) -> bool:
        """Fetches a block of changes, for which it waits in slices."""
        lib, block, err = load(), self._block, error_slot()
        data, length = block
        while data[0] == ffi.NULL and self._block is block:
            left = (
                SLICE_MS
                if end is None
                else int(min(max((end - time.monotonic()) * 1000, 0), SLICE_MS))
            )
            status = lib.loam_changes_next(self._c(), 0, left, data, length, err)
            if (
                check(status, err) == lib.LOAM_TIMEOUT
                and end is not None
                and time.monotonic() >= end
            ):
                return False
        if self._block is not block:  # a signal handler has fetched
            return True
        changes = bytes(ffi.buffer(data[0], length[0]))
        at, ready = 0, []
        while at < len(changes):
            size = int.from_bytes(changes[at : at + 4], "little")
            change = Change(changes[at + 4 : at + 4 + size], self._name)
            for _, o, _ in change._decoded():  # it may be read when the feed is closed
                self._name(o.keyspace)
            ready.append(change)
            at += 4 + size
        ready.reverse()
        empty = _new_block()
        if self._block is block:  # else a signal handler has fetched it meanwhile
            self._ready, self._block = ready, empty  # no signal comes in between
        if self._handle is None:  # it was closed meanwhile
            self._ready = []
        return True

    def _take(self) -> Change | None:
        """A change that was fetched, if there is one. Without a call in which a signal could take
        it away again."""
        ready = self._ready
        try:
            if not _has_gil:
                return ready.pop()
            change = ready[-1]
            del ready[-1]
            return change
        except IndexError:  # all that was fetched was handed out
            return None

    def next(self, timeout: float | None = None) -> Change | None:
        """The next change; None if there is none within timeout seconds, or another thread waits
        for it. 0 does not wait."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            change = self._take()
            if change is not None:
                return change
            self._c()  # it may be closed
            left = -1.0 if end is None else min(max(end - time.monotonic(), 0), _LONGEST)
            try:
                if not self._turn.acquire(timeout=left):
                    return None
                # what another thread has fetched meanwhile comes first
                if not self._ready and not self._fetch(end):
                    return None
            finally:
                try:
                    self._turn.release()
                except RuntimeError:
                    pass  # it was not had

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        return self.next()  # type: ignore[return-value]  # it waits for ever

    def close(self) -> None:
        """Gives the feed up, and ends a wait for it in another thread. Closing twice is
        harmless."""
        handle, self._handle = self._handle, None
        self._ready = []
        if handle is not None:
            ffi.release(handle)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
