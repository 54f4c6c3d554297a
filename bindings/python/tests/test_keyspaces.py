"""Keyspaces."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import MutableMapping

import loamdb
import loamdb.aio
import pytest


@pytest.fixture
def db(path):
    with loamdb.open(path, format="native") as db:
        yield db


def test_mapping(db):
    users = db.keyspace("users")
    assert isinstance(users, MutableMapping) and users.name == "users" and users.db is db
    users[b"a"] = b"users"
    db[b"a"] = b"default"
    users.update({b"b": b"1", b"c": b"2"})
    assert dict(users.items()) == {b"a": b"users", b"b": b"1", b"c": b"2"} and dict(db.items()) == {
        b"a": b"default"
    }
    assert (
        users.multi_get([b"b", b"x"]) == [b"1", None]
        and users.pop(b"b") == b"1"
        and b"b" not in users
    )
    below = users.prefixed(b"p:")
    below[b"k"] = b"v"
    assert users[b"p:k"] == b"v" and db.get(b"p:k") is None
    users.flush()
    users.compact()
    assert users.approximate_size() > 0 and db.approximate_size() == 0
    db.verify()
    users.clear()
    assert len(users) == 0 and len(db) == 1 and db.keyspaces() == ["default", "users"]
    same = db.keyspace("users")
    same[b"x"] = b"y"
    assert users[b"x"] == b"y"
    same.close()
    same.close()
    assert same.closed and not users.closed


def test_batch_and_snapshot(db):
    a, b = db.keyspace("a"), db.keyspace("b")
    with db.batch() as batch:
        batch.put(b"k", b"0")
        batch.use(a)
        batch.put(b"k", b"1")
        batch.use(b)
        batch.put(b"k", b"2")
        batch.use(None)
        batch.put(b"l", b"0")
    with a.batch() as batch:
        batch.put(b"l", b"1")
        batch.use(db)
        batch.put(b"m", b"0")
        batch.put_ttl(b"n", b"0", 3600)
        batch.delete(b"l")
        batch.use(None)
        batch.delete(b"n")
    with db.batch() as batch:
        batch.put(b"l", b"0")
        batch.delete(b"m")
        batch.delete(b"n")
    assert [dict(s.items()) for s in (db, a, b)] == [
        {b"k": b"0", b"l": b"0"},
        {b"k": b"1", b"l": b"1"},
        {b"k": b"2"},
    ]
    with pytest.raises(RuntimeError, match="stop"), db.batch() as batch:
        batch.use(a)
        batch.delete(b"k")
        raise RuntimeError("stop")
    with a.snapshot() as state:
        a.clear()
        b[b"k"] = b"3"
        assert state[b"k"] == b"1"
        with b.snapshot(of=state) as then, db.snapshot(of=state) as root:
            assert (
                then[b"k"] == b"2" and list(then.items()) == [(b"k", b"2")] and root[b"l"] == b"0"
            )
        assert state[b"k"] == b"1"  # the others did not close it
        borrowed = b.snapshot(of=state)
    with pytest.raises(loamdb.errors.ClosedError):
        borrowed[b"k"]
    with pytest.raises(TypeError):
        a.snapshot(of=db)


def test_refused(db, tmp_path):
    users = db.keyspace("users")
    with loamdb.open(tmp_path / "other", format="native") as other:
        foreign = other.keyspace("users")
        with db.batch() as batch:
            batch.use(foreign)
            batch.use(users)  # an empty batch is of no database
            batch.put(b"k", b"v")
            with pytest.raises(loamdb.errors.InvalidArgumentError, match="another database"):
                batch.use(foreign)
            with pytest.raises(TypeError):
                batch.use("users")
        with (
            other.snapshot() as snapshot,
            users.snapshot(of=snapshot) as wrong,
            pytest.raises(loamdb.errors.InvalidArgumentError),
        ):
            wrong[b"k"]
    for name in ("", "x" * 256, "a\0b", "a\nb", "\udc80"):
        with pytest.raises(loamdb.errors.InvalidArgumentError):
            db.keyspace(name)
    with pytest.raises(TypeError):
        db.keyspace(b"users")
    with pytest.raises(loamdb.errors.ComparatorMismatchError):
        db.keyspace("users", comparator="idb_cmp1")
    with pytest.raises(loamdb.errors.NoKeyspaceError):
        db.keyspace("none", error_if_missing=True)
    with pytest.raises(loamdb.errors.InvalidArgumentError):
        db.drop_keyspace("default")
    users[b"k"] = b"v"
    with db.snapshot() as before:
        db.drop_keyspace("users")
        for use in (
            lambda: users[b"k"],
            lambda: users.put(b"k", b""),
            lambda: list(users),
            users.flush,
            lambda: db.drop_keyspace("users"),
        ):
            with pytest.raises(loamdb.errors.NoKeyspaceError):
                use()
        with users.snapshot(of=before) as then:
            assert then[b"k"] == b"v"
    assert len(db.keyspace("users")) == 0
    with loamdb.open(tmp_path / "leveldb", format="leveldb") as old:
        with pytest.raises(loamdb.errors.NeedsNativeError, match="upgrade|Upgrade"):
            old.keyspace("users")
        assert old.keyspaces() == ["default"]


def test_lifetimes(path):
    db = loamdb.open(path, format="native")
    users = db.keyspace("users", compression="none", bloom_bits=5)
    users[b"k"] = b"v"
    items = users.items()
    db.close()
    for use in (
        lambda: users[b"k"],
        lambda: users.put(b"k", b""),
        lambda: users.batch(sync=True).write(),
        lambda: next(items),
        lambda: users.keyspace("x"),
    ):
        with pytest.raises(loamdb.errors.ClosedError):
            use()
    with pytest.raises(loamdb.errors.ClosedError):
        db.keyspace("users")
    users.close()
    with loamdb.open(path) as db:  # keyspaces that are not closed go with their last reference
        with db.keyspace("users") as users:
            assert users[b"k"] == b"v"
        for _ in range(50):
            db.keyspace("users")[b"x"] = b"y"
        gc.collect()


def test_comparator(path):
    def backwards(a, b):
        return (a < b) - (a > b)

    with loamdb.open(
        path, format="native", comparator=backwards, comparator_name="test.backwards"
    ) as db:
        down, up = db.keyspace("down"), db.keyspace("up", comparator="leveldb.BytewiseComparator")
        for space in (down, up):
            space.update({b"a": b"", b"b": b""})
        assert list(down) == [b"b", b"a"] and list(up) == [b"a", b"b"]
        assert (
            up.comparator_name() == "leveldb.BytewiseComparator"
            and down.comparator_name() == "test.backwards"
        )


def test_aio(path):
    async def run():
        async with loamdb.aio.open(path, format="native") as db:
            users = await db.keyspace("users")
            await users.put(b"a", b"1")
            async with db.batch() as batch:
                batch.use(users)
                batch.put(b"b", b"2")
            assert (
                await users.items().all() == [(b"a", b"1"), (b"b", b"2")]
                and await db.get(b"a") is None
            )
            assert await db.keyspaces() == ["default", "users"]
            await users.close()
            await db.drop_keyspace("users")
            assert await db.keyspaces() == ["default"]

    asyncio.run(run())
