"""The source of the house, parsed. A rule about it is a function from a module to what breaks it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


@dataclass(frozen=True)
class Module:
    """One module of the package, or of what stands beside it."""

    name: str
    path: Path
    text: str = field(repr=False)
    tree: ast.Module = field(repr=False)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def room(self) -> str:
        """`store` for holdfast.store.sqlite.runs; empty for the package itself and for everything outside it."""
        parts = self.name.split(".")
        return parts[1] if parts[0] == "holdfast" and len(parts) > 1 else ""

    def imports(self, top: ast.AST | None = None) -> Iterator[tuple[int, str, str | None]]:
        """(line, absolute module, name taken from it or None) for each import at or below `top`."""
        for node in ast.walk(top or self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name, None) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                target = self._absolute(node)
                yield from ((node.lineno, target, alias.name) for alias in node.names)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = self.name.split(".")
        home = parts[: len(parts) - node.level + self.is_package]
        return ".".join([*home, *filter(None, [node.module])])


def parse(text: str, name: str = "holdfast.example", path: Path = Path("example.py")) -> Module:
    """A module from its text, so that a rule can be shown what it must find."""
    return Module(name, path, text, ast.parse(text))


def modules_under(top: Path, base: Path) -> list[Module]:
    """Every module below `top`, named as seen from `base`."""
    found = []
    for path in sorted(top.rglob("*.py")):
        parts = path.relative_to(base).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(parse(path.read_text("utf-8"), name, path))
    return found
