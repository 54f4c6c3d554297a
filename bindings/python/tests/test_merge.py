"""Merges: operands that the operators with names make values of."""

from __future__ import annotations

from pathlib import Path

import pytest

import loamdb


def test_merge(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with loamdb.DB(path, format="native", merge_operator="append", max_merge_operands=10) as db:
        db.merge(b"k", b"1")
        db.merge(key=b"k", operand=b"2", sync=True)
        with db.batch() as b:
            b.merge(b"k", b"3")
            b.put(b"p", b"0")
            b.merge(b"p", b"1")
        assert db.get(b"k") == b"1,2,3"
        assert list(db) == [b"k", b"p"] and db[b"p"] == b"0,1"
        view = db.prefixed(b"x/")
        view.merge(b"k", b"1")
        with view.batch() as b:
            b.merge(b"k", b"2")
        assert db[b"x/k"] == b"1,2"
        with pytest.raises(TypeError):
            db.merge(b"k")  # type: ignore[call-arg]
    with loamdb.DB(path) as db:  # by the stored name
        assert db[b"k"] == b"1,2,3"
    with pytest.raises(loamdb.InvalidArgumentError):
        loamdb.DB(path, merge_operator="sum")


def test_failures(tmp_path: Path) -> None:
    with (
        loamdb.DB(tmp_path / "none", format="native") as db,
        pytest.raises(loamdb.NoMergeOperatorError),
    ):
        db.merge(b"k", b"1")
    with (
        loamdb.DB(tmp_path / "old", format="leveldb", merge_operator="append") as db,
        pytest.raises(loamdb.NeedsNativeError),
    ):
        db.merge(b"k", b"1")
    with loamdb.DB(tmp_path / "sums", format="native", merge_operator="uint64add") as db:
        db.merge(b"k", b"not eight")
        with pytest.raises(loamdb.MergeFailedError, match='"k"'):
            db.get(b"k")
        db.put(b"k", (5).to_bytes(8, "little"))
        db.merge(b"k", (2).to_bytes(8, "little"))
        assert db[b"k"] == (7).to_bytes(8, "little")


def test_keyspace(tmp_path: Path) -> None:
    with loamdb.DB(tmp_path / "db", format="native") as db:
        sums = db.keyspace("sums", merge_operator="max")
        sums.merge(b"k", b"b")
        sums.merge(b"k", b"a")
        assert sums[b"k"] == b"b"
        with pytest.raises(loamdb.NoMergeOperatorError):
            db.keyspace("sums", merge_operator="min")
