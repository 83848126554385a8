"""Optional packages: they are loaded when something needs them, never by `import holdfast`.

Only here are packages of others imported by name at run time.
"""

from __future__ import annotations

import importlib
from typing import Any

from holdfast.errors import DefinitionError

__all__ = ["find_extra", "load_extra"]


def load_extra(module: str, *, extra: str, needed_by: str) -> Any:
    """A module of an optional package. If it is missing the error names the extra that brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise DefinitionError(
            f"{needed_by} needs the {package} package ({error}); install it: pip install 'holdfast[{extra}]'"
        ) from error


def find_extra(module: str) -> Any | None:
    """A module of a package that is used if it is installed; else None."""
    try:
        return importlib.import_module(module)
    except ImportError:
        return None
