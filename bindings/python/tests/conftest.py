"""Fixtures. Databases lie in pytest's temporary directories."""

from __future__ import annotations

import pathlib
from collections.abc import Generator

import loamdb
import pytest


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "db"


@pytest.fixture
def db(path: pathlib.Path) -> Generator[loamdb.DB]:
    with loamdb.open(path) as db:
        yield db
