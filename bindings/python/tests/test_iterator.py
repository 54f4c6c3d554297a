"""Iterators against a sorted list."""

from __future__ import annotations

import bisect
import random
import signal
import sys
import threading

import loamdb
import pytest


def fill(db, n):
    with db.batch() as b:
        for i in range(n):
            b[b"%05d" % (2 * i)] = b"v%d" % i
    return [(b"%05d" % (2 * i), b"v%d" % i) for i in range(n)]


class Model:
    """An iterator over a list: a gap, as the number of entries before it."""

    def __init__(self, entries, reverse):
        self.entries, self.reverse = entries, reverse
        self.gap = len(entries) if reverse else 0

    def step(self, forward):
        if forward:
            if self.gap == len(self.entries):
                return None
            self.gap += 1
            return self.entries[self.gap - 1]
        if self.gap == 0:
            return None
        self.gap -= 1
        return self.entries[self.gap]

    def next(self):
        return self.step(not self.reverse)

    def prev(self):
        return self.step(self.reverse)

    def seek(self, key):
        self.gap = bisect.bisect_left([k for k, _ in self.entries], key)

    def seek_to_start(self):
        self.gap = 0

    def seek_to_stop(self):
        self.gap = len(self.entries)


def prev(it):
    try:
        return it.prev()
    except StopIteration:
        return None


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("size", [0, 1, 3, 2000])
@pytest.mark.parametrize("flushed", [False, True])
def test_random_walk(db, size, reverse, flushed):
    entries = fill(db, size)
    if flushed:
        db.flush()
    rng = random.Random(size)
    for bounds in [
        (None, None),
        (b"00002", None),
        (None, b"00101"),
        (b"00011", b"02000"),
        (b"5", b"1"),
    ]:
        start, stop = bounds
        within = [
            e for e in entries if (start is None or e[0] >= start) and (stop is None or e[0] < stop)
        ]
        it, model = db.items(start=start, stop=stop, reverse=reverse), Model(within, reverse)
        for _ in range(300):
            action = rng.randrange(10)
            if action == 0:
                key = b"%05d" % rng.randrange(-1, 2 * size + 2)
                it.seek(key)
                model.seek(key)
            elif action == 1:
                edge = rng.choice(["seek_to_start", "seek_to_stop"])
                getattr(it, edge)()
                getattr(model, edge)()
            else:
                forward = rng.random() < 0.6
                for _ in range(rng.choice([1, 1, 1, 2, 3, 50, 600])):
                    got, want = (
                        (next(it, None), model.next()) if forward else (prev(it), model.prev())
                    )
                    assert got == want
                    if want is None:
                        break


def test_ranges(db):
    entries = fill(db, 1500)
    assert list(db.items()) == entries
    assert list(db.items(reverse=True)) == entries[::-1]
    assert list(db.keys()) == list(db) == [k for k, _ in entries]
    assert list(db.values()) == [v for _, v in entries]
    assert list(db.values(prefix=b"0000", reverse=True)) == [b"v4", b"v3", b"v2", b"v1", b"v0"]
    assert list(db.keys(start=b"00003", stop=b"00008")) == [b"00004", b"00006"]
    assert list(db.keys(prefix=b"0000", start=b"00006")) == [b"00006", b"00008"]
    assert list(db.keys(prefix=b"0000", stop=b"00002")) == [b"00000"]
    assert list(db.keys(prefix=b"x")) == list(db.keys(prefix=b"0", start=b"5", stop=b"1")) == []
    assert list(db.items(fill_cache=False)) == entries


def test_empty_bounds(db):
    db[b""] = b"empty"
    db[b"\xff\xff"] = b"high"
    assert list(db) == [b"", b"\xff\xff"]
    assert list(db.keys(prefix=b"")) == list(db.keys(start=b"")) == [b"", b"\xff\xff"]
    assert list(db.keys(stop=b"")) == []
    assert list(db.keys(prefix=b"\xff")) == list(db.keys(prefix=b"\xff\xff")) == [b"\xff\xff"]


def test_sees_one_state(db):
    fill(db, 10)
    it = db.keys()
    db[b"00001"] = b""
    del db[b"00002"]
    assert len(list(it)) == 10
    assert b"00002" not in list(db)


def test_closing(db):
    fill(db, 10)
    with db.items() as it:
        next(it)
    assert it.closed
    with pytest.raises(loamdb.ClosedError):
        next(it)
    it.close()
    assert iter(it) is it


def test_big_values(db):
    values = [bytes([i]) * 300_000 for i in range(20)]
    for i, value in enumerate(values):
        db[b"%02d" % i] = value
    assert list(db.values()) == values
    it = db.values()
    for value in values:
        assert next(it) == value
    assert [it.prev() for _ in values] == values[::-1]


class Interrupt(Exception):
    """What a signal handler raises."""


def interrupt(*_):
    raise Interrupt


@pytest.mark.skipif(sys.platform == "win32", reason="threads have no signals there")
@pytest.mark.parametrize("reverse", [False, True])
def test_turning_back_after_an_interrupt(tmp_path, reverse):
    """A handler that raises in the midst of a loop in C, which looks at signals when it needs
    further entries, leaves the iterator in its gap."""
    interval, before = sys.getswitchinterval(), signal.signal(signal.SIGUSR1, interrupt)
    sys.setswitchinterval(1000)  # the other thread comes when an iterator waits for its block
    try:
        with loamdb.DB(tmp_path / "db") as db:
            keys = [key for key, _ in fill(db, 20000)]
            for _ in range(100):
                if turn_back(db, sorted(keys, reverse=reverse), reverse):
                    break
            else:
                pytest.fail("no signal came within the loop")
    finally:
        sys.setswitchinterval(interval)
        signal.signal(signal.SIGUSR1, before)


def turn_back(db, keys, reverse):
    it, seen, go = db.keys(reverse=reverse), [], threading.Lock()
    main = threading.get_ident()

    def send():
        with go:
            signal.pthread_kill(main, signal.SIGUSR1)

    go.acquire()
    thread = threading.Thread(target=send)
    thread.start()
    inside = True
    try:
        go.release()
        seen.extend(it)
        inside = False
        thread.join()
        signal.raise_signal(signal.SIGUSR1)
    except Interrupt:
        pass
    thread.join()
    assert seen == keys[: len(seen)]
    if not inside or not 0 < len(seen) < len(keys):
        return False
    assert it.prev() == seen[-1]
    assert next(it) == seen[-1]
    assert list(it) == keys[len(seen) :]
    return True
