"""loamdb.connect: servers run beside, on ports of the loopback interface. The environment variable
LOAM_LOAMD is the program, which the makefile builds where Go is there."""

from __future__ import annotations

import array
import math
import os
import pathlib
import queue
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from typing import Any

import loamdb
import pytest
from loamdb import remote

PROGRAM = os.environ.get("LOAM_LOAMD") or shutil.which("loamd")

pytestmark = pytest.mark.skipif(
    not PROGRAM or sys.platform == "win32", reason="LOAM_LOAMD names no loamd: nothing is tested"
)


def free_ports(n: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Node:
    """A loamd of a test."""

    def __init__(self, path: pathlib.Path, id: str, port: int, *options: str, **env: str) -> None:
        self.address = f"127.0.0.1:{port}"
        self._command = [
            PROGRAM or "loamd",
            "run",
            *("--id", id, "--data", str(path / id), "--addr", self.address),
            *("--election-timeout", "300ms", *options),
        ]
        self._env = os.environ | env
        self._log = (path / f"{id}.log").open("ab")
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=self._log, env=self._env
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(b"loamd: node"), pathlib.Path(self._log.name).read_text()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(how)
        self.process.communicate()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Generator[Node]:
    node = Node(tmp_path_factory.mktemp("loamd"), "a", free_ports(1)[0])
    yield node
    node.stop()
    assert node.process.returncode == 0


# A slow machine is no reason for a call to fail.
PATIENT = {"timeout": 300, "try_timeout": 300}


@pytest.fixture
def db(node: Node) -> Generator[remote.Remote]:
    with loamdb.connect(f"loam://{node.address}", **PATIENT) as db:
        db.clear()
        yield db


def test_single_keys(db):
    assert db.get(b"a") is None and db.get(b"a", b"none") == b"none" and b"a" not in db
    db[b"a"] = bytearray(b"1")
    db.put(b"", b"empty key")
    db.put(memoryview(b"\x00\xff"), b"")
    assert db[b"a"] == b"1" and db[b""] == b"empty key" and db[b"\x00\xff"] == b""
    assert b"a" in db and db.has(b"\x00\xff")
    assert db.multi_get([b"a", b"x", b"\x00\xff", b"a"]) == [b"1", None, b"", b"1"]
    del db[b"a"]
    db.delete(b"a")
    with pytest.raises(KeyError):
        db[b"a"]
    long = os.urandom(1 << 20)
    db[b"long"] = long
    assert db[b"long"] == long
    assert len(db) == 3 and bool(db)


def test_batches(db):
    with db.batch() as b:
        b[b"a"] = b"1"
        b.delete(b"a")
        b.put(b"a", b"2")
        b[b"b"] = b"3"
        del b[b"b"]
        assert len(b) == 5
    assert dict(db.items()) == {b"a": b"2"}
    with db.batch() as b:
        b[b"a"] = b"1"
        b.write()
        assert len(b) == 0
        db[b"a"] = b"2"  # which the end of the block leaves
    assert db[b"a"] == b"2"
    with (
        pytest.raises(loamdb.errors.InvalidArgumentError, match="of the write before"),
        db.batch(once="a batch that is written twice") as b,
    ):
        b[b"a"] = b"2"
        b.write()
        b[b"c"] = b"lost"
    with pytest.raises(ZeroDivisionError), db.batch() as b:
        b[b"c"] = b"1"
        1 / 0  # noqa: B018
    assert b"c" not in db
    db.update({b"c": b"1", b"d": b"2"})
    assert list(db) == [b"a", b"c", b"d"]
    db.delete_range(b"b", b"d")
    assert list(db) == [b"a", b"d"]
    with pytest.raises(ValueError):
        db.delete_range(b"d", b"b")
    db.clear(start=b"b")
    assert list(db) == [b"a"]
    db.update({b"b": b"", b"ba": b"", b"c": b""})
    db.clear(prefix=b"b")
    assert list(db) == [b"a", b"c"]


def test_iterators(db):
    rnd = random.Random(28)
    model = {b"%03d" % rnd.randrange(1000): os.urandom(rnd.randrange(2000)) for _ in range(300)}
    db.update(model)
    for _ in range(40):
        bounds = {}
        for name in ("start", "stop", "prefix"):
            if rnd.random() < 0.4:
                key = b"%03d" % rnd.randrange(1000)
                bounds[name] = key[: rnd.randrange(3)] if name == "prefix" else key
        reverse = rnd.random() < 0.5
        want = sorted(
            (
                (k, v)
                for k, v in model.items()
                if k >= bounds.get("start", b"")
                and k < bounds.get("stop", b"\xff")
                and k.startswith(bounds.get("prefix", b""))
            ),
            reverse=reverse,
        )
        assert list(db.items(**bounds, reverse=reverse)) == want
        assert list(db.keys(**bounds, reverse=reverse)) == [k for k, _ in want]
        assert list(db.values(**bounds, reverse=reverse)) == [v for _, v in want]
        assert db.count(**bounds) == len(want)
    assert list(reversed(db)) == sorted(model, reverse=True)
    with db.items() as items:
        next(items)
    assert list(items) == []
    db[b"\xff\xff"] = b"last"
    assert list(db.keys(prefix=b"\xff")) == [b"\xff\xff"]


def test_states(db):
    db.update({b"%04d" % i: b"x" * 200 for i in range(1000)})
    items, keys = db.items(), db.keys(reverse=True)
    with db.snapshot() as s:
        db.clear()
        db[b"new"] = b"1"
        assert len(s) == 1000 and s.get(b"0999") == b"x" * 200 and b"new" not in s
        assert s.multi_get([b"0000", b"new"]) == [b"x" * 200, None]
        assert list(s)[:2] == [b"0000", b"0001"]
    assert len(list(items)) == 1000 and len(list(keys)) == 1000
    with pytest.raises(loamdb.errors.ClosedError):
        s.get(b"a")
    assert list(db) == [b"new"]
    assert db.local()[b"new"] == b"1" and list(db.local(10).keys()) == [b"new"]


def test_conditions(db):
    assert db.put_if_absent(b"a", b"1") and not db.put_if_absent(b"a", b"2")
    assert not db.compare_and_swap(b"a", None, b"3") and db.compare_and_swap(
        b"a", b"1", b"long" * 99
    )
    assert not db.compare_and_swap(b"a", b"1", b"4")
    assert db.compare_and_swap(b"a", b"long" * 99, b"")
    assert not db.compare_and_swap(b"a", None, b"5") and db.compare_and_swap(b"a", b"", None)
    assert b"a" not in db
    for _ in range(3):
        assert db.put_if_absent(b"once", b"1", once="order 17")
    db.put(b"once", b"2", once=b"order 17")
    assert db[b"once"] == b"1"


def test_transactions(db):
    db[b"a"] = b"1"
    with db.transaction() as tx:
        assert tx[b"a"] == b"1" and b"b" not in tx
        tx[b"b"] = tx[b"a"] + b"2"
        del tx[b"a"]
        assert tx.get(b"a") is None and tx[b"b"] == b"12" and b"b" not in db
    assert dict(db.items()) == {b"b": b"12"}
    with pytest.raises(loamdb.errors.ConflictError), db.transaction() as tx:
        assert b"a" not in tx
        db[b"a"] = b"faster"
        tx[b"b"] = b"lost"
    with pytest.raises(loamdb.errors.TransactionDoneError):
        tx.get(b"a")
    assert db[b"b"] == b"12"

    def add(tx):
        n = int(tx.get(b"n", b"0")) + 1
        tx[b"n"] = b"%d" % n
        return n

    threads = [
        threading.Thread(target=lambda: [db.update(add, timeout=300) for _ in range(10)])
        for _ in range(4)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert db[b"n"] == b"40" and db.update(add) == 41


def test_limits(db):
    with pytest.raises(loamdb.errors.TooLargeError):
        db[b"a"] = bytes(9 << 20)
    with pytest.raises(ValueError):
        db.put(b"a", b"", once=bytes(256))
    for k in (b"a", b"b", b"c"):
        db[k] = bytes(3 << 20)
    with pytest.raises(loamdb.errors.TooLargeError):
        db.multi_get([b"a", b"b", b"c"])
    assert [len(v) for v in db.values()] == [3 << 20] * 3


@pytest.mark.parametrize("url", ["a:7070", "http://a:1", "loam://", "loam:///"])
def test_urls(url):
    with pytest.raises(loamdb.errors.InvalidArgumentError):
        loamdb.connect(url)


def no_bytes(db: Any, x: Any) -> list[Callable[[], Any]]:
    """Calls with something that is no bytes."""
    tx = remote.RemoteTransaction.__new__(remote.RemoteTransaction)
    tx._done, tx._read, tx._written = False, {}, {}
    return [
        *(lambda f=f: f(x) for f in (db.get, db.has, db.delete, tx.get, tx.delete)),
        *(lambda f=f: f(x, b"") for f in (db.put, tx.put, db.delete_range, db.put_if_absent)),
        *(lambda f=f: f(b"", x) for f in (db.put, tx.put, db.delete_range, db.put_if_absent)),
        lambda: db.compare_and_swap(b"", x, b""),
        lambda: db.multi_get([x]),
        lambda: db.put(b"", b"", once=x if x != "1" else [x]),
        lambda: db.batch().put(b"", x),
        *(lambda name=name: db.items(**{name: x}) for name in ("prefix", "start", "stop")),
    ]


@pytest.mark.parametrize("x", [3, 0, "1", [1], array.array("u", "1")])
def test_what_is_no_bytes(x):
    with loamdb.connect("loam://127.0.0.1:1", timeout=0) as db:
        for call in no_bytes(db, x):
            with pytest.raises(TypeError, match="a bytes-like object is required"):
                call()


def test_times():
    for time in (-1.0, math.nan):
        for name in ("timeout", "try_timeout"):
            with pytest.raises(loamdb.errors.InvalidArgumentError, match=f"^{name} is "):
                loamdb.connect("loam://a:1", **{name: time})
        with (
            loamdb.connect("loam://a:1") as db,
            pytest.raises(loamdb.errors.InvalidArgumentError, match="^max_lag is "),
        ):
            db.local(time)
    with loamdb.connect("loam://a:1") as db:
        assert [db.local(t)._view() for t in (None, math.inf, 0, 0.5)] == [
            b"\1" + remote._wire.number(n) for n in (0, 0, 1, 500)
        ]


BAD = (
    *("a", "a:", ":1", "[]:1", "a:x", "a:-1", "a:+1", "a:0", "a:65536", "a:000001", "a:\u00b2"),
    *("::1:7070", "[::1]", "[::1:7070", "[::1]x:1", "a b:1", "a:1:1"),
)


@pytest.mark.parametrize("address", BAD)
def test_addresses(address):
    with pytest.raises(loamdb.errors.InvalidArgumentError, match="is not host:port") as caught:
        loamdb.connect(f"loam://b:1,{address}")
    assert str(caught.value).startswith(f"{address!r} in ")


def test_hosts():
    loamdb.connect("loam://a:1, [::1]:65535,127.0.0.1:7070,[fe80::1%eth0]:1/").close()
    for host in ("[::1]", "a" * 64):  # the second one is above what a name may have
        address = f"{host}:{free_ports(1)[0]}"
        with (
            loamdb.connect(f"loam://{address}", timeout=0.05) as db,
            pytest.raises(loamdb.errors.UnavailableError) as caught,
        ):
            db.get(b"a")
        assert str(caught.value).startswith(f"{address}: ")


def test_nobody_there():
    with (
        loamdb.connect(f"loam://127.0.0.1:{free_ports(1)[0]}", timeout=0.05) as db,
        pytest.raises(loamdb.errors.UnavailableError),
    ):
        db.get(b"a")
    with pytest.raises(loamdb.errors.ClosedError):
        db.get(b"a")


def test_refused(db, node):
    with (
        loamdb.connect(f"loam://{node.address}", cluster="other", **PATIENT) as other,
        pytest.raises(ConnectionError, match='of cluster "other", and this node of "loam"'),
    ):
        other.get(b"a")


class Failing:
    """A node in this process. It takes one answer of a list for each call but status; None: it
    closes the connection; ENDED: it does so as a node that reads a damaged frame; SILENT: it reads
    on, and says nothing. Of a large call it reads the head, and nothing any more."""

    ENDED = b"malformed: wrong checksum of a frame"
    SILENT = b"nothing"

    def __init__(
        self, *answers: bytes | None, status: bytes = b'{"leader_addr": "", "members": []}'
    ) -> None:
        self._answers = list(answers)
        self._status = status
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stalled: list[socket.socket] = []
        self.answered: queue.SimpleQueue[Any] = queue.SimpleQueue()  # an answer for each call
        self.url = f"loam://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                s, _ = self._listener.accept()
            except OSError:
                return  # closed
            threading.Thread(target=self._serve, args=(s,), daemon=True).start()

    def _serve(self, s: socket.socket) -> None:
        # the client may be gone
        with suppress(OSError), s, s.makefile("rb") as f:
            number = 0
            while head := f.read(8):
                size = int.from_bytes(head[:4], "little")
                if size > 1 << 20:
                    self._stalled.append(s.dup())
                    return
                body = f.read(size)
                answer: Any = b"\0\0"  # of a greeting
                if number:
                    answer = self._status
                if number and body[8] != 1:
                    answer = self._answers.pop(0)
                if number:
                    self.answered.put(answer)
                if answer is None:
                    return
                if answer is Failing.SILENT:
                    while f.read(1):
                        pass
                    return
                say = (int.from_bytes(body[:4], "little") if number else 0).to_bytes(8, "little")
                if answer is Failing.ENDED:
                    say = struct.pack("<II", 0, 1 << 31)
                s.sendall(struct.pack("<II", len(say + answer), zlib.crc32(say + answer)))
                s.sendall(say + answer)
                if answer is Failing.ENDED:
                    return
                number += 1

    def close(self) -> None:
        self._listener.close()
        for s in self._stalled:
            s.close()


def wait_for_reads(monkeypatch, *nodes: Failing) -> None:
    """Calls of these nodes time out when the node has read them and is silent, never before. A
    client without time, _timeout 0, gives them up then."""
    receive = remote._wire.Connection._receive

    def wait(self, want: int, deadline: float) -> bytes:
        node = next(n for n in nodes if n.url.endswith(self._name()))
        if want and node.answered.get() is Failing.SILENT:  # 0: the greeting
            raise TimeoutError("timed out")
        return receive(self, want, deadline)

    monkeypatch.setattr(remote._wire.Connection, "_receive", wait)


def test_a_connection_is_lost():
    node = Failing(b"\1\1", None, b"\1A", None, b"\1", None, b"\1")
    with closing(node), loamdb.connect(node.url) as db:
        with db.snapshot() as s:
            assert db.get(b"a") == b"A"  # the second try
            with pytest.raises(loamdb.errors.SnapshotGoneError):
                s.get(b"a")
        with pytest.raises(loamdb.errors.UnknownOutcomeError):
            db.put(b"a", b"1")  # no second one
        db.put(b"a", b"1")
        db.put(b"a", b"1", once="order 17")  # the second one, too
        assert not node._answers


def test_a_connection_is_silent(monkeypatch):
    """A call without an answer in time closes its connection. Others are made over another one."""
    node = Failing(b"\1\1", *[Failing.SILENT] * 3, b"\1A", b"\1")
    wait_for_reads(monkeypatch, node)
    with closing(node), loamdb.connect(node.url, **PATIENT) as db, db.snapshot() as s:
        db._looked = float("inf")  # nobody looks for the leader
        db._timeout = 0
        with pytest.raises(loamdb.errors.SnapshotGoneError):
            s.get(b"a")
        with pytest.raises(loamdb.errors.SnapshotGoneError):
            s.get(b"a")  # which is not sent
        for call, error in (
            (lambda: db.put(b"a", b"1"), loamdb.errors.UnknownOutcomeError),
            (lambda: db.get(b"a"), loamdb.errors.UnavailableError),
        ):
            db._connection(db._home, 300).lock.release()
            with pytest.raises(error):
                call()
        db._timeout = 300
        assert db.get(b"a") == b"A"
        db.put(b"a", b"1")
        assert not node._answers


def test_idle_connections_are_lost_together(monkeypatch):
    """What one connection shows, no later call has to learn from another one."""
    node = Failing(b"\1A", b"\1\1", Failing.SILENT, b"\1A", b"\1A", b"")
    wait_for_reads(monkeypatch, node)
    with closing(node), loamdb.connect(node.url, **PATIENT) as db:
        db._looked = float("inf")  # nobody looks for the leader
        busy = [db._connection(db._home, 300) for _ in range(3)]
        busy[0].lock.release()
        busy[1].lock.release()
        assert db.get(b"a") == b"A" and db._connection(db._home, 300) is busy[0]
        busy[2].lock.release()  # and 0 is locked
        busy[1].lock.acquire()
        with db.snapshot() as s:  # on 2
            busy[0].lock.release()
            busy[1].lock.release()
            db._timeout = 0
            with pytest.raises(loamdb.errors.UnavailableError):
                db.get(b"a")
            db._timeout = 300
            assert [c.usable() for c in busy] == [False, False, True]
            assert s.get(b"a") == b"A" == db.get(b"a")


def test_a_node_without_a_leader(monkeypatch):
    """A write that one node could not make in time is not made again, and the next one goes to
    another node."""
    leaderless = Failing(Failing.SILENT)
    node = Failing(b"\1")
    wait_for_reads(monkeypatch, leaderless, node)
    url = f"{leaderless.url},{node.url.removeprefix('loam://')}"
    with closing(leaderless), closing(node), loamdb.connect(url, **PATIENT) as db:
        db._home = db._given[0]
        db._looked = float("inf")  # nobody looks for the leader
        db._connection(db._home, 300).lock.release()
        db._timeout = 0
        with pytest.raises(loamdb.errors.UnknownOutcomeError):
            db.put(b"a", b"1")
        db._timeout = 300
        db.put(b"a", b"1")
        assert not node._answers


@pytest.mark.parametrize("status", [b"", b"\xff", b"[]", b"{}", b'{"members": [{"addr": 1}]}'])
def test_a_malformed_status(status):
    node = Failing(b"\1A", status=status)
    with closing(node), loamdb.connect(node.url, **PATIENT) as db:
        assert db.get(b"a") == b"A"
        if not status.startswith((b"[", b"{")):
            with pytest.raises(loamdb.errors.UnavailableError, match="^malformed answer$"):
                db.status()


@pytest.mark.parametrize("bad", [b"", b"\2", b"\0\0", b"\2A"])
def test_a_malformed_answer(bad):
    node = Failing(b"\1\1", *[bad] * 6, b"\1\0")
    with closing(node), loamdb.connect(node.url, **PATIENT) as db, db.snapshot() as s:
        for read in (db.get, db.has, s.get, s.has, lambda key: db.multi_get([key])):
            with pytest.raises(loamdb.errors.UnavailableError, match="^malformed answer$"):
                read(b"a")
        with pytest.raises(loamdb.errors.UnknownOutcomeError):
            db.put(b"a", b"1")
        with pytest.raises(loamdb.errors.UnavailableError, match="^malformed answer$"):
            s.items()  # there are more, and none came
        assert not node._answers
        node._answers.append(b"")  # to the release
    number = remote._wire.Fields(b"\xff" * 1000)
    with pytest.raises(loamdb.errors.UnavailableError):
        number.number()
    assert number._at == 10  # a long one would take a time that is quadratic


def test_a_move_of_an_iterator_fails():
    chunks = (b"\1\0\1a\0011", b"\1\0", b"\0\0\1b\11", b"\0\0\1b\0012")
    node = Failing(*chunks)
    with closing(node), loamdb.connect(node.url, **PATIENT) as db, db.items() as it:
        assert next(it) == (b"a", b"1")
        for _ in range(2):
            with pytest.raises(loamdb.errors.UnavailableError, match="^malformed answer$"):
                next(it)
        assert next(it) == (b"b", b"2") and next(it, None) is None


def test_a_frame_arrives_damaged():
    node = Failing(b"\1\1", Failing.ENDED, b"\1A", Failing.ENDED, b"\1\1", Failing.ENDED)
    lost = node.url.removeprefix("loam://") + ": connection lost: the node ended it: malformed: "
    with closing(node), loamdb.connect(node.url, **PATIENT) as db:
        with db.snapshot() as s:
            assert db.get(b"a") == b"A"  # the second try
            with pytest.raises(loamdb.errors.SnapshotGoneError, match=f"^{lost}"):
                s.get(b"a")
        with pytest.raises(loamdb.errors.UnknownOutcomeError, match=f"^{lost}"):
            db.put(b"a", b"1")
        with (
            db.snapshot() as s,
            pytest.raises(loamdb.errors.SnapshotGoneError, match=f"^{lost}"),
        ):
            s.get(b"a")
        assert not node._answers


def test_timeouts_without_end():
    node = Failing(b"\1A", b"\1", b"\1\1", b"\1A", b"")
    with (
        closing(node),
        loamdb.connect(node.url, timeout=float("inf"), try_timeout=float("inf")) as db,
    ):
        assert db.get(b"a") == b"A"
        db.put(b"a", b"1")
        with db.snapshot() as s:
            assert s.get(b"a") == b"A"


def test_connections_are_busy():
    """A call that waits for those of other threads ends in time, and was not made."""
    node = Failing(b"\1\1")
    with closing(node), loamdb.connect(node.url, **PATIENT) as db, db.snapshot() as s:
        busy = [db._connection(db._home, 300) for _ in range(remote._POOL)]  # locked
        db._timeout = 0.05
        with pytest.raises(loamdb.errors.UnavailableError, match="other threads took too long"):
            db.get(b"a")
        with pytest.raises(loamdb.errors.UnavailableError, match="other threads took too long"):
            db.put(b"a", b"1")
        with pytest.raises(loamdb.errors.UnavailableError, match="other threads took too long"):
            s.get(b"a")
        for connection in busy:
            connection.lock.release()
        node._answers += [b"\1A", b"\1B", b""]
        db._timeout = 300
        assert db.get(b"a") == b"A" and s.get(b"a") == b"B"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda db: db.get(b"a"), loamdb.ClosedError),
        (lambda db: db.put(b"a", b"1"), loamdb.errors.UnknownOutcomeError),
        (lambda db: db.put(b"a", b"1", once="order 17"), loamdb.errors.UnknownOutcomeError),
    ],
)
def test_a_close_ends_calls(call, error):
    node = Failing(Failing.SILENT)
    ended: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run(db: remote.Remote) -> None:
        try:
            ended.put(call(db))
        except loamdb.Error as e:
            ended.put(e)

    with closing(node), loamdb.connect(node.url, **PATIENT) as db:
        thread = threading.Thread(target=run, args=(db,))
        thread.start()
        while node.answered.get() is not Failing.SILENT:
            pass
        db.close()
        assert type(ended.get(timeout=60)) is error
        thread.join()


