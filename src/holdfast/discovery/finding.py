"""Collects what a worker needs, each thing once: workflows, resources, middleware and a codec."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from holdfast.codec import Codec
from holdfast.define import Resource, Step, StepInfo, Workflow, covered
from holdfast.errors import DefinitionError, DuplicateWorkflow

from .files import is_ignored, python_files
from .loading import (
    ADVICE,
    load,
    load_file,
    loaded_from,
    name_below,
    place_of_function,
    place_of_module,
    root_of_file,
    root_of_folder,
    search_first,
    top_package,
)

_DEFAULT = "workflows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What the modules hold that a worker needs."""

    workflows: tuple[Workflow[Any, Any], ...]
    resources: tuple[Resource[Any], ...]
    """The resources of the modules, and of the modules that define their steps."""
    middleware: tuple[Callable[[StepInfo], Any], ...]
    """The items of each module's list `middleware`."""
    codec: Codec | None
    """The codec that a module holds, if any does."""


def discover(
    targets: Sequence[str] | None = None,
    *,
    ignore: Sequence[str] = (),
    directory: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Found:
    """Load the modules that `targets` name and collect what they hold.

    A target is the name of a module, `module:attribute`, a `.py` file or a folder. Of a package or folder all modules
    are loaded, except those that a pattern in `ignore` matches. The default target is the package, folder or module
    `workflows` in `directory`, or else in `home`. Both are searched for modules before the rest of `sys.path`.

    Raises DefinitionError if a target does not exist or holds no workflow, or if a module can't be loaded;
    DuplicateWorkflow if two workflows have the same name and version.
    """
    collected = _Collected()
    _collect(collected, targets, ignore, directory, home)
    return collected.found()


def survey(
    targets: Sequence[str] | None = None,
    *,
    ignore: Sequence[str] = (),
    directory: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> tuple[Found, list[DefinitionError]]:
    """As `discover`, for a report: errors are returned as a list, and everything else is still found."""
    collected = _Collected(problems=[])
    with collected.attempt():
        _collect(collected, targets, ignore, directory, home)
    return collected.found(), collected.problems or []


def find_codec(
    target: str,
    *,
    directory: str | os.PathLike[str] | None = None,
    home: str | os.PathLike[str] | None = None,
) -> Codec:
    """The codec that `module:attribute` names. Loading the module executes it. Raises DefinitionError."""
    name, colon, attribute = target.partition(":")
    if not colon or not attribute or not all(part.isidentifier() for part in name.split(".")):
        raise DefinitionError(f"codec {target!r}: expected module:attribute, as shop.storage:codec")
    for root in reversed([directory or Path.cwd(), *([] if home is None else [home])]):
        search_first(Path(root).absolute())
    try:
        module = load(name, advice="name the module that holds the codec, as shop.storage:codec")
    except DefinitionError as error:
        raise DefinitionError(f"codec {target!r}: {error}") from error
    found = getattr(module, attribute, None)
    if not isinstance(found, Codec):
        raise DefinitionError(
            f"codec {target!r}: {attribute} in {place_of_module(module)} is {found!r}; expected a holdfast.Codec(...)"
        )
    return found


def _collect(
    collected: _Collected,
    targets: Sequence[str] | None,
    ignore: Sequence[str],
    directory: str | os.PathLike[str] | None,
    home: str | os.PathLike[str] | None,
) -> None:
    place = Path.cwd() if directory is None else Path(directory).absolute()
    roots = [place] if home is None else list(dict.fromkeys([place, Path(home).absolute()]))
    for root in reversed(roots):
        search_first(root)
    for target in targets or _default_in(roots):
        count = len(collected.problems or ())
        with collected.attempt():
            _Target(target, place, tuple(ignore)).collect(collected)
            if not collected.is_known(target) and len(collected.problems or ()) == count:
                raise DefinitionError(
                    f"{target!r} holds no workflow: no function in it has @workflow on top of its decorators; decorate "
                    "one, or name another target"
                )


def _default_in(roots: Iterable[Path]) -> tuple[str, ...]:
    roots = tuple(roots)
    for root in roots:
        for candidate in (root / _DEFAULT, root / f"{_DEFAULT}.py"):
            if candidate.exists():
                return (str(candidate),)
    where = " or ".join(str(root) for root in roots)
    raise DefinitionError(f"there are no workflows to serve: {where} has no package or folder {_DEFAULT!r}; {ADVICE}")


class _Target:
    """One target of the command line or the settings."""

    def __init__(self, text: str, directory: Path, ignore: tuple[str, ...]) -> None:
        self.text = text
        self._directory = directory
        self._ignore = ignore

    def collect(self, collected: _Collected) -> None:
        path = self._directory / self.text
        # The text may name both a folder and a package: as either it gives the same modules.
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
                with collected.attempt():
                    collected.add_module(load(name_below(file, Path(folder), module.__name__)), self.text)

    def _looks_like_a_path(self) -> bool:
        return "/" in self.text or os.sep in self.text or self.text.endswith(".py") or self.text.startswith(".")

    def _collect_path(self, path: Path, collected: _Collected) -> None:
        if path.is_dir():
            path = path.resolve()
            root, prefix = root_of_folder(path)
            files = list(self._files(path))
            if not files:
                raise DefinitionError(f"{self.text!r} is a folder without a Python file that may be loaded; {ADVICE}")
        elif path.is_file() and path.suffix == ".py":
            path = path.resolve()
            root, prefix = root_of_file(path)
            files = [path]
        else:
            raise DefinitionError(f"{self.text!r}: there is no such folder or .py file; {ADVICE}")
        for file in files:
            with collected.attempt():
                name = name_below(file, path if path.is_dir() else path.parent, prefix)
                collected.add_module(loaded_from(file) or load_file(file, name, root), self.text)

    def _files(self, folder: Path) -> Iterator[Path]:
        """The modules in a folder and below it, in a fixed order."""
        return python_files(folder, self._is_left_out)

    def _is_left_out(self, path: Path) -> bool:
        name = path.name if path.is_dir() else path.stem
        return path.name == "__main__.py" or not name.isidentifier() or is_ignored(path, self._ignore)

    def _named(self, name: str) -> ModuleType:
        if not name or not all(part.isidentifier() for part in name.split(".")):
            raise DefinitionError(
                f"{self.text!r} is no target; expected module, module:attribute, a .py file or a folder"
            )
        return load(name)


class _Collected:
    """What was found so far, each thing once, in the order of finding."""

    def __init__(self, problems: list[DefinitionError] | None = None) -> None:
        self.problems = problems
        """The errors so far; None: errors are raised."""
        self.workflows: dict[tuple[str, str], Workflow[Any, Any]] = {}
        self._resources: dict[int, Resource[Any]] = {}
        self._middleware: dict[int, Callable[[StepInfo], Any]] = {}
        self._codec: tuple[Codec, str] | None = None
        self._visited: set[str] = set()
        self._known: set[str] = set()

    def is_known(self, target: str) -> bool:
        """Whether the target holds workflows, even if earlier targets held them too."""
        return target in self._known

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Inside, a DefinitionError is added to `problems`, or raised if that is None."""
        try:
            yield
        except DefinitionError as problem:
            if self.problems is None:
                raise
            self.problems.append(problem)

    def add_module(self, module: ModuleType, target: str) -> None:
        for value in list(vars(module).values()):
            if isinstance(value, Workflow):
                with self.attempt():
                    self._add_workflow(value, target)
        self._add_surroundings(module)

    def add_attribute(self, module: ModuleType, path: str, target: str) -> None:
        value: Any = module
        for name in path.split("."):
            if not hasattr(value, name):
                raise DefinitionError(
                    f"{target!r}: the module {module.__name__} ({place_of_module(module)}) has no {name!r}; name what "
                    f"it has, or {module.__name__!r} for all of it"
                )
            value = getattr(value, name)
        listed = list(value) if isinstance(value, (list, tuple, set, frozenset)) else [value]
        for one in listed:
            if not isinstance(one, Workflow):
                raise DefinitionError(
                    f"{target!r} is {one!r}; expected a function decorated with @workflow, or a list of them"
                    f"{covered(one, Workflow)}"
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
        here, there = place_of_function(one.fn), place_of_function(other.fn)
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
        """Collect what the steps need besides their arguments, also from the modules that define the steps."""
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
            elif isinstance(value, ModuleType) and top_package(value) == top_package(module):
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
                f"`middleware` in {module.__name__} ({place_of_module(module)}): expected a list of functions that "
                "take a step and return a context manager; give it another name if it is something else"
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
