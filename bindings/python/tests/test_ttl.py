"""Values that expire."""

from __future__ import annotations

import asyncio
import math
from datetime import timedelta
from pathlib import Path

import pytest

import loamdb
import loamdb.aio
from conftest import wait_until_gone


def test_values_expire(tmp_path: Path) -> None:
    with loamdb.DB(tmp_path / "db", format="native") as db:
        db.put_ttl(b"a", b"1", 1)
        db.put_ttl(b"b", b"2", timedelta(milliseconds=500), sync=True)
        with db.batch() as b:
            b.put_ttl(b"c", b"3", 1)
            b.put(b"d", b"4")
            b.put_ttl(b"h", b"8", 3600)
        view = db.prefixed(b"x/")
        view.put_ttl(b"e", b"5", 1)
        with view.batch() as b:
            b.put_ttl(b"f", b"6", 0.1)
        with db.transaction() as tx:
            tx.put_ttl(b"g", b"7", 1)
            assert tx.get(b"g") == b"7"
        left = db.ttl(b"h")
        assert left is not None and 3500 < left <= 3601
        assert (
            db.ttl(b"d") == math.inf and db.ttl(b"nothing") is None and view.ttl(b"nothing") is None
        )
        for key in (b"a", b"b", b"c", b"x/e", b"x/f", b"g"):
            wait_until_gone(db, key)
        assert list(db) == [b"d", b"h"]
        db[b"h"] = b"9"
        assert db.ttl(b"h") == math.inf


def test_default(tmp_path: Path) -> None:
    with loamdb.DB(tmp_path / "db", format="native", default_ttl=3600) as db:
        sessions = db.keyspace("sessions", default_ttl="10m")
        sessions[b"a"] = b"1"
        db[b"a"] = b"1"
        left, of_all = sessions.ttl(b"a"), db.ttl(b"a")
        assert left is not None and left <= 601
        assert of_all is not None and of_all > 3000


def test_bad_times(tmp_path: Path) -> None:
    with loamdb.DB(tmp_path / "db", format="native") as db:
        for ttl in (0, -1, math.nan, math.inf, 1e11, timedelta(0)):
            with pytest.raises(loamdb.InvalidArgumentError):
                db.put_ttl(b"a", b"1", ttl)
            with pytest.raises(loamdb.InvalidArgumentError), db.batch() as b:
                b.put_ttl(b"a", b"1", ttl)
        with pytest.raises(TypeError):
            db.put_ttl(b"a", b"1", "1")  # type: ignore[arg-type]
        assert b"a" not in db
    with (
        loamdb.DB(tmp_path / "old", format="leveldb") as db,
        pytest.raises(loamdb.NeedsNativeError),
    ):
        db.put_ttl(b"a", b"1", 1)


def test_asyncio(tmp_path: Path) -> None:
    async def main() -> None:
        async with loamdb.aio.open(tmp_path / "db", format="native") as db:
            await db.put_ttl(b"a", b"1", 3600)
            left = await db.ttl(b"a")
            assert left is not None and left <= 3601
            async with db.transaction() as tx:
                await tx.put_ttl(b"b", b"2", 3600)
            assert await db.ttl(b"b") != math.inf

    asyncio.run(main())
