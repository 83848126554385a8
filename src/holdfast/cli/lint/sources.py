"""Source files, parsed, and how the modules of a project find each other: as files, for nothing is imported."""

from __future__ import annotations

import ast
import os
import tokenize
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from holdfast.discovery import is_ignored, python_files
from holdfast.errors import DefinitionError

_LEVELS = 6
"""A file's imports are searched for in this many folders above it."""


class Source:
    """One file: its text and its tree, and how to get from a node to its parent."""

    def __init__(self, path: Path, text: str, tree: ast.Module) -> None:
        self.path = path
        self.text = text
        self.tree = tree
        self._parents: dict[ast.AST, ast.AST] | None = None

    def parent(self, node: ast.AST) -> ast.AST | None:
        """The node around this one."""
        if self._parents is None:
            self._parents = {child: one for one in ast.walk(self.tree) for child in ast.iter_child_nodes(one)}
        return self._parents.get(node)

    @property
    def shown(self) -> str:
        """The path as people would type it."""
        try:
            return self.path.relative_to(Path.cwd()).as_posix()
        except ValueError:
            return str(self.path)


class Project:
    """The files that were read so far, by path."""

    def __init__(self, roots: Sequence[Path] = ()) -> None:
        self._roots = tuple(roots)
        self._sources: dict[Path, Source] = {}
        self._modules: dict[tuple[str, int, Path], Source | None] = {}

    def source(self, path: Path) -> Source:
        """Read and parse a file. Raises SyntaxError, OSError and UnicodeDecodeError."""
        path = path.resolve()
        found = self._sources.get(path)
        if found is None:
            # Decoded as Python does: by its byte order mark, or by the encoding that its first lines declare.
            with tokenize.open(path) as lines:
                text = lines.read()
            found = self._sources[path] = Source(path, text, ast.parse(text, str(path)))
        return found

    def module(self, name: str, level: int, importer: Path) -> Source | None:
        """The module that `from ..name import` in a file refers to, if it is a readable file of this project."""
        asked = (name, level, importer.parent)
        if asked not in self._modules:
            self._modules[asked] = self._found(name, level, importer)
        return self._modules[asked]

    def _found(self, name: str, level: int, importer: Path) -> Source | None:
        parts = [part for part in name.split(".") if part]
        if level:
            places = [importer.parents[level - 1]] if level <= len(importer.parents) else []
        else:
            places = [*importer.parents[:_LEVELS], *self._roots]
        for place in places:
            package = place.joinpath(*parts, "__init__.py")
            # Without a name, the folder itself is meant.
            candidates = [place.joinpath(*parts[:-1], f"{parts[-1]}.py"), package] if parts else [package]
            for candidate in candidates:
                if candidate.is_file():
                    return self._readable(candidate)
        return None

    def _readable(self, path: Path) -> Source | None:
        try:
            return self.source(path)
        except (SyntaxError, OSError, ValueError, RecursionError):
            return None


def files_of(targets: Sequence[str], *, ignore: Sequence[str], directory: Path, home: Path | None) -> list[Path]:
    """The files that targets name, as for `holdfast worker`: modules, `module:attribute`, files and folders.

    Raises DefinitionError for a target that does not exist. The default is `workflows` in `directory` or `home`.
    """
    roots = [directory, *([] if home is None else [home]), directory / "src"]
    found: dict[Path, None] = {}
    for target in targets or [_default(roots)]:
        place = _place(target, roots)
        if place is None:
            raise DefinitionError(
                f"{target!r}: there is no such file, folder or module under {directory}; name what is to be checked: "
                "holdfast lint shop/ jobs/daily.py"
            )
        files = python_files(place, partial(is_ignored, ignore=ignore)) if place.is_dir() else [place]
        for file in files:
            found[file.resolve()] = None
    return list(found)


def _default(roots: Sequence[Path]) -> str:
    for root in roots:
        for candidate in (root / "workflows", root / "workflows.py"):
            if candidate.exists():
                return str(candidate)
    raise DefinitionError(
        f"there is nothing to check: {roots[0]} has no package, folder or module 'workflows'; name files or folders "
        '(holdfast lint shop/), or set workflows = ["shop"] in holdfast.toml or in [tool.holdfast] of pyproject.toml'
    )


def _place(target: str, roots: Sequence[Path]) -> Path | None:
    path = roots[0] / target
    if path.is_dir() or path.is_file():
        return path
    parts = target.partition(":")[0].split(".")
    if os.sep in target or not all(part.isidentifier() for part in parts):
        return None
    for root in roots:
        place = root.joinpath(*parts)
        if place.is_dir():
            return place
        if (file := place.with_name(f"{place.name}.py")).is_file():
            return file
    return None
