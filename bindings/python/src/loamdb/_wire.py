"""The protocol of loamd, see docs/format-loamd.md: connections, calls, and how arguments and
results look as bytes. Pure Python."""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import struct
import threading
import time
import zlib
from contextlib import suppress

from . import _fast, errors
from ._types import Any, Buffer

MAX_CHANGE = 8 << 20
_MAX_BODY = MAX_CHANGE + (64 << 10)
_HEADER = struct.Struct("<II")  # of a frame: length and checksum; of an answer: number and flags
_CALL = struct.Struct("<IIB")

STATUS, GET, HAS, MULTI_GET, SCAN, SNAPSHOT, RELEASE, WRITE = range(1, 9)
ADD_VOTER, ADD_READER, REMOVE, TRANSFER, CHECKPOINT = range(9, 14)

LINEARIZABLE = b"\x00"
KEYS_ONLY, BACKWARD, LOWER, UPPER, KEEP = 1, 2, 4, 8, 16

NOT_APPLIED, UNKNOWN, UNAVAILABLE, HALTED = 1, 2, 4, 8

#: The exceptions of flags, the first that fits.
_EXCEPTIONS = (
    (1 << 1, errors.UnknownOutcomeError),
    (1 << 9, errors.RefusedError),
    (1 << 10, errors.RefusedError),
    (1 << 4, errors.InvalidArgumentError),
    (1 << 5, errors.TooLargeError),
    (1 << 6, errors.ConflictError),
    (1 << 7, errors.SnapshotGoneError),
    (1 << 8, errors.TooOldError),
    (1 << 11, errors.CorruptionError),
    (1 << 12, errors.BusyError),
    (1 << 13, errors.NewerFormatError),
    (1 << 14, errors.NoSpaceError),
    (1 << 2, errors.UnavailableError),
    (1 << 3, errors.UnavailableError),
    (1 << 0, errors.NotAppliedError),
)


class LostError(Exception):
    """The connection was lost. sent: the server may have got the call."""

    def __init__(self, why: str, sent: bool) -> None:
        super().__init__(why)
        self.sent = sent


class AnswerError(Exception):
    """An answer with an error."""

    def __init__(self, flags: int, text: str) -> None:
        super().__init__(text)
        self.flags = flags

    def public(self) -> errors.Error:
        """The exception for the program."""
        for bit, kind in _EXCEPTIONS:
            if self.flags & bit:
                return kind(str(self))
        return errors.InternalError(str(self))


def number(n: int) -> bytes:
    """A varint."""
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def plain(b: Buffer) -> bytes:
    """The bytes of an object with the buffer interface, which a number has not: bytes(3) are three
    zeros."""
    return _fast.joined(b"", b)


def sized(b: Buffer) -> bytes:
    """The length of bytes, and the bytes."""
    b = plain(b)
    return number(len(b)) + b


def malformed() -> errors.UnavailableError:
    """Of an answer that is damaged, though its frame is not. As of a lost connection."""
    return errors.UnavailableError("malformed answer")


class Fields:
    """Reads one field of a result after the other."""

    __slots__ = ("_at", "_of")

    def __init__(self, of: bytes) -> None:
        self._of, self._at = of, 0

    def __bool__(self) -> bool:
        return self._at < len(self._of)

    def one(self) -> int:
        self._at += 1
        if self._at > len(self._of):
            raise malformed()
        return self._of[self._at - 1]

    def flag(self) -> bool:
        b = self.one()
        if b > 1:
            raise malformed()
        return b == 1

    def rest(self) -> bytes:
        return self._of[self._at :]

    def end(self) -> None:
        """There is no further field."""
        if self:
            raise malformed()

    def number(self) -> int:
        n = 0
        for shift in range(0, 64, 7):
            b = self.one()
            n |= (b & 0x7F) << shift
            if b < 0x80:
                return n
        raise malformed()

    def sized(self) -> bytes:
        n = self.number()
        self._at += n
        if self._at > len(self._of):
            raise malformed()
        return self._of[self._at - n : self._at]


def said(answer: bytes) -> bool:
    """An answer that is yes or no."""
    f = Fields(answer)
    yes = f.flag()
    f.end()
    return yes


def condition(key: Buffer, value: Buffer | None) -> bytes:
    """Says that a key has a value, or none."""
    if value is None:
        return sized(key) + b"\x00"
    value = plain(value)
    if len(value) < 64:
        return sized(key) + b"\x01" + sized(value)
    return sized(key) + b"\x02" + sized(hashlib.sha256(value).digest())


def change(
    once: Buffer | str | None,
    operations: list[bytes],
    conditions: list[bytes] | None = None,
    ranges: list[bytes] | None = None,
) -> bytes:
    """A change as bytes. Raises where it is too large."""
    key = once.encode() if isinstance(once, str) else plain(b"" if once is None else once)
    if len(key) > 255:
        raise errors.InvalidArgumentError("once has at most 255 bytes")
    parts = [b"\x02" if ranges else b"\x01", sized(key), number(len(conditions or ()))]
    parts += conditions or ()
    if ranges:
        parts.append(number(len(ranges)))
        parts += ranges
    parts.append(bytes(8) + struct.pack("<I", len(operations)))
    parts += operations
    encoded = b"".join(parts)
    if len(encoded) > MAX_CHANGE:
        raise errors.TooLargeError(
            f"a change of {len(encoded)} bytes, and at most {MAX_CHANGE} go: cut it"
        )
    return encoded


