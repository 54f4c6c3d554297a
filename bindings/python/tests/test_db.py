"""Databases, batches and snapshots through loamdb's own face."""

from __future__ import annotations

import copy
import gc
import inspect
import logging
import mmap
import os
import pickle
import threading
import weakref

import loamdb
import pytest
from loamdb import plyvel


def test_mapping(db):
    db[b"a"] = b"1"
    db.put(b"b", b"2", sync=True)
    assert db[b"a"] == b"1"
    assert db.get(b"b") == b"2" and db.get(key=b"b") == b"2"
    assert b"a" in db and db.has(b"a")
    assert b"c" not in db and not db.has(b"c")
    assert db.get(b"c") is None and db.get(b"c", b"x") == b"x" and db.get(b"c", default=3) == 3
    assert db.get(b"b", fill_cache=False) == b"2"
    with pytest.raises(KeyError) as caught:
        db[b"c"]
    assert caught.value.args == (b"c",)
    del db[b"a"]
    db.delete(b"b", sync=True)
    del db[b"never was"]
    assert list(db) == []


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_like(db, kind):
    key, value = kind(b"key\0"), kind(b"\0value")
    db[key] = value
    assert db[key] == b"\0value" and type(db[key]) is bytes
    assert key in db and db.multi_get([key]) == [b"\0value"]
    assert list(db.items(prefix=key)) == list(db.items(start=key)) == [(b"key\0", b"\0value")]
    with db.batch() as b:
        b[key] = value
        del b[key]
    assert key not in db


