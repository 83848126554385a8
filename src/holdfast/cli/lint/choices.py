"""What may be called where the text leaves a choice: one of two, an entry of a table, an element of an iteration.

Only what the text writes out counts, including tables at the top of a module. A table that is built elsewhere is
ignored.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .bindings import Element
from .meanings import Class, Scope

_DEEPEST = 8
Choice = tuple[ast.expr, Scope]
"""An expression, and the scope in which it has its meaning."""


def choices(expr: ast.expr, scope: Scope, depth: int = 0) -> Iterator[Choice]:
    """Everything that an expression may evaluate to; the expression itself, if it is no choice."""
    if depth > _DEEPEST:
        return
    match expr:
        case ast.IfExp(body=one, orelse=other):
            parts = [(one, scope), (other, scope)]
        case ast.BoolOp(values=values):
            parts = [(one, scope) for one in values]
        case ast.NamedExpr(value=value):
            parts = [(value, scope)]
        case ast.Subscript(value=table, slice=key):
            parts = list(_held(table, key, scope, depth))
        case ast.Call(func=ast.Attribute(value=table, attr="get"), args=[key, *default]):
            parts = [*_held(table, key, scope, depth), *((one, scope) for one in default)]
        case Element():
            parts = list(_elements(expr, scope, depth))
        case ast.Name() | ast.Attribute():
            parts = list(_given(expr, scope))
        case _:
            parts = []
    if not parts:
        yield expr, scope
    for one, home in parts:
        yield from choices(one, home, depth + 1)


def _given(expr: ast.Name | ast.Attribute, scope: Scope) -> Iterator[Choice]:
    """What was assigned to a name, or to an attribute of a class."""
    if isinstance(expr, ast.Name):
        found = scope.binding(expr.id, expr.lineno)
        if found is not None and found[0].value is not None:
            yield found[0].value, found[1]
        return
    of = scope.meaning(expr.value)
    if not isinstance(of, Class):
        return
    for node in of.node.body:
        match node:
            # No annotated attribute: that may be a field, which each instance may set.
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == expr.attr:
                yield value, of.scope


def _held(table: ast.expr, key: ast.expr, scope: Scope, depth: int) -> Iterator[Choice]:
    """What a table holds under a key: everything possible, if the text does not say which key."""
    for one, home in choices(table, scope, depth + 1):
        match one:
            case ast.Dict(keys=keys, values=values):
                known = zip(keys, values, strict=True)
                yield from ((value, home) for name, value in known if name is not None and _may_be(name, key))
            case ast.List(elts=elements) | ast.Tuple(elts=elements):
                yield from ((value, home) for place, value in enumerate(elements) if _may_be(ast.Constant(place), key))


def _may_be(one: ast.expr, other: ast.expr) -> bool:
    """Whether two keys may be equal. `...` stands for any key."""
    if not isinstance(one, ast.Constant) or not isinstance(other, ast.Constant) or other.value is ...:
        return True
    return bool(one.value == other.value)


def _elements(given: Element, scope: Scope, depth: int) -> Iterator[Choice]:
    for one, home in choices(given.of, scope, depth + 1):
        for element in one.elts if isinstance(one, (ast.List, ast.Tuple, ast.Set)) else ():
            if given.part is None:
                yield element, home
            elif isinstance(element, (ast.List, ast.Tuple)) and given.part < len(element.elts):
                yield element.elts[given.part], home
