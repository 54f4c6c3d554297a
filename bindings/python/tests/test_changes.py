import sys
import threading
import time

import loamdb
import pytest


def test_changes(path):
    """A feed shows what is written, goes on after a restart, and says what is gone."""
    with loamdb.open(path, wal_retention_bytes="1MiB") as db, db.changes() as feed:
        assert feed.position == 1
        assert feed.next(0) is None
        begun = time.monotonic()
        assert feed.next(0.05) is None
        assert time.monotonic() - begun >= 0.05
        db[b"a"] = b"1"
        with db.batch() as b:
            b.put(b"b", b"2")
            b.delete(b"a")
        db.put_ttl(b"c", b"3", 1000)
        seen = [feed.next() for _ in range(3)]
        assert [(o.seq, o.kind, o.key, o.value, o.keyspace) for c in seen for o in c] == [
            (1, "put", b"a", b"1", "default"),
            (2, "put", b"b", b"2", "default"),
            (3, "delete", b"a", None, "default"),
            (4, "put", b"c", b"3", "default"),
        ]
        expires = next(iter(seen[2])).expires
        assert expires is not None and abs(expires - time.time() - 1000) < 60
        assert [(c.seq, c.next, len(c)) for c in seen] == [(1, 2, 1), (2, 4, 2), (4, 5, 1)]
        assert feed.position == 5 and feed.next(0) is None
        for i in range(1000):
            db[b"k%d" % i] = b""
        assert sum(len(feed.next()) for _ in range(1000)) == 1000
        assert feed.position == 1005
    with pytest.raises(loamdb.errors.ClosedError):
        feed.next(0)
    with loamdb.open(path, wal_retention_bytes="1MiB") as db:
        with db.changes(1004) as feed:
            assert [o.key for o in feed.next()] == [b"k999"]
        with pytest.raises(loamdb.errors.GapError, match="2000"):
            db.changes(2000)


def test_durable(path):
    with loamdb.open(path) as db, db.changes(durable=True) as feed:
        db[b"a"] = b""
        assert feed.next(0) is None
        db.sync()
        assert feed.next(0) is not None


def test_waits(path):
    """A wait ends with a write, with the feed and with the database."""
    with loamdb.open(path) as db:
        feed = db.changes()
        timer = threading.Timer(0.05, db.put, (b"a", b""))
        timer.start()
        assert len(next(feed)) == 1
        timer.join()
        timer = threading.Timer(0.05, db.put, (b"b", b""))
        timer.start()
        assert len(feed.next(float("inf"))) == 1
        timer.join()
        timer = threading.Timer(0.05, feed.close)
        timer.start()
        with pytest.raises(loamdb.errors.ClosedError):
            next(feed)
        timer.join()
        feed = db.changes(3)
        timer = threading.Timer(0.05, db.close)
        timer.start()
        with pytest.raises(loamdb.errors.ClosedError):
            next(feed)
        timer.join()
        feed.close()
        feed.close()


def test_changes_are_read_when_their_feed_is_closed(path):
    with loamdb.open(path) as db:
        users = db.keyspace("users")
        users[b"a"] = b"1"
        with db.batch() as batch:
            batch.delete(b"b")
            batch.put_ttl(b"c", bytes(300), 60)
            batch.use(users)
            batch.delete(bytes(200))
        with db.changes() as feed:
            changes = [next(feed), next(feed)]
    assert [[(o.kind, o.keyspace) for o in change] for change in changes] == [
        [("put", "users")],
        [("delete", "default"), ("put", "default"), ("delete", "users")],
    ]


def test_follower(path):
    """A follower's feed has what was written in the other opening."""
    with (
        loamdb.open(path) as db,
        loamdb.follow(path, follow_interval="1ms") as follower,
        follower.changes() as feed,
    ):
        for i in range(10):
            db[b"%d" % i] = b""
            assert [(o.seq, o.key) for o in next(feed)] == [(i + 1, b"%d" % i)]
        with pytest.raises(loamdb.errors.InvalidArgumentError, match="durable"):
            follower.changes(durable=True)
    with loamdb.open(path) as db, loamdb.follow(path) as follower, follower.changes(11) as feed:
        db[b"a"] = b""
        assert feed.next(0) is None
        follower.catch_up()
        change = feed.next(0)
        assert change is not None and [o.key for o in change] == [b"a"]


