"""Tells PyInstaller what a frozen program needs of loamdb."""

import os


def hook_dirs() -> list[str]:
    """Where the hooks are: the entry point that PyInstaller asks for."""
    return [os.path.dirname(__file__)]
