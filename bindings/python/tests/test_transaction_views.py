"""Transactions as mappings, over keyspaces and prefixed views, with merges and range deletes."""

from __future__ import annotations

import asyncio
import collections.abc
import mmap
import threading

import pytest

import loamdb
import loamdb.aio
from loamdb import errors


@pytest.fixture
def native(path):
    with loamdb.open(path, format="native", merge_operator="append") as db:
        yield db


def test_merges_and_range_deletes(native):
    native.update((b"%d" % i, b"0") for i in range(10))
    with native.transaction() as tx:
        tx.merge(b"1", b"x")
        tx.delete_range(b"3", b"7")
        tx.merge(b"5", b"y")
        mark = tx.savepoint()
        tx.delete_range(b"", b"9")
        assert list(tx) == [b"9"] and not tx.has(b"1")
        tx.rollback_to(mark)
        want = [
            (b"0", b"0"),
            (b"1", b"0,x"),
            (b"2", b"0"),
            (b"5", b"y"),
            (b"7", b"0"),
            (b"8", b"0"),
            (b"9", b"0"),
        ]
        assert (
            list(tx.items()) == want and list(tx.items(reverse=True)) == want[::-1] and len(tx) == 7
        )
        assert tx.multi_get([b"1", b"3", b"5"]) == [b"0,x", None, b"y"] and tx.multi_get([]) == []
        assert len(native) == 10
    assert list(native.items()) == want
    with pytest.raises(errors.ConflictError, match=r'"4"'), native.transaction() as tx:
        tx.delete_range(b"3", b"5")
        native[b"4"] = b"new"
    assert native[b"4"] == b"new"


def test_an_iterator_seeks_and_turns(native):
    native.update((b"%d" % i, b"0") for i in range(10))
    with native.transaction() as tx:
        tx.delete(b"5")
        tx[b"55"] = b"x"
        with tx.items(start=b"2") as it:
            tx[b"6"] = b"later"
            it.seek(b"5")
            assert (
                next(it) == (b"55", b"x") and next(it) == (b"6", b"0") and it.prev() == (b"6", b"0")
            )
            it.seek_to_stop()
            assert it.prev() == (b"9", b"0")
            it.seek_to_start()
            assert next(it) == (b"2", b"0")
        for key in tx.keys():
            tx.merge(key, b"seen")
        assert all(value.endswith(b"seen") for value in tx.values())


def test_behaves_as_a_dict(native):
    native.update({b"o": b"0", b"p/x": b"1"})
    with native.transaction() as tx:
        for m in (
            tx,
            tx.in_(native.prefixed(b"p/")),
            tx.in_(native.keyspace("k")),
            tx.in_(native.keyspace("k").prefixed(b"q/")),
        ):
            assert isinstance(m, collections.abc.MutableMapping)
            m.update({b"a": b"1", b"c": b"3"})
            m.update([(b"d", b"4")])
            assert (
                m.pop(b"a") == b"1"
                and m.pop(b"a", None) is None
                and m.setdefault(b"e", b"5") == b"5"
            )
            with pytest.raises(KeyError):
                m[b"a"]
            del m[b"d"]
            assert b"c" in m and b"d" not in m and m.get_for_update(b"c") == b"3"
            with m.keys() as keys:
                keys.seek(b"d")
                assert next(keys) == b"e" and keys.prev() == b"e" and keys.prev() == b"c"
        assert list(tx.keys(prefix=b"p/")) == [b"p/c", b"p/e", b"p/x"]
        view = tx.in_(native.prefixed(b"p/"))
        assert list(view) == [b"c", b"e", b"x"] and view.popitem() == (b"x", b"1")
        view.clear()
        assert list(view) == [] and list(tx) == [b"c", b"e", b"o"]
        space = tx.in_(native.keyspace("k"))
        assert list(space) == [b"c", b"e", b"q/c", b"q/e"]
        space.clear(start=b"d", stop=b"q/d")
        assert list(space) == [b"c", b"q/e"]
    assert list(native) == [b"c", b"e", b"o"] and list(native.keyspace("k").items()) == [
        (b"c", b"3"),
        (b"q/e", b"5"),
    ]


def test_clear_in_the_format_of_leveldb(path):
    with loamdb.open(path, format="leveldb") as db:
        db.update((b"%d" % i, b"0") for i in range(10))
        with db.transaction() as tx:
            tx[b"55"] = b""
            tx.clear(start=b"3", stop=b"6")
            tx.clear(start=b"3", stop=b"6")
            assert len(tx) == 7
        assert len(db) == 7


