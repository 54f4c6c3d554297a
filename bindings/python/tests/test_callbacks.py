"""Comparators and loggers that fail, are interrupted, or outlive the call that set them."""

from __future__ import annotations

import gc
import random
import sys
import weakref

import loamdb
import pytest
from test_process import run


class Moody:
    """An order by bytes that raises what it is told to, once or always."""

    def __init__(self) -> None:
        self.raises: BaseException | None = None
        self.times = 0
        self.calls = 0

    def __call__(self, a: bytes, b: bytes) -> int:
        self.calls += 1
        if self.raises is not None and self.times != 0:
            self.times -= 1
            raise self.raises
        return (a > b) - (a < b)


def opened(path, compare, **options):
    return loamdb.open(path, comparator=compare, comparator_name="moody", **options)


OPERATIONS = {
    "get": lambda db: db.get(b"00050"),
    "get of a missing key": lambda db: db.get(b"none"),
    "getitem": lambda db: db[b"00050"],
    "has": lambda db: b"00050" in db,
    "multi_get": lambda db: db.multi_get([b"00050", b"none"]),
    "put": lambda db: db.put(b"00050", b"new"),
    "batch": lambda db: db.update({b"00050": b"new"}),
    "items": lambda db: list(db.items(start=b"00010")),
    "seek": lambda db: next(seek(db.items(), b"00050")),
    "large value": lambda db: db.get(b"large"),
    "flush": lambda db: (db.put(b"x", b"y"), list(db.items()), db.flush()),
    "compact": lambda db: db.compact(),
}


def seek(it, key):
    it.seek(key)
    return it


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_comparator_that_raises_loses_nothing(path, operation):
    compare = Moody()
    db = opened(path, compare)
    for i in range(100):
        db.put(b"%05d" % i, b"v")
        if i == 60:
            db.flush()
    db.put(b"large", b"v" * 100_000)
    compare.raises, compare.times = ValueError("no order today"), -1
    calls = compare.calls
    with pytest.raises(ValueError, match="no order today") as caught:
        for _ in range(2):  # the first may do without comparing
            OPERATIONS[operation](db)
            if compare.calls == calls:
                raise ValueError("no order today")
    first = caught.value is compare.raises
    compare.raises = None
    if first:
        with pytest.raises((loamdb.CallbackError, loamdb.ReadOnlyError)) as later:
            db.put(b"a", b"b")
        assert "no order today" in str(later.value) and later.value.__cause__ is caught.value
    db.close()
    with opened(path, Moody()) as db:
        assert (
            list(db.keys(stop=b"00100")) == [b"%05d" % i for i in range(100)]
            and len(db[b"large"]) == 100_000
        )


def test_the_order_is_the_sign_of_the_answer(path):
    """Python's numbers have no size, C's have."""

    def number(key: bytes) -> int:
        return int.from_bytes(key, "big")

    keys = [(i * 10**10).to_bytes(8, "big") for i in range(1, 200)] + [
        (2**63 + i).to_bytes(8, "big") for i in range(3)
    ]
    random.Random(1).shuffle(keys)
    with opened(path, lambda a, b: number(a) - number(b)) as db:
        for key in keys:
            db[key] = key
        for _ in range(2):
            assert list(db) == sorted(keys) and all(db[key] == key for key in keys)
            db.flush()


@pytest.mark.parametrize("answer", ["less", None, object()])
def test_an_answer_that_is_no_number_is_a_failure(path, answer):
    with pytest.raises(TypeError), opened(path, lambda a, b: answer) as db:
        for i in range(10):
            db[b"%d" % i] = b""
        list(db.keys())


def test_a_failing_comparator_is_seen_by_list(path):
    """list() asks for the length first, and takes a TypeError for "has none"."""
    answers = [lambda a, b: (a > b) - (a < b)]
    with (
        pytest.raises(loamdb.CallbackError) as caught,
        opened(path, lambda a, b: answers[0](a, b)) as db,
    ):
        for i in range(10):
            db[b"%d" % i] = b""
        db.flush()
        answers[0] = lambda a, b: None
        list(db)
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, RuntimeError])
def test_interrupts_are_raised_and_change_no_order(path, kind):
    """Signal handlers run inside callbacks. What they raise is raised by the call, which
    has done its work, and the database goes on."""
    compare = Moody()
    with opened(path, compare, write_buffer_size="256KiB") as db:
        keys = [b"%06d" % (i * 7919 % 2000) for i in range(2000)]
        interrupted = 0
        for i, key in enumerate(keys):
            compare.raises, compare.times = kind(), int(i % 20 == 0)
            try:
                db[key] = key
                assert db[key] == key
            except kind:
                interrupted += 1
                compare.times = 0
                db[key] = key
        compare.times = 0
        assert interrupted > 50
        for _ in range(2):
            assert list(db) == sorted(keys) and all(db[key] == key for key in keys)
            db.compact()