def test_a_node_reads_nothing():
    node = Failing()
    with closing(node), loamdb.connect(node.url, timeout=0.2) as db:
        for _ in range(2):
            with pytest.raises((loamdb.errors.UnknownOutcomeError, loamdb.errors.UnavailableError)):
                db.put(b"a", bytes(7 << 20))  # more than the network takes


def test_fork(db):
    db[b"a"] = b"1"
    for _ in range(2):
        with db._mutex:  # as another thread may have it
            child = os.fork()
            if child == 0:
                os._exit(0 if not db._mutex.locked() and db[b"a"] == b"1" else 1)
        assert os.waitpid(child, 0)[1] == 0 and db[b"a"] == b"1"


def test_token_and_tls(tmp_path):
    subprocess.run([PROGRAM, "certs", tmp_path / "tls", "127.0.0.1"], check=True)
    port = free_ports(1)[0]
    node = Node(tmp_path, "t", port, "--tls", str(tmp_path / "tls"), LOAM_TOKEN="open sesame")
    try:
        ca = tmp_path / "tls" / "ca.pem"
        url = f"loams://{node.address}"
        with loamdb.connect(url, tls=ca, token="open sesame", **PATIENT) as db:
            db[b"a"] = b"1"
            assert db[b"a"] == b"1"
        with (
            loamdb.connect(url, tls=ca, token="sesame", **PATIENT) as db,
            pytest.raises(loamdb.errors.RefusedError, match="wrong token"),
        ):
            db[b"a"] = b"2"
        with (
            loamdb.connect(url, token="open sesame", timeout=0.5) as db,
            pytest.raises(loamdb.errors.UnavailableError),  # an unknown authority
        ):
            db.get(b"a")
    finally:
        node.stop()


