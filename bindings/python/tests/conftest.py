"""Fixtures. Databases lie in pytest's temporary directories."""

from __future__ import annotations

import pathlib
import signal
from collections.abc import Generator

import loamdb
import pytest

# A shell's background jobs start with the signal ignored, which Python keeps.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "db"


@pytest.fixture
def db(path: pathlib.Path) -> Generator[loamdb.DB]:
    with loamdb.open(path) as db:
        yield db