def test_views_end_together(native, tmp_path):
    with loamdb.open(tmp_path / "other") as other, native.transaction() as tx:
        with pytest.raises(errors.InvalidArgumentError, match="another database's"):
            tx.in_(other).put(b"k", b"")
        with pytest.raises(TypeError):
            tx.in_(7)
        with pytest.raises(TypeError, match="no writes"):
            tx.in_(native.prefixed(b"p").snapshot())
        view = tx.in_(native.keyspace("k"))
        view[b"a"] = b"1"
        view.commit()
        with pytest.raises(errors.TransactionDoneError):
            tx.get(b"a")
    assert native.keyspace("k")[b"a"] == b"1"
    with native.transaction() as tx:
        tx[b"gone"] = b""
        tx.rollback()
    assert b"gone" not in native
    with pytest.raises(errors.ClosedError):
        tx.in_(native).put(b"k", b"")


# Bad input: one sentence each, and nothing is lost.

ONE_SENTENCE = r"^[^\n]+$"


def test_bad_input(native):
    space = native.keyspace("space")
    with pytest.raises(errors.NoKeyspaceError, match=r'^[^\n]*"nowhere"[^\n]*$'):
        native.keyspace("nowhere", error_if_missing=True)
    with pytest.raises(errors.NoKeyspaceError, match=r'^[^\n]*"nowhere"[^\n]*$'):
        native.drop_keyspace("nowhere")
    with pytest.raises(errors.InvalidArgumentError, match=ONE_SENTENCE):
        native.drop_keyspace("default")
    native[b"k"] = b"1"
    for call in (
        lambda: native.delete_range(b"b", b"a"),
        lambda: native.prefixed(b"p").delete_range(b"b", b"a"),
        lambda: space.delete_range(b"b", b"a"),
    ):
        with pytest.raises(errors.InvalidArgumentError, match=r"^[^\n]*behind its limit[^\n]*$"):
            call()
    with native.transaction() as tx:
        tx[b"kept"] = b"1"
        with pytest.raises(errors.InvalidArgumentError, match=r"^[^\n]*behind its limit[^\n]*$"):
            tx.delete_range(b"b", b"a")
        with pytest.raises(errors.NoMergeOperatorError, match=r'^[^\n]*"space"[^\n]*$'):
            tx.in_(space).merge(b"k", b"x")
    assert native[b"kept"] == b"1" and native[b"k"] == b"1"
    with pytest.raises(errors.TransactionDoneError, match=ONE_SENTENCE):
        done = native.transaction()
        done.commit()
        done.put(b"k", b"")
    with pytest.raises(errors.NoMergeOperatorError, match=r'^[^\n]*"space"[^\n]*$'):
        space.merge(b"k", b"x")
    with native.transaction(lock=True, lock_timeout=0.01) as tx:
        tx.get_for_update(b"k")
        tx[b"k"] = b"2"  # a lock that it has is no wait
        assert tx.get_for_update(b"k") == b"2"
        with (
            native.transaction(lock=True, lock_timeout=0.01) as other,
            pytest.raises(errors.LockTimeoutError, match=ONE_SENTENCE),
        ):
            other[b"k"] = b"3"
    assert native[b"k"] == b"2"


def test_a_dropped_keyspace_in_use(native):
    space = native.keyspace("space")
    space[b"k"] = b"1"
    snapshot, iterator, batch, tx = (
        space.snapshot(),
        space.items(),
        space.batch(),
        native.transaction(),
    )
    batch[b"k"] = b"2"
    tx.in_(space)[b"k"] = b"3"
    tx[b"beside"] = b"1"
    native.drop_keyspace("space")
    for call in (
        lambda: space.get(b"k"),
        lambda: space.put(b"k", b""),
        lambda: space.delete_range(b"a", b"b"),
        batch.write,
        tx.commit,
        lambda: list(space),
    ):
        with pytest.raises(errors.NoKeyspaceError, match=ONE_SENTENCE):
            call()
    tx.close()
    assert next(iterator) == (b"k", b"1") and snapshot[b"k"] == b"1" and b"beside" not in native
    iterator.close()
    snapshot.close()
    assert list(native.keyspace("space")) == []


def test_operands_too_large(path):
    """The limit is nearly 4 GiB; what is above is refused before it is copied."""
    try:
        large = mmap.mmap(-1, (4 << 30) - (1 << 20))
    except OSError:
        pytest.skip("no room for 4 GiB of addresses")
    with loamdb.open(path, format="native", merge_operator="append") as db, db.transaction() as tx:
        for call in (
            lambda: db.merge(b"k", large),
            lambda: tx.merge(b"k", large),
            lambda: tx.delete_range(b"", large),
            lambda: tx.put(b"k", large),
        ):
            with pytest.raises(errors.TooLargeError, match=ONE_SENTENCE):
                call()
        tx.merge(b"k", b"1")
        tx.commit()
        assert db[b"k"] == b"1"


# ---- asyncio ----


