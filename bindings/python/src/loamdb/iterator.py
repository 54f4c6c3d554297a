"""Iterators over a database or a snapshot."""

from __future__ import annotations


from . import _fast
from ._types import Self, TypeVar

T_co = TypeVar("T_co", covariant=True)


class Iterator(_fast.Cursor[T_co]):
    """Entries, keys or values in key order, as they were when it was made.

    It stands in a gap between two entries. ``next()`` returns the entry behind the
    gap and steps over it, ``prev()`` the one before it; a reverse iterator has the
    two exchanged. ``seek(key)`` goes to the gap before key, ``seek_to_start()`` and
    ``seek_to_stop()`` to the ends of the range.

    An iterator holds on to the files it reads. It is closed by ``close()``, at the
    end of a ``with`` statement, with its last reference, or with its database. Only
    one thread at a time may use it.
    """

    __slots__ = ("__weakref__",)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
