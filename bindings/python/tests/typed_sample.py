"""A user's program, checked by mypy --strict in test_build.py and never run. Each ignored
error is one that the types must find."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, MutableMapping

import loamdb
import loamdb.aio
import loamdb.plyvel as plyvel
from typing_extensions import assert_type


def compare(a: bytes, b: bytes) -> int:
    return (a > b) - (a < b)


def database(path: str) -> None:
    with loamdb.open(
        path,
        cache_size="64MiB",
        comparator=compare,
        comparator_name="mine",
        logger=logging.getLogger(),
    ) as db:
        assert_type(db, loamdb.DB)
        assert_type(db.get(b"a"), bytes | None)
        assert_type(db.get(b"a", 7), bytes | int)
        assert_type(db[b"a"], bytes)
        assert_type(b"a" in db, bool)
        assert_type(db.multi_get([b"a", bytearray(b"b")]), list[bytes | None])
        db[bytearray(b"a")] = memoryview(b"b")
        db.put(b"a", b"b", sync=True)
        db.put("a", b"b")  # type: ignore[arg-type]
        db.put(b"a", b"b", True)  # type: ignore[call-arg]
        assert_type(list(db.items(prefix=b"a")), list[tuple[bytes, bytes]])
        assert_type(list(db.keys(start=b"a", stop=b"b", reverse=True)), list[bytes])
        assert_type([value for value in db.values()], list[bytes])
        db.items(b"a", b"z")  # type: ignore[call-arg]
        assert_type(db.pop(b"a"), bytes)
        assert_type(db.pop(b"a", None), bytes | None)
        db.update({b"a": b"1"})
        with db.batch(sync=True) as batch, db.snapshot() as snapshot, db.keys() as keys:
            assert_type(batch, loamdb.Batch)
            assert_type(snapshot[b"a"], bytes)
            assert_type(next(keys), bytes)
            assert_type(keys.prev(), bytes)
            del batch[b"a"]
        assert_type(db.property("leveldb.stats"), str | None)
        assert_type(db.approximate_sizes([(b"a", None)]), list[int])
        db.compact(b"a", b"b", progress=lambda done, total: None)
        db.verify(progress=lambda done, total: None)
        db.checkpoint("copy")
        db.set_option("block_size", 8192)
        setting: str = db.option("block_size")
        print(setting)
        print(
            db.dump("stream", compression="zstd")["keyspaces"], loamdb.verify_dump("stream")["size"]
        )
        loamdb.load(db, "stream", overwrite=True)
        with loamdb.Backups("backups", read_only=False) as backups:
            made: loamdb.Backup = backups.create(
                db, bytes_per_second=1 << 20, progress=lambda done, total: None
            )
            backups.verify(made.id)
            backups.restore(made.id, "restored")
            backups.delete(made.id)
            backups.keep(2)
            left: list[int] = [b.id for b in backups.list()]
            print(left)
        users = db.prefixed(b"user/")
        assert_type(users, loamdb.Prefixed)
        for key, value in users.items():
            assert_type(key, bytes)
            assert_type(value, bytes)
    loamdb.open(path, nonsense=1)  # type: ignore[call-arg]
    loamdb.open(path, comparator=lambda a: 0)  # type: ignore[arg-type,misc]
    with loamdb.Cache("64MiB") as cache, loamdb.open(path, cache=cache):
        pass
    try:
        loamdb.destroy(path)
    except loamdb.NoSpaceError as error:
        assert_type(error.errno, int | None)
    except (loamdb.LockedError, loamdb.Error):
        raise


async def on_a_loop(path: str) -> None:
    async with loamdb.aio.open(path) as db:
        assert_type(db, loamdb.aio.DB)
        await db.put(b"a", b"b", sync=True)
        async for key in db.keys(start=b"a"):
            assert_type(key, bytes)
        async for item in db.items():
            assert_type(item, tuple[bytes, bytes])
        async with db.batch() as batch:
            batch[b"a"] = b"b"
        async with await db.snapshot() as snapshot:
            assert_type(await snapshot.items().all(), list[tuple[bytes, bytes]])


def as_plyvel(path: str) -> None:
    with plyvel.DB(path, create_if_missing=True) as db:
        db.put(b"a", b"b")
        with db.write_batch(transaction=True) as batch:
            batch.delete(b"a")
        db.put(b"a", 1)  # type: ignore[arg-type]
    plyvel.DB(path, nonsense=1)  # type: ignore[call-arg]


asyncio.run(on_a_loop("db"))
