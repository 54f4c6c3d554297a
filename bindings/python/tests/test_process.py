"""Spawn, threads, garbage, exit and Ctrl-C, each in a process of its own where
it could take this one along."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import pathlib
import random
import signal
import subprocess
import sys
import textwrap
import threading

import loamdb
import pytest
from loamdb import _handles
from loamdb._library import Job

EXITS = int(os.environ.get("LOAMDB_TEST_EXITS", "200" if os.environ.get("LOAM_T2") else "30"))


def run(program: str, *args: object, timeout: float = 600, malloc: str = "debug") -> str:
    """Runs a program that must end well and say nothing on stderr. malloc is PYTHONMALLOC."""
    command = [
        sys.executable,
        "-X",
        "dev",
        "-W",
        "ignore::ResourceWarning",
        "-c",
        textwrap.dedent(program),
        *map(str, args),
    ]
    env = {**os.environ, "PYTHONMALLOC": malloc}
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_import_loads_no_go():
    out = run("""
        import os, sys
        import loamdb, loamdb.plyvel
        print(len(os.listdir("/proc/self/task")), "libloam" in open("/proc/self/maps").read())
        """)
    assert out.split() == ["1", "False"]


def test_threads_of_go_block_signals(path):
    out = run(
        """
        import os, sys, loamdb
        db = loamdb.open(sys.argv[1])
        db[b"a"] = b"b"
        db.compact()
        for task in os.listdir("/proc/self/task"):
            if int(task) != os.getpid():
                status = open(f"/proc/self/task/{task}/status").read()
                print(status.split("SigBlk:")[1].split()[0])
        """,
        path,
    )
    masks = out.split()
    assert masks
    # Go itself unblocks only the signals of faults and its own.
    assert all(
        int(mask, 16) >> (signal.SIGINT - 1) & 1 and int(mask, 16) >> (signal.SIGUSR2 - 1) & 1
        for mask in masks
    )


def child(path: str, key: bytes) -> str:
    with loamdb.open(path) as db:
        db[key] = b"child"
        assert len(list(db)) == 1
    return "done"


def locked_out(path: str) -> str:
    try:
        loamdb.open(path)
    except loamdb.LockedError as error:
        return type(error).__name__
    return "opened"


def test_spawn(path, tmp_path):
    with loamdb.open(path) as db:
        db[b"a"] = b"parent"
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            results = [
                pool.apply_async(child, (str(tmp_path / f"{i}"), b"%d" % i)) for i in range(4)
            ]
            assert [r.get(60) for r in results] == ["done"] * 4
            assert pool.apply(locked_out, (str(path),)) == "LockedError"
        assert db[b"a"] == b"parent"


def test_exit(tmp_path):
    """Processes that end with databases, iterators and threads in all states."""
    # Before 3.14 a daemon thread that takes the GIL while the interpreter goes may read its freed
    # state (take_gil), which the debugging allocator has overwritten.
    out = run(
        """
        import os, random, sys, threading
        import loamdb

        def work(db, begun):
            try:
                while True:
                    db.put(random.randbytes(4), b"v" * 1000)
                    begun.set()
                    list(db.keys(prefix=random.randbytes(1)))
            except loamdb.ClosedError:
                pass

        def one(i, path):
            global db, it, snapshot, batch
            db = loamdb.open(path, write_buffer_size="1MiB")
            for j in range(300):
                db[b"%d" % j] = b"v" * 1000
            it, snapshot, batch = db.items(), db.snapshot(), db.batch()
            next(it)
            if i % 5 == 1:
                db.close()
            if i % 5 == 2:
                begun = threading.Event()
                threading.Thread(target=work, args=(db, begun), daemon=True).start()
                begun.wait()
            if i % 5 == 3:
                del db
            if i % 5 == 4:
                db.myself = db  # a cycle, left to the collector

        class Cyclic(loamdb.DB):
            pass  # instances have a __dict__

        for start in range(0, int(sys.argv[2]), 2):
            pids = []
            for i in (start, start + 1):
                pid = os.fork()
                if pid == 0:
                    if i % 5 == 4:
                        loamdb.open = loamdb.DB = Cyclic
                    one(i, f"{sys.argv[1]}/{i % 10}")
                    sys.exit(7)
                pids.append(pid)
            for pid in pids:
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7, start
        print("ok")
        """,
        tmp_path,
        EXITS,
        malloc="default",
    )
    assert out == "ok\n"


def test_garbage(path):
    """Objects nobody closed are released with their last reference, in any order."""
    for i in range(20):
        db = loamdb.open(path)
        with db.batch() as b:
            for j in range(100):
                b[b"%d" % j] = b"x"
        things = [db.items(), db.snapshot(), db.batch(), db.keys(reverse=True)]
        things += [things[1].items()]
        next(things[0])
        random.Random(i).shuffle(things)
        with pytest.warns(ResourceWarning, match="was not closed"):
            del db, b
            while things:
                del things[-1]
            gc.collect()


CYCLES = {
    "an object that keeps its iterator": """
        class Mine(loamdb.DB):
            pass
        it = Mine(path)
        it.entries = it.items()
        """,
    "an object whose method is the comparator": """
        class Store:
            def __init__(self):
                self.db = loamdb.open(path, comparator=self.compare, comparator_name="mine")
                self.db[b"a"] = b"1"
            def compare(self, a, b):
                return (a > b) - (a < b)
        it = Store()
        """,
    "an object that is the logger": """
        class Store:
            def __init__(self):
                self.db = loamdb.open(path, logger=self)
            def log(self, level, message, *args):
                pass
        it = Store()
        """,
    "an object with a batch and a snapshot": """
        class Mine(loamdb.DB):
            pass
        it = Mine(path)
        it.things = it.snapshot(), it.batch()
        """,
}


@pytest.mark.parametrize("cycle", CYCLES)
def test_cycles_are_collected(path, cycle):
    """A cycle through a database ends at the next collection, and with it the lock."""
    out = run(
        """
        import gc, sys, loamdb
        path = sys.argv[1]
        exec(sys.argv[2])
        gc.collect()
        try:
            loamdb.open(path)
            print("not locked")
        except loamdb.LockedError:
            pass
        del it
        gc.collect()
        import os
        print("LOCK" in os.listdir(path), end=" ")
        compare = (lambda a, b: (a > b) - (a < b)) if "comparator" in sys.argv[2] else None
        loamdb.open(path, comparator=compare, comparator_name="mine" if compare else None).close()
        print("opened")
        """,
        path,
        textwrap.dedent(CYCLES[cycle]),
    )
    assert out == "True opened\n"


def test_exit_handlers_can_use_a_database(path):
    """Handlers registered before the import run after those of loamdb."""
    out = run(
        """
        import atexit, sys
        atexit.register(lambda: print(db.get(b"a"), db.put(b"b", b"2")))
        import loamdb
        db = loamdb.open(sys.argv[1])
        db[b"a"] = b"1"
        """,
        path,
    )
    assert out == "b'1' None\n"
    with loamdb.open(path) as db:
        assert db[b"b"] == b"2"


def test_what_is_left_open_at_the_end(path, tmp_path):
    """Objects that live until the interpreter goes are closed without a word, and leave nothing."""
    run(
        """
        import sys
        import loamdb
        db = loamdb.open(sys.argv[1])
        table = loamdb.TableWriter(sys.argv[2] + "/table")
        table.put(b"a", b"1")
        feed = db.changes()
        db[b"a"] = b""
        feed.next(0)
        transaction = db.transaction()
        transaction.put(b"b", b"")
        space = db.keyspace("space")
        folder = loamdb.Backups(sys.argv[2] + "/backups")
        cache, resources = loamdb.Cache(1), loamdb.Resources()
        late = [lambda: (db, table, feed, transaction, space, folder, cache, resources)]
        """,
        path,
        tmp_path,
    )
    assert not (tmp_path / "table").exists()
    with loamdb.Backups(tmp_path / "backups") as backups:
        assert backups.list() == []


def test_iterators_leave_nothing(path):
    def resident() -> int:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096

    with loamdb.open(path) as db:
        with db.batch() as b:
            for i in range(5000):
                b[b"%05d" % i] = b"x" * 100
        for round in range(2):
            for _ in range(1500):
                next(db.items())
                db.snapshot()
                db.batch().put(b"a", b"b" * 20_000)
                db.multi_get([b"00001"])
            if round == 0:
                before = resident()
        assert resident() - before < 16 << 20


def test_threads(path):
    """Every thread sees its own writes, and counts add up."""
    n, per = 8, 400
    failures: list[BaseException] = []
    with loamdb.open(path, write_buffer_size="1MiB") as db:

        def work(t: int) -> None:
            try:
                for i in range(per):
                    key = b"%d-%d" % (t, i)
                    db.put(key, key * 20)
                    assert db[key] == key * 20
                    if i % 50 == 0:
                        assert len(list(db.keys(prefix=b"%d-" % t))) == i + 1
                        with db.batch() as b:
                            b[b"batch-%d" % t] = b"%d" % i
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(t,)) for t in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert failures == []
        assert len(list(db)) == n * per + n


def test_asyncio(path):
    async def main() -> None:
        with loamdb.open(path) as db:

            async def put(i: int) -> None:
                await asyncio.to_thread(db.put, b"%d" % i, b"v", sync=True)

            await asyncio.gather(*(put(i) for i in range(50)), asyncio.to_thread(db.compact))
            assert len(db.multi_get([b"%d" % i for i in range(50)])) == 50
            assert None not in db.multi_get([b"%d" % i for i in range(50)])

    asyncio.run(main())


class Alarm:
    """Raises KeyboardInterrupt, as Ctrl-C does, at a random moment."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        self.timer = threading.Timer(self.seconds, os.kill, (os.getpid(), signal.SIGINT))
        self.timer.start()

    def __exit__(self, *exc: object) -> None:
        self.timer.join()


