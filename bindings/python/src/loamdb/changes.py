"""Feeds of changes: ``for change in db.changes(): ...``."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator as AbstractIterator

from ._handles import Handle
from ._library import SLICE_MS, check, error_slot, ffi, forks, load, owned, same_process, take_text
from ._types import Any, Self, cast
from .errors import ClosedError

__all__ = ["Change", "Changes", "Operation"]


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


class Changes:
    """A feed of what is committed in a database, in order, each operation once; made by
    db.changes(). Iterating waits for the next change, for ever; Ctrl-C ends that. Several
    threads may share a feed: each change goes to one of them."""

    __slots__ = ("__weakref__", "_db", "_forks", "_handle", "_known", "_ready", "_turn")

    def __init__(self, db: Handle, from_: int, durable: bool) -> None:
        self._handle: Any = None
        self._db = db
        self._known: dict[int, str] = {0: "default"}
        self._ready: list[Change] = []  # fetched, in reverse
        self._turn = threading.Lock()  # held to change _ready, and during a wait
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
        try:
            return self._ready[-1].seq
        except IndexError:  # all that was fetched was handed out
            pass
        slot, err = ffi.new("uint64_t *"), error_slot()
        check(load().loam_changes_position(self._c(), slot, err), err)
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
        lib, data, length, err = load(), ffi.new("void **"), ffi.new("size_t *"), error_slot()
        while True:
            left = (
                SLICE_MS
                if end is None
                else int(min(max((end - time.monotonic()) * 1000, 0), SLICE_MS))
            )
            if (
                check(lib.loam_changes_next(self._c(), 0, left, data, length, err), err)
                != lib.LOAM_TIMEOUT
            ):
                break
            if end is not None and time.monotonic() >= end:
                return False
        try:
            block = bytes(ffi.buffer(data[0], length[0]))
        finally:
            lib.loam_free(data[0])
        at, ready = 0, []
        while at < len(block):
            size = int.from_bytes(block[at : at + 4], "little")
            change = Change(block[at + 4 : at + 4 + size], self._name)
            for _, o, _ in change._decoded():  # it may be read when the feed is closed
                self._name(o.keyspace)
            ready.append(change)
            at += 4 + size
        self._ready = ready[::-1]
        return True

    def next(self, timeout: float | None = None) -> Change | None:
        """The next change; None if there is none within timeout seconds, or another thread waits
        for it. 0 does not wait."""
        try:
            return self._ready.pop()
        except IndexError:  # all that was fetched was handed out
            pass
        self._c()
        end = None if timeout is None else time.monotonic() + timeout
        if not self._turn.acquire(
            timeout=-1 if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)
        ):
            return None
        try:
            while True:
                try:
                    return self._ready.pop()
                except IndexError:  # another thread has taken what this one fetched, or closed it
                    self._c()
                if not self._fetch(end):
                    return None
        finally:
            self._turn.release()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        return cast(Change, self.next())

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
