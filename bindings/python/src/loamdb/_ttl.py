"""Values that expire; see docs/ttl.md."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import TYPE_CHECKING

from . import _fast
from ._handles import batch_c, data
from ._library import check, error_slot, ffi, load
from ._types import Buffer
from .errors import InvalidArgumentError

if TYPE_CHECKING:
    from .db import DB

LONGEST = (2**63 - 1) // 10**9  # seconds to live


def seconds(ttl: float | timedelta) -> int:
    """A time to live in whole seconds, rounded up, as C takes it."""
    value = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(
            f"a time to live is a number of seconds or a timedelta, not {type(ttl).__name__}"
        )
    if not 0 < value <= LONGEST:
        raise InvalidArgumentError(
            f"a time to live of {value} s: it must be above 0 and at most {LONGEST}"
        )
    return math.ceil(value)


def put(db: DB, key: Buffer, value: Buffer, ttl: float | timedelta, sync: bool) -> None:
    lib = load()
    options = ffi.new("loam_write_options *")
    options.struct_size = ffi.sizeof("loam_write_options")
    options.flags = lib.LOAM_SYNC if sync else 0
    db._call("loam_put_ttl", options, *data(key), *data(value), seconds(ttl), ffi.NULL)


def left(db: DB, key: Buffer) -> float | None:
    """Seconds; infinite for a value that does not expire, None for no value."""
    lib, milliseconds = load(), ffi.new("uint64_t *")
    if db._call("loam_ttl", ffi.NULL, *data(key), milliseconds) == lib.LOAM_NOT_FOUND:
        return None
    return math.inf if milliseconds[0] == 2**64 - 1 else milliseconds[0] / 1000


def batch_put(batch: _fast.Batch, key: Buffer, value: Buffer, ttl: float | timedelta) -> None:
    err = error_slot()
    check(
        load().loam_batch_put_ttl(batch_c(batch), *data(key), *data(value), seconds(ttl), err), err
    )
