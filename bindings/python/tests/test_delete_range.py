"""Range deletes, and clear, which uses them."""

import pytest

import loamdb


@pytest.fixture(params=["native", "leveldb"])
def db(request, tmp_path):
    with loamdb.open(tmp_path / "db", format=request.param) as db:
        with db.batch() as batch:
            for i in range(1000):
                batch.put(b"k%04d" % i, b"v")
        yield db


def native(db):
    try:
        db.delete_range(b"x", b"y")
    except loamdb.NeedsNativeError:
        return False
    return True


def test_delete_range(db):
    if not native(db):
        pytest.skip("LevelDB's format has no range deletes")
    snapshot = db.snapshot()
    db.delete_range(b"k0010", stop=b"k0990", sync=True)
    assert list(db.keys()) == [b"k%04d" % i for i in [*range(10), *range(990, 1000)]]
    assert len(list(snapshot.keys())) == 1000
    with db.batch() as batch:
        batch.delete_range(b"k0000", b"k0005")
        batch.put(b"k0003", b"again")
    assert list(db.keys(stop=b"k0007")) == [b"k0003", b"k0005", b"k0006"]
    db.prefixed(b"k00").delete_range(b"05", b"07")
    assert list(db.keys(stop=b"k0009")) == [b"k0003", b"k0007", b"k0008"]
    with pytest.raises(ValueError):
        db.delete_range(b"b", b"a")
    with pytest.raises(TypeError):
        db.delete_range(b"b")


def test_clear(db):
    db.clear(start=b"k0100", stop=b"k0900")
    assert len(list(db.keys())) == 200
    db.clear(prefix=b"k09")
    assert len(list(db.keys())) == 100
    view = db.prefixed(b"k00")
    view.clear(start=b"50")
    assert list(view.keys()) == [b"%02d" % i for i in range(50)]
    db.clear()
    assert not list(db.keys())
    db.clear(sync=True)


class Raced(loamdb.DB):
    """Another writer comes behind the first iterator that is made."""

    raced = False

    def keys(self, **bounds):
        keys = super().keys(**bounds)
        if not self.raced:
            self.raced = True
            self.delete(b"k1")
            self.delete(b"k2")
            self.put(b"a", b"new")
        return keys


def test_clear_deletes_what_one_state_has(tmp_path):
    with Raced(tmp_path / "raced") as db:
        db.update({b"k1": b"1", b"k2": b"2"})
        db.clear()
        assert dict(db.items()) == {b"a": b"new"}
