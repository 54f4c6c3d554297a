"""The script that Go, C, Python and Node each run, through both faces."""

from __future__ import annotations

import io
import itertools
import pathlib
import urllib.parse

import loamdb
import loamdb.plyvel
import pytest
from conftest import wait_until_gone

CONFORMANCE = pathlib.Path(__file__).resolve().parents[3] / "testdata" / "conformance"
PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")

pytestmark = pytest.mark.skipif(not CONFORMANCE.exists(), reason="only in a checkout of Loam")


def decode(word: str) -> bytes:
    return b"" if word == "%" else urllib.parse.unquote_to_bytes(word)


def encode(data: bytes) -> str:
    return "".join(chr(c) if c in PLAIN else f"%{c:02x}" for c in data) or "%"


def shown(value: bytes | None) -> str:
    return "none" if value is None else f"= {encode(value)}"


class Runner:
    """Runs operations on loamdb's own face."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        self.snapshots: dict[str, loamdb.Snapshot] = {}
        self.transactions: dict[str, loamdb.Transaction] = {}
        self.savepoints: dict[str, int] = {}
        self.db = self.open()

    def open(self):
        return loamdb.open(self.path)

    def run(self, operation: str, *words: str) -> list[str]:
        at = [w[1:] for w in words if w.startswith("@")]
        source = self.snapshots[at[0]] if at else self.db
        found = getattr(self, f"do_{operation}")(
            source, *(w for w in words if not w.startswith("@"))
        )
        return ["ok"] if found is None else found

    def do_put(self, source, key, value):
        self.db.put(decode(key), decode(value))

    def do_del(self, source, key):
        self.db.delete(decode(key))

    def do_delrange(self, source, start, limit):
        try:
            self.db.delete_range(decode(start), decode(limit))
        except loamdb.NeedsNativeError:
            for key in list(self.db.keys(start=decode(start), stop=decode(limit))):
                self.db.delete(key)

    def do_batch(self, source, *words):
        with self.new_batch() as batch:
            rest = iter(words)
            for kind in rest:
                if kind == "in":
                    batch.use(self.root.keyspace(next(rest)))
                elif kind == "put":
                    batch.put(decode(next(rest)), decode(next(rest)))
                elif kind == "merge":
                    batch.merge(decode(next(rest)), decode(next(rest)))
                elif kind == "expire":
                    batch.put_ttl(decode(next(rest)), decode(next(rest)), int(next(rest)))
                else:
                    batch.delete(decode(next(rest)))

    def do_get(self, source, key):
        return [shown(source.get(decode(key)))]

    def do_follow(self, source, key):
        with loamdb.follow(self.path) as follower:
            follower.catch_up()
            return [shown(follower.get(decode(key)))]

    def do_release(self, source, name):
        self.snapshots.pop(name).close()

    def do_snapshot(self, source, name):
        self.snapshots[name] = self.db.snapshot()

    def do_reopen(self, source):
        self.db.close()
        self.db = self.open()

    def do_option(self, source, name, value=None):
        if value is not None:
            self.db.set_option(name, value)
        return [f"= {self.db.option(name)}"]

    def do_filter(self, source, name):
        self.db.close()
        with loamdb.open(self.path, compaction_filter=name) as db:
            db.compact()
        self.db = self.open()

    def do_tables(self, source, prefix, *pairs):
        options = dict(zip(pairs[::2], pairs[1::2]))
        if "compression" in options:
            options["compression"] = options["compression"].split(",")
        self.db.close()
        with loamdb.open(self.path, **options) as db:
            db.compact()
            found = sum(1 for _ in db.prefixed(decode(prefix)))
        self.db = self.open()
        return [str(found)]

    def do_merge(self, source, key, operand):
        self.db.merge(decode(key), decode(operand))

    def do_expire(self, source, key, value, ttl):
        self.db.put_ttl(decode(key), decode(value), int(ttl))

    def do_left(self, source, key):
        left = self.db.ttl(decode(key))
        return ["none" if left is None else "never" if left == float("inf") else "expires"]

    def do_gone(self, source, key):
        wait_until_gone(self.db, decode(key))

    def do_cas(self, source, key, old, value):
        old, value = (None if w == "-" else decode(w) for w in (old, value))
        return [str(self.db.compare_and_swap(decode(key), old, value)).lower()]

    def do_putnew(self, source, key, value):
        return [str(self.db.put_if_absent(decode(key), decode(value))).lower()]

    def do_begin(self, source, name, *options):
        self.transactions[name] = self.root_of_transactions().transaction(
            **dict.fromkeys(options, True)
        )

    def root_of_transactions(self):
        return self.db

    def do_commit(self, source, name):
        tx = self.transactions.pop(name)
        try:
            tx.commit()
        except loamdb.ConflictError:
            return ["conflict"]
        finally:
            tx.close()

    def do_rollback(self, source, name):
        self.transactions.pop(name).rollback()

    def do_tx(self, source, name, operation, *words):
        tx = self.transactions[name]
        if operation == "in":
            tx = tx.in_(self.root.keyspace(words[0]))
            operation, *words = words[1:]
        try:
            if operation == "get":
                return [shown(tx.get(decode(words[0])))]
            if operation == "update":
                return [shown(tx.get_for_update(decode(words[0])))]
            if operation == "put":
                tx.put(decode(words[0]), decode(words[1]))
            elif operation == "del":
                tx.delete(decode(words[0]))
            elif operation == "save":
                self.savepoints[words[0]] = tx.savepoint()
            elif operation == "back":
                tx.rollback_to(self.savepoints[words[0]])
            else:
                assert operation == "iter"
                return self.listed(tx, *words)
        except loamdb.ConflictError:
            return ["conflict"]

    def listed(self, tx, *words):
        options = dict(w.partition("=")[::2] for w in words)
        names = {"lower": "start", "upper": "stop"}
        entries = tx.items(
            **{names[n]: decode(options[n]) for n in names if n in options},
            reverse="reverse" in options,
        )
        return [f"{encode(k)} {encode(v)}" for k, v in entries] + ["end"]

    def do_ingest(self, source, *words):
        table = self.path.parent / "a-table"
        left = list(words)
        with loamdb.TableWriter(table) as w:
            while left:
                op, key = left.pop(0), decode(left.pop(0))
                if op == "put":
                    w.put(key, decode(left.pop(0)))
                elif op == "expire":
                    w.put(key, decode(left.pop(0)), ttl=int(left.pop(0)))
                elif op == "delrange":
                    w.delete_range(key, decode(left.pop(0)))
                else:
                    w.delete(key)
        source.ingest([table], move=True)

    def do_bulkload(self, source, *words):
        source.bulk_load(
            (decode(k), decode(v)) for k, v in zip(words[::2], words[1::2], strict=True)
        )

    def do_checkpoint(self, source, name):
        path = self.path.parent / name
        self.db.checkpoint(path)
        self.path, old = path, self.db
        old.close()
        self.db = self.open()

    def do_backup(self, source, name):
        path = self.path.parent / name
        with loamdb.Backups(self.path.parent / "backups") as backups:
            made = backups.create(self.database())
            backups.verify(made.id)
            backups.restore(made.id, path)
        self.path = path
        self.do_reopen(source)

    def database(self):
        return self.db

    def do_dump(self, source, name):
        path, old = self.path.parent / name, self.database()
        stream = io.BytesIO()
        old.dump(stream)
        stream.seek(0)
        native = (self.path / "CURRENT").is_dir()
        with loamdb.open(path, format="native" if native else "leveldb") as db:
            db.load(stream)
        self.path = path
        self.do_reopen(source)

    def do_iter(self, source, *words):
        options = dict(w.partition("=")[::2] for w in words)
        entries = self.entries(
            source,
            {n: decode(options[n]) for n in ("prefix", "lower", "upper") if n in options},
            "reverse" in options,
        )
        limit = int(options["limit"]) if "limit" in options else None
        return [f"{encode(k)} {encode(v)}" for k, v in itertools.islice(entries, limit)] + ["end"]

    def do_seek(self, source, key):
        return self.first(source, decode(key), reverse=False)

    def do_seeklt(self, source, key):
        return self.first(source, decode(key), reverse=True)

    def first(self, source, key, reverse):
        it = self.entries(source, {}, reverse)
        it.seek(key)
        return [f"{encode(k)} {encode(v)}" for k, v in itertools.islice(it, 1)] or ["none"]

    # What differs between the faces.

    def new_batch(self):
        return self.db.batch()

    def entries(self, source, bounds, reverse):
        names = {"lower": "start", "upper": "stop", "prefix": "prefix"}
        return source.items(**{names[n]: key for n, key in bounds.items()}, reverse=reverse)

    def do_has(self, source, key):
        return [str(decode(key) in source).lower()]

    def do_multiget(self, source, *keys):
        return [shown(v) for v in source.multi_get(decode(k) for k in keys)]

    def do_flush(self, source):
        self.db.flush()

    def do_compact(self, source):
        self.db.compact()

    def do_verify(self, source):
        self.db.verify()


class LevelDBRunner(Runner):
    """Runs operations on a database in LevelDB's format."""

    def open(self):
        return loamdb.open(self.path, format="leveldb")


