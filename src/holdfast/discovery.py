"""Finding workflows: modules are loaded by name, by file or by folder, and what stands in them is collected.

Loading a module executes it, so this happens in the process that is going to work with it, and in no other. A module
has one name, however it was named: a file that was loaded already is not loaded a second time. Whatever is wrong is
an error that says in which file and line.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.codec import Codec
from holdfast.define import Resource, Step, StepInfo, Workflow
from holdfast.errors import DefinitionError, DuplicateWorkflow

__all__ = ["Found", "discover"]

_DEFAULT = "workflows"
_ADVICE = (
    "name a module, a file or a folder (holdfast worker shop.orders jobs/daily.py), or set "
    'workflows = ["shop.orders"] in holdfast.toml or in [tool.holdfast] of pyproject.toml'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the modules hold that a worker is given."""

    workflows: tuple[Workflow[Any, Any], ...]
    resources: tuple[Resource[Any], ...]
    """Those of the modules, and of the modules that their steps come from."""
    middleware: tuple[Callable[[StepInfo], Any], ...]
    """What a module lists under the name `middleware`."""
    codec: Codec | None
    """The one that a module holds, if any does."""


def discover(
    targets: Sequence[str] | None = None,
    *,
    ignore: Sequence[str] = (),
    directory: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Found:
    """Load what `targets` name and collect what stands in it.

    A target is the name of a module, `module:attribute`, a `.py` file or a folder; of a package or folder all modules
    are loaded that no pattern in `ignore` names. Without targets it is the package, folder or module `workflows` in
    `directory` or else in `home`. Both are searched for modules before anything else.

    Raises DefinitionError for a target that is not there, a module that can't be loaded, or if no workflow was found;
    DuplicateWorkflow if two have one name and version.
    """
    place = Path.cwd() if directory is None else Path(directory).absolute()
    roots = [place] if home is None else list(dict.fromkeys([place, Path(home).absolute()]))
    for root in reversed(roots):
        _search_first(root)
    collected = _Collected()
    for target in targets or _default_in(roots):
        _Target(target, place, tuple(ignore)).collect(collected)
        if not collected.is_known(target):
            raise DefinitionError(f"{target!r} holds no workflow: no function in it is decorated with @workflow")
    return collected.found()


def _default_in(roots: Iterable[Path]) -> tuple[str, ...]:
    roots = tuple(roots)
    for root in roots:
        for candidate in (root / _DEFAULT, root / f"{_DEFAULT}.py"):
            if candidate.exists():
                return (str(candidate),)
    where = " or ".join(str(root) for root in roots)
    raise DefinitionError(f"there are no workflows to serve: {where} has no package or folder {_DEFAULT!r}; {_ADVICE}")


class _Target:
    """One word of the command line or the settings."""

    def __init__(self, text: str, directory: Path, ignore: tuple[str, ...]) -> None:
        self.text = text
        self._directory = directory
        self._ignore = ignore

    def collect(self, collected: _Collected) -> None:
        path = self._directory / self.text
        # A folder of that name may be a package that is named as a module, too: both ways lead to the same modules.
        if self._looks_like_a_path() or (path.is_dir() and ":" not in self.text):
            self._collect_path(path, collected)
            return
        name, _, attribute = self.text.partition(":")
        module = self._named(name)
        if attribute:
            collected.add_attribute(module, attribute, self.text)
            return
        collected.add_module(module, self.text)
        for folder in getattr(module, "__path__", ()):
            for file in self._files(Path(folder)):
                collected.add_module(_load(_name_below(file, Path(folder), module.__name__)), self.text)

    def _looks_like_a_path(self) -> bool:
        return "/" in self.text or os.sep in self.text or self.text.endswith(".py") or self.text.startswith(".")

    def _collect_path(self, path: Path, collected: _Collected) -> None:
        if path.is_dir():
            path = path.resolve()
            root, prefix = _root_of_folder(path)
            files = list(self._files(path))
            if not files:
                raise DefinitionError(f"{self.text!r} is a folder without a Python file that may be loaded; {_ADVICE}")
        elif path.is_file() and path.suffix == ".py":
            path = path.resolve()
            root, prefix = _root_of_file(path)
            files = [path]
        else:
            raise DefinitionError(f"{self.text!r}: there is no such folder or .py file; {_ADVICE}")
        for file in files:
            loaded = _loaded_from(file)
            if loaded is None:
                _search_first(root)
                name = _name_below(file, path if path.is_dir() else path.parent, prefix)
                loaded = _load(name, file=file)
                if not _is_from(loaded, file):
                    raise DefinitionError(
                        f"{_shown(str(file))} would be the module {name!r}, and that name belongs to "
                        f"{_place(loaded)}; rename one of them"
                    )
            collected.add_module(loaded, self.text)

    def _files(self, folder: Path) -> Iterator[Path]:
        """The modules in a folder and below it, in a fixed order."""
        for path in sorted(folder.iterdir()):
            if path.name.startswith((".", "__pycache__")) or path.name == "__main__.py" or self._is_ignored(path):
                continue
            if path.is_dir() and path.name.isidentifier():
                yield from self._files(path)
            elif path.suffix == ".py" and path.stem.isidentifier():
                yield path

    def _is_ignored(self, path: Path) -> bool:
        return any(fnmatch(path.name, pattern) or fnmatch(path.as_posix(), pattern) for pattern in self._ignore)

    def _named(self, name: str) -> ModuleType:
        if not name or not all(part.isidentifier() for part in name.split(".")):
            raise DefinitionError(
                f"{self.text!r} is no target; expected module, module:attribute, a .py file or a folder"
            )
        return _load(name)


class _Collected:
    """What was found so far, each once, in the order in which it was found."""

    def __init__(self) -> None:
        self.workflows: dict[tuple[str, str], Workflow[Any, Any]] = {}
        self._resources: dict[int, Resource[Any]] = {}
        self._middleware: dict[int, Callable[[StepInfo], Any]] = {}
        self._codec: tuple[Codec, str] | None = None
        self._visited: set[str] = set()
        self._known: set[str] = set()

    def is_known(self, target: str) -> bool:
        """Whether the target held workflows, even if others had led to them before."""
        return target in self._known

    def add_module(self, module: ModuleType, target: str) -> None:
        for value in list(vars(module).values()):
            if isinstance(value, Workflow):
                self._add_workflow(value, target)
        self._add_surroundings(module)

    def add_attribute(self, module: ModuleType, path: str, target: str) -> None:
        value: Any = module
        for name in path.split("."):
            if not hasattr(value, name):
                raise DefinitionError(f"{target!r}: the module {module.__name__} ({_place(module)}) has no {name!r}")
            value = getattr(value, name)
        listed = list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
        for one in listed:
            if not isinstance(one, Workflow):
                raise DefinitionError(
                    f"{target!r} is {one!r}; expected a function decorated with @workflow, or a list of them"
                )
            self._add_workflow(one, target)
        self._add_surroundings(module)

    def found(self) -> Found:
        return Found(
            workflows=tuple(self.workflows.values()),
            resources=tuple(self._resources.values()),
            middleware=tuple(self._middleware.values()),
            codec=None if self._codec is None else self._codec[0],
        )

    def _add_workflow(self, one: Workflow[Any, Any], target: str) -> None:
        self._known.add(target)
        other = self.workflows.setdefault((one.name, one.version), one)
        if other.fn is one.fn:
            return
        here, there = _place_of(one.fn), _place_of(other.fn)
        if here == there:
            raise DuplicateWorkflow(
                f"the workflow {one.name!r} ({here}) was loaded twice, as {other.fn.__module__} and as "
                f"{one.fn.__module__}; import that module by one name everywhere"
            )
        raise DuplicateWorkflow(
            f"two workflows are named {one.name!r} in version {one.version!r}: {there} and {here}; give one of them "
            "another name= or version="
        )

    def _add_surroundings(self, module: ModuleType) -> None:
        """What steps need besides their arguments, also from the modules that the steps themselves come from."""
        if module.__name__ in self._visited:
            return
        self._visited.add(module.__name__)
        for value in list(vars(module).values()):
            if isinstance(value, Resource):
                self._resources.setdefault(id(value.fn), value)
            elif isinstance(value, Codec):
                self._add_codec(value, module)
            elif isinstance(value, (Step, Workflow)):
                self._follow(sys.modules.get(value.fn.__module__))
            elif isinstance(value, ModuleType) and _top(value) == _top(module):
                self._follow(value)
        self._add_middleware(module)

    def _follow(self, module: ModuleType | None) -> None:
        if module is not None:
            self._add_surroundings(module)

    def _add_middleware(self, module: ModuleType) -> None:
        given = vars(module).get("middleware")
        if given is None or isinstance(given, ModuleType):
            return
        if not isinstance(given, (list, tuple)) or not all(callable(one) for one in given):
            raise DefinitionError(
                f"`middleware` in {module.__name__} ({_place(module)}): expected a list of functions that take a step "
                "and return a context manager; give it another name if it is something else"
            )
        for one in given:
            self._middleware.setdefault(id(one), one)

    def _add_codec(self, codec: Codec, module: ModuleType) -> None:
        if self._codec is None:
            self._codec = (codec, module.__name__)
        elif self._codec[0] is not codec:
            raise DefinitionError(
                f"{self._codec[1]} and {module.__name__} hold a Codec each, and a worker has one; define it in one "
                "module and import it in the other"
            )


# -- loading ---------------------------------------------------------------------------------------------------------


def _load(name: str, *, file: Path | None = None) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            where = "" if file is None else f" ({file})"
            raise DefinitionError(
                f"there is no module {error.name!r}{where}; it must be installed, or lie in the working directory; "
                f"else {_ADVICE}"
            ) from error
        raise _unloadable(name, error) from error
    except (Exception, SystemExit) as error:
        raise _unloadable(name, error) from error


def _unloadable(name: str, error: BaseException) -> DefinitionError:
    said = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SystemExit):
        said = "it ends the process when it is imported; put what it does behind `if __name__ == '__main__':`"
    return DefinitionError(f"the module {name!r} can't be loaded: {_raised_at(error)}: {said}")


