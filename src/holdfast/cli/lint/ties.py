"""Sorting a set by a key that its members may share: `sorted`, `min` and `max` then go by the set's own order.

Only keys that clearly lose information count: a length, a sign, a text in lower case. The id of an order may well be
unique.
"""

from __future__ import annotations

import ast

from .bindings import own_nodes
from .meanings import Function, Scope
from .unordered import copied_from, is_set

_SORTERS = frozenset({"builtins.sorted", "builtins.min", "builtins.max"})
_COARSE = frozenset(
    {
        *("builtins.len", "builtins.abs", "builtins.bool", "builtins.type", "builtins.round"),
        *("builtins.isinstance", "builtins.ord"),
    }
)
_COARSE_METHODS = frozenset(
    {
        *("lower", "upper", "casefold", "title", "capitalize", "strip", "lstrip", "rstrip", "count"),
        *("startswith", "endswith", "isdigit", "isalpha", "isupper", "islower"),
    }
)


def tied_in(node: ast.AST, scope: Scope) -> tuple[ast.expr, ast.expr] | None:
    """The set and the key, if this very node sorts a set, or takes its first, by a key that members may share."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or scope.path(node.func) not in _SORTERS:
        return None
    key = next((one.value for one in node.keywords if one.arg == "key"), None)
    given = copied_from(node.args[0], scope)
    return (given, key) if key is not None and _is_coarse(key, scope) and is_set(given, scope) else None


def _is_coarse(key: ast.expr, scope: Scope) -> bool:
    """Whether a key function gives the same for things that differ."""
    if isinstance(key, ast.Lambda):
        return _says_less(key.body, scope)
    if _is_named_so(key, scope):
        return True
    found = scope.meaning(key)
    if not isinstance(found, Function):
        return False
    inside = found.scope.inside(found.node)
    returned = [node.value for node in own_nodes(found.node) if isinstance(node, ast.Return)]
    return bool(returned) and all(one is None or _says_less(one, inside) for one in returned)


def _says_less(value: ast.expr, scope: Scope) -> bool:
    match value:
        case ast.Constant() | ast.Compare() | ast.UnaryOp(op=ast.Not()):
            return True
        case ast.UnaryOp(operand=operand):
            return _says_less(operand, scope)
        case ast.Tuple(elts=elements) if elements:
            return all(_says_less(one, scope) for one in elements)
        case ast.Call(func=func):
            return _is_named_so(func, scope)
        case _:
            return False


def _is_named_so(func: ast.expr, scope: Scope) -> bool:
    if scope.path(func) in _COARSE:
        return True
    return isinstance(func, ast.Attribute) and func.attr in _COARSE_METHODS
