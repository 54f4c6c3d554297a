"""libloam is opened by name and cffi's runtime imported from C: neither can be seen."""

from PyInstaller.utils.hooks import collect_dynamic_libs  # type: ignore[import-untyped]

binaries = collect_dynamic_libs("loamdb")
hiddenimports = ["_cffi_backend", "loamdb._loam"]
