"""The console command loam: the program of that name in this package."""

from __future__ import annotations

import os
import sys


def path() -> str:
    """The program's file."""
    name = "loam.exe" if sys.platform == "win32" else "loam"
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), name)


def main() -> int:
    """Becomes the program; on Windows, where no process becomes another one, runs it. Returns 3,
    its exit code for what cannot be read, if there is none."""
    try:
        if sys.platform == "win32":
            import subprocess

            return subprocess.call([path(), *sys.argv[1:]])
        os.execv(path(), ["loam", *sys.argv[1:]])
    except OSError as err:
        print(
            f"loam: cannot run {path()}: {err.strerror}; this build of loamdb has no command: "
            "go install github.com/loamdb/loam/cmd/loam@latest",
            file=sys.stderr,
        )
    return 3
