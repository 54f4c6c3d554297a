"""loamdb.plyvel beyond what plyvel's own tests look at, and beside plyvel itself
where that is installed."""

from __future__ import annotations

import array
import inspect
import itertools
import random

import loamdb
import loamdb.plyvel as face
import pytest


@pytest.fixture
def db(tmp_path):
    with face.DB(str(tmp_path / "db"), create_if_missing=True) as db:
        yield db


@pytest.fixture
def plyvel():
    return pytest.importorskip("plyvel")


def test_names(plyvel):
    def public(thing):
        return {name for name in dir(thing) if not name.startswith("_")}

    assert public(plyvel) <= public(face)
    for name in ("DB", "PrefixedDB", "WriteBatch", "Snapshot", "Iterator", "RawIterator"):
        theirs = getattr(plyvel._plyvel, name)
        assert public(theirs) <= public(getattr(face, name)), name


def test_errors(tmp_path, db):
    with pytest.raises(face.IOError):
        face.DB(str(tmp_path / "db"))
    with pytest.raises(IOError):
        face.DB(str(tmp_path / "db"))
    with pytest.raises(face.Error):
        face.DB(str(tmp_path / "none"))
    with pytest.raises(TypeError, match=r"got an unexpected keyword"):
        face.DB(str(tmp_path / "none"), no_such=1)
    with pytest.raises(TypeError):
        face.DB(tmp_path / "none")
    assert issubclass(face.CorruptionError, face.Error) and face.Error is loamdb.Error
    text, view = array.array("u", "a"), db.prefixed_db(b"p")
    for call in [
        lambda: b"a" in db,
        lambda: db[b"a"],
        lambda: len(db),
        lambda: view.put(text, b""),
        lambda: view.snapshot().get(text),
        lambda: view.write_batch().delete(text),
    ]:
        with pytest.raises(TypeError):
            call()
    for options in [{"start": "a"}, {"stop": 1}, {"prefix": "a"}, {"nothing": 1}]:
        with pytest.raises(TypeError):
            db.iterator(**options)


def test_released_by_reference_count(tmp_path):
    name = str(tmp_path / "db")
    for _ in range(3):
        db = face.DB(name, create_if_missing=True)
        it, snapshot, batch = db.iterator(), db.snapshot(), db.write_batch()
        del db
        with pytest.raises(face.IOError):
            face.DB(name)
        del it, snapshot, batch


def test_prefixed_batch(db):
    part = db.prefixed_db(b"p-")
    with part.write_batch(transaction=True, sync=True) as batch:
        batch.put(b"a", b"1")
        batch.put(b"b", b"2")
        batch.delete(b"a")
    assert list(db) == [(b"p-b", b"2")] and list(part) == [(b"b", b"2")]
    assert part.prefixed_db(b"b").get(b"") == b"2"
    assert list(part.snapshot()) == [(b"b", b"2")]
    other = db.write_batch()
    other.put(b"z", b"3")
    batch.append(other)
    batch.write()
    assert db.get(b"z") == b"3"
    assert repr(part).startswith("<loamdb.plyvel.PrefixedDB with prefix b'p-'")


def test_bounds_with_a_comparator(tmp_path):
    def caseless(a, b):
        a, b = a.lower(), b.lower()
        return (a > b) - (a < b)

    with face.DB(
        str(tmp_path / "c"),
        create_if_missing=True,
        comparator=caseless,
        comparator_name=b"caseless",
    ) as db:
        for key in b"A", b"b", b"C", b"d":
            db.put(key, b"")
        keys = lambda **o: list(db.iterator(include_value=False, **o))
        assert keys(start=b"a", include_start=False) == [b"b", b"C", b"d"]
        assert keys(stop=b"c", include_stop=True) == [b"A", b"b", b"C"]
        assert keys(
            start=b"B", stop=b"D", include_start=False, include_stop=True, reverse=True
        ) == [b"d", b"C"]
        assert keys(start=b"D", include_start=False) == []
        assert keys(stop=b"x", include_stop=True) == [b"A", b"b", b"C", b"d"]


