"""Values that a module made when it was loaded, as `STARTED = time.time()`: they differ between processes.

Only plain values count. An object that was made with such a value, as `engine = create_engine(os.environ["DB"])`, may
mean the same everywhere.
"""

from __future__ import annotations

import ast

from .bindings import Binding
from .hazards import READ, Hazard, hazard_of
from .meanings import Scope

_CODES = frozenset({"clock", "random", "environment"})
_CONVERSIONS = frozenset({f"builtins.{name}" for name in ("int", "float", "str", "bool", "bytes", "round", "repr")})
_DEEPEST = 12


def made_when_loaded(binding: Binding, home: Scope) -> tuple[ast.expr, Hazard] | None:
    """The expression that gives a module's name another value in every process, and why."""
    return None if home.outer is not None or binding.value is None else _hazard_in(binding.value, home, 0)


def _hazard_in(expr: ast.expr, scope: Scope, depth: int) -> tuple[ast.expr, Hazard] | None:
    if depth > _DEEPEST:
        return None
    path = scope.path(expr) if isinstance(expr, (ast.Name, ast.Attribute)) else None
    if path in READ:
        return expr, READ[path]
    match expr:
        case ast.Call():
            return _hazard_of_call(expr, scope, depth)
        case ast.Attribute(value=value) | ast.Subscript(value=value) | ast.FormattedValue(value=value):
            parts = [value]
        case ast.BoolOp(values=values) | ast.JoinedStr(values=values):
            parts = values
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.Compare(left=left, comparators=comparators):
            parts = [left, *comparators]
        case ast.IfExp(test=test, body=body, orelse=other):
            parts = [test, body, other]
        case ast.UnaryOp(operand=operand):
            parts = [operand]
        case _:
            return None
    return next((found for one in parts if (found := _hazard_in(one, scope, depth + 1)) is not None), None)


def _hazard_of_call(call: ast.Call, scope: Scope, depth: int) -> tuple[ast.expr, Hazard] | None:
    path = scope.path(call.func)
    hazard = None if path is None else hazard_of(path, len(call.args) + len(call.keywords))
    if hazard is not None and hazard.code in _CODES:
        # A seeded generator draws the same numbers each time that the module is loaded.
        return None if path is not None and path.startswith("random.Random().") else (call, hazard)
    parts = call.args if path in _CONVERSIONS else [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return next((found for one in parts if (found := _hazard_in(one, scope, depth + 1)) is not None), None)
