"""From keyword arguments to a loam_options object, and the callbacks it can hold."""

from __future__ import annotations

import os
from collections.abc import Mapping

from . import _fast
from ._library import check, error_slot, ffi, forks, load, take_text
from ._types import Any, Merge, MergePartial, NoReturn, StrPath
from .errors import ClosedError, from_status


def byte_count(size: int | str) -> int:
    """Bytes of a size that may be written as text, as options take it: "64MiB"."""
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    if not isinstance(size, str):
        raise TypeError(
            f'a size must be a number or a text such as "64MiB", not {type(size).__name__}'
        )
    number, shift = size.lower().strip(), 0
    for power, unit in enumerate("kmgt", 1):
        for suffix in (f"{unit}ib", f"{unit}b", unit):
            if shift == 0 and number.endswith(suffix):
                number, shift = number.removesuffix(suffix).strip(), 10 * power
    if not number.isdecimal():
        raise ValueError(f'{size!r} is not a size such as 65536 or "64MiB"')
    return int(number) << shift


class Cache:
    """A block cache for several databases to share: ``open(path, cache=cache)``. The
    size is bytes, or text such as "64MiB". It is one object: it cannot be copied."""

    def __init__(self, size: int | str) -> None:
        size = byte_count(size)
        if size < 0:
            raise ValueError("the size of a cache cannot be negative")
        self._lib = load()
        slot, err = ffi.new("loam_cache **"), error_slot()
        check(self._lib.loam_cache_create(size, slot, err), err)
        self._own(slot[0])

    def _own(self, handle: Any) -> None:
        self._handle: Any = handle
        self._forks = forks()
        # looked up now: at the interpreter's end there are no imports
        self._end = self._lib.loam_cache_close

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Cache cannot be copied or pickled")

    def close(self) -> None:
        """Gives the cache up; databases that use it keep it. Closing twice is harmless."""
        handle, self._handle = self._handle, None
        if handle is not None and self._forks == forks():
            self._end(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def __enter__(self) -> Cache:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


AUTO_MEMORY = (1 << 64) - 1  # what the C library takes for it


class Resources(Cache):
    """What several databases share: ``open(path, resources=resources)``. memory is the bytes of
    cached blocks, memtables, indexes, filters and buffers together, at least 8 MiB; "auto" is a
    quarter of what the process may have, of the limit of its cgroup or the machine's memory, and
    follows that; 0 if each database has its own limits; background_jobs how many flushes and
    compactions run at once, 0 for as many as processors; io_bytes_per_second what these read and
    write while no writer waits for them, 0 for no bound; open_files how many descriptors of tables
    there are, 0 for no bound but the process's. Sizes are bytes, or text such as "64MiB"."""

    def __init__(
        self,
        memory: int | str = 0,
        *,
        background_jobs: int = 0,
        io_bytes_per_second: int | str = 0,
        open_files: int = 0,
    ) -> None:
        memory = AUTO_MEMORY if memory == "auto" else memory
        limits = [byte_count(n) for n in (memory, background_jobs, io_bytes_per_second, open_files)]
        if min(limits) < 0 or max(limits) >= 1 << 64:
            raise ValueError("a limit of resources is negative or too large")
        self._lib = load()
        slot, err = ffi.new("loam_cache **"), error_slot()
        check(self._lib.loam_resources_create(*limits, slot, err), err)
        self._own(slot[0])

    def _open_handle(self) -> Any:
        if self._handle is None:
            raise ClosedError("the resources are closed")
        if self._forks != forks():
            raise from_status(self._lib.LOAM_ERR_FORKED, "")
        return self._handle

    def set(self, name: str, value: int | str) -> None:
        """Changes a limit at once: "memory" (up to what it was at first, or "auto"),
        "background_jobs", "io_bytes_per_second" or "open_files"."""
        err = error_slot()
        check(
            self._lib.loam_resources_set(
                self._open_handle(), option_name(name), option_text(name, value), err
            ),
            err,
        )

    def metrics(self) -> dict[str, int]:
        """How much is in use."""
        slot, err = ffi.new("char **"), error_slot()
        check(self._lib.loam_resources_metrics(self._open_handle(), slot, err), err)
        import json

        metrics: dict[str, int] = json.loads(take_text(slot))
        return metrics


class MergeOperator:
    """A merge operator of one's own: ``open(path, merge_operator=MergeOperator(name, full))``.

    full(key, existing, operands) returns the value: existing, None if there is none, with the
    operands applied in their order, oldest first. partial(key, left, right), if there is one,
    returns one operand that does the same as left and then right whatever the existing value
    is, or None where there is none; it must be associative. Both must be pure functions of
    the bytes, come on any thread, and may use no database. What they raise makes reads of
    the key fail with MergeFailedError, whose cause it is; nothing is lost. The name is stored
    with the database, which opens only with an operator of that name while it has operands."""

    __slots__ = ("full", "name", "partial")

    def __init__(self, name: str, full: Merge, partial: MergePartial | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError("the name of a merge operator is a string")
        if not callable(full) or not (partial is None or callable(partial)):
            raise TypeError("a merge operator consists of functions")
        self.name = name
        self.full = full
        self.partial = partial

    def __repr__(self) -> str:
        return f"<loamdb.MergeOperator {self.name!r}>"


def prefix_filter(*prefixes: bytes) -> str:
    """The compaction filter, by name, that removes the keys beginning with one of the
    prefixes: ``open(path, compaction_filter=prefix_filter(b"tmp/", b"cache/"))``."""
    parts = (_fast.joined(b"", p) for p in prefixes)
    return "prefix:" + ",".join("".join(f"%{byte:02x}" for byte in p) for p in parts)


def c_name(of: str, name: str | bytes) -> bytes:
    """A name as C takes it, which would end at a null character."""
    encoded = name.encode() if isinstance(name, str) else name
    if b"\0" in encoded:
        raise ValueError(f"embedded null character in the name of a {of}")
    return encoded


def encode_path(path: StrPath) -> bytes:
    name = os.fsencode(path)
    if b"\0" in name:
        raise ValueError("embedded null byte in path")
    return name


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if (
        name == "compression"
        and isinstance(value, (list, tuple))
        and all(isinstance(v, str) for v in value)
    ):
        return ",".join(value)
    if (
        isinstance(value, (int, str))
        or isinstance(value, float)
        and name in ("default_ttl", "follow_interval", "max_space_amplification")
    ):
        return str(value)
    raise TypeError(
        f"option {name} must be a string, a number or a bool, not {type(value).__name__}"
    )


def option_name(name: str) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"the name of an option is a string, not {type(name).__name__}")
    if "\0" in name:
        raise ValueError("embedded null character in the name of an option")
    return name.encode()


def option_text(name: str, value: object) -> bytes:
    text = _text(name, value)
    if "\0" in text:
        raise ValueError("embedded null character in an option")
    return text.encode()


class Options:
    """A loam_options object that is closed at the end of a with statement."""

    def __init__(
        self, settings: Mapping[str, object], database: _fast.Callbacks | None = None
    ) -> None:
        """settings: options by name, None for the default; further comparator (a
        built-in's name or a function), comparator_name, compaction_filter (a name or a
        function), merge_operator (a name or a MergeOperator), cache and logger. database: the
        callbacks of the database in which a keyspace is opened."""
        self._lib = load()
        slot, err = ffi.new("loam_options **"), error_slot()
        check(self._lib.loam_options_create(slot, err), err)
        self.handle: Any = slot[0]
        try:
            self._apply(dict(settings), database)
        except BaseException:
            self._lib.loam_options_close(self.handle)
            raise

    def _apply(self, settings: dict[str, Any], database: _fast.Callbacks | None) -> None:
        err = error_slot()
        comparator, name = settings.pop("comparator", None), settings.pop("comparator_name", None)
        cache, logger = settings.pop("cache", None), settings.pop("logger", None)
        resources = settings.pop("resources", None)
        if cache is not None and resources is not None:
            raise ValueError("resources have a cache: give either")
        cache = resources if cache is None else cache
        compaction_filter = settings.pop("compaction_filter", None)
        if isinstance(comparator, str) and name is None:
            settings["comparator"], comparator = comparator, None
        if isinstance(compaction_filter, str):
            settings["compaction_filter"], compaction_filter = compaction_filter, None
        operator = settings.get("merge_operator")
        if isinstance(operator, MergeOperator):
            del settings["merge_operator"]
        else:
            operator = None
        full, partial = (None, None) if operator is None else (operator.full, operator.partial)
        functions = comparator, logger, compaction_filter, full, partial
        self.callbacks = _fast.Callbacks(*functions, database)
        self.has_callbacks = any(function is not None for function in functions)
        if comparator is not None or name is not None:
            self._set_comparator(comparator, name)
        for option, value in settings.items():
            if value is not None:
                text = option_text(option, value)
                check(self._lib.loam_options_set(self.handle, option_name(option), text, err), err)
        if cache is not None:
            if cache._handle is None:
                raise ClosedError("the cache is closed")
            if cache._forks != forks():
                raise from_status(self._lib.LOAM_ERR_FORKED, "")
            check(self._lib.loam_options_set_cache(self.handle, cache._handle, err), err)
        if logger is not None:
            _, log, _, _, _, destroy, arg = self._register()
            self._set(self._lib.loam_options_set_logger, ffi.cast("loam_log_fn", log), arg, destroy)
        if compaction_filter is not None:
            self._set_compaction_filter(compaction_filter)
        if operator is not None:
            self._set_merge_operator(operator)

    def _set_comparator(self, compare: Any, name: Any) -> None:
        if compare is None or name is None:
            raise ValueError("comparator and comparator_name belong together")
        if not callable(compare):
            raise TypeError("comparator must be a name or a function")
        if not isinstance(name, (str, bytes)):
            raise TypeError("comparator_name must be a string")
        encoded = c_name("comparator", name)
        function, _, _, _, _, destroy, arg = self._register()
        self._set(
            self._lib.loam_options_set_comparator,
            encoded,
            ffi.cast("loam_compare_fn", function),
            arg,
            destroy,
            self._lib.LOAM_COMPARATOR_CALLERS_THREAD,
        )

    def _set_compaction_filter(self, decide: Any) -> None:
        if not callable(decide):
            raise TypeError("compaction_filter must be a name or a function")
        qualified = getattr(decide, "__qualname__", type(decide).__qualname__)
        name = c_name("compaction filter", qualified)
        _, _, function, _, _, destroy, arg = self._register()
        self._set(
            self._lib.loam_options_set_compaction_filter,
            name,
            ffi.cast("loam_filter_fn", function),
            arg,
            destroy,
        )

    def _set_merge_operator(self, operator: MergeOperator) -> None:
        name = c_name("merge operator", operator.name)
        _, _, _, full, partial, destroy, arg = self._register()
        self._set(
            self._lib.loam_options_set_merge_operator,
            name,
            ffi.cast("loam_merge_fn", full),
            ffi.cast("loam_merge_partial_fn", 0 if operator.partial is None else partial),
            arg,
            destroy,
        )

    def _register(self) -> tuple[int, int, int, int, int, Any, Any]:
        compare, log, decide, full, partial, destroy, arg = self.callbacks._register()
        return (
            compare,
            log,
            decide,
            full,
            partial,
            ffi.cast("loam_destroy_fn", destroy),
            ffi.cast("void *", arg),
        )

    def _set(self, function: Any, *args: Any) -> None:
        """Sets a callback that was registered, or takes that back."""
        err = error_slot()
        status = function(self.handle, *args, err)
        if status < 0:
            self.callbacks._unregister()
        check(status, err)

    def __enter__(self) -> Options:
        return self

    def __exit__(self, *exc: object) -> None:
        self._lib.loam_options_close(self.handle)
