"""Merge operators and compaction filters that are written in Python, of databases and keyspaces."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import threading
import weakref

import pytest

import loamdb
from loamdb import errors


def longest(key: bytes, existing: bytes | None, operands: list[bytes]) -> bytes:
    assert type(key) is bytes and existing is None or type(existing) is bytes
    assert type(operands) is list and operands and all(type(o) is bytes for o in operands)
    return max([existing or b"", *operands], key=len)


def joined(key: bytes, left: bytes, right: bytes) -> bytes | None:
    return None if left == b"apart" else max(left, right, key=len)


class Adds:
    """Adds numbers; raises what it is told to."""

    def __init__(self) -> None:
        self.raises: BaseException | None = None
        self.calls = 0

    def __call__(self, key: bytes, existing: bytes | None, operands: list[bytes]) -> bytes:
        self.calls += 1
        if self.raises is not None:
            raise self.raises
        return b"%d" % (int(existing or 0) + sum(map(int, operands)))


@pytest.mark.parametrize("partial", [None, joined])
def test_values_are_made_of_operands(path, partial):
    operator = loamdb.MergeOperator("test.Longest", longest, partial)
    with loamdb.open(path, format="native", merge_operator=operator) as db:
        for i in range(50):
            db.merge(b"k", b"x" * (i % 7))
            db.merge(b"apart", b"apart" if i % 2 else b"left")
        db.merge(b"empty", b"")
        assert db[b"k"] == b"xxxxxx" and db[b"empty"] == b"" and b"k" in db
        db[b"k"] = b"y" * 10
        db.merge(b"k", memoryview(b"z"))
        for _ in range(3):
            assert dict(db.items()) == {b"apart": b"apart", b"empty": b"", b"k": b"y" * 10}
            assert list(db.items(reverse=True))[0] == (b"k", b"y" * 10)
            assert db.multi_get([b"k", b"none"]) == [b"y" * 10, None]
            db.compact()
        with db.transaction() as tx:
            tx.merge(b"k", b"w" * 11)
            assert tx[b"k"] == b"w" * 11
    with pytest.raises(errors.NoMergeOperatorError, match="test.Longest"):
        with loamdb.open(path, format="native") as db:
            db.merge(b"k", b"x")
            db.get(b"k")
    with loamdb.open(path, merge_operator=operator) as db:
        assert db[b"k"] == b"w" * 11


def test_open_names_the_operator_that_is_missing(path):
    with loamdb.open(
        path, format="native", merge_operator=loamdb.MergeOperator("test.Longest", longest)
    ) as db:
        db.merge(b"k", b"x")
    for other in (None, "uint64add", loamdb.MergeOperator("test.Other", longest)):
        with pytest.raises(
            errors.NoMergeOperatorError, match=r'^[^\n]*"default"[^\n]*"test.Longest"[^\n]*$'
        ):
            loamdb.open(path, merge_operator=other)
    with loamdb.open(path, merge_operator=loamdb.MergeOperator("test.Longest", longest)) as db:
        assert db[b"k"] == b"x"


def test_an_exception_is_the_cause_and_loses_nothing(path):
    adds = Adds()
    with loamdb.open(
        path, format="native", merge_operator=loamdb.MergeOperator("test.Adds", adds)
    ) as db:
        db.merge(b"n", b"1")
        db.merge(b"m", b"7")
        adds.raises = failure = ValueError("no idea")
        for read in (
            lambda: db.get(b"n"),
            lambda: b"n" in db,
            lambda: db.multi_get([b"n"]),
            lambda: list(db.items()),
            lambda: list(db.keys(reverse=True)),
        ):
            with pytest.raises(
                errors.MergeFailedError,
                match=r'^[^\n]*"test.Adds"[^\n]*"[nm]"[^\n]*ValueError: no idea[^\n]*$',
            ) as caught:
                read()
            assert caught.value.__cause__ is failure
        with db.transaction() as tx:
            tx.merge(b"n", b"1")
            with pytest.raises(errors.MergeFailedError) as caught:
                tx.get(b"n")
            assert caught.value.__cause__ is failure
        db.flush()
        db.compact()  # keeps what it cannot fold
        assert db.metrics()["read_only"] is None
        adds.raises = None
        assert dict(db.items()) == {b"n": b"2", b"m": b"7"}
        adds.raises = TypeError("again")
        with pytest.raises(errors.MergeFailedError) as caught:
            db.merge(b"n", b"1")
            db.get(b"n")
        assert caught.value.__cause__ is adds.raises
        db[b"n"] = b"0"  # ends the failures
        assert db[b"n"] == b"0"


@pytest.mark.parametrize("answer", [None, 1, "text", object()])
def test_another_answer_is_a_failure(path, answer):
    with loamdb.open(
        path, format="native", merge_operator=loamdb.MergeOperator("x", lambda *_: answer)
    ) as db:
        db.merge(b"k", b"1")
        with pytest.raises(errors.MergeFailedError, match="TypeError") as caught:
            db.get(b"k")
        assert isinstance(caught.value.__cause__, TypeError)


def test_an_interrupt_is_raised_and_fails_nothing(path):
    adds = Adds()
    with loamdb.open(
        path, format="native", merge_operator=loamdb.MergeOperator("test.Adds", adds)
    ) as db:
        for i in range(2000):
            db.merge(b"%d" % (i % 10), b"1")
        timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
        with pytest.raises(KeyboardInterrupt):
            timer.start()  # here, as it waits for the thread
            while True:
                assert db[b"5"] == b"200"
        timer.join()
        assert all(value == b"200" for value in db.values())


def test_an_interrupted_operator_is_asked_again_with_all_operands(path):
    interrupts = []

    def take(key: bytes, existing: bytes | None, operands: list[bytes]) -> bytes:
        value = existing or b""
        while operands:
            value += operands.pop(0)
            if interrupts:
                signal.raise_signal(interrupts.pop())
        return value

    operator = loamdb.MergeOperator("take", take)
    with loamdb.open(path, format="native", merge_operator=operator) as db:
        for operand in (b"a", b"b", b"c"):
            db.merge(b"k", operand)
        interrupts.append(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            db.compare_and_swap(b"k", b"bc", b"wrong")
        assert db[b"k"] == b"abc"


def test_threads(path):
    with loamdb.open(
        path,
        format="native",
        merge_operator=loamdb.MergeOperator("test.Adds", Adds()),
        write_buffer_size="64KiB",
    ) as db:
        failures = []

        def work(n):
            try:
                for i in range(300):
                    db.merge(b"%d" % (i % 20), b"1")
                    if i % 10 == n:
                        int(db[b"%d" % (i % 20)])
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=[n]) for n in range(8)]
        for t in threads:
            t.start()
        for _ in range(5):
            db.compact()
        for t in threads:
            t.join()
        assert not failures and sum(map(int, db.values())) == 8 * 300


def test_what_is_no_operator(path):
    for make in (
        lambda: loamdb.MergeOperator(b"x", longest),
        lambda: loamdb.MergeOperator("x", 1),
        lambda: loamdb.MergeOperator("x", longest, 1),
    ):
        with pytest.raises(TypeError):
            make()
    with pytest.raises(ValueError, match="null"):
        loamdb.open(path, format="native", merge_operator=loamdb.MergeOperator("a\0b", longest))
    with pytest.raises(errors.InvalidArgumentError):
        loamdb.open(path, format="native", merge_operator=loamdb.MergeOperator("", longest))
    with pytest.raises(TypeError):
        loamdb.open(path, format="native", merge_operator=longest)


def test_keyspaces_have_operators_and_filters_of_their_own(path):
    adds, rules = Adds(), []

    def removes(level, key, value):
        rules.append(key)
        return False if value == b"old" else None

    with loamdb.open(path, format="native") as db:
        sums = db.keyspace("sums", merge_operator=loamdb.MergeOperator("test.Adds", adds))
        logs = db.keyspace("logs", compaction_filter=removes)
        again = sums.keyspace(
            "nested", merge_operator=loamdb.MergeOperator("test.Longest", longest)
        )
        again.merge(b"k", b"xx")
        assert again[b"k"] == b"xx"
        for i in range(10):
            sums.merge(b"n", b"%d" % i)
        assert sums[b"n"] == b"45"
        adds.raises = failure = ZeroDivisionError("by nothing")
        with pytest.raises(errors.MergeFailedError, match='"n"') as caught:
            sums.get(b"n")
        assert caught.value.__cause__ is failure
        adds.raises = None
        for space in (db, logs):
            space.update({b"a": b"old", b"b": b"new"})
        db.compact()
        logs.compact()
        assert (
            dict(db.items()) == {b"a": b"old", b"b": b"new"}
            and dict(logs.items()) == {b"b": b"new"}
            and rules
        )
        # The keyspace's object may go; its functions stay.
        sums.merge(b"n", b"5")
        gone = weakref.ref(sums)
        del sums, again, caught
        gc.collect()
        assert gone() is None
        db.keyspace("sums").merge(b"n", b"50")
        db.keyspace("sums").compact()
        assert db.keyspace("sums")[b"n"] == b"100"
    kept = weakref.ref(adds)
    del adds, failure, logs, space, rules, removes  # a keyspace's object holds on to all of them
    gc.collect()
    assert kept() is None, "a closed database lets go of the functions of its keyspaces"


def test_an_operator_is_collected_with_its_database(path):
    class Keeps:
        def __call__(self, key, existing, operands):
            return operands[-1]

    keeps = Keeps()
    keeps.db = loamdb.open(
        path, format="native", merge_operator=loamdb.MergeOperator("keeps", keeps)
    )
    keeps.db.merge(b"a", b"b")
    assert keeps.db[b"a"] == b"b"
    keeps.db.close()
    gone = weakref.ref(keeps)
    del keeps
    gc.collect()
    assert gone() is None


def test_exit_without_close(path):
    """The interpreter ends while background work may ask the operator of a keyspace."""
    program = """if True:
        import sys, loamdb
        db = loamdb.open(sys.argv[1], format="native", write_buffer_size="64KiB")
        sums = db.keyspace("sums", merge_operator=loamdb.MergeOperator("last", lambda k, e,
            o: o[-1]))
        for i in range(3000):
            sums.merge(b"%d" % (i % 100), b"x" * 100)
        assert len(sums) == 100
        print("done")
    """
    for _ in range(3):
        out = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program, path],
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert out.returncode == 0 and out.stdout == "done\n", out.stderr