def test_a_change_that_another_thread_takes(path, monkeypatch):
    """What one thread fetched may be handed out by another one before it looks."""
    fetch = loamdb.Changes._fetch

    def taken(feed, end):
        done = fetch(feed, end)
        feed._ready.clear()
        return done

    monkeypatch.setattr(loamdb.Changes, "_fetch", taken)
    with loamdb.open(path) as db, db.changes() as feed:
        db[b"a"] = b"1"
        assert feed.next(0) is None
        assert feed.position == 2


def interrupted_reads(feed, nth):
    """Reads a feed until an exception comes at the nth place in its code at which one of a signal
    handler may come. Returns what it gave, and whether the exception came."""
    seen, left = [], [nth]

    def come(frame, event, arg):
        code = frame.f_code
        if (
            event in ("call", "c_return")
            and code.co_filename == loamdb.Changes.next.__code__.co_filename
            and code.co_name != "end"  # of memory: it may come at any place
        ):
            left[0] -= 1
            if left[0] == 0:
                sys.setprofile(None)
                raise KeyboardInterrupt

    sys.setprofile(come)
    try:
        while (change := feed.next(0)) is not None:
            seen.append(change)
    except KeyboardInterrupt:
        return seen, True
    finally:
        sys.setprofile(None)
    return seen, False


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="threads take changes by a call"
)
def test_interrupts_lose_no_change(path):
    """Wherever Ctrl-C comes, the feed says where it is, and goes on there."""
    with loamdb.open(path) as db:
        users = db.keyspace("users")
        for i in range(3):
            users[b"%d" % i] = b""
            db[b"%d" % i] = b""
        nth, came = 0, True
        while came:
            nth += 1
            with db.changes() as feed:
                seen, came = interrupted_reads(feed, nth)
                assert feed.position == 1 + len(seen)
                while (change := feed.next(0)) is not None:
                    seen.append(change)
                assert [change.seq for change in seen] == [1, 2, 3, 4, 5, 6]
                assert [o.keyspace for change in seen for o in change] == ["users", "default"] * 3
        assert nth > 50


def test_the_position_while_a_change_is_on_its_way(path, monkeypatch):
    """What was fetched, and not handed out, is still to come."""
    positions = []

    class Change(loamdb.Change):
        def __init__(self, batch, names):
            super().__init__(batch, names)
            positions.append(feed.position)

    monkeypatch.setattr("loamdb.changes.Change", Change)
    with loamdb.open(path) as db, db.changes() as feed:
        db[b"a"] = b"1"
        db[b"b"] = b"2"
        assert [feed.next(0).seq, feed.position] == [1, 2]
        assert positions == [1, 1]


def test_a_signal_handler_that_reads_the_feed(path, monkeypatch):
    """What a handler fetches while the feed is being read is handed out once."""
    handled = []

    class Change(loamdb.Change):
        def __init__(self, batch, names):
            super().__init__(batch, names)
            if not handled:
                handled.append(None)
                handled.append(feed.next(0).seq)

    monkeypatch.setattr("loamdb.changes.Change", Change)
    with loamdb.open(path) as db, db.changes() as feed:
        for key in (b"a", b"b", b"c"):
            db[key] = b""
        seen = []
        while (change := feed.next(0)) is not None:
            seen.append(change.seq)
        assert (handled, seen) == ([None, 1], [2, 3])


def test_threads(path):
    """Threads that share a feed get each change once."""
    with loamdb.open(path) as db, db.changes() as feed:
        got = [[], [], []]
        taken = threading.Semaphore(0)

        def take(mine):
            try:
                while True:
                    mine.append(next(feed).seq)
                    taken.release()
            except loamdb.errors.ClosedError:
                pass

        threads = [threading.Thread(target=take, args=(mine,)) for mine in got]
        for t in threads:
            t.start()
        for i in range(2000):
            db[b"%d" % i] = b""
        for _ in range(2000):
            taken.acquire()
        feed.next(0)
        feed.close()
        for t in threads:
            t.join()
        assert sorted(got[0] + got[1] + got[2]) == list(range(1, 2001))
        assert all(mine == sorted(mine) for mine in got)