def test_like_plyvel(tmp_path, plyvel):
    """The same calls on plyvel and on Loam. prev() past the start is left out: there
    plyvel leaves the range."""
    theirs = plyvel.DB(str(tmp_path / "theirs"), create_if_missing=True)
    ours = face.DB(str(tmp_path / "ours"), create_if_missing=True)
    keys = [bytes(k) for n in range(4) for k in itertools.product(b"ab\xff", repeat=n)]
    for db in (theirs, ours):
        for key in keys[::2]:
            db.put(key, b"v" + key)
    bounds = [None, b"", b"a", b"ab\0", b"b", b"ba", b"\xff", b"\xff\xff\xff\xff"]
    for start, stop, a, b, reverse in itertools.product(bounds, bounds, *[(False, True)] * 3):
        options = dict(start=start, stop=stop, include_start=a, include_stop=b, reverse=reverse)
        found = list(ours.iterator(**options))
        if reverse and len(found) == 1 and found[0][0] == start:
            continue  # plyvel drops the only entry of a reverse range that is at its start
        assert found == list(theirs.iterator(**options)), options
    for prefix in keys:
        assert list(ours.iterator(prefix=prefix)) == list(theirs.iterator(prefix=prefix))
        assert list(ours.prefixed_db(prefix)) == list(theirs.prefixed_db(prefix))
    rng = random.Random(1)
    one, other = ours.raw_iterator(), theirs.raw_iterator()
    for _ in range(3000):
        move = rng.choice(["next", "next", "prev", "prev", "seek", "seek_to_first", "seek_to_last"])
        if move in ("next", "prev") and not other.valid():
            with pytest.raises(face.IteratorInvalidError):
                getattr(one, move)()
            continue
        arguments = [rng.choice(keys)] if move == "seek" else []
        getattr(one, move)(*arguments)
        getattr(other, move)(*arguments)
        assert one.valid() == other.valid()
        assert not one.valid() or one.item() == other.item()


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_one_directory(tmp_path, plyvel, first):
    """plyvel and Loam take turns with a directory."""
    name, model = str(tmp_path / "db"), {}
    rng = random.Random(first)
    for turn in range(6):
        maker = plyvel if (turn % 2 == 0) == (first == "theirs") else face
        db = maker.DB(name, create_if_missing=True, bloom_filter_bits=10, write_buffer_size=1 << 20)
        assert dict(db) == model
        for i in range(500):
            key = b"%d" % rng.randrange(1000)
            if rng.random() < 0.7:
                model[key] = rng.randbytes(rng.choice([10, 3000]))
                db.put(key, model[key])
            else:
                model.pop(key, None)
                db.delete(key)
        if turn >= 2:
            db.compact_range()
        assert dict(db) == model
        assert all(db.get(b"%d" % i) == model.get(b"%d" % i) for i in range(1000))
        db.close()


@pytest.mark.parametrize("order", [None, lambda a, b: (a < b) - (a > b)])
def test_compact_range_of_nothing(tmp_path, plyvel, order):
    """As in plyvel, a range that ends before it starts is no error."""
    options = {} if order is None else {"comparator": order, "comparator_name": b"reverse"}
    for module in (plyvel, face):
        name = str(tmp_path / module.__name__)
        with module.DB(name, create_if_missing=True, **options) as db:
            db.put(b"b", b"")
            for start, stop in itertools.permutations([None, b"", b"a", b"b", b"c"], 2):
                db.compact_range(start=start, stop=stop)
            assert db.get(b"b") == b""


def test_compact_range_fails(tmp_path, monkeypatch):
    """Of what is wrong with an argument only a range that ends before it starts is no error."""

    def fail(self, start, stop, progress=None):
        raise loamdb.errors.InvalidArgumentError("of another kind")

    reverse = {"comparator": lambda a, b: (a < b) - (a > b), "comparator_name": b"reverse"}
    for options in ({}, reverse):
        with face.DB(str(tmp_path / str(len(options))), create_if_missing=True, **options) as db:
            monkeypatch.setattr(face.DB, "_compact", fail)
            a, b = (b"b", b"a") if options else (b"a", b"b")
            db.compact_range(start=b, stop=a)
            for start, stop in ((a, b), (a, a), (None, a), (a, None), (None, None)):
                with pytest.raises(loamdb.errors.InvalidArgumentError):
                    db.compact_range(start=start, stop=stop)


def test_prefixes_under_a_comparator(tmp_path):
    """They are refused, as help(loamdb.plyvel) says."""
    assert "a comparator, whose order may" in (face.__doc__ or "")
    order = {"comparator": lambda a, b: (a < b) - (a > b), "comparator_name": b"reverse"}
    with face.DB(str(tmp_path / "db"), create_if_missing=True, **order) as db:
        inner = db.prefixed_db(b"a")
        inner.put(b"b", b"1")
        assert inner.get(b"b") == b"1"
        for refused in (
            lambda: db.iterator(prefix=b"a"),
            inner.iterator,
            inner.snapshot().iterator,
        ):
            with pytest.raises(loamdb.errors.InvalidArgumentError, match="bounds in place of a"):
                refused()


def test_is_no_mapping(db):
    with db.write_batch() as batch, db.snapshot() as snapshot:
        for call in (
            lambda: db[b"a"],
            lambda: db.__setitem__(b"a", b"b"),
            lambda: db.__delitem__(b"a"),
            lambda: snapshot[b"a"],
            lambda: batch.__setitem__(b"a", b"b"),
        ):
            with pytest.raises(TypeError, match="is not subscriptable; use get"):
                call()
        with pytest.raises(TypeError):
            b"a" in db  # noqa: B015


def test_signatures_can_be_read():
    parameters = inspect.signature(face.DB).parameters
    assert (
        parameters["lru_cache_size"].default is None
        and parameters["name"].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    )


def test_repair_takes_the_options_of_the_constructor(tmp_path):
    name = str(tmp_path / "db")
    with face.DB(name, create_if_missing=True, bloom_filter_bits=10) as db:
        db.put(b"a", b"1")
    options = {
        p.name: p.default
        for p in inspect.signature(face.DB).parameters.values()
        if p.kind is p.KEYWORD_ONLY
    }
    assert len(options) == 13
    face.repair_db(name, **options)
    face.repair_db(name, write_buffer_size=1 << 20, compression=None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        face.repair_db(name, nonsense=1)
    with pytest.raises(TypeError, match="'block_size' must be an integer"):
        face.repair_db(name, block_size="4")
    with pytest.raises(ValueError, match="'compression' must be None or 'snappy'"):
        face.repair_db(name, compression="zstd")
    with face.DB(name) as db:
        assert db.get(b"a") == b"1"
