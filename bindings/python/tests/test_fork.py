"""Children of fork(): each has an engine of its own, and what the parent opened answers
ForkedError in them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap

import loamdb
import pytest

ROUNDS = 200 if os.environ.get("LOAM_T2") else 4

linux = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere a child cannot load a second copy"
)

START = """
    import os, sys, threading, warnings
    import loamdb
    warnings.simplefilter("ignore")
    base = sys.argv[1]

    def in_child(function):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                function()
                status = 0
            except BaseException:
                import traceback
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(status)
        return pid

    def ended(pid):
        status = os.waitpid(pid, 0)[1]
        assert status == 0, status

    def use(name, n=300):
        with loamdb.open(f"{base}/{name}") as db:
            for i in range(n):
                db[b"%d" % i] = b"%d" % i * 10
            for i in range(n):
                assert db[b"%d" % i] == b"%d" % i * 10
            db.compact()
            assert len(db) == n
"""


def run(program: str, *args: object, timeout: float = 600) -> str:
    """Runs a program that must end well and say nothing on stderr."""
    command = [
        sys.executable,
        "-X",
        "dev",
        "-W",
        "ignore",
        "-c",
        textwrap.dedent(START) + textwrap.dedent(program),
        *map(str, args),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_before_the_first_open(tmp_path):
    """Only opening puts an engine into a process."""
    run(
        """
        for i in range(3):
            ended(in_child(lambda: use(i)))
        """,
        tmp_path,
    )


USES_OF_THE_PARENTS = """
    db = loamdb.open(base + "/parent", cache=loamdb.Cache("1MiB"))
    cache = loamdb.Cache(1 << 20)
    db[b"a"] = b"1"
    snapshot, iterator, batch, other = db.snapshot(), db.items(), db.batch(), db.batch()
    view = db.prefixed(b"a")
    feed, tx = db.changes(), db.transaction()
    table, folder = loamdb.TableWriter(base + "/table"), loamdb.Backups(base + "/backups")
    calls = [
        lambda: feed.next(0), lambda: next(feed), lambda: feed.position, lambda: db.changes(),
        lambda: tx.get(b"a"), lambda: tx.put(b"a", b""), lambda: tx.savepoint(),
        lambda: tx.rollback(), lambda: tx.commit(),
        lambda: tx.items(), lambda: db.transaction(), lambda: table.put(b"a", b""),
        lambda: table.finish(), lambda: folder.list(),
        lambda: folder.create(db), lambda: db.ingest([]), lambda: db.bulk_load([]),
        lambda: db[b"a"], lambda: db.get(b"a"), lambda: db.put(b"a", b"2"), lambda: db.delete(b"a"),
        lambda: b"a" in db, lambda: db.multi_get([b"a"]), lambda: next(iterator),
        lambda: iterator.seek(b"a"),
        lambda: db.items(), lambda: db.snapshot(), lambda: db.batch(), lambda: snapshot[b"a"],
        lambda: snapshot.items(),
        lambda: view.get(b""), lambda: len(db), lambda: db.clear(), lambda: db.update({b"a": b"b"}),
        lambda: batch.put(b"a", b"2"), lambda: batch.delete(b"a"), lambda: batch.write(),
        lambda: len(batch),
        lambda: batch.size, lambda: batch.clear(), lambda: batch.append(other),
        lambda: db.compact(), lambda: db.flush(), lambda: db.verify(),
        lambda: db.checkpoint("copy"), lambda: db.dump(os.devnull), lambda: db.load(os.devnull),
        lambda: db.sync(), lambda: db.resume(), lambda: db.metrics(),
        lambda: db.set_option("block_size", 4096), lambda: db.option("block_size"),
        lambda: db.property("leveldb.stats"),
        lambda: db.approximate_size(), lambda: db.comparator_name(),
        lambda: db.compaction_paused().__enter__(),
        lambda: db.close(),
    ]

    def all_refused():
        for i, call in enumerate(calls):
            try:
                call()
            except loamdb.ForkedError as error:
                assert "before fork()" in str(error), error
            else:
                print("no error from call", i)

    def cannot_share(cache):
        try:
            loamdb.open(base + "/shared", cache=cache)
        except loamdb.ForkedError:
            return
        print("a cache of before the fork was taken")
