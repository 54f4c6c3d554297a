"""Transactions, compare-and-swap, and both from asyncio."""

import asyncio
import threading

import pytest

import loamdb
import loamdb.aio
from loamdb import errors


@pytest.fixture
def db(tmp_path):
    with loamdb.open(tmp_path / "db") as db:
        yield db


def test_commit_and_rollback(db):
    db[b"a"] = b"0"
    with db.transaction(sync=True) as tx:
        tx[b"b"] = b"1"
        del tx[b"a"]
        assert b"a" not in tx and tx[b"b"] == b"1" and tx.get(b"none", 5) == 5
        assert db.get(b"b") is None
        assert list(tx.items()) == [(b"b", b"1")]
    assert list(db.items()) == [(b"b", b"1")]
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        tx[b"b"] = b"2"
        1 / 0
    assert db[b"b"] == b"1"
    with pytest.raises(errors.ClosedError):
        tx.put(b"b", b"3")
    tx = db.transaction()
    tx.commit()
    for call in (lambda: tx.get(b"b"), lambda: tx.put(b"", b""), tx.commit, tx.savepoint):
        with pytest.raises(errors.TransactionDoneError):
            call()
    tx.rollback()
    tx.close()
    tx.close()


def test_savepoints(db):
    with db.transaction() as tx:
        tx.put(b"a", b"1")
        first = tx.savepoint()
        tx.put(b"b", b"2")
        second = tx.savepoint()
        tx.rollback_to(first)
        with pytest.raises(errors.InvalidArgumentError):
            tx.rollback_to(second)
    assert list(db) == [b"a"]


def test_ranges(db):
    for i in range(10):
        db[b"%d" % i] = b""
    with db.transaction() as tx:
        tx.delete(b"5")
        tx.put(b"55", b"x")
        assert [k for k, _ in tx.items(start=b"3", stop=b"7")] == [b"3", b"4", b"55", b"6"]
        assert [k for k, _ in tx.items(start=b"3", stop=b"7", reverse=True)] == [
            b"6",
            b"55",
            b"4",
            b"3",
        ]
        assert [k for k, _ in tx.items(prefix=b"5")] == [b"55"]


@pytest.mark.parametrize(
    "options, read",
    [({}, "get_for_update"), ({"serializable": True}, "get"), ({"serializable": True}, "items")],
)
def test_conflict(db, options, read):
    db[b"key"] = b"0"
    with pytest.raises(errors.ConflictError, match="key"), db.transaction(**options) as tx:
        list(tx.items()) if read == "items" else getattr(tx, read)(b"key")
        tx.put(b"other", b"")
        db[b"key"] = b"1"
    assert b"other" not in db


def test_locks(db):
    with db.transaction(lock=True, name="the first") as one:
        one.put(b"k", b"1")
        with (
            pytest.raises(errors.LockTimeoutError, match="the first"),
            db.transaction(lock=True, lock_timeout=0.001) as two,
        ):
            two.get_for_update(b"k")
    assert db[b"k"] == b"1"


def test_times_for_locks(db):
    with pytest.raises(errors.InvalidArgumentError):
        db.transaction(lock=True, lock_timeout=float("nan"))
    with db.transaction(lock=True, lock_timeout=float("inf")) as tx:
        tx.put(b"k", b"1")
    assert db[b"k"] == b"1"


def test_update(db):
    def add(tx):
        n = int(tx.get(b"n", b"0")) + 1
        tx.put(b"n", b"%d" % n)
        return n

    threads = [
        threading.Thread(target=lambda: [db.update(add) for _ in range(25)]) for _ in range(8)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert db[b"n"] == b"200"
    assert db.update(add, lock=True, sync=True) == 201

    def beaten(tx):
        db.put(b"n", b"0")
        add(tx)

    for timeout in (0.01, float("nan")):
        with pytest.raises(errors.ConflictError):
            db.update(beaten, timeout=timeout)
    db.update({b"x": b"y"})
    assert db[b"x"] == b"y"
    assert db.metrics()["txn"]["conflicts"] > 0


def test_swap(db):
    assert db.put_if_absent(b"k", b"") and not db.put_if_absent(b"k", b"x")
    assert not db.compare_and_swap(b"k", None, b"x")
    assert db.compare_and_swap(b"k", b"", b"x", sync=True) and db[b"k"] == b"x"
    assert db.compare_and_swap(b"k", b"x", None) and b"k" not in db


def test_none_is_no_key(db):
    with db.transaction() as tx:
        for call in (
            tx.get,
            tx.get_for_update,
            tx.has,
            tx.delete,
            lambda key: tx.put(key, b""),
            lambda value: tx.put(b"", value),
        ):
            with pytest.raises(TypeError, match="bytes-like"):
                call(None)
    with pytest.raises(TypeError, match="bytes-like"):
        db.compare_and_swap(None, None, b"1")
    assert list(db) == []


def test_close(tmp_path):
    db = loamdb.open(tmp_path / "db")
    tx = db.transaction()
    db.close()
    with pytest.raises(errors.ClosedError):
        tx.put(b"k", b"")
    with pytest.raises(errors.ClosedError):
        db.transaction()


def test_asyncio(tmp_path):
    async def main():
        async with loamdb.aio.open(tmp_path / "db") as db:
            async with db.transaction() as tx:
                await tx.put(b"n", b"0")
                mark = await tx.savepoint()
                await tx.delete(b"n")
                await tx.rollback_to(mark)
                assert (
                    await tx.items().all() == [(b"n", b"0")]
                    and await tx.has(b"n")
                    and await tx.count() == 1
                )
                assert [key async for key in tx] == [b"n"]

            async def add(tx):
                await tx.put(b"n", b"%d" % (int(await tx.get_for_update(b"n")) + 1))

            await asyncio.gather(*(db.update(add) for _ in range(20)))
            assert await db.get(b"n") == b"20"
            assert await db.compare_and_swap(b"n", b"20", b"x") and not await db.put_if_absent(
                b"n", b""
            )
            with pytest.raises(ZeroDivisionError):
                async with db.transaction() as tx:
                    await tx.put(b"z", b"")
                    1 / 0
            assert not await db.has(b"z")

    asyncio.run(main())
