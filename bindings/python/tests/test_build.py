"""What building and loading say when something is missing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile

import loamdb
import pytest

HERE = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture
def backend(monkeypatch, tmp_path):
    pytest.importorskip("setuptools", "77")
    spec = importlib.util.spec_from_file_location("loam_build", HERE / "loam_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PACKAGE", str(tmp_path))
    monkeypatch.delenv("LOAM_LIBRARY", raising=False)
    monkeypatch.delenv("GO", raising=False)
    return module


def test_without_go(backend, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(backend.BuildError, match="needs Go .* not in PATH.*LOAM_LIBRARY"):
        backend.compile_go(str(tmp_path), backend.NAME)


def test_prebuilt(backend, monkeypatch, tmp_path):
    monkeypatch.setenv("LOAM_LIBRARY", str(tmp_path / "none"))
    with pytest.raises(backend.BuildError, match="there is no such file"):
        backend.provide_library()
    (tmp_path / "made").write_bytes(b"library")
    monkeypatch.setenv("LOAM_LIBRARY", str(tmp_path / "made"))
    backend.provide_library()
    assert (tmp_path / backend.NAME).read_bytes() == b"library"


def test_without_sources(backend, monkeypatch, tmp_path):
    monkeypatch.setattr(backend, "HERE", str(tmp_path))
    monkeypatch.setattr(backend, "CHECKOUT", str(tmp_path))
    with pytest.raises(backend.BuildError, match="sources are missing"):
        backend.provide_library()


def test_musl_and_windows(backend, monkeypatch):
    monkeypatch.setattr(backend, "is_musl", lambda: True)
    with pytest.raises(backend.BuildError, match="musl systems such as Alpine are not supported"):
        backend.provide_library()
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(backend.BuildError, match="win32 is not supported"):
        backend.provide_library()


def open_with(library: str, directory: pathlib.Path) -> str:
    program = (
        "import loamdb\ntry: loamdb.open('x')\nexcept ImportError as e: print(type(e).__name__, e)"
    )
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LOAM_LIBRARY": library},
        cwd=directory,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


@pytest.mark.parametrize(
    "source, message",
    [
        (None, "does not exist; reinstall loamdb, or set LOAM_LIBRARY"),
        ("", "is not libloam: it has no loam_abi_version"),
        ("int loam_abi_version(void) { return 99; }", "has ABI version 99, but loamdb needs 0"),
        ("int loam_abi_version(void) { return 0; }", "has ABI revision 0.-1, but loamdb needs 0."),
        (
            "int loam_abi_version(void) { return 0; } int loam_abi_revision(void) { return 1000; }",
            "has ABI revision 0.1000",
        ),
        (
            "int loam_abi_version(void) { return 0; } "
            f"int loam_abi_revision(void) {{ return {loamdb._fast.ABI_REVISION}; }}",
            "has no function loam_",
        ),
        ("not C", "cannot load libloam"),
    ],
)
def test_wrong_library(tmp_path, source, message):
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = tmp_path / "libother.so"
    if source == "not C":
        library.write_bytes(b"\x7fELF and no more")
    elif source is not None:
        (tmp_path / "other.c").write_text(source + "\nint other;\n")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-o", library, tmp_path / "other.c"], check=True
        )
    for name in (str(library), library.name):  # also one that dlopen would look for elsewhere
        said = open_with(name, tmp_path)
        assert said.startswith("LibraryError ") and message in said and said.count("\n") == 1


def test_types(tmp_path):
    """The annotations hold, and the stubs agree with what is installed. mypy keeps what it knows of
    other modules beside them."""
    pytest.importorskip("mypy")
    source = HERE / "src"
    cache = os.path.join(sys.prefix, "mypy_cache")
    for command, where, path in (
        (["mypy", "--strict", "-p", "loamdb"], source, str(source)),
        (["mypy.stubtest", "loamdb._fast", "--ignore-missing-stub"], tmp_path, ""),
        (["mypy", "--strict", HERE / "tests" / "typed_sample.py"], tmp_path, ""),
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=where,
            env={**os.environ, "MYPYPATH": path, "MYPY_CACHE_DIR": cache},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_licences():
    """They are in the installed package, and in the source distribution it was built beside."""
    checkout = HERE.parent.parent
    names = {"LICENSE", "THIRD-PARTY.txt"}
    for file in importlib.metadata.files("loamdb"):
        if file.parent.name == "licenses":
            assert file.read_binary() == (checkout / file.name).read_bytes()
            names.remove(file.name)
    assert not names
    for sdist in (checkout / "build" / "python" / "dist").glob("loamdb-*.tar.gz"):
        with tarfile.open(sdist) as tar:
            top = sdist.name.removesuffix(".tar.gz")
            for name in ("LICENSE", "THIRD-PARTY.txt"):
                for path in (f"{top}/{name}", f"{top}/libloam/{name}"):
                    assert tar.extractfile(path).read() == (checkout / name).read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="glibc is Linux's")
def test_old_systems_can_load_it():
    """Nothing asks for more than glibc 2.28, which RHEL 8 has."""
    package = pathlib.Path(loamdb.__file__).parent
    needed = {
        library.name: max(int(v) for v in re.findall(rb"\0GLIBC_2\.(\d+)\b", library.read_bytes()))
        for library in package.glob("*.so")
    }
    assert len(needed) == 3 and max(needed.values()) <= 28, needed
