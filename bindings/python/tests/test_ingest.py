"""Tables written outside of a database, ingests and loads."""

import random

import pytest

import loamdb
from loamdb import errors


def write(path, pairs, **settings):
    with loamdb.TableWriter(path, **settings) as w:
        for key, value in pairs:
            w.put(key, value)
        assert w.size > 0
    return path


def test_ingest(tmp_path):
    with loamdb.open(tmp_path / "db") as db:
        db.put(b"a", b"old")
        db.put(b"x", b"old")
        snapshot = db.snapshot()
        one = write(tmp_path / "one", [(b"a", b"new"), (b"b", b"new")])
        with loamdb.TableWriter(tmp_path / "two") as w:
            w.delete(b"k")
            w.put(b"l", b"new", ttl=1000)
            w.delete_range(b"m", b"z")
        db.ingest([one, tmp_path / "two"], move=True)
        assert dict(db.items()) == {b"a": b"new", b"b": b"new", b"l": b"new"}
        assert dict(snapshot.items()) == {b"a": b"old", b"x": b"old"}
        assert 0 < db.ttl(b"l") <= 1001
        assert not one.exists()
        db.ingest([write(one, [(b"c", b"1")])], excise=(b"a", b"d"))
        assert list(db) == [b"c", b"l"]
        assert one.exists()
        db.ingest([])
        assert db.metrics()["ingests"]["count"] == 3
        assert db.metrics()["ingests"]["tables"] >= 3


def test_wrong_tables(tmp_path):
    with loamdb.open(tmp_path / "db") as db:
        one, two = (
            write(tmp_path / "one", [(b"a", b""), (b"c", b"")]),
            write(tmp_path / "two", [(b"b", b"")]),
        )
        with pytest.raises(errors.InvalidArgumentError, match="overlap"):
            db.ingest([one, two])
        with pytest.raises(errors.InvalidArgumentError, match="format"):
            db.ingest([write(tmp_path / "three", [(b"a", b"")], format="leveldb")])
        (tmp_path / "four").write_bytes(one.read_bytes()[:-10] + b"x" * 10)
        with pytest.raises(errors.CorruptionError):
            db.ingest([tmp_path / "four"])
        with pytest.raises(OSError):
            db.ingest([tmp_path / "none"])
        with pytest.raises(TypeError):
            db.ingest(str(one))
        with pytest.raises(errors.ExistsError):
            loamdb.TableWriter(one)
        assert not db.count()
    w = loamdb.TableWriter(tmp_path / "five")
    w.put(b"b", b"")
    with pytest.raises(errors.InvalidArgumentError):
        w.put(b"a", b"")
    w.close()
    w.close()
    assert not (tmp_path / "five").exists()
    with pytest.raises(errors.ClosedError):
        w.put(b"c", b"")
    with pytest.raises(ZeroDivisionError), loamdb.TableWriter(tmp_path / "five") as w:
        w.put(b"b", b"")
        raise ZeroDivisionError
    assert not (tmp_path / "five").exists()


def test_leveldb(tmp_path):
    with loamdb.open(tmp_path / "db", format="leveldb") as db:
        db.ingest([write(tmp_path / "one", [(b"a", b"1")], format="leveldb")])
        db.bulk_load([(b"c", b"1"), (b"b", b"2"), (b"c", b"3")])
        assert list(db.items()) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
        with pytest.raises(errors.NeedsNativeError):
            db.bulk_load([(b"a", b"2")])
        assert db[b"a"] == b"1"


def test_bulk_load(tmp_path):
    rng = random.Random(5)
    numbers = list(range(20000)) * 2
    rng.shuffle(numbers)
    pairs = [(b"%08d" % n, b"%d of %d" % (i, n)) for i, n in enumerate(numbers)]
    with loamdb.open(tmp_path / "db", write_buffer_size="64KiB") as db:
        db.bulk_load(pairs)
        assert dict(db.items()) == dict(pairs)
        counts = db.metrics()["ingests"]
        assert counts["loaded"] == 20000
        assert counts["runs"] > 0

        def broken():
            yield b"a", b"1"
            raise ZeroDivisionError

        db.bulk_load(pairs[:5000], memory=1 << 16)
        assert db.metrics()["ingests"]["runs"] > counts["runs"] + 1
        with pytest.raises(errors.InvalidArgumentError):
            db.bulk_load([], memory=-1)
        with pytest.raises(ZeroDivisionError):
            db.bulk_load(broken())
        for wrong in ((b"a", 1), ("a", b""), 5):
            with pytest.raises(TypeError):
                db.bulk_load([wrong])
        for wrong in ((b"a",), (b"a", b"b", b"c"), b""):
            with pytest.raises(ValueError, match="a key and a value"):
                db.bulk_load([wrong])
        assert b"a" not in db
    with pytest.raises(errors.ClosedError):
        db.bulk_load(pairs)
    with loamdb.open(tmp_path / "big") as db:
        # Entries that are lists and buffers, and one that is larger than a block.
        big = [[bytearray(b"%d" % i), memoryview(b"x" * (i * 50000))] for i in range(20)]
        db.bulk_load(big)
        assert [(bytes(k), bytes(v)) for k, v in big] == [
            (b"%d" % i, db[b"%d" % i]) for i in range(20)
        ]

        def closing():
            yield b"a", b""
            db.close()
            yield b"b", b""

        with pytest.raises(errors.ClosedError):
            db.bulk_load(closing())
    with loamdb.open(tmp_path / "big") as db:
        assert b"a" not in db and len(db) == 20
