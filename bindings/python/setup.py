"""The two extensions, both of the stable ABI of Python 3.11 and later, and the
wheel's platform tag. Free-threaded Python has no stable ABI: there the wheel is of one
version."""

import os
import re
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import _cffi_build  # noqa: E402

FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


class Wheel(bdist_wheel):
    """A wheel that says which glibc its libraries need (PEP 600)."""

    def get_tag(self):
        python, abi, platform = super().get_tag()
        if platform.startswith("linux_"):
            minor = max([17, *self.needed_glibc()])
            platform = f"manylinux_2_{minor}_{platform.removeprefix('linux_')}"
        return (python, abi, platform) if FREE_THREADED else ("cp311", "abi3", platform)

    def needed_glibc(self):
        for folder, _, names in os.walk(self.bdist_dir):
            for name in names:
                if name.endswith(".so"):
                    with open(os.path.join(folder, name), "rb") as f:
                        yield from (int(v) for v in re.findall(rb"\0GLIBC_2\.(\d+)\b", f.read()))


old_glibc = _cffi_build.old_glibc()
fast = Extension(
    "loamdb._fast",
    ["_fast.c", "_batch.c", "_callbacks.c", "_cursor.c", "_pinned.c"],
    depends=["_dynamic.h", "_fast.h"],
    include_dirs=[os.path.dirname(_cffi_build.header())],
    define_macros=[] if FREE_THREADED else [("Py_LIMITED_API", "0x030B0000")],
    extra_compile_args=[
        "-O2",
        "-g0",
        "-fvisibility=hidden",
        *old_glibc.get("extra_compile_args", []),
    ],
    extra_link_args=old_glibc.get("extra_link_args", []),
    py_limited_api=not FREE_THREADED,
)

setup(
    ext_modules=[fast],
    cffi_modules=["_cffi_build.py:ffi"],
    cmdclass={"bdist_wheel": Wheel},
    options={} if FREE_THREADED else {"bdist_wheel": {"py_limited_api": "cp311"}},
)
