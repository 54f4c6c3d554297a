"""The programs of examples/python print what they say."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples" / "python"


@pytest.mark.parametrize("program", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.stem)
def test_example(program, tmp_path):
    expected = program.read_text().split("# Prints:\n")[1]
    command = [sys.executable, "-W", "error", program, tmp_path / "db"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    assert done.stdout == "".join(line[2:] + "\n" for line in expected.splitlines())


def test_there_are_examples():
    if not EXAMPLES.parent.exists():
        pytest.skip("examples/ belongs to the repository")
    assert list(EXAMPLES.glob("*.py"))