def test_ctrl_c_again_and_again(path):
    """Real signals, at any moment of calls that compare."""
    out = run(
        """
        import os, signal, sys, threading, time
        import loamdb
        main, done, armed = threading.get_ident(), threading.Event(), False
        def handler(*args):
            global armed
            if armed:
                armed = False
                raise KeyboardInterrupt
        signal.signal(signal.SIGINT, handler)
        def send():
            while not done.wait(0.002):
                signal.pthread_kill(main, signal.SIGINT)
        db = loamdb.open(sys.argv[1], comparator=lambda a, b: (a > b) - (a < b),
            comparator_name="c")
        sender = threading.Thread(target=send)
        interrupts, i = 0, 0
        sender.start()
        while interrupts < 100:
            try:
                armed = True
                while i < 100_000:
                    key = b"%06d" % (i * 7919 % 100_000)
                    db.put(key, key)
                    i += 1
                    if i % 100 == 0:
                        next(db.items(start=key))
            except KeyboardInterrupt:
                interrupts += 1
        done.set()
        sender.join()
        keys = list(db)
        assert keys == sorted(set(keys)) and len(keys) >= i, (len(keys), i)
        assert all(db[k] == k for k in keys)
        db.close()
        print("ok")
        """,
        path,
        timeout=600,
    )
    assert out == "ok\n"


def test_an_interrupted_open_leaves_its_callbacks(path):
    """The job goes on, with a comparator and a logger that live until it has ended."""
    out = run(
        """
        import gc, os, signal, subprocess, sys, threading, weakref
        import loamdb
        write = '''
        import os, sys, loamdb
        db = loamdb.open(sys.argv[1], comparator=lambda a, b: (a > b) - (a < b),
            comparator_name="c", disable_compaction=True)
        for r in range(3):
            db.update((b"%05d" % ((i * 7919 + r) % 9000), b"x" * 50) for i in range(800))
        list(db.keys(stop=b"00001"))
        os.kill(os.getpid(), 9)
        '''
        import textwrap
        subprocess.run([sys.executable, "-c", textwrap.dedent(write), sys.argv[1]])

        class Stop(Exception):
            pass
        def handler(*args):
            raise Stop
        signal.signal(signal.SIGALRM, handler)

        asked, dropped, ended = 0, threading.Event(), threading.Event()
        def make():
            def compare(a, b):
                global asked
                asked += 1
                if asked == 100:
                    os.kill(os.getpid(), signal.SIGALRM)
                    dropped.wait()
                return (a > b) - (a < b)
            class Logger:
                def log(self, *args):
                    pass
            weakref.finalize(compare, ended.set)
            return dict(comparator=compare, comparator_name="c", logger=Logger())
        try:
            loamdb.open(sys.argv[1], **make()).close()
            print("opened")
        except Stop:
            print("interrupted")
        gc.collect()
        junk = [bytearray(64) for _ in range(200_000)]
        dropped.set()
        ended.wait()  # the job has opened the database and closed it
        with loamdb.open(sys.argv[1], comparator=lambda a, b: (a > b) - (a < b),
            comparator_name="c") as db:
            print(len(list(db)))
        """,
        path,
        timeout=600,
    )
    assert out.split()[0] == "interrupted" and int(out.split()[1]) == len(
        {(i * 7919 + r) % 9000 for i in range(800) for r in range(3)}
    )


def test_a_logger_that_raises_is_not_asked_again(path):
    class Logger:
        calls = 0

        def log(self, *args):
            self.calls += 1
            raise ValueError("full")

    unraisable = []
    hook, sys.unraisablehook = sys.unraisablehook, unraisable.append
    try:
        logger = Logger()
        for _ in range(2):
            with loamdb.open(path, logger=logger, format="leveldb") as db:
                db[b"a"] = b"1"
                db.flush()
        log = max(path.glob("*.log"))
        log.write_bytes(b"damaged" * 100)  # something to say at the next open
        with loamdb.open(path, logger=logger) as db:
            while not db.metrics()["logger_error"]:  # the logger is called in the background
                pass
        assert logger.calls == 1 and isinstance(unraisable[0].exc_value, ValueError)
    finally:
        sys.unraisablehook = hook


def test_a_load_after_an_interrupt(path):
    """Ctrl-C that an earlier call raised does not end a load."""
    moody = Moody()
    with opened(path, moody) as db:
        db.update({b"%05d" % i: b"" for i in range(300)})
        moody.raises, moody.times = KeyboardInterrupt(), 1
        with pytest.raises(KeyboardInterrupt):
            db.get(b"00050")
        entries = ((b"%05d" % (i * 7 % 3000 + 1000), bytes(1000)) for i in range(3000))
        db.bulk_load(entries, memory=1)
        assert len(db) == 3300


@pytest.mark.parametrize("name", ["a\0b", "half \ud800"])
def test_names_that_c_cannot_take(path, name):
    """They are refused, and what they are the names of is let go."""

    class Callback:
        __qualname__ = name

        def __call__(self, *args: bytes) -> int:
            return 0

    callback = Callback()
    gone = weakref.ref(callback)
    for options in (
        {"comparator": callback, "comparator_name": name},
        {"compaction_filter": callback},
        {"merge_operator": loamdb.MergeOperator(name, callback)},
    ):
        with pytest.raises(ValueError, match="null character in the name of|surrogates"):
            loamdb.open(path, **options)
    del callback, options
    gc.collect()
    assert gone() is None
    with loamdb.open(path) as db, pytest.raises(ValueError, match="null character|surrogates"):
        db.transaction(name=name)


def test_prefixes_are_bytes():
    with pytest.raises(TypeError, match="a bytes-like object is required"):
        loamdb.prefix_filter(3)
