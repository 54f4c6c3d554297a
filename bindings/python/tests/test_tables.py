"""How tables are written: compression by level, prefixes in filters, direct I/O."""

from __future__ import annotations

import loamdb
import pytest


def test_compression_by_level(path):
    text = b"a value of words that come more than once, of words that come more than once; " * 20
    for compression in ("none,zstd", ["none", "zstd"], ("none", "zstd")):
        with loamdb.open(path, compression=compression, disable_compaction=True) as db:
            for _ in range(2):
                for i in range(200):
                    db[b"%04d" % i] = text
                db.flush()
            levels = db.metrics()["levels"]
            assert levels[0]["bytes"] > 5 * levels[6]["bytes"] > 0
            assert all(value == text for value in db.values())
        loamdb.destroy(path)


@pytest.mark.parametrize("wrong", ["none,lz4", "none,", ["none", "lz4"], ["snappy"] * 8])
def test_wrong_compression(path, wrong):
    with pytest.raises(loamdb.InvalidArgumentError, match="compression"):
        loamdb.open(path, compression=wrong)
    with pytest.raises(TypeError):
        loamdb.open(path, compression=["none", 1])


@pytest.mark.parametrize("format", ["native", "leveldb"])
def test_prefix_filters(path, format):
    with loamdb.open(
        path, prefix_length=4, compaction_direct_io=True, l0_compaction=100, format=format
    ) as db:
        for users in ([b"anna", b"carl"], [b"bert"]):
            for user in users:
                db[user + b"/name"] = user
            db.flush()
        assert dict(db.prefixed(b"bert")) == {b"/name": b"bert"}
        assert db.metrics()["prefix_skips"] == 1
        assert list(db.keys(start=b"bz")) == [b"carl/name"]
        assert list(db.keys(prefix=b"anna", reverse=True)) == [b"anna/name"]
        db.compact()
        metrics = db.metrics()
        assert metrics["direct_tables"] + metrics["not_direct_tables"] > 0


def test_keyspace(path):
    with loamdb.open(path, l0_compaction=100) as db:
        space = db.keyspace("users", compression="none,zstd", prefix_length=4)
        for users in ([b"anna", b"carl"], [b"bert"]):
            for user in users:
                space[user + b"/name"] = user
            space.flush()
        assert list(space.keys(prefix=b"bert")) == [b"bert/name"]
        assert space.metrics()["prefix_skips"] == 1