@pytest.mark.parametrize("wrong", ["text", 1, None, [b"x"]])
def test_wrong_types(db, wrong):
    calls = [
        lambda: db.put(wrong, b""),
        lambda: db.put(b"", wrong),
        lambda: db.get(wrong),
        lambda: db[wrong],
        lambda: wrong in db,
        lambda: db.delete(wrong),
        lambda: db.multi_get([wrong]),
        lambda: db.batch().put(wrong, b""),
        lambda: db.batch().put(b"", wrong),
        lambda: db.keys().seek(wrong),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()


def test_wrong_arguments(db):
    class Neither:
        def __bool__(self):
            raise TypeError("neither true nor false")

    for call in [
        lambda: db.get(b"a", fill_cache=Neither()),
        lambda: db.put(b"a", b"b", sync=Neither()),
        lambda: db.get(),
        lambda: db.get(b"a", b"b", True),
        lambda: db.get(b"a", verify=True),
        lambda: db.put(b"a"),
        lambda: db.put(b"a", b"b", True),
        lambda: db.put(b"a", b"b", key=b"a"),
        lambda: db.delete(),
        lambda: db.batch().put(b"a", b"b", b"c"),
        lambda: db.batch().put(b"a", key=b"a"),
        lambda: loamdb.open("x", no_such_option=1),
        lambda: loamdb.open("x", block_size=1.5),
        lambda: loamdb.open(3.5),
    ]:
        with pytest.raises(TypeError):
            call()
    for call in [
        lambda: loamdb.open("a\0b"),
        lambda: loamdb.open("x", block_size=-5),
        lambda: loamdb.open("x", compression="best"),
        lambda: loamdb.open("x", comparator="no such order"),
        lambda: loamdb.open("x", comparator=min),
    ]:
        with pytest.raises(ValueError):
            call()
    assert not os.path.exists("x")


# Around the sizes at which values are read in other ways.
@pytest.mark.parametrize(
    "size",
    [0, 1, 4095, (16 << 10) - 1, 16 << 10, (16 << 10) + 1, (256 << 10) - 1, 256 << 10, 3 << 20],
)
def test_value_sizes(db, size):
    value = os.urandom(size)
    db[b"k"] = value
    for _ in range(2):
        assert db[b"k"] == value
        assert db.get(b"k", fill_cache=False) == value
        assert db.multi_get([b"k", b"none"]) == [value, None]
        assert list(db.values()) == [value]
        db.flush()


def test_values_that_change_while_read(db):
    """A value may shrink or grow between the look at its size and the reading."""
    values = {bytes([n]) * size for n, size in enumerate([20_000, 300_000, 1_000_000, 10])}
    done = threading.Event()

    def write():
        while not done.is_set():
            for value in values:
                db[b"k"] = value

    db[b"k"] = next(iter(values))
    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert all(db[b"k"] in values for _ in range(300))
    finally:
        done.set()
        writer.join()


def test_huge(db):
    """Lengths above the limit; the memory is never touched."""
    with mmap.mmap(-1, 5 << 30) as huge:
        for call in [
            lambda: db.put(b"k", huge),
            lambda: db.put(huge, b"v"),
            lambda: db.get(huge),
            lambda: huge in db,
            lambda: db.delete(huge),
            lambda: db.batch().put(b"k", huge),
            lambda: db.batch().delete(huge),
        ]:
            with pytest.raises(loamdb.TooLargeError):
                call()
    assert list(db) == []


def test_multi_get(db):
    for i in range(0, 100, 2):
        db[b"%d" % i] = b"v%d" % i
    keys = [b"%d" % i for i in range(100)]
    assert db.multi_get(keys) == [b"v%d" % i if i % 2 == 0 else None for i in range(100)]
    assert db.multi_get(iter(keys[:3])) == [b"v0", None, b"v2"]
    assert db.multi_get([]) == []
    with pytest.raises(TypeError):
        db.multi_get(5)


def test_batch(db):
    db[b"old"] = b"1"
    with db.batch(sync=True) as b:
        b.put(b"new", b"2")
        b[b"gone"] = b"3"
        del b[b"gone"]
        b.delete(b"old")
        assert len(b) == 4 and b and b.size > 12
        assert b"new" not in db
    assert list(db.items()) == [(b"new", b"2")]
    assert len(b) == 0 and b

    with pytest.raises(ZeroDivisionError):
        with db.batch() as b:
            b[b"x"] = b"y"
            1 / 0
    assert b"x" not in db

    one, two = db.batch(), db.batch()
    one[b"1"] = b""
    two[b"2"] = b""
    one.append(two)
    one.write()
    assert list(db) == [b"1", b"2", b"new"]
    db.sync()


def test_snapshot(db):
    db[b"a"] = b"1"
    with db.snapshot() as s:
        db[b"a"] = b"2"
        db[b"b"] = b"3"
        assert s[b"a"] == b"1" and s.get(b"b") is None and b"b" not in s
        assert list(s.items()) == [(b"a", b"1")] and list(s) == [b"a"]
        assert s.multi_get([b"a", b"b"]) == [b"1", None]
    assert s.closed
    for call in [
        lambda: s[b"a"],
        lambda: b"a" in s,
        lambda: s.items(),
        lambda: s.multi_get([b"a"]),
    ]:
        with pytest.raises(loamdb.ClosedError):
            call()
    s.close()


def test_closed(path):
    db = loamdb.open(path)
    db[b"a"] = b"1"
    s, b, it = db.snapshot(), db.batch(), db.items()
    db.close()
    db.close()
    assert db.closed and s.closed and it.closed
    calls = [
        lambda: db[b"a"],
        lambda: db.put(b"a", b""),
        lambda: b"a" in db,
        lambda: db.multi_get([b"a"]),
        lambda: list(db),
        lambda: db.batch(),
        lambda: db.snapshot(),
        lambda: db.compact(),
        lambda: db.flush(),
        lambda: db.verify(),
        lambda: db.property("leveldb.stats"),
        lambda: db.metrics(),
        lambda: db.approximate_size(),
        lambda: s[b"a"],
        lambda: b.put(b"a", b""),
        lambda: b.write(),
        lambda: next(it),
        lambda: it.prev(),
        lambda: it.seek(b""),
        lambda: it.seek_to_start(),
    ]
    for call in calls:
        with pytest.raises(loamdb.ClosedError):
            call()
    it.close()
    s.close()


def test_errors_of_open_and_repair(path, tmp_path):
    with pytest.raises(FileNotFoundError):
        loamdb.open(path, error_if_missing=True)
    with loamdb.open(path, format="leveldb") as db:
        db[b"a"] = b"1"
        with pytest.raises(OSError) as caught:
            loamdb.open(path)
        assert caught.type is loamdb.LockedError and str(path) in str(caught.value)
    with pytest.raises(FileExistsError):
        loamdb.open(path, error_if_exists=True)
    with pytest.raises(loamdb.ComparatorMismatchError):
        loamdb.open(path, comparator="idb_cmp1")
    with loamdb.open(os.fsencode(path), read_only=True) as db:
        assert db[b"a"] == b"1"
        with pytest.raises(loamdb.ReadOnlyError):
            db[b"a"] = b"2"
    (path / "CURRENT").write_bytes(b"MANIFEST-999999\n")
    with pytest.raises(loamdb.CorruptionError, match="MANIFEST"):
        loamdb.open(path)
    assert loamdb.repair(path)
    with loamdb.open(path) as db:
        assert db[b"a"] == b"1"
    with pytest.raises(loamdb.IOError):
        loamdb.open(tmp_path / "db" / "CURRENT" / "below")


def test_opened_once(path, tmp_path):
    with loamdb.open(path) as db:
        with pytest.raises(RuntimeError, match="opened before"):
            db.__init__(tmp_path / "other")
        db[b"a"] = b"1"
    with pytest.raises(RuntimeError, match="opened before"):
        db.__init__(path)


def test_destroy(path):
    loamdb.open(path).close()
    loamdb.destroy(path)
    assert not (path / "CURRENT").exists()


def test_upkeep(db):
    for i in range(1000):
        db[b"%04d" % i] = os.urandom(1000)
    seen = []
    db.flush()
    db.compact(b"", b"\xff", progress=lambda done, total: seen.append((done, total)))
    assert seen and all(0 <= done <= total for done, total in seen)
    assert db.approximate_size() > 900_000
    half, nothing = db.approximate_sizes([(None, b"0500"), (b"x", None)])
    assert 300_000 < half < 700_000 and nothing == 0
    assert "Level" in db.property("leveldb.stats") and db.property("no.such") is None
    assert db.metrics() and isinstance(db.recovery_report(), dict)
    assert db.comparator_name() == "leveldb.BytewiseComparator"
    with db.compaction_paused():
        db[b"x"] = b"y"
    db.resume()


def test_verify(tmp_path):
    with loamdb.open(tmp_path / "db") as db:
        for i in range(1000):
            db[b"%04d" % i] = os.urandom(1000)
        db.flush()
        seen = []
        db.verify()
        db.verify(progress=lambda done, total: seen.append((done, total)))
        assert seen and all(0 <= done <= total for done, total in seen) and seen[-1][0] > 900_000

        def stop(done, total):
            raise LookupError("enough")

        with pytest.raises(LookupError, match="enough"):
            db.verify(progress=stop)
        (table,) = [f for f in (tmp_path / "db").iterdir() if f.suffix in (".ldb", ".loam")]
        with open(table, "r+b") as f:
            f.seek(500_000)
            byte = f.read(1)[0]
            f.seek(500_000)
            f.write(bytes([byte ^ 1]))
        with pytest.raises(loamdb.CorruptionError, match=table.name):
            db.verify()
        assert db[b"0000"]


def test_checkpoint(tmp_path):
    with loamdb.open(tmp_path / "db") as db:
        db[b"a"] = b"1"
        db.flush()
        db[b"b"] = b"2"
        db.checkpoint(tmp_path / "copy")
        db[b"c"] = b"3"
        with loamdb.open(str(tmp_path / "copy")) as copy:
            assert dict(copy.items()) == {b"a": b"1", b"b": b"2"}
            copy[b"d"] = b"4"
        assert list(db) == [b"a", b"b", b"c"]
        with pytest.raises(loamdb.ExistsError, match="not empty"):
            db.checkpoint(tmp_path / "copy")
        with pytest.raises(loamdb.InvalidArgumentError, match="lies in the database"):
            db.checkpoint(tmp_path / "db" / "x")
        with pytest.raises(OSError, match="directory above"):
            db.checkpoint(tmp_path / "none" / "x")
        assert sorted(p.name for p in tmp_path.iterdir()) == ["copy", "db"]
        counts = db.metrics()["checkpoints"]
        assert counts["count"] == 4 and counts["failed"] == 3 and counts["tables_linked"] == 1
    with pytest.raises(loamdb.ClosedError):
        db.checkpoint(tmp_path / "late")


def test_progress_can_stop_a_compaction(db):
    db[b"a"] = b"b"

    def stop(done, total):
        raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        db.compact(progress=stop)
    assert db[b"a"] == b"b"


def test_options_end_where_they_end(tmp_path):
    with pytest.raises(ValueError, match="null character"):
        loamdb.open(tmp_path / "db", merge_operator="append:\0")


def test_options_are_loams():
    known = {o["name"] for o in loamdb.options()}
    named = set(inspect.signature(loamdb.DB.__init__).parameters)
    assert known - {"comparator"} == named - {
        "self",
        "path",
        "comparator",
        "comparator_name",
        "cache",
        "resources",
        "logger",
    }


def test_shared_cache(tmp_path):
    with loamdb.Cache(8 << 20) as cache, loamdb.open(tmp_path / "1", cache=cache) as a:
        with loamdb.open(tmp_path / "2", cache=cache, write_buffer_size="1MiB") as b:
            a[b"x"] = b[b"x"] = b"1"
    with pytest.raises(loamdb.ClosedError):
        loamdb.open(tmp_path / "3", cache=cache)


def test_logger_and_recovery_report(path, caplog):
    with loamdb.open(path, format="leveldb") as db:
        for i in range(100):
            db[b"%d" % i] = b"x" * 1000
    [log] = path.glob("*.log")
    data = bytearray(log.read_bytes())
    data[50_000] ^= 1
    log.write_bytes(data)
    with loamdb.open(path, logger=logging.getLogger("loam")) as db:
        assert 40 < len(list(db)) < 60
        assert db.recovery_report()["dropped"]
    [record] = [r for r in caplog.records if r.name == "loam"]
    assert record.levelno == logging.WARNING and str(path) in record.getMessage()


def test_damaged_native_log(path):
    """A native log that was closed knows what it held: nothing is dropped without a word."""
    with loamdb.open(path) as db:
        for i in range(100):
            db[b"%d" % i] = b"x" * 1000
    [log] = path.glob("*.wal")
    data = bytearray(log.read_bytes())
    data[50_000] ^= 1
    log.write_bytes(data)
    with pytest.raises(loamdb.CorruptionError, match=log.name):
        loamdb.open(path)
    data[50_000] ^= 1
    log.write_bytes(data)
    with loamdb.open(path) as db:
        assert len(list(db)) == 100


def test_comparator(path):
    def caseless(a: bytes, b: bytes) -> int:
        a, b = a.lower(), b.lower()
        return (a > b) - (a < b)

    with loamdb.open(path, comparator=caseless, comparator_name="caseless") as db:
        for key in (b"b", b"A", b"C", b"a"):
            db[key] = key
        db.flush()
        assert db[b"B"] == b"b" and db[b"A"] == b"a"
        assert [k.lower() for k in db] == [b"a", b"b", b"c"]
        # Closed with its last reference while the comparator is still needed.
        db[b"d"] = b""
    db = loamdb.open(path, comparator=caseless, comparator_name="caseless")
    db[b"e"] = b""
    with pytest.warns(ResourceWarning):
        del db
        gc.collect()
    with pytest.raises(loamdb.ComparatorMismatchError):
        loamdb.open(path)


def test_comparator_is_released(path):
    class Order:
        def __call__(self, a: bytes, b: bytes) -> int:
            return (a > b) - (a < b)

    order = Order()
    seen = weakref.ref(order)
    with loamdb.open(path, comparator=order, comparator_name="mine") as db:
        db[b"a"] = b"b"
        it = db.keys()
    del order, db
    gc.collect()
    assert seen() is not None  # the iterator still has it
    del it
    gc.collect()
    assert seen() is None


def test_wrong_handles():
    bad = loamdb._fast.Database()
    bad._attach(0x12345678, None, False)
    with pytest.raises(loamdb.InternalError):
        bad.get(b"a")
    with pytest.raises(loamdb.InternalError):
        bad.put(b"a", b"b")
    with pytest.raises(RuntimeError):
        bad._attach(1, None, False)
    assert bad._detach() == 0x12345678


def test_no_instances_by_hand():
    for make in [
        loamdb._fast.Reader,
        loamdb._fast.Cursor,
        loamdb._fast.Batch,
        loamdb._fast.Snapshot,
    ]:
        with pytest.raises(TypeError):
            make()
    with pytest.raises(loamdb.ClosedError):
        loamdb._fast.Cursor(loamdb._fast.Database())


def test_close_while_in_use(path):
    """Threads that read, write and iterate while the database is closed get an
    exception, and nothing worse."""
    db = loamdb.open(path)
    for i in range(2000):
        db[b"%d" % i] = b"x" * 100
    unexpected, started = [], threading.Barrier(7)

    def work(step):
        try:
            for _ in range(20):
                step()
            started.wait()
            while True:
                step()
        except loamdb.ClosedError:
            pass
        except BaseException as error:
            unexpected.append(error)
            started.abort()

    shared = db.items()

    def step_shared():
        try:
            next(shared)
        except StopIteration:
            shared.seek_to_start()
        except loamdb.InUseError:
            pass

    steps = [
        lambda: db.get(b"77"),
        lambda: db.put(b"a", b"b"),
        lambda: list(db.items()),
        lambda: db.snapshot().get(b"5"),
        step_shared,
        step_shared,
    ]
    threads = [threading.Thread(target=work, args=(s,)) for s in steps]
    for t in threads:
        t.start()
    started.wait()
    db.close()
    for t in threads:
        t.join(20)
        assert not t.is_alive()
    assert unexpected == []


def test_cache_sizes(tmp_path):
    for size in (1 << 20, "1MiB", "1 mb", "1024k"):
        with loamdb.Cache(size) as cache, loamdb.open(tmp_path / "db", cache=cache) as db:
            db[b"a"] = b"1"
    for wrong, kind in (
        (-1, ValueError),
        ("much", ValueError),
        (1.5, TypeError),
        (None, TypeError),
        (True, TypeError),
    ):
        with pytest.raises(kind):
            loamdb.Cache(wrong)


def test_a_cache_is_one_object():
    cache = loamdb.Cache(1 << 20)
    for make in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="copied"):
            make(cache)
    cache.close()


