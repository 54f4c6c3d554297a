"""Every method of every class, on objects that have ended: generated from the classes,
so that a method without arguments here fails the test instead of being forgotten."""

from __future__ import annotations

import inspect
import os
import threading
import weakref
from unittest import mock

import loamdb
import loamdb.plyvel as face
import pytest

# Arguments with which a method would work; the default is none. A name stands for the
# method in all classes.
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "get": (b"a",),
    "get_pinned": (b"a",),
    "has": (b"a",),
    "multi_get": ([b"a"],),
    "put": (b"a", b"b"),
    "delete": (b"a",),
    "delete_range": (b"a", b"b"),
    "merge": (b"a", b"b"),
    "compare_and_swap": (b"a", None, b"b"),
    "put_if_absent": (b"a", b"b"),
    "put_ttl": (b"a", b"b", 3600),
    "ttl": (b"a",),
    "pop": (b"a", None),
    "setdefault": (b"a", b"b"),
    "update": ({b"a": b"b"},),
    "checkpoint": ("no such directory/copy",),
    "dump": (os.devnull,),
    "load": (os.devnull,),
    "ingest": (["no such table"],),
    "bulk_load": ([(b"a", b"b")],),
    "property": ("leveldb.stats",),
    "set_option": ("block_size", 4096),
    "option": ("block_size",),
    "approximate_sizes": ([(b"a", b"b")],),
    "plyvel approximate_sizes": ((b"a", b"b"),),
    "prefixed": (b"a",),
    "prefixed_db": (b"a",),
    "seek": (b"a",),
    "keyspace": ("default",),
    "drop_keyspace": ("none",),
    "use": (None,),
    "append": (...,),  # the object itself
    "get_property": (b"leveldb.stats",),
    "approximate_size": (b"a", b"b"),
    "__getitem__": (b"a",),
    "__setitem__": (b"a", b"b"),
    "__delitem__": (b"a",),
    "__contains__": (b"a",),
    "__exit__": (None, None, None),
}
SPECIAL = (
    "__getitem__",
    "__setitem__",
    "__delitem__",
    "__contains__",
    "__iter__",
    "__next__",
    "__reversed__",
    "__len__",
    "__enter__",
    "__exit__",
    "__repr__",
    "__bool__",
)

# What works on a closed object, as its documentation says.
HARMLESS = {
    "close", "release", "closed", "path", "name", "db", "prefix", "__repr__", "__bool__",
    "__enter__", "__exit__", "__iter__",
    "prefixed", "prefixed_db", "compaction_paused", "size", "clear", "__len__", "append", "sync",
    "use",
}  # fmt: skip


def members(cls: type) -> list[str]:
    found = [n for n in dir(cls) if not n.startswith("_") or n in SPECIAL]
    return [
        n
        for n in found
        if getattr(cls, n) is not None and getattr(cls, n) is not getattr(object, n, None)
    ]


def arguments_of(thing: object, name: str) -> tuple[object, ...]:
    if type(thing).__module__ == face.__name__ and f"plyvel {name}" in ARGUMENTS:
        return ARGUMENTS[f"plyvel {name}"]
    return ARGUMENTS.get(name, ())


def use(thing: object, name: str) -> object:
    if isinstance(inspect.getattr_static(thing, name), property) or not callable(
        getattr(type(thing), name)
    ):
        return getattr(thing, name)
    arguments = tuple(thing if a is ... else a for a in arguments_of(thing, name))
    required = [
        p for p in signature(getattr(thing, name))
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]  # fmt: skip
    assert len(required) <= len(arguments), (
        f"{type(thing).__name__}.{name} needs arguments: add them to ARGUMENTS"
    )
    result = getattr(thing, name)(*arguments)
    if inspect.isgenerator(result) or type(result).__name__.endswith("Iterator"):
        next(iter(result), None)  # a lazy answer says it when it is used
    return result


def signature(method: object) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(method).parameters.values())
    except ValueError:  # a slot of the extension; dunder methods have their arguments in the table
        return []


def objects(module: object, db: object) -> dict[str, object]:
    if module is face:
        return {
            "DB": db, "snapshot": db.snapshot(), "iterator": db.iterator(),
            "raw": db.raw_iterator(),
            "batch": db.write_batch(), "view": db.prefixed_db(b"a"),
            "view's snapshot": db.prefixed_db(b"a").snapshot(),
            "view's batch": db.prefixed_db(b"a").write_batch(),
        }  # fmt: skip
    snapshot = db.snapshot()
    return {
        "DB": db, "snapshot": snapshot, "iterator": db.items(),
        "snapshot's iterator": snapshot.keys(), "batch": db.batch(),
        "view": db.prefixed(b"a"), "view's batch": db.prefixed(b"a").batch(),
        "view's snapshot": db.prefixed(b"a").snapshot(),
        "view's iterator": db.prefixed(b"a").items(), "keyspace": db.keyspace("default"),
    }  # fmt: skip