def fill_two_tables(db, entries):
    """Two tables of which each entry of one lies between two of the other."""
    for part in range(2):
        with db.batch() as b:
            for i in range(entries):
                b[b"%04d%d" % (i, part)] = b"x"
        db.flush()


def test_ctrl_c_in_a_compaction(path):
    counting, interrupted = threading.Event(), threading.Event()
    entries, asked = 5000, 0

    def compare(a: bytes, b: bytes) -> int:
        nonlocal asked
        if counting.is_set():
            asked += 1
            if asked == 100:
                os.kill(os.getpid(), signal.SIGINT)
                interrupted.wait()
        return (a > b) - (a < b)

    with loamdb.open(
        path, comparator=compare, comparator_name="slow", disable_compaction=True
    ) as db:
        fill_two_tables(db, entries)
        counting.set()
        try:
            with pytest.raises(KeyboardInterrupt):
                db.compact()
        finally:
            interrupted.set()
        db.compact()  # begins when the interrupted one, which has its tables, is over
        assert db.metrics()["compact"]["failed"] == 1
        assert len(list(db)) == 2 * entries


def interrupt_next_wait(monkeypatch, before):
    """Ctrl-C comes when a job was started, after before, and Python does not wait for it yet."""

    def wait(job, *args, **kwargs):
        monkeypatch.undo()
        before(job)
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "wait", wait)


