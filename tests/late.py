"""A package that is imported when one of its names is asked for: all workers read all files of
tests, and most need none of what takes seconds to import.
"""

from importlib import import_module
from typing import Any


class Late:
    "A package in the place of its import."

    def __init__(self, package: str):
        self._package = package

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._package), name)