"""


@pytest.mark.parametrize("opens_first", [False, True] if sys.platform == "linux" else [False])
def test_what_the_parent_opened_is_of_no_use(tmp_path, opens_first):
    """Also when the child has a copy of the library, whose handles look the same; and
    the parent works on."""
    out = run(
        textwrap.dedent(USES_OF_THE_PARENTS)
        + textwrap.dedent("""
        def child():
            if len(sys.argv) > 2:
                mine = loamdb.open(base + "/child", cache=loamdb.Cache("1MiB"))
                mine[b"a"] = b"mine"
                things = mine.snapshot(), mine.items(), mine.batch(), mine.batch()
                feeds = [mine.changes() for _ in range(20)]
                transactions = [mine.transaction() for _ in range(20)]
                tables = [loamdb.TableWriter(f"{base}/table{i}") for i in range(20)]
                cannot_share(cache)
            all_refused()
            feed.close()
            table.close()
            folder.close()
            calls.clear()
            del globals()["tx"], globals()["feed"]
            if len(sys.argv) > 2:
                # Under the same handles as those of the parent, perhaps.
                for each in tables:
                    each.close()
                for each in feeds:
                    assert len(each.next(0)) == 1
                for i, each in enumerate(transactions):
                    each.put(b"tx", b"%d" % i)
                    each.rollback()
                assert list(mine.items()) == [(b"a", b"mine")] and not mine.closed
                mine.close()
            db.close()  # twice is harmless
            cache.close()

        ended(in_child(child))
        tx.put(b"c", b"3")
        tx.commit()
        assert len(feed.next(0)) == 1 and len(feed.next(0)) == 1
        table.put(b"a", b"1")
        table.finish()
        assert folder.create(db).id == 1
        assert db[b"a"] == b"1" and list(iterator) == [(b"a", b"1")]
        db[b"b"] = b"2"
        try:
            loamdb.open(base + "/parent")
        except loamdb.LockedError:
            print("still locked")
        """),
        tmp_path,
        *(["open"] if opens_first else []),
    )
    assert out == "still locked\n"


@linux
def test_before_forking_servers(tmp_path):
    """A parent that opened, wrote and closed a database, as gunicorn's with preload; four
    workers that read it, and write their own, round after round."""
    out = run(
        """
        def app(i):
            with loamdb.open(base + "/app") as db:
                db.update({b"%d" % j: b"v%d" % j for j in range(100)})
                if i % 3 == 0:
                    db.compact()

        def worker(w):
            while True:
                try:
                    with loamdb.open(base + "/app", read_only=True) as db:
                        assert len(list(db.items())) == 100 and db[b"7"] == b"v7"
                    break
                except loamdb.LockedError:
                    pass
            use(f"worker{w}", 2500)

        for i in range(int(sys.argv[2])):
            app(i)
            for pid in [in_child(lambda: worker(w)) for w in range(4)]:
                ended(pid)
        print("ok")
        """,
        tmp_path,
        ROUNDS,
        timeout=600 + 3 * ROUNDS,
    )
    assert out == "ok\n"


@linux
def test_children_of_children(tmp_path):
    """Every generation has a copy of its own."""
    out = run(
        """
        def child(depth):
            use(f"d{depth}")
            if depth < 12:
                ended(in_child(lambda: child(depth + 1)))
            else:
                maps = open("/proc/self/maps").read()
                lines = [line for line in maps.splitlines() if "libloam.so" in line]
                print(len({line.split()[4] for line in lines if " r-xp " in line}))
            use(f"d{depth}")

        child(0)
        """,
        tmp_path,
    )
    assert out == "13\n"


@linux
def test_threads_fork(tmp_path):
    """Threads fork while others use the database; the children's threads all work."""
    out = run(
        """
        def child(t, i):
            threads = [threading.Thread(target=use, args=(f"t{t}-{k}",)) for k in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        def fork(t):
            for i in range(5):
                ended(in_child(lambda: child(t, i)))

        with loamdb.open(base + "/parent", write_buffer_size="1MiB") as db:
            going = True

            def busy():
                i = 0
                while going:
                    db.put(b"%d" % (i % 5000), b"v" * 500)
                    i += 1

            others = [threading.Thread(target=busy) for _ in range(2)]
            forking = [threading.Thread(target=fork, args=(t,)) for t in range(3)]
            for thread in others + forking:
                thread.start()
            for thread in forking:
                thread.join()
            going = False
            for thread in others:
                thread.join()
        print("ok")
        """,
        tmp_path,
    )
    assert out == "ok\n"


