"""What callbacks may call, on which thread comparators run, and how interrupts reach them."""

from __future__ import annotations

import array
import ctypes
import gc
import os
import signal
import threading

import loamdb
import pytest
from test_process import run


def order(a: bytes, b: bytes) -> int:
    return (a > b) - (a < b)


# What each call of a callback gives: True where it is refused.
READS = {
    "get": lambda db: db.get(b"1"),
    "has": lambda db: b"1" in db,
    "multi_get": lambda db: db.multi_get([b"1", b"2"]),
    "items": lambda db: next(iter(db.items())),
    "snapshot": lambda db: db.snapshot().close(),
}
WRITES = {
    "put": lambda db: db.put(b"1", b"new"),
    "delete": lambda db: db.delete(b"1"),
    "update": lambda db: db.update({b"1": b"new"}),
    "flush": lambda db: db.flush(),
    "compact": lambda db: db.compact(),
    "transaction": lambda db: db.transaction(),
    "keyspace": lambda db: db.keyspace("other"),
    "close": lambda db: db.close(),
}


class Calls:
    """Makes a call once, when it is armed."""

    def __init__(self, call) -> None:
        self.call, self.db, self.said = call, None, []

    def __call__(self) -> None:
        db, self.db = self.db, None
        if db is not None:
            try:
                self.call(db)
                self.said.append(None)
            except loamdb.Error as e:
                self.said.append(type(e))


def in_comparator(path, calls):
    def compare(a, b):
        calls()
        return order(a, b)

    db = loamdb.open(path, comparator=compare, comparator_name="c")
    for i in range(10):
        db.put(b"%d" % i, b"v")
    calls.db = db
    db.get(b"5")
    return db


def in_filter(path, calls):
    db = loamdb.open(path, compaction_filter=lambda level, key, value: calls())
    for i in range(10):
        db.put(b"%d" % i, b"v")
    calls.db = db
    db.compact()
    return db


def in_merge(path, calls):
    def last(key, value, operands):
        calls()
        return operands[-1]

    db = loamdb.open(path, merge_operator=loamdb.MergeOperator("last", last))
    db.put(b"1", b"v")
    db.merge(b"m", b"v")
    calls.db = db
    db.get(b"m")
    return db


@pytest.mark.parametrize("callback", [in_comparator, in_filter, in_merge])
@pytest.mark.parametrize("name", [*READS, *WRITES])
def test_a_callback_gets_an_answer_at_once(path, callback, name):
    refused = name in WRITES or callback is in_comparator
    calls = Calls((READS | WRITES)[name])
    db = callback(path, calls)
    assert calls.said == [loamdb.InUseError if refused else None]
    assert not db.closed
    db.put(b"after", b"v")
    assert db[b"after"] == b"v"
    db.close()


HANDLER = """
import signal, sys, loamdb
said, db = [], None
def save(*args):
    try:
        db.put(b"saved", b"v")
        said.append("saved")
    except loamdb.InUseError:
        said.append("refused")
signal.signal(signal.SIGTERM, save)
calls = 0
def compare(a, b):
    global calls
    calls += 1
    if calls % 100 == 50:
        signal.raise_signal(signal.SIGTERM)
    return (a > b) - (a < b)
db = loamdb.open(sys.argv[1], comparator=compare, comparator_name="c")
for i in range(200):
    db.put(b"%d" % (i * 7919 % 200), b"v")
list(db.items())
calls = 0
assert "refused" in said and len(said) > 10, said
save()
assert said[-1] == "saved" and db[b"saved"] == b"v"
db.close()
print("ended")
"""


def test_a_signal_handler_that_uses_the_database_in_a_comparator(path):
    assert run(HANDLER, str(path)).strip() == "ended"


