"""Folders of backups."""

from __future__ import annotations

import os
import pathlib
import signal
import threading
import time

import loamdb
import pytest


@pytest.fixture
def db(tmp_path):
    with loamdb.open(tmp_path / "db") as db:
        for i in range(2000):
            db[b"key%06d" % i] = os.urandom(100)
        yield db


def contents(path):
    with loamdb.open(path, error_if_missing=True) as db:
        return dict(db.items())


def test_backups(db, tmp_path):
    before = dict(db.items())
    with loamdb.Backups(tmp_path / "backups") as backups:
        with pytest.raises(loamdb.errors.LockedError):
            loamdb.Backups(tmp_path / "backups")
        seen = []
        first = backups.create(db, progress=lambda done, total: seen.append((done, total)))
        assert seen[-1] == (first.bytes, first.bytes)
        db.compact()
        backups.create(db)
        db[b"more"] = b"1"
        third = backups.create(db)
        assert (first.id, third.id) == (1, 3)
        assert first.new_bytes == first.bytes and third.new_bytes < third.bytes / 4
        assert (
            abs(first.created - time.time()) < 3600
            and first.format == "native"
            and first.error is None
        )
        assert pathlib.Path(first.database) == tmp_path / "db" and "Backup 1 of" in repr(first)
        for backup in backups.list():
            backups.verify(backup.id, progress=lambda done, total: None)
        backups.restore(1, tmp_path / "one")
        with pytest.raises(loamdb.errors.ExistsError):
            backups.restore(1, tmp_path / "one")
        backups.restore(3, tmp_path / "three")
        backups.delete(1)
        backups.keep(1)
        assert [b.id for b in backups.list()] == [3]
        for call in (
            backups.verify,
            backups.delete,
            lambda id: backups.restore(id, tmp_path / "x"),
        ):
            with pytest.raises(loamdb.errors.DoesNotExistError, match="there is no backup 1"):
                call(1)
    assert contents(tmp_path / "one") == before
    assert contents(tmp_path / "three") == {**before, b"more": b"1"}
    backups.close()
    for call in (
        backups.list,
        lambda: backups.create(db),
        lambda: backups.verify(3),
        lambda: backups.keep(1),
        lambda: backups.delete(3),
        lambda: backups.restore(3, "x"),
    ):
        with pytest.raises(loamdb.errors.ClosedError):
            call()
    with (
        loamdb.Backups(tmp_path / "backups", read_only=True) as one,
        loamdb.Backups(tmp_path / "backups", read_only=True) as two,
    ):
        one.verify(3)
        two.restore(3, tmp_path / "again")
        with pytest.raises(loamdb.errors.ReadOnlyError):
            one.create(db)


def test_refused(db, tmp_path):
    with pytest.raises(loamdb.errors.NotADatabaseError):
        loamdb.Backups(tmp_path / "db")
    with pytest.raises(loamdb.errors.DoesNotExistError):
        loamdb.Backups(tmp_path / "none", error_if_missing=True)
    with pytest.raises(ValueError):
        loamdb.Backups("a\0b")
    with loamdb.Backups(tmp_path / "backups") as backups:
        with pytest.raises(TypeError):
            backups.create("db")
        with pytest.raises(OverflowError):
            backups.keep(-1)
        with pytest.raises(OverflowError):
            backups.verify(1, bytes_per_second=-1)
        with pytest.raises(TypeError):
            backups.delete("1")
        made = backups.create(db.keyspace("default"))  # of the whole database
        assert made.bytes > 200_000


def test_damage(db, tmp_path):
    with loamdb.Backups(tmp_path / "backups") as backups:
        made = backups.create(db)
    largest = max((tmp_path / "backups/data").iterdir(), key=lambda p: p.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)
    with loamdb.Backups(tmp_path / "backups") as backups:
        for call in (
            lambda: backups.verify(made.id),
            lambda: backups.restore(made.id, tmp_path / "copy"),
        ):
            with pytest.raises(loamdb.errors.CorruptionError, match=largest.name):
                call()
    assert not (tmp_path / "copy").exists()


def test_interrupt(db, tmp_path):
    """Ctrl-C ends a backup, and nothing is left of it; so does an exception of progress, and close
    of the
    folder or the database in another thread."""
    with loamdb.Backups(tmp_path / "backups") as backups:
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        with pytest.raises(KeyboardInterrupt):
            timer.start()  # here, as it waits for the thread
            backups.create(db, bytes_per_second=1000)
        timer.join()

        def fails(done, total):
            raise LookupError("enough")

        with pytest.raises(LookupError):
            backups.create(db, bytes_per_second=1000, progress=fails)
        assert backups.list() == []
        timer = threading.Timer(0.2, db.close)
        timer.start()
        with pytest.raises(loamdb.errors.ClosedError):
            backups.create(db, bytes_per_second=1000)
        timer.join()
    assert list((tmp_path / "backups/data").iterdir()) == []
    with loamdb.open(tmp_path / "db") as again, loamdb.Backups(tmp_path / "backups") as backups:
        timer = threading.Timer(0.2, backups.close)
        timer.start()
        with pytest.raises(loamdb.errors.ClosedError):
            backups.create(again, bytes_per_second=1000)
        timer.join()


def test_closes_in_progress(db, tmp_path):
    with loamdb.Backups(tmp_path / "backups") as backups, pytest.raises(loamdb.errors.ClosedError):
        backups.create(db, bytes_per_second=1000, progress=lambda done, total: db.close())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no fork")
def test_fork(db, tmp_path):
    backups = loamdb.Backups(tmp_path / "backups")
    backups.create(db)
    child = os.fork()
    if child == 0:
        try:
            backups.list()
        except loamdb.errors.ForkedError:
            backups.close()
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    backups.verify(1)
    backups.close()
