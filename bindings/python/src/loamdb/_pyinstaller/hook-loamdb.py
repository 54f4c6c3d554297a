"""libloam is opened by name and cffi's runtime imported from C: neither can be seen."""

from PyInstaller.utils.hooks import collect_data_files  # type: ignore[import-untyped]

datas = collect_data_files("loamdb", includes=["libloam.*"])
hiddenimports = ["_cffi_backend", "loamdb._loam"]
