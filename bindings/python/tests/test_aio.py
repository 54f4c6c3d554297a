"""loamdb.aio: the event loop goes on while a call waits."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import loamdb
import loamdb.aio
import pytest


def test_reads_and_writes(path):
    async def main() -> None:
        async with loamdb.aio.open(path) as db:
            await db.put(b"a", b"1", sync=True)
            async with db.batch() as batch:
                batch[b"b"] = b"2"
                batch.put(b"c", b"3")
                del batch[b"a"]
            assert await db.get(b"a") is None and await db.get(b"a", 7) == 7
            assert await db.get(b"b") == b"2" and await db.has(b"c")
            assert await db.multi_get([b"c", b"a"]) == [b"3", None]
            async with await db.snapshot() as before:
                await db.delete(b"b")
                assert [item async for item in before.items()] == [(b"b", b"2"), (b"c", b"3")]
                assert await before.get(b"b") == b"2"
            assert [key async for key in db] == [b"c"] and await db.count() == 1
            await db.flush()
            await db.compact()
            await db.verify()
            await db.checkpoint(path.with_name("copy"))
            await db.set_option("block_size", "8KiB")
            assert await db.option("block_size") == "8192"
            await db.dump(path.with_name("stream"))
            await db.load(path.with_name("stream"), overwrite=True)
            assert path.with_name("copy").is_dir()
            assert await db.get(b"c") == await db.get(b"c", fill_cache=False) == b"3"
            await db.clear()
            assert await db.keys().all() == []
        with pytest.raises(loamdb.ClosedError):
            await db.get(b"c")
        db = await loamdb.aio.open(path)
        await db.close()
        await db.close()

    asyncio.run(main())


def test_a_batch_that_raises_is_dropped(path):
    async def main() -> None:
        async with loamdb.aio.open(path) as db:
            with pytest.raises(ZeroDivisionError):
                async with db.batch() as batch:
                    batch[b"a"] = b"1"
                    raise ZeroDivisionError
            assert await db.get(b"a") is None

    asyncio.run(main())


def test_the_loop_goes_on_while_a_call_waits(path):
    """The comparator holds up the database until the event loop has done something."""
    held, going = threading.Event(), threading.Event()

    def compare(a: bytes, b: bytes) -> int:
        if held.is_set():
            assert going.wait(60)
        return (a > b) - (a < b)

    async def main() -> None:
        async with loamdb.aio.open(path, comparator=compare, comparator_name="gate") as db:
            for i in range(100):
                await db.put(b"%d" % i, b"")
            held.set()
            waiting = asyncio.gather(db.get(b"5"), db.keys().all())
            await asyncio.sleep(0)
            assert not waiting.done()
            going.set()
            value, keys = await waiting
            assert value == b"" and len(keys) == 100

    asyncio.run(main())


def test_what_is_added_while_a_commit_waits_is_kept(path, monkeypatch):
    written, going = threading.Event(), threading.Event()

    def write(batch: loamdb.db.Batch) -> None:
        batch._db._write(batch, batch._sync)
        written.set()
        assert going.wait(60)
        batch._clear()

    async def main() -> None:
        async with loamdb.aio.open(path, merge_operator="append") as db:
            with monkeypatch.context() as slow:
                slow.setattr(loamdb.db.Batch, "write", write)
                batch = db.batch()
                batch.merge(b"a", b"1")
                commits = [asyncio.ensure_future(batch.commit()) for _ in range(2)]
                while not written.is_set():
                    await asyncio.sleep(0)
                batch.put(b"late", b"1")
                going.set()
                await asyncio.gather(*commits)
            await batch.commit()
            assert await db.get(b"late") == b"1" and len(batch) == 0
            assert await db.get(b"a") == b"1"  # once

            batch.put(b"b", b"1")
            with monkeypatch.context() as failing:

                def fail(batch: loamdb.db.Batch) -> None:
                    raise loamdb.errors.NoSpaceError("no space")

                failing.setattr(loamdb.db.Batch, "write", fail)
                commit = asyncio.ensure_future(batch.commit())
                await asyncio.sleep(0)
                batch.put(b"b", b"2")
                with pytest.raises(loamdb.errors.NoSpaceError):
                    await commit
            assert len(batch) == 2
            await batch.commit()
            assert await db.get(b"b") == b"2"

    asyncio.run(main())


def test_a_commit_that_is_cancelled_before_it_begins(path):
    async def main() -> None:
        async with loamdb.aio.open(path, threads=1) as db:
            going = threading.Event()
            busy = db._executor.submit(going.wait, 60)
            batch = db.batch()
            batch.put(b"a", b"1")
            commit = asyncio.ensure_future(batch.commit())
            await asyncio.sleep(0)
            assert len(batch) == 0
            commit.cancel()
            with pytest.raises(asyncio.CancelledError):
                await commit
            going.set()
            assert busy.result() and len(batch) == 1 and not await db.has(b"a")
            await batch.commit()
            assert await db.get(b"a") == b"1"

    asyncio.run(main())


def test_long_ranges_are_fetched_in_parts(path):
    async def main() -> None:
        async with loamdb.aio.open(path) as db:
            async with db.batch() as batch:
                for i in range(10_000):
                    batch.put(b"%05d" % i, b"")
            seen = [key async for key in db.keys()]
            assert seen == [b"%05d" % i for i in range(10_000)]
            async for key in db.keys(reverse=True):
                assert key == b"09999"
                break
            assert len(await db.keys(start=b"09000").all()) == 1000

    asyncio.run(main())


def test_the_loop_goes_on_while_writers_are_stalled(path, tmp_path):
    """No memtable can be flushed, so every write waits; the loop does not, other databases
    answer, and a caller can give up."""
    held, going = threading.Event(), threading.Event()
    main_thread = threading.get_ident()

    def compare(a: bytes, b: bytes) -> int:
        assert threading.get_ident() != main_thread, "the event loop's thread compares keys"
        if held.is_set():
            assert going.wait(60)
        return (a > b) - (a < b)

    async def main() -> None:
        options = {
            "comparator": compare,
            "comparator_name": "gate",
            "write_buffer_size": "64KiB",
            "max_memtables": 2,
        }
        async with (
            loamdb.aio.open(path, **options) as db,
            loamdb.aio.open(tmp_path / "other") as other,
        ):
            await db.put(b"a", b"1")
            held.set()
            writes = [asyncio.ensure_future(db.put(b"%d" % i, b"v" * 20_000)) for i in range(40)]
            for turn in range(200):
                await asyncio.sleep(0)
                await other.put(b"%d" % turn, b"x")
                assert await other.get(b"%d" % turn) == b"x"
            assert not all(write.done() for write in writes)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(db.put(b"late", b"1"), 0.05)
            assert not all(write.done() for write in writes)
            going.set()
            await asyncio.gather(*writes)
            assert await db.count() >= 41 and await other.count() == 200

    asyncio.run(main())


def test_a_closed_database_is_closed_once(path):
    """Calls that meet the close get ClosedError, never a lost answer."""

    async def main() -> None:
        db = await loamdb.aio.open(path)
        calls = [asyncio.ensure_future(db.put(b"%d" % i, b"v", sync=True)) for i in range(20)]
        await asyncio.sleep(0)
        await asyncio.gather(db.close(), db.close())
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert all(answer is None or isinstance(answer, loamdb.ClosedError) for answer in done), (
            done
        )
        assert db.closed
        with loamdb.open(path) as again:
            assert len(again) == done.count(None)

        # Later calls raise the same error, and closing the remaining objects is harmless.
        db = await loamdb.aio.open(path)
        space, snapshot, transaction = (
            await db.keyspace("a"),
            await db.snapshot(),
            db.transaction(lock=True),
        )
        async with transaction:
            await transaction.put(b"a", b"1")
        for late in (transaction.get(b"a"), transaction.put(b"a", b"2")):
            with pytest.raises((loamdb.ClosedError, loamdb.TransactionDoneError)):
                await late
        await db.close()
        for late in (
            db.get(b"a"),
            db.put(b"a", b""),
            db.sync(),
            db.lag(),
            db.bulk_load([]),
            db.ingest([]),
            db.keyspace("b"),
            db.snapshot(),
            db.items().all(),
            space.put(b"a", b""),
            space.get(b"a"),
            snapshot.get(b"a"),
            db.transaction().__aenter__(),
        ):
            with pytest.raises(loamdb.ClosedError):
                await late
        for each in (space, snapshot, db):
            await each.close()

    asyncio.run(main())


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_database_that_is_left_is_closed_at_once(path):
    """No thread of its own holds on to it."""

    async def main() -> None:
        db = await loamdb.aio.open(path)
        await db.put(b"a", b"1")
        await db.count()

    for _ in range(50):
        asyncio.run(main())
        loamdb.open(path).close()


def test_an_abandoned_feed_does_not_hold_up_the_exit(path):
    """A task that waits for changes is left behind with its event loop: the process ends."""
    program = """if True:
        import asyncio, sys, loamdb.aio
        async def main():
            db = await loamdb.aio.open(sys.argv[1])
            async def follow(begun):
                async for change in db.changes():
                    begun.set()
            begun = asyncio.Event()
            kept = asyncio.ensure_future(follow(begun))
            await db.put(b"k", b"v")
            await begun.wait()
            await asyncio.sleep(0)
            return kept
        kept = asyncio.new_event_loop().run_until_complete(main())
        print("left")
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(path)],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout == "left\n" and done.returncode == 0, done.stderr
