"""What a dict does, and prefixed views that do it for a part of the keys."""

from __future__ import annotations

import collections.abc
import pydoc
import typing

import loamdb
import loamdb.aio
import loamdb.plyvel
import pytest


@pytest.fixture(params=["database", "view", "view in a view"])
def mapping(request, db):
    """A mapping that has no keys; the database around a view has some."""
    if request.param == "database":
        return db
    db.update({b"o": b"before", b"q": b"behind"})
    return db.prefixed(b"p") if request.param == "view" else db.prefixed(b"p").prefixed(b"/")


def test_behaves_as_a_dict(mapping):
    like: dict[bytes, bytes] = {}
    for m in (mapping, like):
        m[b"b"] = b"2"
        m.update({b"a": b"1", b"c": b"3"})
        m.update([(b"d", b"4")])
        assert m.pop(b"b") == b"2" and m.pop(b"b", None) is None
        with pytest.raises(KeyError):
            m.pop(b"b")
        with pytest.raises(KeyError):
            m[b"b"]
        assert m.setdefault(b"a", b"x") == b"1" and m.setdefault(b"e", b"5") == b"5"
        assert m.popitem() == (b"e", b"5")
        del m[b"d"]
        assert b"a" in m and b"d" not in m
        assert m.get(b"d") is None and m.get(b"d", 7) == 7
        assert len(m) == 2
    assert (
        dict(mapping.items()) == like
        and list(mapping) == sorted(like)
        and list(reversed(mapping)) == sorted(like)[::-1]
    )
    assert isinstance(mapping, collections.abc.MutableMapping)
    mapping.clear()
    assert list(mapping) == [] and len(mapping) == 0 and bool(mapping)
    with pytest.raises(KeyError):
        mapping.popitem()


def test_a_view_stays_within_its_prefix(db):
    db.update({b"o": b"1", b"p": b"2", b"pa": b"3", b"pb": b"4", b"q": b"5"})
    view = db.prefixed(b"p")
    assert list(view.items()) == [(b"", b"2"), (b"a", b"3"), (b"b", b"4")]
    assert list(view.keys(start=b"a", stop=b"b", reverse=True)) == [b"a"]
    assert view.multi_get([b"a", b"z"]) == [b"3", None]
    with view.keys() as keys:
        keys.seek(b"b")
        assert next(keys) == b"b" and keys.prev() == b"b" and keys.prev() == b"a"
    with view.batch() as batch:
        batch[b"c"] = b"6"
        del batch[b"a"]
    assert db[b"pc"] == b"6" and b"pa" not in db
    snapshot = view.snapshot()
    view.clear()
    assert dict(db.items()) == {b"o": b"1", b"q": b"5"}
    assert list(snapshot) == [b"", b"b", b"c"] and snapshot[b"c"] == b"6"
    with pytest.raises(TypeError, match="no writes"):
        snapshot[b"c"] = b""


def test_clear_takes_a_range(db):
    db.update((b"%05d" % i, b"") for i in range(10_000))
    db.clear(start=b"00010", stop=b"09990", sync=True)
    assert db.count() == 20 and db.count(prefix=b"0999") == 10


def test_update_is_whole_or_not_at_all(db):
    def pairs():
        yield b"a", b"1"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        db.update(pairs())
    assert list(db) == []


def test_bounds_are_keywords(db):
    for call in (db.items, db.keys, db.values, db.prefixed(b"p").items, db.count, db.clear):
        with pytest.raises(TypeError):
            call(b"a", b"z")


def test_star_import_leaves_the_built_in_names():
    names: dict[str, object] = {}
    exec("from loamdb import *", names)
    assert "open" not in names and "IOError" not in names
    assert names["DB"] is loamdb.DB and names["errors"] is loamdb.errors


@pytest.mark.parametrize("module", [loamdb, loamdb.aio])
def test_help_is_about_loam(module):
    """Not about what exceptions and tuples inherit from Python's own classes. Words are counted:
    from 3.13 on a parameter has a line of its own. The exceptions would be 5000 more."""
    text = pydoc.render_doc(module, renderer=pydoc.plaintext)
    assert "with_traceback" not in text
    assert sum(word != "|" for word in text.split()) < 11000
    assert "Stores a value under a key" in text


@pytest.mark.parametrize(
    "module",
    [loamdb, loamdb.db, loamdb.errors, loamdb.iterator, loamdb._options, loamdb.plyvel, loamdb.aio],
)
def test_hints_can_be_read_at_run_time(module):
    """typing.get_type_hints finds every name, of every public function and method."""
    read = 0
    for thing in vars(module).values():
        if getattr(thing, "__module__", "").startswith("loamdb") and callable(thing):
            for member in [thing, *vars(thing).values()] if isinstance(thing, type) else [thing]:
                if isinstance(member, property):
                    member = member.fget
                if callable(member) and hasattr(member, "__annotations__"):
                    typing.get_type_hints(member)
                    read += 1
    assert read > 2