@pytest.fixture(params=[loamdb, face], ids=["loamdb", "plyvel"])
def module(request):
    return request.param


def opened(module, path, **options):
    db = (
        module.DB(str(path), create_if_missing=True, **options)
        if module is face
        else module.DB(path, **options)
    )
    for i in range(100):
        db.put(b"a%d" % i, b"v")
    return db


def test_after_the_end_of_the_database(module, tmp_path):
    cache = loamdb.Cache("1MiB")
    options = {} if module is face else {"cache": cache}
    other = opened(module, tmp_path / "other", **options)
    seen = 0
    for kind in objects(module, other):
        for name in members(type(objects(module, other)[kind])):
            db = opened(module, tmp_path / "db", **options)
            thing = objects(module, db)[kind]
            db.close()
            for _ in range(2):
                try:
                    use(thing, name)
                    assert name in HARMLESS, f"{kind}.{name} worked after the end of its database"
                except loamdb.ClosedError:
                    pass
                except (TypeError, StopIteration, face.IteratorInvalidError):
                    # no mapping; a range that was over; a raw iterator that was nowhere
                    assert module is face or kind != "DB", f"{kind}.{name}"
            seen += 1
            del thing
    assert seen > 60
    assert len(list(other)) == 100
    other.close()
    cache.close()


def test_after_their_own_end(module, tmp_path):
    db = opened(module, tmp_path / "db")
    for kind, example in objects(module, db).items():
        if not hasattr(example, "close"):
            continue
        for name in members(type(example)):
            thing = objects(module, db)[kind]
            if thing is db:
                continue
            thing.close()
            thing.close()
            try:
                use(thing, name)
                assert name in HARMLESS, f"{kind}.{name} worked after close()"
            except (loamdb.ClosedError, TypeError):
                pass
    assert len(list(db)) == 100
    db.close()
    db.close()


def test_arguments_of_the_wrong_kind(module, tmp_path):
    """None, numbers, text and objects of any class: an exception, and no harm."""
    db = opened(module, tmp_path / "db")
    for kind, thing in objects(module, db).items():
        for name in members(type(thing)):
            # get's default may be anything; what is iterable fits multi_get and update.
            if name in ("get", "pop", "setdefault", "__exit__") or not arguments_of(thing, name):
                continue
            for wrong in (None, 5, "text", object(), db, thing):
                if name in ("multi_get", "update", "ingest") and wrong in (db, thing, "text"):
                    continue
                if (name, wrong) in (
                    ("keyspace", "text"),
                    ("checkpoint", "text"),
                    ("dump", "text"),
                    ("load", "text"),
                    ("drop_keyspace", "text"),
                    ("use", None),
                    ("use", db),
                ):
                    continue
                if (name, wrong) in (
                    ("append", thing),
                    ("property", "text"),
                    ("approximate_size", None),
                ):
                    continue
                with pytest.raises((TypeError, ValueError, AttributeError)):
                    getattr(thing, name)(*(wrong for _ in arguments_of(thing, name)))
                    pytest.fail(f"{kind}.{name}({wrong!r}) worked")
    assert len(list(db)) == 100
    db.close()


def test_objects_that_pass_for_others(tmp_path):
    """Mocks and weak proxies are instances of the class that they stand for to isinstance, and
    other objects in memory."""
    db = loamdb.open(tmp_path / "db")
    snapshot, batch = db.snapshot(), db.batch()
    for like in (weakref.proxy, mock.create_autospec):
        for call in (
            lambda: db.snapshot(of=like(snapshot)),
            lambda: loamdb.Iterator(db, like(snapshot)),
            lambda: db._write(like(batch), False),
        ):
            with pytest.raises(TypeError):
                call()
    db.close()


def test_a_snapshot_of_another_database(tmp_path):
    a, b = loamdb.open(tmp_path / "a"), loamdb.open(tmp_path / "b")
    with pytest.raises(ValueError, match="of another database"):
        next(loamdb.Iterator(a, b.snapshot()), None)
    a.close()
    b.close()


def test_close_beside_every_call(module, tmp_path):
    """Threads use all objects while the database closes."""
    for _ in range(5):
        db = opened(module, tmp_path / "db")
        things = objects(module, db)
        names = {kind: members(type(thing)) for kind, thing in things.items()}
        failures: list[BaseException] = []
        start = threading.Barrier(len(things) + 1)

        def work(kind):
            start.wait()
            for _ in range(3):
                for name in names[kind]:
                    if name in ("close", "__exit__", "release", "popitem", "clear"):
                        continue
                    try:
                        use(things[kind], name)
                    # the database and its keyspace have the same keys
                    except (loamdb.Error, TypeError, StopIteration, KeyError):
                        pass
                    except BaseException as error:
                        failures.append(error)

        threads = [threading.Thread(target=work, args=(kind,)) for kind in things]
        for t in threads:
            t.start()
        start.wait()
        db.close()
        for t in threads:
            t.join()
        assert failures == []
    with opened(module, tmp_path / "db") as db:
        assert len(list(db)) >= 100
