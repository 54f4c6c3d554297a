"""Frozen by PyInstaller and run by make python-freeze: what a program does with loamdb."""

import asyncio
import os
import sys

import loamdb
import loamdb.aio
import loamdb.plyvel


async def read(path: str) -> "bytes | None":
    async with loamdb.aio.open(path) as db:
        return await db.get(b"a")


def main() -> None:
    assert getattr(sys, "frozen", False), "this program was not frozen"
    path = sys.argv[1]
    with loamdb.open(
        path,
        comparator=lambda a, b: (a > b) - (a < b),
        comparator_name="leveldb.BytewiseComparator",
    ) as db:
        db.update({b"a": b"1", b"b": b"2"})
        db.compact()
        assert list(db.items()) == [(b"a", b"1"), (b"b", b"2")]
        assert db.metrics() and loamdb.options()
    assert asyncio.run(read(path)) == b"1"
    with loamdb.plyvel.DB(path) as db:
        assert db.get(b"b") == b"2"
    pid = os.fork()
    if pid == 0:
        with loamdb.open(path, read_only=True) as db:
            os._exit(7 if db[b"a"] == b"1" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    print("the frozen program works", loamdb.library_version())


main()
