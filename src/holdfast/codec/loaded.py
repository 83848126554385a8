"""Finds classes and functions by name among the modules that are loaded already. Nothing here ever imports a module.

A script run as `python orders.py` knows its own classes as `__main__.X`. A worker that imports the same file knows
them as `orders.X`, and a process spawned by multiprocessing as `__mp_main__.X`. Each process finds all three names.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import PurePath
from types import ModuleType

MAINS = ("__main__", "__mp_main__")
"""The names that a script's module may have in the script's own process."""


def find_class(module: str, qualname: str, home: str | None = None) -> type | None:
    """The class of that name, or None. `home` is the module that may hold now what a script recorded."""
    return next((one for one in find_all(module, qualname, home) if isinstance(one, type)), None)


def find_all(module: str, qualname: str, home: str | None) -> Iterator[object]:
    """Every object of that name, best match first."""
    for place in _places(module, home):
        found: object = place
        for part in qualname.split("."):
            found = getattr(found, part, None)
        if found is not None:
            yield found


def main_name() -> str | None:
    """The name under which others import the file that runs as `__main__`."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return str(spec.name).removesuffix(".__main__")
    path = getattr(main, "__file__", None)
    return PurePath(path).stem if path else None


def _places(module: str, home: str | None) -> list[ModuleType]:
    names = [module]
    if module in MAINS:
        names += ["__main__", home] if home else ["__main__"]
    elif module == main_name():
        names.append("__main__")
    return [sys.modules[name] for name in names if name in sys.modules]
