"""Loads modules by name or by file, with errors that name the file and line at fault."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.errors import DefinitionError

ADVICE = (
    "name a module, a file or a folder (holdfast worker shop.orders jobs/daily.py), or set "
    'workflows = ["shop.orders"] in holdfast.toml or in [tool.holdfast] of pyproject.toml'
)


def load(name: str, *, file: Path | None = None, advice: str = ADVICE) -> ModuleType:
    """The module of that name, loaded if it is not yet.

    Raises DefinitionError with the line that failed, or with `advice` if there is no such module.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            where = "" if file is None else f" ({file})"
            raise DefinitionError(
                f"there is no module {error.name!r}{where}; it must be installed, or lie in the working directory; "
                f"else {advice}"
            ) from error
        raise _unloadable(name, error) from error
    except (Exception, SystemExit) as error:
        raise _unloadable(name, error) from error


def load_file(file: Path, name: str, root: Path) -> ModuleType:
    """The module of a file below `root`. Raises DefinitionError if its name already belongs to another file."""
    search_first(root)
    loaded = load(name, file=file)
    if not _is_from(loaded, file):
        raise DefinitionError(
            f"{shown(str(file))} would be the module {name!r}, and that name belongs to {place_of_module(loaded)}; "
            "rename one of them"
        )
    return loaded


def _unloadable(name: str, error: BaseException) -> DefinitionError:
    reason = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SystemExit):
        reason = "it ends the process when it is imported; put what it does behind `if __name__ == '__main__':`"
    return DefinitionError(f"the module {name!r} can't be loaded: {_raised_at(error)}: {reason}")


def _raised_at(error: BaseException) -> str:
    """File and line of the error: of the innermost frame outside Python's import system and of libraries."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{shown(error.filename)}, line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    frames = [frame for frame in frames if not _is_installed(frame.filename)] or frames
    return f"{shown(frames[-1].filename)}, line {frames[-1].lineno}"


def _is_installed(filename: str) -> bool:
    path = Path(filename)
    libraries = (Path(os.__file__).parent, Path(__file__).parents[1])
    return "site-packages" in path.parts or any(path.is_relative_to(library) for library in libraries)


def loaded_from(file: Path) -> ModuleType | None:
    """The module that was loaded from this file, whatever its name."""
    for module in list(sys.modules.values()):
        origin = getattr(module, "__file__", None)
        # Names are compared first: asking the file system about every module is slow.
        is_candidate = origin is not None and os.path.basename(origin) == file.name and module.__name__ != "__main__"
        if is_candidate and _is_from(module, file):
            return module
    return None


def _is_from(module: ModuleType, file: Path) -> bool:
    origin = getattr(module, "__file__", None)
    return origin is not None and os.path.realpath(origin) == os.path.realpath(file)


def root_of_file(file: Path) -> tuple[Path, str]:
    """The folder to search for modules, and the package of the file; without one, its own folder and ""."""
    root = file.parent
    parts: list[str] = []
    while (root / "__init__.py").is_file() and root.name.isidentifier():
        parts.insert(0, root.name)
        root = root.parent
    return root, ".".join(parts)


def root_of_folder(folder: Path) -> tuple[Path, str]:
    """As `root_of_file`, for the files in a folder.

    The folder is a package even without an `__init__.py`: else its files' names might clash with other modules'.
    """
    if not folder.name.isidentifier():
        return folder, ""
    root, prefix = root_of_file(folder)
    return root, f"{prefix}.{folder.name}" if prefix else folder.name


def name_below(file: Path, folder: Path, prefix: str) -> str:
    """The name of a file's module. `folder` is the folder of the package `prefix`."""
    parts = file.relative_to(folder).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join([prefix, *parts] if prefix else parts)


def search_first(root: Path) -> None:
    """Make `root` the first entry of `sys.path`, as if a script in it had been started."""
    text = str(root)
    if sys.path[:1] != [text]:
        sys.path[:] = [text, *(entry for entry in sys.path if entry != text)]
        importlib.invalidate_caches()


def top_package(module: ModuleType) -> str:
    return module.__name__.partition(".")[0]


def place_of_module(module: ModuleType) -> str:
    return shown(getattr(module, "__file__", None) or module.__name__)


def place_of_function(fn: Callable[..., Any]) -> str:
    code = getattr(fn, "__code__", None)
    if code is None:
        return f"{fn.__module__}.{getattr(fn, '__qualname__', fn)}"
    return f"{shown(code.co_filename)}, line {code.co_firstlineno}"


def shown(filename: str) -> str:
    """A path for people: relative to the working directory if it is below it."""
    try:
        return str(Path(filename).relative_to(Path.cwd()))
    except ValueError:
        return filename