def test_property_names(db):
    assert db.property(b"leveldb.stats") == db.property("leveldb.stats") is not None
    assert db.property("no such") is db.property("a\0b") is None
    with pytest.raises(TypeError):
        db.property(5)


def test_compact_excludes_stop(db):
    """As every other stop does: a table that begins there is left alone."""
    with db.compaction_paused():
        for value in (b"1", b"2"):
            db[b"b"] = value
            db.flush()
    before = db.property("leveldb.sstables")
    db.compact(b"a", b"b")
    assert db.property("leveldb.sstables") == before
    db.compact(b"a", b"b\0")
    assert db.property("leveldb.sstables") != before
    assert list(db.items()) == [(b"b", b"2")]


@pytest.mark.skipif("LOAM_FORMAT" in os.environ, reason="the default format is another one")
def test_format_of_new_databases(tmp_path):
    for name, options, native in (
        ("default", {}, True),
        ("native", {"format": "native"}, True),
        ("leveldb", {"format": "leveldb"}, False),
    ):
        for again in {}, {"format": "leveldb"}, {"format": "native"}:
            loamdb.open(
                tmp_path / name, **(again if (tmp_path / name).exists() else options)
            ).close()
            assert (tmp_path / name / "CURRENT").is_dir() == native, (name, again)
    plyvel.DB(str(tmp_path / "plyvel"), create_if_missing=True).close()
    assert (tmp_path / "plyvel" / "CURRENT").is_file()


