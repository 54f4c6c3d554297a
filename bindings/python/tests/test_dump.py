"""Dumps and their load."""

import io
import os
import threading

import pytest

import loamdb


def filled(path, n=2000):
    db = loamdb.open(path)
    with db.batch() as b:
        for i in range(n):
            b.put(b"key%06d" % i, os.urandom(500))
    db.keyspace("users").put(b"ann", b"1")
    return db


def same(a, b):
    return (
        list(a.items()) == list(b.items())
        and a.keyspace("users").get(b"ann") == b.keyspace("users").get(b"ann") == b"1"
    )


def test_round_trip(tmp_path):
    with (
        filled(tmp_path / "db") as db,
        loamdb.open(tmp_path / "to") as to,
        loamdb.open(tmp_path / "to2") as to2,
    ):
        info = db.dump(tmp_path / "dump", compression="zstd")
        assert [(k["name"], k["entries"]) for k in info["keyspaces"]] == [
            ("default", 2000),
            ("users", 1),
        ]
        assert info["size"] == (tmp_path / "dump").stat().st_size and info["bytes"] > 1_000_000
        assert loamdb.verify_dump(tmp_path / "dump") == info
        assert loamdb.load(to, str(tmp_path / "dump")) == info
        assert same(db, to)
        with pytest.raises(loamdb.errors.ExistsError):
            to.load(tmp_path / "dump")
        to.load(tmp_path / "dump", overwrite=True)
        stream, told = io.BytesIO(), []
        info = loamdb.dump(db, stream, progress=lambda done, total: told.append(done))
        assert info["size"] == len(stream.getvalue()) and told[-1] == info["size"]
        stream.seek(0)
        assert loamdb.verify_dump(stream) == info
        stream.seek(0)
        assert to2.load(stream) == info
        assert same(db, to2)


def test_snapshot_and_resume(tmp_path):
    path = tmp_path / "dump"
    with filled(tmp_path / "db") as db, loamdb.open(tmp_path / "to") as to:
        with db.snapshot() as snapshot:
            db[b"later"] = b"x"
            db.dump(path, snapshot=snapshot)
            whole = path.read_bytes()
            path.write_bytes(whole[:700_000])
            with pytest.raises(loamdb.errors.CorruptionError):
                to.load(path)
            with pytest.raises(loamdb.errors.InvalidArgumentError):
                db.dump(path, resume=True)
            db.dump(path, snapshot=snapshot, resume=True)
            assert path.read_bytes() == whole
        to.load(path)  # goes on
        assert b"later" not in to and len(list(to.items())) == 2000
        with pytest.raises(TypeError):
            db.dump(io.BytesIO(), resume=True)


def test_refused(tmp_path):
    """What is refused leaves the file as it is, and the load under way alone."""
    path = tmp_path / "dump"
    with filled(tmp_path / "db") as db, loamdb.open(tmp_path / "to") as to:
        db.dump(path)
        whole = path.read_bytes()
        for compression in ("zip", "none,zstd", "zstd\0", ""):
            with pytest.raises(loamdb.errors.InvalidArgumentError, match="compression"):
                db.dump(path, compression=compression)
        with db.snapshot() as snapshot:
            pass
        with pytest.raises(loamdb.errors.ClosedError):
            db.dump(path, snapshot=snapshot)
        assert path.read_bytes() == whole

        class Meanwhile(io.BytesIO):
            def read(self, n=-1):
                # the load has begun: its pipe has less room than what came before
                if 0 < self.tell() < len(whole):
                    with pytest.raises(loamdb.errors.InUseError, match="another dump"):
                        to.load(path)
                    with pytest.raises(loamdb.errors.InUseError, match="another dump"):
                        to.load(io.BytesIO(whole))
                return super().read(n)

        to.load(Meanwhile(whole))
        assert same(db, to)


def test_failing_files(tmp_path):
    class Failing(io.RawIOBase):
        def write(self, data):
            raise RuntimeError("no more")

        def read(self, n=-1):
            raise RuntimeError("no more")

    with filled(tmp_path / "db") as db, loamdb.open(tmp_path / "to") as to:
        with pytest.raises(RuntimeError, match="no more"):
            db.dump(Failing())
        with pytest.raises(RuntimeError, match="no more"):
            to.load(Failing())
        with pytest.raises(TypeError):
            to.load(io.StringIO("text"))
        with pytest.raises(loamdb.errors.CorruptionError):
            to.load(io.BytesIO(b"no dump" * 100_000))
        with pytest.raises(FileNotFoundError):
            to.load(tmp_path / "none")
        with pytest.raises(ValueError):
            db.dump(io.BytesIO(), compression="brotli")
        stream = io.BytesIO()
        db.dump(stream)
        stream.seek(0)
        to.load(stream)
        assert same(db, to)


def test_through_a_pipe(tmp_path):
    with filled(tmp_path / "db") as db, loamdb.open(tmp_path / "to") as to:
        r, w = os.pipe()

        def send():
            with open(w, "wb") as f:
                db.dump(f)

        sender = threading.Thread(target=send)
        sender.start()
        with open(r, "rb") as f:
            to.load(f)
        sender.join()
        assert same(db, to)


def test_files_that_do_not_block(tmp_path):
    """A raw file that takes or has nothing at the moment fails, and makes no hole."""
    r, w = os.pipe()
    os.set_blocking(r, False)
    os.set_blocking(w, False)
    with (
        filled(tmp_path / "db") as db,
        open(r, "rb", buffering=0) as source,
        open(w, "wb", buffering=0) as to,
    ):
        with pytest.raises(BlockingIOError, match="blocks"):
            loamdb.verify_dump(source)
        with pytest.raises(BlockingIOError, match="blocks"):
            db.dump(to)

        class Sink(io.RawIOBase):
            """Says nothing of what it writes."""

            def __init__(self):
                self.data = b""

            def write(self, data):
                self.data += data

        sink = Sink()
        db.dump(sink)
        loamdb.verify_dump(io.BytesIO(sink.data))


def test_inside(tmp_path):
    with filled(tmp_path / "db", 10) as db:
        os.symlink("db", tmp_path / "link")
        (tmp_path / "db" / "mine").write_text("mine")
        for name in ("dump", "mine"):
            for place in ("db", "link"):
                for resume in (False, True):
                    with pytest.raises(
                        loamdb.errors.InvalidArgumentError, match="lies in the database"
                    ):
                        db.dump(tmp_path / place / name, resume=resume)
        assert (tmp_path / "db" / "mine").read_text() == "mine"
        assert not (tmp_path / "db" / "dump").exists()
        db.dump(tmp_path / "db.dump")


def test_closed(tmp_path):
    db = filled(tmp_path / "db", 10)
    db.dump(tmp_path / "dump")
    db.close()
    with pytest.raises(loamdb.errors.ClosedError):
        db.dump(io.BytesIO())
    with pytest.raises(loamdb.errors.ClosedError):
        db.load(tmp_path / "dump")