class PlyvelRunner(Runner):
    """Runs operations on loamdb.plyvel."""

    def do_delrange(self, source, start, limit):
        for key in list(
            self.db.iterator(start=decode(start), stop=decode(limit), include_value=False)
        ):
            self.db.delete(key)

    def open(self):
        return loamdb.plyvel.DB(str(self.path), create_if_missing=True)

    def new_batch(self):
        return self.db.write_batch()

    def do_checkpoint(self, source, name):
        self.do_reopen(source)  # plyvel has nothing of the kind

    do_backup = do_dump = do_checkpoint

    def entries(self, source, bounds, reverse):
        names = {"lower": "start", "upper": "stop", "prefix": "prefix"}
        return source.iterator(**{names[n]: key for n, key in bounds.items()}, reverse=reverse)

    def do_has(self, source, key):
        return [str(source.get(decode(key)) is not None).lower()]

    def do_multiget(self, source, *keys):
        return [shown(source.get(decode(k))) for k in keys]

    def do_flush(self, source):
        self.db.compact_range()

    def do_compact(self, source):
        self.db.compact_range()

    def do_verify(self, source):
        pass  # plyvel has nothing of the kind


class NativeRunner(Runner):
    """Runs operations on keyspaces."""

    def open(self):
        self.root = loamdb.open(self.path, format="native")
        return self.root.keyspace("default")

    def run(self, operation, *words):
        if any(w.startswith("@") for w in words):
            (at,) = (w[1:] for w in words if w.startswith("@"))
            with self.db.snapshot(of=self.snapshots[at]) as source:
                return getattr(self, f"do_{operation}")(
                    source, *(w for w in words if not w.startswith("@"))
                )
        return super().run(operation, *words)

    def do_use(self, source, name, operator=None):
        self.db = self.root.keyspace(name, merge_operator=operator)

    def root_of_transactions(self):
        return self.root

    def do_drop(self, source, name):
        self.root.drop_keyspace(name)

    def database(self):
        return self.root

    def do_spaces(self, source):
        return [" ".join(self.root.keyspaces())]

    def do_reopen(self, source):
        self.db.close()
        self.root.close()
        self.db = self.open()

    def do_listen(self, source):
        self.feed = self.root.changes()
        self.do_changes(source)
        return ["end"]

    def do_changes(self, source):
        lines = []
        while (change := self.feed.next(0)) is not None:
            for o in change:
                lines.append(
                    f"{o.kind} {o.keyspace or '-'} {encode(o.key)} "
                    f"{encode(o.value or b'')}{' expires' if o.expires else ''}"
                )
        return [*lines, "end"]

    def do_checkpoint(self, source, name):
        path = self.path.parent / name
        self.root.checkpoint(path)
        self.path = path
        self.do_reopen(source)


@pytest.mark.parametrize("runner", [Runner, LevelDBRunner, PlyvelRunner])
def test_conformance(path, runner):
    conform(runner(path), "script", "expected")


@pytest.mark.parametrize("runner", [Runner, LevelDBRunner])
def test_transaction_conformance(path, runner):
    conform(runner(path), "transactions", "transactions.expected")


def test_native_conformance(path):
    conform(NativeRunner(path), "native", "native.expected")


def test_changes_conformance(path):
    conform(NativeRunner(path), "changes", "changes.expected")


def conform(session, script, expected):
    printed = []
    for line in (CONFORMANCE / script).read_text().splitlines():
        line = line.partition("#")[0].strip()
        if line:
            printed += [f"> {line}", *session.run(*line.split())]
    session.db.close()
    if isinstance(session, NativeRunner):
        session.root.close()
    assert printed == (CONFORMANCE / expected).read_text().splitlines()
