"""Values where they lie in memory: they stay readable, and no view reads memory that went."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import loamdb
import loamdb.aio
import pytest

LARGE = bytes(range(256)) * 200


def test_values(path):
    with loamdb.open(path) as db:
        db[b"large"], db[b"empty"] = LARGE, b""
        for _ in range(2):  # in the memtable, then out of a table
            with db.get_pinned(b"large") as value:
                assert isinstance(value, memoryview) and value.readonly and value == LARGE
            with db.get_pinned(bytearray(b"empty")) as value:
                assert bytes(value) == b""
            db.flush()
        with pytest.raises(KeyError), db.get_pinned(b"none"):
            pass
        with pytest.raises(TypeError):
            db.get_pinned("large")
        pinned = db.get_pinned(b"large")
        assert len(pinned) == len(LARGE) and bytes(pinned) == LARGE and not pinned.closed
        pinned.close()
        pinned.close()
        assert pinned.closed
        with pytest.raises(loamdb.errors.ClosedError):
            memoryview(pinned)
        with pytest.raises(loamdb.errors.ClosedError), pinned:
            pass
        with pytest.raises(TypeError):
            loamdb.PinnedValue()
    with pytest.raises(loamdb.errors.ClosedError):
        db.get_pinned(b"large")


def test_it_stays_as_it_was(path):
    """A value outlives writes, compactions, its snapshot and its database."""
    db = loamdb.open(path)
    db[b"k"] = LARGE
    with db.snapshot() as snapshot:
        first = snapshot.get_pinned(b"k")
    db.flush()
    second = db.prefixed(b"").get_pinned(b"k")
    db[b"k"] = b"other"
    third = db.keyspace("default").get_pinned(b"k")
    db.compact()
    db.close()
    for pinned, want in ((first, LARGE), (second, LARGE), (third, b"other")):
        with pinned as value:
            assert value == want


def test_views_keep_the_memory(path):
    """Slices are readable after the block, the value and the database are gone."""
    with loamdb.open(path) as db:
        db[b"k"] = LARGE
        pinned = db.get_pinned(b"k")
        with pinned as value:
            part, other = value[1:5], memoryview(pinned)
        with pytest.raises(ValueError, match="released"):
            value[0]
        with pytest.raises(loamdb.errors.ClosedError):
            memoryview(pinned)
    del pinned, value
    gc.collect()
    assert part == LARGE[1:5] and other == LARGE
    part.release()
    assert other[3:] == LARGE[3:]


def test_a_block_that_raises(path):
    with loamdb.open(path) as db:
        db[b"k"] = LARGE
        pinned = db.get_pinned(b"k")
        with pytest.raises(ZeroDivisionError), pinned as value:
            raise ZeroDivisionError
        assert pinned.closed
        with pytest.raises(ValueError, match="released"):
            value[0]


def test_collected(path):
    """What is forgotten goes with the garbage: also a value whose view refers to it."""
    with loamdb.open(path) as db:
        db[b"k"] = LARGE
        for _ in range(100):
            db.get_pinned(b"k").__enter__()
            db.get_pinned(b"k")
        gc.collect()
        view = db.get_pinned(b"k").__enter__()
        gone = weakref.ref(view)
        del view
        gc.collect()
        assert gone() is None


def test_threads(path):
    """Several read and release one value, beside writes and a close."""
    with loamdb.open(path, cache_size="1MiB", write_buffer_size="256KiB") as db:
        for i in range(50):
            db[b"%d" % i] = b"%d " % i * 4000
        wrong = []

        def read(seed: int) -> None:
            kept = []
            for i in range(400):
                k = (i * 7 + seed) % 50
                pinned = db.get_pinned(b"%d" % k)
                kept.append((k, pinned, memoryview(pinned)))
                pinned.close()
                if len(kept) > 20:
                    k, _, view = kept.pop(0)
                    if view != b"%d " % k * 4000:
                        wrong.append(k)

        threads = [threading.Thread(target=read, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for i in range(200):
            db[b"%d" % (i % 50)] = b"%d " % (i % 50) * 4000
        for t in threads:
            t.join()
        assert wrong == []


def test_event_loop(path):
    async def main() -> None:
        async with loamdb.aio.open(path) as db:
            await db.put(b"k", LARGE)
            with await db.get_pinned(b"k") as value:
                assert value == LARGE
            with pytest.raises(KeyError):
                await db.get_pinned(b"none")

    asyncio.run(main())