def test_formats(path, tmp_path):
    """A LevelDB database becomes native, and is exported; either opens without a word."""
    with loamdb.open(path, format="leveldb") as db:
        db.put(b"k", b"v" * 1000)
        with pytest.raises(loamdb.errors.LockedError):
            loamdb.upgrade(path)
    assert (path / "CURRENT").is_file()
    loamdb.upgrade(path)
    loamdb.upgrade(path)  # nothing to do
    assert (path / "CURRENT").is_dir()
    with loamdb.open(path) as db:
        db.put(b"l", b"")
    back, again = tmp_path / "back", tmp_path / "again"
    loamdb.export(path, back, progress=lambda done, total: None)
    assert (back / "CURRENT").is_file()
    loamdb.export(back, again, format="native")
    assert (again / "CURRENT").is_dir()
    for where in back, again:
        with loamdb.open(where) as db:
            assert list(db.keys()) == [b"k", b"l"] and db[b"k"] == b"v" * 1000
    with pytest.raises(FileExistsError):
        loamdb.export(path, back)
    with pytest.raises(FileNotFoundError):
        loamdb.upgrade(tmp_path / "none")
    with pytest.raises(ValueError, match="format"):
        loamdb.export(path, tmp_path / "x", format="rocksdb")
    with pytest.raises(TypeError):
        loamdb.export(path, tmp_path / "x", format=None)
    with pytest.raises(ValueError, match="format"):
        loamdb.open(tmp_path / "x", format="rocksdb")