def test_a_leader_is_killed(tmp_path):
    ports = dict(zip("abc", free_ports(3), strict=True))
    peers = ",".join(f"{id}=127.0.0.1:{port}" for id, port in ports.items())
    nodes = {id: Node(tmp_path, id, port, "--peers", peers) for id, port in ports.items()}
    url = "loam://" + ",".join(n.address for n in nodes.values())
    try:
        with loamdb.connect(url, timeout=60) as db:
            for i in range(20):
                db.put(b"%d" % i, b"1", once=f"first {i}")
            leader = ""
            while not leader:  # it may have been lost meanwhile; a write waits for the next one
                db.put(b"0", b"1", once="first 0")
                leader = db.status()["leader"]
            with db.snapshot() as s:
                nodes[leader].stop(signal.SIGKILL)
                for i in range(20):
                    db.put(b"%d" % i, b"2", once=f"second {i}")
                assert set(db.values()) == {b"2"} and len(db) == 20
                try:
                    assert set(s.values()) == {b"1"}
                except loamdb.errors.SnapshotGoneError:
                    pass  # it was the leader's
            nodes[leader].start()
            with loamdb.connect(f"loam://{nodes[leader].address}", timeout=60) as back:
                assert set(back.values()) == {b"2"}
    finally:
        for n in nodes.values():
            if n.process.poll() is None:
                n.stop()
