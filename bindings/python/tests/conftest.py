"""Fixtures. Databases lie in pytest's temporary directories.

The environment variable LOAM_FORMAT is the format of new databases of the test's own process
that name none.
"""

from __future__ import annotations

import os
import pathlib
import signal
import time
from collections.abc import Generator

import loamdb
import pytest

# A shell's background jobs start with the signal ignored, which Python keeps.
signal.signal(signal.SIGINT, signal.default_int_handler)


if _format := os.environ.get("LOAM_FORMAT"):
    _open = loamdb.DB._open

    def _open_in_format(self, path, settings):
        _open(self, path, settings | {"format": settings.get("format") or _format})

    loamdb.DB._open = _open_in_format


def wait_until_gone(db: loamdb.DB, key: bytes) -> None:
    """Returns once a value has expired, which the engine's clock decides and nothing reports."""
    while key in db:
        time.sleep(0.01)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "db"


@pytest.fixture
def db(path: pathlib.Path) -> Generator[loamdb.DB]:
    with loamdb.open(path) as db:
        yield db
