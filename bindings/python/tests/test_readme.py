"""The README's examples."""

from __future__ import annotations

import doctest
import pathlib


def test_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    readme = pathlib.Path(__file__).resolve().parent.parent / "README.md"
    result = doctest.testfile(
        str(readme),
        module_relative=False,
        optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL,
    )
    assert result.attempted > 20 and result.failed == 0
