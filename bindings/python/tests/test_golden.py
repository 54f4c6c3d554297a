"""Opens what other engines and earlier versions of Loam wrote."""

from __future__ import annotations

import hashlib
import pathlib
import shutil

import loamdb
import pytest

TESTDATA = pathlib.Path(__file__).resolve().parents[3] / "testdata"
FOLDERS = sorted(folder.name for folder in TESTDATA.glob("*-*"))


def varint(n: int) -> bytes:
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def test_folders():
    assert len([name for name in FOLDERS if name.startswith("native-")]) >= 2
    assert len(FOLDERS) >= 5


@pytest.mark.parametrize("state", ["closed", "killed"])
@pytest.mark.parametrize("folder", FOLDERS)
def test_golden(folder, state, tmp_path):
    shutil.copytree(TESTDATA / folder / state, tmp_path / "db")
    # A keyspace a line, with its name; the default one has none where it is alone.
    lines = (TESTDATA / folder / "expected").read_text().splitlines()
    expected = dict(("default " * (line.count(" ") == 1) + line).split(" ", 1) for line in lines)
    for _ in range(2):  # the second time what the first opening left
        found = {}
        with loamdb.open(tmp_path / "db") as db:
            for name in db.keyspaces():
                digest, n = hashlib.sha256(), 0
                for entry in db.keyspace(name).items():
                    for part in entry:
                        digest.update(varint(len(part)) + part)
                    n += 1
                found[name] = f"{n} {digest.hexdigest()}"
        assert found == expected