def put(key: Buffer, value: Buffer) -> bytes:
    """An operation of a batch."""
    return b"\x01" + sized(key) + sized(value)


def delete(key: Buffer) -> bytes:
    """An operation of a batch."""
    return b"\x00" + sized(key)


class Connection:
    """A connection to a node. One call is under way at a time."""

    def __init__(
        self,
        address: tuple[str, int],
        greeting: bytes,
        context: ssl.SSLContext | None,
        timeout: float,
    ) -> None:
        self.lock = threading.Lock()
        self.address = address
        self.lost: str | None = None
        self.snapshots = 0  # that are on it
        self._number = 0
        self._pid = os.getpid()
        deadline = time.monotonic() + timeout
        try:
            self._socket: Any = socket.create_connection(address, timeout)
        except (OSError, ValueError) as error:  # ValueError: no name of a host
            raise LostError(f"{self._name()}: {error}", False) from error
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if context is not None:
                self._socket = context.wrap_socket(self._socket, server_hostname=address[0])
            self._send(greeting)
            self._receive(0, deadline)
        except (OSError, LostError) as error:
            self.close(str(error))
            why = str(error) or "closed by the node at the greeting"
            raise LostError(f"{self._name()}: {why}", False) from error
        except BaseException:
            self.close("interrupted")
            raise

    def _name(self) -> str:
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def usable(self) -> bool:
        """Whether calls may be made: it is not lost, and not that of a parent before fork."""
        return self.lost is None and self._pid == os.getpid()

    def acquire(self, timeout: float) -> None:
        """Takes the lock. Calls of other threads may keep it for longer than timeout."""
        if not self.lock.acquire(timeout=timeout):
            raise LostError(f"{self._name()}: calls of other threads took too long", False)

    def release(self) -> None:
        """Gives the lock back."""
        self.lock.release()
        if self.lost is not None:  # perhaps by end, which had no lock
            self._socket.close()

    def close(self, why: str = "closed") -> None:
        """The caller has the lock."""
        self.lost = self.lost or why
        self._socket.close()

    def end(self) -> None:
        """Closes it for all threads. A call that waits for its answer ends, which a close of its
        socket would not do; the socket is closed behind it, as its number may be another's then."""
        self.lost = self.lost or "closed"
        if self._pid == os.getpid():  # the connection of a parent goes on
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        if self.lock.acquire(blocking=False):
            self.release()

    def call(self, operation: int, args: bytes, deadline: float) -> bytes:
        """Makes a call and returns its result. The caller has the lock."""
        if not self.usable():
            raise LostError(f"{self._name()}: {self.lost or 'a connection of the parent'}", False)
        self._number = self._number % 0xFFFFFFFE + 1
        left = max(deadline - time.monotonic(), 0.001)
        body = _CALL.pack(self._number, min(int(left * 1000) + 1, 1 << 31), operation) + args
        if len(body) > _MAX_BODY:
            raise errors.TooLargeError(f"a call of {len(body)} bytes, and at most {_MAX_BODY} go")
        try:
            self._socket.settimeout(left)
            self._send(body)
            return self._receive(self._number, deadline)
        except (OSError, LostError) as error:
            why = str(error)
            if not isinstance(error, TimeoutError):
                why = f"connection lost: {why}" if why else "connection lost"
            self.close(why)
            raise LostError(f"{self._name()}: {why}", True) from error
        except AnswerError:
            raise
        except BaseException:
            self.close("interrupted")  # the answer of that call may still come
            raise

    def _send(self, body: bytes) -> None:
        self._socket.sendall(_HEADER.pack(len(body), zlib.crc32(body)) + body)

    def _receive(self, want: int, deadline: float) -> bytes:
        size, checksum = _HEADER.unpack(self._exactly(_HEADER.size, deadline))
        if size > _MAX_BODY or size < _HEADER.size:
            raise LostError(f"a frame of {size} bytes: is that loamd?", True)
        body = self._exactly(size, deadline)
        if zlib.crc32(body) != checksum:
            raise LostError("wrong checksum of a frame", True)
        got, flags = _HEADER.unpack_from(body)
        if flags:
            error = AnswerError(flags, body[_HEADER.size :].decode(errors="replace"))
            if got == want:
                raise error
            if got == 0:  # of the connection, as after a frame that arrived damaged
                raise LostError(f"the node ended it: {error}", True)
        if got != want:
            raise LostError("an answer to another call", True)
        return body[_HEADER.size :]

    def _exactly(self, n: int, deadline: float) -> bytes:
        out = bytearray()
        while len(out) < n:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            part = self._socket.recv(min(n - len(out), 1 << 20))
            if not part:
                raise LostError("", True)
            out += part
        return bytes(out)


def greeting(cluster: str, token: str) -> bytes:
    """What a client begins with."""
    return b"LOAM\x01\x00" + sized(cluster.encode()) + sized(token.encode())
