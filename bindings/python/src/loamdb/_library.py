"""Loading libloam, at the first use and not before: a process that only imports
loamdb has no Go runtime in it and may fork."""

from __future__ import annotations

import os
import sys
from _thread import allocate_lock
from collections.abc import Callable

from . import _fast
from .errors import LibraryError, NoMemoryError, from_status
from ._types import Any


class _Lazy:
    """ffi or lib of the extension _loam, which is imported, and cffi's runtime with it,
    when the first attribute is asked for: most of the time that importing takes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        from . import _loam

        value = getattr(getattr(_loam, self._name), attribute)
        setattr(self, attribute, value)
        return value


ffi: Any = _Lazy("ffi")
_lib: Any = _Lazy("lib")

_lock = allocate_lock()
_tried = _loaded = False
_library: Any = None  # what dlopen returned last
_forks = 0  # how often this process and its parents were forked with a library in them

#: How long a wait for libloam lasts before signals and progress are looked at.
SLICE_MS = 100

#: Address space that Go's runtime and an open database take; short of it, the runtime
#: ends the process.
ADDRESS_SPACE = 1400 << 20


def path() -> str:
    """The library's file: $LOAM_LIBRARY or the one in this package. Never a bare name, which the
    dynamic linker looks for elsewhere."""
    name = {"darwin": "libloam.dylib", "win32": "loam.dll"}.get(sys.platform, "libloam.so")
    return os.path.abspath(
        os.environ.get("LOAM_LIBRARY") or os.path.join(os.path.dirname(__file__), name)
    )


def load() -> Any:
    """libloam's functions; loads the library when that has not been done."""
    global _loaded, _tried
    if _loaded:
        return _lib
    with _lock:
        if not _loaded:
            if not _tried:
                _tried = True
                if sys.platform != "win32":
                    os.register_at_fork(after_in_child=_in_child)
            _load(path())
            _loaded = True
    return _lib


def _in_child() -> None:
    """In a child after fork the parent's copy of the library is dead: Go's threads are
    not there. The next load() gets this process a copy of its own."""
    global _forks, _loaded, _lock
    _fast.forked()
    _lock = allocate_lock()
    _forks += 1
    if sys.platform == "linux":
        _loaded = False


def forks() -> int:
    """A number that is another one after a fork: handles of before it are of no use."""
    return _forks


def owned(handle: Any, close: Callable[[Any], object]) -> Any:
    """A handle that is closed with its last reference: not in a child of fork, whose copy of the
    library may have another object under the same handle."""
    born = _forks

    def end(handle: Any) -> None:
        if _forks == born:
            close(handle)

    return ffi.gc(handle, end)


def same_process(born: int) -> None:
    """Raises ForkedError in a child of the process that forks() said born in."""
    if _forks != born:
        raise from_status(_lib.LOAM_ERR_FORKED, "")


def _load(file: str) -> None:
    global _library
    if not os.path.exists(file):
        raise LibraryError(
            f"{file} does not exist; reinstall loamdb, or set LOAM_LIBRARY to where libloam is"
        )
    if sys.platform == "linux":
        _check_address_space()
    if _forks == 0:
        library = _open(file)
    else:
        from . import _forked

        if _library is not None:
            _lib.loamdb_release_signals(_library)
        library = _forked.with_copy(file, _forks, _open)
    version = _lib.loamdb_library_abi(library)
    if version < 0:
        raise LibraryError(f"{file} is not libloam: it has no loam_abi_version")
    if version != _fast.ABI_VERSION:
        raise LibraryError(
            f"{file} has ABI version {version}, but loamdb needs {_fast.ABI_VERSION}"
        )
    revision = _lib.loamdb_library_revision(library)
    if version == 0 and revision != _fast.ABI_REVISION:
        raise LibraryError(
            f"{file} has ABI revision {version}.{revision}, but loamdb needs "
            f"{version}.{_fast.ABI_REVISION}"
        )
    _library = library
    missing = _lib.loamdb_bind(library)
    if missing != ffi.NULL:
        raise LibraryError(
            f"{file} has no function {ffi.string(missing).decode()}: it is older than loamdb"
        )
    _fast.bind(int(ffi.cast("uintptr_t", library)))


def _open(file: str) -> Any:
    why = ffi.new("const char **")
    library = _lib.loamdb_open_library(os.fsencode(file), why)
    if library == ffi.NULL:
        raise LibraryError(f"cannot load libloam: {ffi.string(why[0]).decode(errors='replace')}")
    return library


def _check_address_space() -> None:
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return
    with open("/proc/self/statm", encoding="ascii") as f:
        left = limit - int(f.read().split()[0]) * resource.getpagesize()
    if left < ADDRESS_SPACE:
        raise NoMemoryError(
            f"libloam needs {ADDRESS_SPACE >> 20} MiB of address space, and the limit of this "
            f"process (ulimit -v) leaves {left >> 20} MiB"
        )


def check(status: int, err: Any = None, callbacks: _fast.Callbacks | None = None) -> int:
    """Raises the exception for a failure; returns answers. err is the char ** that
    the call stored its message in, callbacks those of the database it was about."""
    exception: BaseException | None = None
    if status < 0:
        message, number, path = "", 0, None
        if err is not None and err[0] != ffi.NULL:
            message = ffi.string(err[0]).decode(errors="replace")
            number = _lib.loam_error_errno(err[0])
            at = _lib.loam_error_path(err[0])
            path = os.fsdecode(ffi.string(at)) if at != ffi.NULL else None
            _lib.loam_free(err[0])
        exception = from_status(status, message, number, path)
    if callbacks is not None:
        exception = callbacks._settle(status, exception)
    if exception is not None:
        raise exception
    return status


def error_slot() -> Any:
    return ffi.new("char **")


def take_text(slot: Any) -> str:
    """The text in a char ** that the library filled, which is freed."""
    text: str = ffi.string(slot[0]).decode(errors="replace")
    _lib.loam_free(slot[0])
    return text


class Job:
    """A job of the library, which the body of a with statement starts by a call that fills slot.
    Any exception asks the job to end early: also Ctrl-C that comes before wait, when the job may
    be under way already."""

    def __init__(self) -> None:
        self.slot = ffi.new("loam_job **")

    def __enter__(self) -> Job:
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc: object) -> None:
        job = self.slot[0]
        if job == ffi.NULL:
            return
        if kind is not None:
            self.cancel()
        _lib.loam_job_close(job)

    def cancel(self) -> None:
        _lib.loam_job_cancel(self.slot[0], ffi.NULL)

    def wait(
        self,
        progress: Callable[[int, int], object] | None = None,
        finish: Callable[[Any], Any] | None = None,
        callbacks: _fast.Callbacks | None = None,
    ) -> Any:
        """Waits in slices, so that Ctrl-C works. finish fetches the result of the finished job."""
        job, err = self.slot[0], error_slot()
        while True:
            status = _lib.loam_job_wait(job, SLICE_MS, err)
            if progress is not None:
                progress(*self.progress())
            if status != _lib.LOAM_TIMEOUT:
                check(status, err, callbacks)
                return finish(job) if finish is not None else None

    def progress(self) -> tuple[int, int]:
        """What is done, and what there is in all."""
        done, total, err = ffi.new("uint64_t *"), ffi.new("uint64_t *"), error_slot()
        check(_lib.loam_job_progress(self.slot[0], done, total, err), err)
        return done[0], total[0]
