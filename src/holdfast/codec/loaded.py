"""Classes and functions by name, among the modules that are loaded already. Nothing here ever imports a module.

A script run as `python orders.py` knows its own classes as `__main__.X`; a worker that imports the same file knows
them as `orders.X`, and a process that multiprocessing has spawned as `__mp_main__.X`. Each is found by all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import PurePath
from types import ModuleType

MAINS = ("__main__", "__mp_main__")
"""What the script may be called in its own process."""


def find_class(module: str, qualname: str, home: str | None = None) -> type | None:
    """The class of that name, or None. `home` is where what was recorded of a script may live now."""
    return next((one for one in find_all(module, qualname, home) if isinstance(one, type)), None)


def find_all(module: str, qualname: str, home: str | None) -> Iterator[object]:
    """Whatever has that name."""
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
