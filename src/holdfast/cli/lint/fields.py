"""Fields of classes: their annotations, and their factories, which make them where a call leaves them out."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from .meanings import Class, Scope

_FACTORIES = ("default_factory", "factory")
"""The argument's name in dataclasses, pydantic and msgspec, and in attrs."""
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Field:
    """A field, and the scope in which its annotation and its factory have their meaning."""

    annotation: ast.expr
    default: ast.expr | None
    scope: Scope

    @property
    def factory(self) -> ast.expr | None:
        """What makes the field by default: `uuid4` in `field(default_factory=uuid4)`."""
        return next((one.value for one in self._options() if one.arg in _FACTORIES), None)

    @property
    def is_given(self) -> bool:
        """Whether a call may pass the field: not with `field(init=False)`."""
        return not any(
            one.arg == "init" and isinstance(one.value, ast.Constant) and one.value.value is False
            for one in self._options()
        )

    def _options(self) -> list[ast.keyword]:
        return self.default.keywords if isinstance(self.default, ast.Call) else []


def fields_of(klass: Class, depth: int = 0) -> dict[str, Field]:
    """The fields of a class by name, in the order of its parameters: fields of base classes come first."""
    found: dict[str, Field] = {}
    for base in klass.node.bases if depth < _DEEPEST else ():
        above = klass.scope.meaning(base)
        if isinstance(above, Class):
            found |= fields_of(above, depth + 1)
    for node in klass.node.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = Field(node.annotation, node.value, klass.scope)
    return found


def left_to_factories(call: ast.Call, klass: Class) -> Iterator[tuple[str, ast.expr, Scope]]:
    """The fields that a call leaves to their factories: name, factory and its scope. None if `**given` may pass any."""
    if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
        return
    fields = fields_of(klass)
    given = {name for name, one in fields.items() if one.is_given}
    taken = [name for name in fields if name in given][: len(call.args)]
    taken += [one.arg for one in call.keywords if one.arg is not None]
    for name, one in fields.items():
        if one.factory is not None and name not in taken:
            yield name, one.factory, one.scope