def test_ctrl_c_before_the_wait_for_a_compaction(path, monkeypatch):
    counting, begun, interrupted = threading.Event(), threading.Event(), threading.Event()

    def compare(a: bytes, b: bytes) -> int:
        if counting.is_set():
            begun.set()
            interrupted.wait()
        return (a > b) - (a < b)

    with loamdb.open(
        path, comparator=compare, comparator_name="slow", disable_compaction=True
    ) as db:
        fill_two_tables(db, 5000)
        counting.set()
        interrupt_next_wait(monkeypatch, lambda job: begun.wait())
        with pytest.raises(KeyboardInterrupt):
            db.compact()
        interrupted.set()
        db.compact()  # begins when the interrupted one is over
        assert db.metrics()["compact"]["failed"] == 1


def test_ctrl_c_before_an_open_database_is_taken(path, monkeypatch):
    wait = Job.wait
    interrupt_next_wait(monkeypatch, wait)
    with pytest.raises(KeyboardInterrupt):
        loamdb.open(path)
    loamdb.open(path).close()  # no lock was left

    def attach(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(_handles.Handle, "_attach", attach)
    with pytest.raises(KeyboardInterrupt):
        loamdb.open(path)
    monkeypatch.undo()
    loamdb.open(path).close()


def test_ctrl_c_in_a_scan(db):
    """list() of an iterator stays in C, which looks at signals between blocks."""
    with db.batch() as b:
        for i in range(300_000):
            b[b"%07d" % i] = b""
    it = db.keys()
    with pytest.raises(KeyboardInterrupt):
        with Alarm(0.002):
            for _ in range(100):
                list(it)
                it = db.keys()
    it.seek(b"")  # it may stand at the end
    assert next(it) == b"%07d" % 0


def test_sub_interpreters(path):
    """The types and the engine are the process's own: other interpreters get one sentence."""
    out = run(
        """
        import sys
        import loamdb

        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters

        def run(*config):
            interpreter = interpreters.create(*config)
            failed = interpreters.run_string(interpreter, sys.argv[2])
            assert failed is None, failed
            interpreters.destroy(interpreter)

        with loamdb.open(sys.argv[1]) as db:
            db[b"a"] = b"1"
            run()
            run()
            if sys.version_info >= (3, 13):
                run("legacy")
            assert db[b"a"] == b"1" and list(db.items()) == [(b"a", b"1")]

        # A module that is imported anew has the same types.
        database = loamdb._fast.Database
        for name in [name for name in sys.modules if name.startswith("loamdb")]:
            del sys.modules[name]
        import loamdb
        assert loamdb._fast.Database is database
        with loamdb.open(sys.argv[1]) as db, db.snapshot() as snapshot:
            assert list(snapshot.items()) == [(b"a", b"1")]
        print("ok")
        """,
        path,
        textwrap.dedent("""
            try:
                import loamdb
            except ImportError as error:
                assert "interpreter" in str(error), error
            else:
                raise RuntimeError("it was imported")
            """),
    )
    assert out == "ok\n"


def test_threads_share_everything(path):
    """One iterator, batch, snapshot and database in the hands of many threads, closed under
    them: an error is allowed, a wrong entry or a crash is not. Without an interpreter lock
    they really meet."""
    out = run(
        """
        import itertools, sys, threading, random
        import loamdb
        allowed = (loamdb.ClosedError, loamdb.InUseError)
        failures = []
        entries = {b"%04d" % i: b"%04d" % i * 5 for i in range(2000)}

        def loop(function):
            turned = threading.Event()
            turning.append(turned)
            def work():
                started.wait()
                try:
                    for turn in itertools.count():
                        if turn == 20:
                            turned.set()
                        if not going:
                            break
                        try:
                            function()
                        except allowed:
                            pass
                        except StopIteration:
                            it.seek_to_start()
                except allowed:
                    pass
                except BaseException as error:
                    failures.append(error)
                finally:
                    turned.set()
            return threading.Thread(target=work)

        def right(entry):
            assert entries[entry[0]] == entry[1], entry

        def scan():
            for entry in db.items(prefix=random.choice([b"00", b"01"])):
                right(entry)

        def write():
            with db.batch() as mine:
                mine.put(b"0007", entries[b"0007"])

        def read():
            assert db[b"0100"] == snapshot[b"0100"] == entries[b"0100"]

        compare = lambda a, b: (a > b) - (a < b)
        for round in range(6):
            extra = {"comparator": compare, "comparator_name": "mine"} if round % 3 == 2 else {}
            db = loamdb.open(sys.argv[1] + str(round % 3), **extra)
            db.update(entries)
            if round % 2:
                db.compact()
            it, snapshot, batch = db.items(), db.snapshot(), db.batch()
            going, started, turning = True, threading.Event(), []
            threads = [
                loop(lambda: right(next(it))), loop(lambda: right(next(it))),
                loop(lambda: right(it.prev())),
                loop(lambda: it.seek(b"%04d" % random.randrange(2000))), loop(scan), loop(write),
                loop(read),
                loop(lambda: batch.put(b"1", b"2")), loop(lambda: batch.clear()),
                loop(lambda: db.multi_get([b"0001"])),
            ]
            for thread in threads:
                thread.start()
            started.set()
            for turned in turning:
                turned.wait()
            closers = [threading.Thread(target=thing.close) for thing in random.sample([it,
                snapshot, db, db, it], 5)]
            for thread in closers:
                thread.start()
            for thread in closers:
                thread.join()
            going = False
            for thread in threads:
                thread.join()
            assert it.closed and snapshot.closed and db.closed
            assert not failures, failures
        print("ok")
        """,
        path,
        timeout=600,
    )
    assert out == "ok\n"
