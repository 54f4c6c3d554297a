"""Followers."""

import subprocess
import sys

import pytest

import loamdb


def test_follow(tmp_path):
    path = tmp_path / "db"
    with pytest.raises(loamdb.errors.DoesNotExistError):
        loamdb.follow(path)
    with loamdb.open(path) as db:
        with pytest.raises(ValueError):
            db.catch_up()
        with pytest.raises(ValueError):
            db.lag()
        db[b"k"] = b"1"
        with loamdb.follow(path) as follower, follower.snapshot() as before:
            assert follower.lag() == (0, 0.0)
            db[b"k"] = b"2"
            db.keyspace("users")[b"ann"] = b"3"
            assert follower.lag().operations == 2
            assert follower[b"k"] == b"1"
            follower.catch_up()
            assert follower[b"k"] == b"2"
            assert before.get(b"k") == b"1"
            assert follower.keyspace("users")[b"ann"] == b"3"
            with pytest.raises(loamdb.errors.ReadOnlyError):
                follower[b"k"] = b"4"


def test_interval(tmp_path):
    with (
        loamdb.open(tmp_path / "db") as db,
        loamdb.follow(tmp_path / "db", follow_interval=0.005) as follower,
    ):
        db[b"k"] = b"1"
        while follower.get(b"k") is None:
            pass


WRITER = """
import sys, loamdb
db = loamdb.open(sys.argv[1], write_buffer_size=65536)
i = 0
while True:
    i += 1
    with db.batch() as b:
        b.put(b"n", str(i).encode())
        b.put(b"k%d" % (i % 1000), str(i).encode() * 30)
    if i == 1:
        print("ready", flush=True)
"""


def test_killed_writers(tmp_path):
    last = 0
    follower = None
    for _ in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "db")], stdout=subprocess.PIPE
        )
        assert writer.stdout.readline().strip() == b"ready"
        if follower is None:
            follower = loamdb.follow(tmp_path / "db")
        for _ in range(30):
            follower.catch_up()
            with follower.snapshot() as s:
                n = int(s.get(b"n"))
                assert n >= last
                last = n
                assert s.get(b"k%d" % (n % 1000)) == str(n).encode() * 30
                assert s.get(b"k%d" % ((n + 1) % 1000)) in (None, str(n - 999).encode() * 30)
        writer.kill()
        writer.wait()
        writer.stdout.close()
        follower.catch_up()
        with loamdb.open(tmp_path / "db") as db:
            last = int(db[b"n"])
            assert follower[b"n"] == db[b"n"]
            db[b"n"] = b"0"  # the next writer begins anew
            last = 0
            db.delete_range(b"k", b"l")
    follower.close()