def test_aio_transactions(path):
    async def main() -> None:
        async with loamdb.aio.open(path, format="native", merge_operator="append") as db:
            users = await db.keyspace("users", merge_operator="append")
            async with db.transaction() as tx:
                await tx.put(b"a", b"1")
                await tx.merge(b"a", b"2")
                await tx.in_(users).merge(b"u", b"1")
                view = tx.in_(db.prefixed(b"p/"))
                await view.put(b"x", b"1")
                assert [key async for key in view.keys()] == [b"x"] and await view.multi_get(
                    [b"x", b"y"]
                ) == [b"1", None]
                mark = await tx.savepoint()
                await tx.delete_range(b"a", b"z")
                assert not await tx.has(b"a") and await tx.count() == 0
                await tx.rollback_to(mark)
                await tx.in_(users).clear()
                await tx.in_(users).put(b"v", b"1")
                assert await tx.items(reverse=True).all() == [(b"p/x", b"1"), (b"a", b"1,2")]
            assert await db.get(b"a") == b"1,2" and await users.keys().all() == [b"v"]
            async with db.transaction() as tx:
                await tx.put(b"never", b"")
                await tx.rollback()
            async with db.transaction() as tx:
                await tx.put(b"early", b"")
                await tx.commit(sync=True)
            assert await db.has(b"early") and not await db.has(b"never")
            with pytest.raises(loamdb.ConflictError):
                async with db.transaction(serializable=True) as tx:
                    assert len(await tx.keys().all()) == 3
                    await tx.put(b"z", b"")
                    await db.put(b"new", b"")

    asyncio.run(main())


def test_aio_views(path):
    async def main() -> None:
        async with loamdb.aio.open(path, format="native", merge_operator="append") as db:
            view = db.prefixed(b"p/").prefixed(b"q/")
            await view.put(b"a", b"1", sync=True)
            await view.update({b"b": b"2", b"c": b"3"})
            await view.merge(b"a", b"x")
            assert (
                view.prefix == b"p/q/"
                and await view.get(b"a") == b"1,x"
                and await view.get(b"z", 7) == 7
            )
            before = await view.snapshot()
            await view.delete(b"b")
            await view.delete_range(b"c", b"d")
            assert [item async for item in view.items()] == [(b"a", b"1,x")] and await view.has(
                b"a"
            )
            assert await before.keys().all() == [b"a", b"b", b"c"]
            await db.put(b"outside", b"")
            await view.clear()
            assert await db.keys().all() == [b"outside"]
            told = await db.metrics()
            assert (
                told["txn"]["begun"] >= 0
                and await db.approximate_size() >= 0
                and (await db.recovery_report())["was_clean"]
            )

    asyncio.run(main())


def test_aio_locks_leave_threads_to_others(path):
    """More transactions wait for a lock than the database has threads; the one that has it can
    go on, and so can everybody else."""

    async def main() -> None:
        async with loamdb.aio.open(path, threads=2) as db:
            await db.put(b"n", b"0")

            async def add(tx):
                n = int(await tx.get_for_update(b"n"))
                await asyncio.sleep(0)
                await tx.put(b"n", b"%d" % (n + 1))

            await asyncio.gather(*(db.update(add, lock=True, lock_timeout=30) for _ in range(20)))
            assert await db.get(b"n") == b"20"
            assert (await db.metrics())["txn"]["lock_timeouts"] == 0

    asyncio.run(main())


def test_the_loop_turns_while_a_compaction_runs(path):
    """A compaction whose filter waits for the loop ends."""
    filtered, turned = threading.Event(), threading.Event()

    def wait(level, key, value):
        filtered.set()
        assert turned.wait(120)

    async def main() -> None:
        async with loamdb.aio.open(path, compaction_filter=wait) as db:
            async with db.batch() as batch:
                for i in range(2000):
                    batch.put(b"%05d" % i, b"v" * 100)
            compaction = asyncio.ensure_future(db.compact())
            while not filtered.is_set() and not compaction.done():
                await asyncio.sleep(0)
            for _ in range(100):
                await asyncio.sleep(0)
                await db.put(b"beside", b"1")
            assert not compaction.done()
            turned.set()
            await compaction

    asyncio.run(main())


def test_aio_cancel_ends_a_lock_wait(path):
    """A task that is cancelled while its transaction waits for a lock ends at once, though the wait
    has no end of its own, and gives back the locks that it has."""

    async def main() -> None:
        async with loamdb.aio.open(path) as db:
            async with db.transaction(lock=True) as holder:
                await holder.put(b"held", b"1")
                has_own = asyncio.Event()

                async def wait() -> None:
                    async with db.transaction(lock=True, lock_timeout=-1) as tx:
                        await tx.put(b"own", b"2")
                        has_own.set()
                        await tx.put(b"held", b"2")

                task = asyncio.create_task(wait())
                await has_own.wait()
                while (await db.metrics())["txn"]["lock_waits"] == 0:
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await holder.put(b"own", b"1")
            assert await db.get(b"own") == await db.get(b"held") == b"1"

    asyncio.run(main())
