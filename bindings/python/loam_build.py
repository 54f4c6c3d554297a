"""The build backend (PEP 517): setuptools, with libloam made first.

libloam comes from LOAM_LIBRARY=/path/to/libloam.so, or is built with Go from the
checkout this folder lies in, or from the sources that a source distribution holds
in libloam/. The command loam comes from LOAM_COMMAND=/path/to/loam, lies beside
libloam.so, or is built as that is.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F403  the hooks that are not changed

HERE = os.path.dirname(os.path.abspath(__file__))
CHECKOUT = os.path.dirname(os.path.dirname(HERE))
PACKAGE = os.path.join(HERE, "src", "loamdb")
NAME = "libloam.dylib" if sys.platform == "darwin" else "libloam.so"
COMMAND = "loam"
LICENCES = ("LICENSE", "THIRD-PARTY.txt")


class BuildError(SystemExit):
    """Ends the build with one sentence instead of a traceback."""

    def __init__(self, message):
        super().__init__(f"loamdb: {message}")


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    provide_library()
    provide_command()
    with license_files():
        return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    provide_library()
    provide_command()
    with license_files():
        return build_meta.build_editable(wheel_directory, config_settings, metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    """A source distribution carries the Go sources that libloam is built from."""
    copy = os.path.join(HERE, "libloam")
    made = is_go_tree(CHECKOUT)
    if made:
        copy_sources(CHECKOUT, copy)
    try:
        with license_files():
            return build_meta.build_sdist(sdist_directory, config_settings)
    finally:
        if made:
            shutil.rmtree(copy)


@contextlib.contextmanager
def license_files():
    """The checkout's licences, here while setuptools collects them."""
    if not is_go_tree(CHECKOUT):
        yield
        return
    for name in LICENCES:
        shutil.copyfile(os.path.join(CHECKOUT, name), os.path.join(HERE, name))
    try:
        yield
    finally:
        for name in LICENCES:
            os.remove(os.path.join(HERE, name))


def provide_library():
    check_platform()
    target = os.path.join(PACKAGE, NAME)
    prebuilt = os.environ.get("LOAM_LIBRARY")
    if prebuilt:
        if not os.path.isfile(prebuilt):
            raise BuildError(f"LOAM_LIBRARY={prebuilt}: there is no such file")
        install(prebuilt, target)
        return
    tree = go_tree()
    if tree is not None:
        install(compile_go(tree, NAME), target)
        return
    raise BuildError(
        "Loam's Go sources are missing; build from a checkout or a source "
        "distribution, or set LOAM_LIBRARY"
    )


def provide_command():
    """The command loam. Without Go's sources and a built one the package has none."""
    prebuilt = os.environ.get("LOAM_COMMAND")
    if prebuilt and not os.path.isfile(prebuilt):
        raise BuildError(f"LOAM_COMMAND={prebuilt}: there is no such file")
    beside = os.path.join(os.path.dirname(os.environ.get("LOAM_LIBRARY", "")), COMMAND)
    if not prebuilt and os.environ.get("LOAM_LIBRARY") and os.path.isfile(beside):
        prebuilt = beside
    tree = go_tree()
    if not prebuilt and tree is not None and has_go():
        prebuilt = compile_go(tree, COMMAND)
    if prebuilt:
        install(prebuilt, os.path.join(PACKAGE, COMMAND))


def has_go():
    return shutil.which(os.environ.get("GO", "go")) is not None and shutil.which("make") is not None


def go_tree():
    for tree in (CHECKOUT, os.path.join(HERE, "libloam")):
        if is_go_tree(tree):
            return tree
    return None


def check_platform():
    if sys.platform not in ("linux", "darwin"):
        raise BuildError(f"{sys.platform} is not supported; loamdb runs on Linux and macOS")
    if sys.platform == "linux" and is_musl():
        raise BuildError(
            "musl systems such as Alpine are not supported: a Go library cannot be loaded there "
            "(golang.org/issue/54805); use a glibc system"
        )


def is_musl():
    return "musl" in (sysconfig.get_config_var("SOABI") or "") or "musl" in (
        sysconfig.get_config_var("HOST_GNU_TYPE") or ""
    )


def is_go_tree(path):
    return os.path.exists(os.path.join(path, "go.mod")) and os.path.exists(
        os.path.join(path, "cabi", "loam.h")
    )


def compile_go(tree, name):
    for tool, purpose in (("go", "Go 1.25 or later (https://go.dev/dl)"), ("make", "make")):
        if shutil.which(os.environ.get("GO", tool) if tool == "go" else tool) is None:
            raise BuildError(
                f"building libloam needs {purpose}, which is not in PATH; "
                "install it, or set LOAM_LIBRARY=/path/to/libloam.so to use a built one"
            )
    done = subprocess.run(
        [
            "make",
            "-C",
            tree,
            "-f",
            "cabi/lib.mk",
            "GO=" + os.environ.get("GO", "go"),
            "build/lib/" + name,
        ],
        stdout=sys.stderr,
    )
    if done.returncode != 0:
        raise BuildError(f"building {name} failed; the messages of Go are above")
    return os.path.join(tree, "build", "lib", name)


def install(source, target):
    """Replaces the library by renaming: a process may have the old one mapped."""
    if os.path.realpath(source) == os.path.realpath(target):
        return
    shutil.copyfile(source, target + ".new")
    os.chmod(target + ".new", 0o755)
    os.replace(target + ".new", target)


def copy_sources(checkout, copy):
    shutil.rmtree(copy, ignore_errors=True)
    os.makedirs(copy)
    for name in ("go.mod", "go.sum", *LICENCES):
        shutil.copyfile(os.path.join(checkout, name), os.path.join(copy, name))
    for folder in ("cabi", "cmd/loam", "internal", "lsm"):
        shutil.copytree(
            os.path.join(checkout, folder),
            os.path.join(copy, folder),
            ignore=shutil.ignore_patterns(
                "testdata", "*_test.go", "*.test", "*.prof", "testkit", "kvbench", "workload"
            ),
        )