@linux
def test_multiprocessing_by_fork(tmp_path):
    out = run(
        """
        import multiprocessing

        def work(i):
            use(f"{os.getpid()}", 50)
            return i

        use("parent")
        with multiprocessing.get_context("fork").Pool(3, maxtasksperchild=2) as pool:
            assert pool.map(work, range(20), chunksize=1) == list(range(20))
        use("parent")
        print("ok")
        """,
        tmp_path,
    )
    assert out == "ok\n"


@linux
@pytest.mark.parametrize("handler", ["none", "before", "after"])
def test_a_fault_in_a_child_ends_it(tmp_path, handler):
    """Signals do not reach the parent's copy of the runtime, which could not answer."""
    command = [sys.executable, "-c", textwrap.dedent(START) + textwrap.dedent("""
        import ctypes, faulthandler, signal
        null = open(os.devnull, "w")
        if sys.argv[2] == "before":
            faulthandler.enable(null)
        use("parent")
        if sys.argv[2] == "after":
            faulthandler.enable(null)
        pid = os.fork()
        if pid == 0:
            use("child")
            print("used", flush=True)
            os.dup2(null.fileno(), 2)
            ctypes.string_at(0)
        signal.alarm(30)
        print(os.WIFSIGNALED(os.waitpid(pid, 0)[1]))
        """), tmp_path, handler]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout) == (0, "used\nTrue\n"), done.stderr


@linux
def test_without_memory_files(tmp_path):
    """Where the kernel refuses executable files in memory, the copy is a temporary file."""
    out = run(
        """
        def refuse(*args):
            raise PermissionError(13, "no")

        use("parent")
        os.memfd_create = refuse
        os.environ["TMPDIR"] = base
        ended(in_child(lambda: use("child")))
        print([name for name in os.listdir(base) if "libloam" in name])
        """,
        tmp_path,
    )
    assert out == "[]\n"


@linux
def test_signals_go_back_to_the_program(tmp_path):
    """Handlers of the program stay; those of the parent's runtime are out."""
    out = run(
        """
        import faulthandler, signal
        got = []
        faulthandler.enable()
        use("parent")
        signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
        signal.signal(signal.SIGUSR2, lambda *_: got.append(2))

        def child():
            use("child")
            os.kill(os.getpid(), signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGUSR2)
            assert faulthandler.is_enabled() and set(got) == {1, 2}, got

        ended(in_child(child))
        print("ok")
        """,
        tmp_path,
    )
    assert out == "ok\n"


@linux
def test_too_little_address_space(tmp_path):
    """Go's runtime would end the process while it loads."""
    program = """
        import resource, sys
        import loamdb
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, resource.RLIM_INFINITY))
        try:
            loamdb.open(sys.argv[1])
        except loamdb.NoMemoryError as error:
            print(error)
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        loamdb.open(sys.argv[1]).close()
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), tmp_path / "db"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "address space" in done.stdout and "ulimit -v" in done.stdout


def test_import_registers_nothing(tmp_path):
    """A process that only imports pays nothing for forks."""
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, loamdb, loamdb.plyvel; print('loamdb._forked' in "
            "sys.modules, 'resource' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout == "False False\n"
    assert pathlib.Path(loamdb.__file__).parent.joinpath("_forked.py").exists()
