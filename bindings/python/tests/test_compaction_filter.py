"""Compaction filters, named and in Python, that decide, fail and are interrupted."""

from __future__ import annotations

import gc
import signal
import threading
import weakref

import loamdb
import pytest


class Rules:
    """Removes values that begin with r, gives those that begin with c another."""

    def __init__(self) -> None:
        self.raises: BaseException | None = None
        self.answer: object = None
        self.calls = 0

    def __call__(self, level: int, key: bytes, value: bytes) -> object:
        assert type(level) is int and 0 < level < 7 and type(key) is bytes and type(value) is bytes
        self.calls += 1
        if self.raises is not None:
            raise self.raises
        if key == b"x":
            return self.answer
        if value.startswith(b"r"):
            return False
        if value.startswith(b"c"):
            return bytearray(b"was " + value)
        return b"" if value == b"empty" else None


ENTRIES = {b"a": b"keep", b"b": b"remove", b"c": b"change", b"e": b"empty", b"x": b"x"}


@pytest.mark.parametrize("format", ["leveldb", "native"])
def test_what_a_filter_answers_is_done(path, format):
    rules = Rules()
    with loamdb.open(path, compaction_filter=rules, format=format) as db:
        db[b"old"] = b"r"
        with db.snapshot() as before:
            db.update(ENTRIES)
            db.compact()
            assert dict(db.items()) == {
                b"a": b"keep",
                b"c": b"was change",
                b"e": b"",
                b"old": b"r",
                b"x": b"x",
            }
            assert list(before.items()) == [(b"old", b"r")]
        db.compact()
        assert b"old" not in db and rules.calls > 0
        assert db.metrics()["filter"] == {"removed": 2, "changed": 2, "failed": 0}


@pytest.mark.parametrize("answer", [True, 1, "text", object()])
def test_another_answer_is_a_failure(path, answer):
    rules = Rules()
    rules.answer = answer
    with loamdb.open(path, compaction_filter=rules) as db:
        db.update(ENTRIES)
        with pytest.raises(TypeError):
            db.compact()
        assert dict(db.items()) == ENTRIES
        rules.answer = memoryview(b"view")
        db.resume()
        db.compact()
        assert db[b"x"] == b"view"


def test_an_exception_pauses_compaction_and_loses_nothing(path):
    rules = Rules()
    rules.raises = failure = ValueError("no idea")
    with loamdb.open(path, compaction_filter=rules) as db:
        db.update(ENTRIES)
        with pytest.raises(ValueError, match="no idea") as caught:
            db.compact()
        assert caught.value is failure
        told = db.metrics()
        assert (
            "ValueError: no idea" in told["background_error"]
            and "Rules" in told["background_error"]
        )
        assert told["filter"]["failed"] > 0 and told["read_only"] is None
        assert dict(db.items()) == ENTRIES
        db[b"more"] = b"keep"
        rules.raises = None
        db.resume()
        db.compact()
        assert (
            b"b" not in db and db[b"more"] == b"keep" and db.metrics()["background_error"] is None
        )


def test_an_interrupt_is_raised_and_decides_nothing(path):
    """A signal handler may run inside the filter: the compaction goes on without it."""
    rules = Rules()
    with loamdb.open(path, compaction_filter=rules) as db:
        for i in range(2000):
            db[b"%04d" % i] = b"remove" if i % 2 else b"keep"
        db.flush()
        timer = threading.Timer(0.01, signal.raise_signal, [signal.SIGINT])
        interrupted = False
        try:
            timer.start()  # here, as it waits for the thread
            while True:
                db.compact()
        except KeyboardInterrupt:
            interrupted = True
        timer.join()
        db.resume()
        db.compact()
        assert interrupted and list(db) == [b"%04d" % i for i in range(0, 2000, 2)]


def test_named_filters(path):
    name = loamdb.prefix_filter(b"tmp/", b"\x00,%", "é".encode())
    assert name == "prefix:%74%6d%70%2f,%00%2c%25,%c3%a9"
    with loamdb.open(path, compaction_filter=name) as db:
        db.update({b"tmp/1": b"", b"\x00,%": b"", b"\xc3\xa9x": b"", b"tmp": b"", b"\x00,": b""})
        db.compact()
        assert list(db) == [b"\x00,", b"tmp"]
    with loamdb.open(path, compaction_filter="none") as db:
        db.compact()
        assert list(db) == [b"\x00,", b"tmp"]


@pytest.mark.parametrize("wrong", ["suffix:a", "prefix:", "prefix:%4", ""])
def test_names_that_there_are_not(path, wrong):
    with pytest.raises(loamdb.errors.InvalidArgumentError):
        loamdb.open(path, compaction_filter=wrong)


def test_what_is_no_filter(path):
    with pytest.raises(TypeError):
        loamdb.open(path, compaction_filter=7)


def test_a_filter_is_collected_with_its_database(path):
    class Keeps:
        def __call__(self, level, key, value):
            return None

    keeps = Keeps()
    keeps.db = loamdb.open(path, compaction_filter=keeps)
    keeps.db[b"a"] = b"b"
    keeps.db.compact()
    keeps.db.close()
    gone = weakref.ref(keeps)
    del keeps
    gc.collect()
    assert gone() is None
