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
    expected = (TESTDATA / folder / "expected").read_text().strip()
    for _ in range(2):  # the second time what the first opening left
        digest, n = hashlib.sha256(), 0
        with loamdb.open(tmp_path / "db") as db:
            for entry in db.items():
                for part in entry:
                    digest.update(varint(len(part)) + part)
                n += 1
        assert f"{n} {digest.hexdigest()}" == expected
