"""The words of annotations, which are there at run time too (typing.get_type_hints).

Importing typing takes several times as long as all of loamdb. A program that has not
imported it gets stand-ins that say less and cost nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING or "typing" in sys.modules:
    from typing import Any, NoReturn, Protocol, Self, TypeVar, cast, overload
else:
    Any = Self = object
    NoReturn = None
    Protocol = object

    def TypeVar(name, **_):  # noqa: N802
        return name

    def cast(_, value):
        return value

    def overload(function):
        return function


if TYPE_CHECKING:
    from typing_extensions import Buffer
elif sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    Buffer = bytes | bytearray | memoryview

__all__ = [
    "Any",
    "Buffer",
    "CompactionFilter",
    "Compare",
    "Logger",
    "Merge",
    "MergePartial",
    "NoReturn",
    "Progress",
    "Self",
    "StrPath",
    "TypeVar",
    "cast",
    "overload",
]

#: Orders two keys: negative, zero or positive.
Compare = Callable[[bytes, bytes], int]
#: Of level, key and value: None keeps the entry, False removes it, bytes are its new value.
CompactionFilter = Callable[[int, bytes, bytes], object]
#: Of key, the existing value or None, and the operands, oldest first: the value.
Merge = Callable[[bytes, bytes | None, list[bytes]], Buffer]
#: Of key and two operands: one that does the same, or None.
MergePartial = Callable[[bytes, bytes, bytes], Buffer | None]
#: Is told the bytes done and the bytes in all.
Progress = Callable[[int, int], object]
StrPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Logger(Protocol):
    """Takes the library's messages; a logging.Logger does."""

    def log(self, level: int, msg: str, /, *args: object) -> object: ...
