"""Dumps: all that is in a database as a stream of bytes."""

from __future__ import annotations

import errno
import io
import os
import sys
import time
from collections.abc import Callable

from ._handles import Handle, parse
from ._library import Job, check, error_slot, ffi, load, take_text
from ._types import Any, Progress, StrPath

CHUNK = 1 << 18
TICK = 0.1  # seconds between calls of progress


def report(job: Any) -> dict[str, Any]:
    """What a finished job says of the dump."""
    slot, err = ffi.new("char **"), error_slot()
    check(load().loam_job_report(job, slot, err), err)
    said: dict[str, Any] = parse(take_text(slot))
    return said


def system_file(fd: int) -> int:
    """What the library takes for a file descriptor: on Windows the HANDLE behind it."""
    if sys.platform == "win32":
        import msvcrt

        return msvcrt.get_osfhandle(fd)
    return fd


def is_path(file: Any) -> bool:
    return isinstance(file, (str, bytes, os.PathLike))


def start(job: Job, db: Handle | None, function: str, *args: Any) -> None:
    """Starts a job, on a database or none."""
    if db is not None:
        db._call(function, *args, job.slot)
    else:
        err = error_slot()
        check(getattr(load(), function)(*args, job.slot, err), err)


def run_file(
    db: Handle | None,
    function: str,
    args: tuple[Any, ...],
    file: StrPath | Any,
    flags: int,
    writing: bool,
    progress: Progress | None,
) -> dict[str, Any]:
    """Runs a job on a file: one that it opens itself, or a Python object, between which and the job
    is a pipe."""
    if db is not None:
        db._c()  # a closed database opens, and cuts off, no file
    callbacks = None if db is None else db._callbacks
    if isinstance(file, (str, bytes, os.PathLike)):
        if writing and db is not None:
            db._call("loam_dump_check", os.fsencode(file))
        with Job() as job:
            flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
            fd = os.open(file, flags, 0o600)
            try:
                start(job, db, function, *args, system_file(fd))
            finally:
                os.close(fd)
            said: dict[str, Any] = job.wait(progress, report, callbacks)
            return said
    move: Callable[[Any], object] = file.write if writing else file.read
    with Job() as job:
        ours, theirs = os.pipe()
        if not writing:
            ours, theirs = theirs, ours
        try:
            try:
                start(job, db, function, *args, system_file(theirs))
            finally:
                os.close(theirs)
            try:
                pump(job, ours, move, writing, progress)
            except BaseException:
                job.cancel()
                os.close(ours)  # ends the job's wait for the pipe
                ours = -1
                try:
                    job.wait(callbacks=callbacks)
                except Exception:
                    pass  # the exception to be seen is the other one
                raise
        finally:
            if ours >= 0:
                os.close(ours)
        # the pipe is closed: a job that reads has come to its end
        said = job.wait(progress, report, callbacks)
        return said


def moved(move: Any, what: Any) -> Any:
    """What a file object's read or write returns. None of Python's own raw files, or sockets, is
    neither the end nor that all was written: nothing was moved, as that would have to wait."""
    answer = move(what)
    file = getattr(move, "__self__", None)
    if (
        answer is None
        and isinstance(file, io.RawIOBase)
        and type(file).__module__ in ("_io", "io", "socket")
    ):
        raise BlockingIOError(errno.EAGAIN, "the file of a dump must be one that blocks")
    return answer


def pump(job: Job, fd: int, move: Any, writing: bool, progress: Progress | None) -> None:
    """Moves bytes between a file object and a pipe, until there are no more or the job has
    ended."""
    told = time.monotonic()
    while True:
        chunk = os.read(fd, CHUNK) if writing else moved(move, CHUNK)
        if not chunk:
            return
        left = memoryview(chunk)
        if not writing and not isinstance(chunk, (bytes, bytearray, memoryview)):
            raise TypeError("a dump is read from a binary file, whose read() gives bytes")
        while left:
            try:
                n = moved(move, left) if writing else os.write(fd, left)
            except BrokenPipeError:
                if writing:
                    raise
                return  # the job has ended, and says why
            left = left[len(left) if n is None else n :]
        if progress is not None and time.monotonic() - told >= TICK:
            told = time.monotonic()
            progress(*job.progress())
