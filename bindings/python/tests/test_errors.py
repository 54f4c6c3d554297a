"""Exceptions are what Python programs expect: classes, errno, filename, strerror."""

from __future__ import annotations

import errno
import os
import pickle
import subprocess
import sys
import textwrap

import loamdb
import loamdb.plyvel as face
import pytest


def told(error: OSError, number: int, path: object) -> None:
    assert error.errno == number and error.strerror == os.strerror(number)
    assert str(error.filename) == str(path), error.filename
    assert str(error).count(str(path)) == 1, str(error)


def test_no_permission(tmp_path):
    """In a process that has given up root, if it was root."""
    (tmp_path / "closed").mkdir(mode=0o500)
    program = """
        import os, sys
        import loamdb
        loamdb.open(sys.argv[1] + "/first").close()
        if os.geteuid() == 0:
            os.setgid(65534); os.setuid(65534)
        try:
            loamdb.open(sys.argv[1] + "/closed/db")
        except PermissionError as error:
            print(error.errno, error.filename, isinstance(error, loamdb.IOError),
                isinstance(error, loamdb.Error))
        """
    os.chmod(tmp_path, 0o755)
    for parent in tmp_path.parents:
        if (
            os.stat(parent).st_uid == os.geteuid()
            and parent != parent.parent
            and not os.stat(parent).st_mode & 0o005 == 0o005
        ):
            os.chmod(parent, 0o755)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.stdout.split()[0] == str(errno.EACCES) and done.stdout.split()[2:] == [
        "True",
        "True",
    ], done.stdout + done.stderr


def test_directories_above(tmp_path):
    """They are made when that is asked for; numbers that mean nothing are refused by name."""
    path = tmp_path / "above" / "db"
    with pytest.raises(FileNotFoundError) as missing:
        loamdb.open(path)
    told(missing.value, errno.ENOENT, path)
    assert not path.parent.exists()
    loamdb.open(path, create_dirs=True).close()
    with pytest.raises(ValueError, match="cache_size.*want 0 to"):
        loamdb.open(path, cache_size=-1)


def test_missing_existing_locked(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        loamdb.open(tmp_path / "none", error_if_missing=True)
    told(missing.value, errno.ENOENT, tmp_path / "none")
    with loamdb.open(tmp_path / "db"):
        with pytest.raises(loamdb.LockedError) as locked:
            loamdb.open(tmp_path / "db")
        assert locked.value.errno is not None and locked.value.filename is not None
    with pytest.raises(FileExistsError) as exists:
        loamdb.open(tmp_path / "db", error_if_exists=True)
    told(exists.value, errno.EEXIST, tmp_path / "db")
    assert not (tmp_path / "none").exists()


def test_a_file_in_the_way(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(loamdb.Error):
        loamdb.open(tmp_path / "file")
    with pytest.raises((NotADirectoryError, loamdb.Error)):
        loamdb.open(tmp_path / "file" / "db")


def test_full_disk(tmp_path):
    """A limit on file sizes stands for the disk: a put says so, and work resumes."""
    program = """
        import errno, resource, signal, sys
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        import loamdb
        db = loamdb.open(sys.argv[1], wal_preallocate=0)
        db[b"a"] = b"1"
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, resource.RLIM_INFINITY))
        try:
            for i in range(100):
                db[b"b%d" % i] = bytes(10_000)
        except loamdb.NoSpaceError as error:
            assert isinstance(error, OSError) and error.errno in (errno.EFBIG,
                errno.ENOSPC), error.errno
            stopped = i
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        db.resume()
        db[b"c"] = b"2"
        print(db[b"a"], db[b"c"], len(db) == stopped + 2)
        db.close()
        with loamdb.open(sys.argv[1]) as db:
            print(len(db) == stopped + 2)
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "db")],
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["b'1'", "b'2'", "True", "True"], done.stdout + done.stderr


def test_exceptions_can_be_pickled(tmp_path):
    with loamdb.open(tmp_path / "db"), pytest.raises(loamdb.LockedError) as locked:
        loamdb.open(tmp_path / "db")
    copy = pickle.loads(pickle.dumps(locked.value))
    assert (
        type(copy) is loamdb.LockedError
        and str(copy) == str(locked.value)
        and copy.filename == locked.value.filename
    )


def test_every_class_is_an_error():
    for name in loamdb.errors.__all__:
        kind = getattr(loamdb, name)
        assert issubclass(kind, loamdb.Error) and kind.__doc__
    assert issubclass(loamdb.IOError, OSError) and issubclass(loamdb.NoMemoryError, MemoryError)
    assert face.IOError is loamdb.IOError