def test_comparators_are_called_on_the_thread_of_the_call(path):
    threads = set()

    def compare(a, b):
        threads.add(threading.get_ident())
        return order(a, b)

    db = loamdb.open(path, comparator=compare, comparator_name="c")
    keys = [b"%05d" % (i * 7919 % 20000) for i in range(20000)]
    for key in keys:
        db.put(key, b"v")
    assert db[keys[0]] == b"v"
    assert [*db.keys()] == sorted(keys)
    with db.batch() as batch:
        for i in range(20000):
            batch.put(b"batch %05d" % (i * 7919 % 20000), b"v")
    assert db.count(prefix=None, start=b"batch", stop=b"c") == 20000
    assert threads == {threading.get_ident()}
    db.close()


def test_a_write_needs_few_comparisons(path):
    calls = [0]

    def compare(a, b):
        calls[0] += 1
        return order(a, b)

    def cost(keys, name):
        db = loamdb.open(path / name, comparator=compare, comparator_name="c")
        calls[0] = 0
        for key in keys:
            db.put(key, b"v")
        assert db[keys[0]] == b"v"
        n = calls[0]
        db.close()
        return n / len(keys)

    path.mkdir()
    ascending = [b"%05d" % i for i in range(4096)]
    shuffled = [b"%05d" % (i * 2399 % 4096) for i in range(4096)]
    assert cost(ascending, "ascending") < 4
    assert cost(shuffled, "shuffled") < 12  # the logarithm


def interrupting(after):
    """A comparator in whose after-th call a handler raises KeyboardInterrupt."""
    calls = [0]

    def compare(a, b):
        calls[0] += 1
        if calls[0] == after:
            signal.raise_signal(signal.SIGINT)
        return order(a, b)

    return compare, calls


def test_an_interrupt_ends_the_order_of_a_large_batch(path):
    compare, calls = interrupting(1000)
    db = loamdb.open(path, comparator=compare, comparator_name="c")
    batch = db.batch()
    for i in range(20000):
        batch.put(b"%05d" % (i * 7919 % 20000), b"v")
    with pytest.raises(KeyboardInterrupt):
        batch.write()
    assert calls[0] < 3000  # of 280,000
    assert db.count() == 20000  # and it was written
    db.close()


def test_an_interrupt_ends_a_load(path):
    compare, calls = interrupting(5000)
    db = loamdb.open(path, comparator=compare, comparator_name="c")
    entries = [(b"%05d" % (i * 7919 % 20000), b"v" * 100) for i in range(20000)]
    with pytest.raises(KeyboardInterrupt):
        db.bulk_load(entries, memory=1 << 20)
    assert calls[0] < 9000
    assert db.count() == 0
    db.bulk_load(entries)
    assert db.count() == 20000
    db.close()


def test_a_load_that_its_entries_end_compares_no_more(path):
    threads, calls = set(), [0]

    def compare(a, b):
        calls[0] += 1
        threads.add(threading.get_ident())
        return order(a, b)

    def entries():
        for i in range(20000):
            yield b"%05d" % (i * 7919 % 20000), b"v" * 100
        calls[0] = 0
        raise ValueError("no more")

    db = loamdb.open(path, comparator=compare, comparator_name="c")
    with pytest.raises(ValueError, match="no more"):
        db.bulk_load(entries(), memory=1 << 20)
    assert calls[0] == 0
    assert threads <= {threading.get_ident()}
    db.close()


def test_a_database_that_goes_in_a_comparator_is_closed(path):
    """The collector runs where Python code runs."""
    box = {}

    def compare(a, b):
        box.pop("other", None)
        return order(a, b)

    path.mkdir()
    db = loamdb.open(path / "db", comparator=compare, comparator_name="c")
    for i in range(10):
        db.put(b"%d" % i, b"v")
    ended = threading.Event()

    class Log:
        def log(self, *args):
            pass

        def __del__(self):
            ended.set()

    box["other"] = loamdb.open(path / "other", logger=Log())
    assert db[b"5"] == b"v"
    assert ended.wait(60)
    loamdb.open(path / "other").close()
    db.close()