def _raised_at(error: BaseException) -> str:
    """File and line of what went wrong: the innermost place that is neither Python's import nor a library."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename)}, line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    frames = [frame for frame in frames if not _is_installed(frame.filename)] or frames
    return f"{_shown(frames[-1].filename)}, line {frames[-1].lineno}"


def _is_installed(filename: str) -> bool:
    path = Path(filename)
    libraries = (Path(os.__file__).parent, Path(__file__).parent)
    return "site-packages" in path.parts or any(path.is_relative_to(library) for library in libraries)


def _loaded_from(file: Path) -> ModuleType | None:
    """The module that was loaded from a file, under whichever name."""
    for module in list(sys.modules.values()):
        origin = getattr(module, "__file__", None)
        # The name first: asking the file system about every module takes a while.
        is_candidate = origin is not None and os.path.basename(origin) == file.name and module.__name__ != "__main__"
        if is_candidate and _is_from(module, file):
            return module
    return None


def _is_from(module: ModuleType, file: Path) -> bool:
    origin = getattr(module, "__file__", None)
    return origin is not None and os.path.realpath(origin) == os.path.realpath(file)


def _root_of_file(file: Path) -> tuple[Path, str]:
    """What to search, and the package that the file is in: as if it were run as a script, unless it is in a package."""
    root = file.parent
    parts: list[str] = []
    while (root / "__init__.py").is_file() and root.name.isidentifier():
        parts.insert(0, root.name)
        root = root.parent
    return root, ".".join(parts)


def _root_of_folder(folder: Path) -> tuple[Path, str]:
    """A folder is a package even without an `__init__.py`: files in it may be called as other modules are."""
    if not folder.name.isidentifier():
        return folder, ""
    root, prefix = _root_of_file(folder)
    return root, f"{prefix}.{folder.name}" if prefix else folder.name


def _name_below(file: Path, folder: Path, prefix: str) -> str:
    parts = file.relative_to(folder).with_suffix("").parts
    parts = parts[:-1] if parts[-1] == "__init__" else parts
    return ".".join([prefix, *parts] if prefix else parts)


def _search_first(root: Path) -> None:
    text = str(root)
    if sys.path[:1] != [text]:
        sys.path[:] = [text, *(entry for entry in sys.path if entry != text)]
        importlib.invalidate_caches()


# -- words -----------------------------------------------------------------------------------------------------------


def _top(module: ModuleType) -> str:
    return module.__name__.partition(".")[0]


def _place(module: ModuleType) -> str:
    return _shown(getattr(module, "__file__", None) or module.__name__)


def _place_of(fn: Callable[..., Any]) -> str:
    code = getattr(fn, "__code__", None)
    if code is None:
        return f"{fn.__module__}.{getattr(fn, '__qualname__', fn)}"
    return f"{_shown(code.co_filename)}, line {code.co_firstlineno}"


def _shown(filename: str) -> str:
    """A path as people would type it."""
    try:
        return str(Path(filename).relative_to(Path.cwd()))
    except ValueError:
        return filename
