# The module that _cffi_build.py makes of loam.h.

from typing import Any

ffi: Any
lib: Any