def test_a_table_writer_closed_by_its_comparator(path, tmp_path):
    box = {}

    def compare(a, b):
        writer = box.pop("writer", None)
        if writer is not None:
            writer.close()
        return order(a, b)

    writer = box["writer"] = loamdb.TableWriter(
        tmp_path / "table", comparator=compare, comparator_name="c"
    )
    writer.put(b"a", b"v")
    writer.put(b"b", b"v")
    assert not box
    with pytest.raises(loamdb.ClosedError):
        writer.put(b"c", b"v")


@pytest.mark.parametrize("how", ["plain", "raises", "refers"])
@pytest.mark.parametrize("owner", ["database", "keyspace", "table"])
def test_the_collector_closes_what_callbacks_refer_to(path, tmp_path, owner, how):
    def once():
        box = {}

        def full(key, value, operands):
            if how == "raises":
                raise ValueError("no")
            box.get("owner")
            return operands[-1]

        def compare(a, b):
            box.get("owner")
            return order(a, b)

        if owner == "table":
            writer = loamdb.TableWriter(tmp_path / "table", comparator=compare, comparator_name="c")
            writer.put(b"a", b"v")
            box["owner"] = writer
            return
        operator = loamdb.MergeOperator("m", full)
        db = loamdb.open(path, merge_operator=operator if owner == "database" else None)
        where = db.keyspace("k", merge_operator=operator) if owner == "keyspace" else db
        if how == "refers":
            box["owner"] = db
        where.merge(b"a", b"1")
        try:
            where.get(b"a")
        except loamdb.MergeFailedError:
            pass

    once()
    gc.collect()
    gc.collect()
    if owner == "table":
        assert not [name for name in os.listdir(tmp_path) if name.startswith("table")]
    else:
        merge = loamdb.MergeOperator("m", lambda *args: b"") if owner == "database" else None
        loamdb.open(path, merge_operator=merge).close()


class Mixed(ctypes.Structure):
    _fields_ = [("n", ctypes.c_int), ("o", ctypes.py_object)]


class Numbers(ctypes.Structure):
    _fields_ = [("Ouw", ctypes.c_int), ("f", ctypes.c_double)]


@pytest.mark.parametrize(
    "value",
    [
        (ctypes.py_object * 2)(b"a", b"b"),
        (ctypes.c_char_p * 1)(b"a"),
        array.array("u", "text"),
        Mixed(1, "object"),
    ],
    ids=["objects", "addresses", "characters", "a record with an object"],
)
def test_addresses_and_characters_are_no_bytes(db, value):
    view = db.prefixed(b"p/")
    for call in (
        lambda: db.prefixed(value),
        lambda: view.put(value, b"v"),
        lambda: view.get(value),
        lambda: view.update({b"a": b"b"}) or view.multi_get([b"a", value]),
        lambda: view.clear() or value in view,
        lambda: view.keys(start=value),
        lambda: view.keys().seek(value),
        lambda: view.batch().put(value, b"v"),
        lambda: view.batch().delete_range(b"a", value),
        lambda: db.transaction().in_(view).put(value, b"v"),
        lambda: loamdb.prefix_filter(value),
        lambda: db.put(b"k", value),
        lambda: db.get(value),
        lambda: db.delete_range(b"a", value),
        lambda: db.put_ttl(b"k", value, 1),
        lambda: db.compare_and_swap(b"k", None, value),
        lambda: db.batch().put(b"k", value),
        lambda: db.bulk_load([(b"k", value)]),
    ):
        with pytest.raises(TypeError):
            call()
    assert db.count() == 0


def test_numbers_are_bytes(db):
    for value in (Numbers(1, 2.0), array.array("d", [1, 2]), (ctypes.c_ubyte * 3)(1, 2, 3)):
        db.put(b"k", value)
        assert db[b"k"] == bytes(value)
