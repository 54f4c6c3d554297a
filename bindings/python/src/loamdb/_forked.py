"""A copy of libloam for a child after fork().

Go's runtime does not survive a fork: the child has its memory but none of its threads.
The library cannot be unloaded or begun anew, so the child loads it a second time, with
a runtime of its own, and leaves the first as it is: objects that the parent opened go
on calling that one, which answers that it is of no use here.

The linker takes a file that it knows, by name or by device and inode, for the library
that is there already. So the copy has its own bytes, in memory, or in a temporary file
where the kernel has no executable memory files, and a name that no copy had before.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from ._types import Any


def with_copy(file: str, number: int, load: Callable[[str], Any]) -> Any:
    """Loads a copy of a library's file. number is another one for each copy that a
    process and its parents have."""
    with open(file, "rb") as source:
        try:
            fd = os.memfd_create("libloam.so", os.MFD_CLOEXEC)
        except (AttributeError, OSError):
            return _with_temporary_copy(source, load)
        with open(fd, "wb") as copy:
            _copy(source, copy)
            return load("/proc/self/fd" + "/." * number + f"/{fd}")


def _with_temporary_copy(source: Any, load: Callable[[str], Any]) -> Any:
    import tempfile

    with tempfile.NamedTemporaryFile(prefix="libloam-", suffix=".so") as copy:
        _copy(source, copy)
        return load(copy.name)


def _copy(source: Any, copy: Any) -> None:
    import shutil

    shutil.copyfileobj(source, copy, 1 << 20)
    copy.flush()
