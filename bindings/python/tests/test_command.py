"""The console command loam, as pip installs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zlib

import loamdb
import pytest
from loamdb import _command
from loamdb._library import path as library

LOAM = os.path.join(os.path.dirname(sys.executable), "loam")


def loam(*args: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([LOAM, *map(str, args)], capture_output=True, text=True, timeout=600)


def test_command_and_package_share_a_database(path):
    with loamdb.open(path) as db:
        db[b"ash"] = b"Fraxinus"
        shown = loam("get", path, "ash")
        assert (shown.returncode, shown.stdout) == (0, "Fraxinus")
        assert loam("put", path, "elm", "Ulmus").returncode == 3  # this process has it open
    assert loam("put", path, "elm", "Ulmus").returncode == 0
    with loamdb.open(path) as db:
        assert db[b"elm"] == b"Ulmus"
    assert json.loads(loam("info", "--json", path).stdout)["format"] == "native"


def test_version_is_the_package_s():
    assert loam("--version").stdout == f"loam version {loamdb.__version__}\n"


def test_exit_codes_pass(path):
    assert loam("scan", path).returncode == 3
    assert loam("no-such-verb").returncode == 2


def test_a_package_without_the_program_says_so(monkeypatch, capsys):
    monkeypatch.setattr(_command, "path", lambda: "/nowhere/loam")
    assert _command.main() == 3
    assert "go install" in capsys.readouterr().err


@pytest.mark.skipif(
    os.environ.get("SHIPPED") == "", reason="the makefile built a command that is not shipped"
)
def test_size():
    """What is downloaded: at most 8 MiB."""
    packed = 0
    for file in (library(), _command.path()):
        with open(file, "rb") as f:
            packed += len(zlib.compress(f.read()))
    assert packed < 8 << 20
