"""Encrypted databases."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import loamdb
import loamdb.aio

OLD, NEW = "00112233445566778899aabbccddeeff" * 2, "ff" * 32
MARK = b"what nobody may read"


def test_encryption(tmp_path: Path) -> None:
    path, keys = tmp_path / "db", tmp_path / "keys"
    keys.write_text(OLD + "\n")
    with loamdb.DB(path, encryption=f"file:{keys}", compression="none") as db:
        for i in range(300):
            db[MARK + b"%d" % i] = MARK
        db.flush()
        db[b"in the log"] = MARK
        (old,) = db.keys_in_use()
        assert old["provider"] == "key" and old["files"] >= 3
    files = [f for f in path.rglob("*") if f.is_file()]
    assert len(files) >= 4
    assert not [f for f in files if MARK in f.read_bytes()]

    for wrong in (None, f"key:{NEW}", "passphrase:another"):
        with pytest.raises(loamdb.errors.EncryptionError, match=old["id"]):
            loamdb.open(path, encryption=wrong)
    with pytest.raises(loamdb.InvalidArgumentError) as refused:
        loamdb.open(path, encryption=f"key:{OLD}0")
    assert OLD not in str(refused.value)

    keys.write_text(f"{NEW}\n{OLD}\n")
    with loamdb.DB(path, encryption=f"file:{keys}") as db:
        db.rekey()
        (new,) = db.keys_in_use()
        assert new["id"] != old["id"]
    with loamdb.DB(path, encryption=f"key:{NEW}") as db:
        assert db[b"in the log"] == MARK and db[MARK + b"7"] == MARK


def test_encrypting(tmp_path: Path) -> None:
    path = tmp_path / "db"
    with loamdb.DB(path) as db:
        db[b"a"] = b"1"
        with pytest.raises(loamdb.InvalidArgumentError):
            db.rekey()
    with pytest.raises(loamdb.errors.EncryptionError):
        loamdb.open(path, encryption=f"key:{OLD}")

    async def encrypt() -> list[dict[str, object]]:
        async with loamdb.aio.open(path, encryption=f"key:{OLD}", allow_clear=True) as db:
            await db.rekey()
            return await db.keys_in_use()

    assert [use["provider"] for use in asyncio.run(encrypt())] == ["key"]
    with loamdb.DB(path, encryption=f"key:{OLD}") as db:
        assert db[b"a"] == b"1"
