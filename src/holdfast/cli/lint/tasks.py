"""Whether an expression holds only the body's tasks, futures and Pendings. They hash by number, so a set of them has
the same order on every replay.
"""

from __future__ import annotations

import ast

from .meanings import Scope

_STARTS = frozenset({"create_task", "ensure_future", "start", "gather", "create_future"})
_COPIES = frozenset({"builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset"})
_DEEPEST = 8


def is_task(element: ast.expr, scope: Scope, depth: int = 0) -> bool:
    """Whether this is a task, future or Pending, made here or assigned to a name. `*tasks` stands for all of them."""
    match element:
        case ast.Starred(value=value):
            return are_tasks(value, scope, depth + 1)
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
            return name in _STARTS
        case ast.Name() if depth < _DEEPEST and (given := _given(element, scope)) is not None:
            return is_task(given[0], given[1], depth + 1)
        case _:
            return False


def are_tasks(expr: ast.expr, scope: Scope, depth: int = 0) -> bool:
    """Whether a list, a set, a comprehension or a copy of one holds nothing else."""
    if depth > _DEEPEST:
        return False
    match expr:
        case ast.GeneratorExp(elt=element) | ast.ListComp(elt=element) | ast.SetComp(elt=element):
            return is_task(element, scope, depth + 1)
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements) if elements:
            return all(is_task(one, scope, depth + 1) for one in elements)
        case ast.Call(func=ast.Attribute(value=ast.Name() as mapping, attr="values"), args=[]):
            match _given(mapping, scope):
                case (ast.DictComp(value=value), home):
                    return is_task(value, home, depth + 1)
                case (ast.Dict(values=values), home) if values:
                    return all(is_task(one, home, depth + 1) for one in values)
            return False
        case ast.Call(func=func, args=[copied]) if scope.path(func) in _COPIES:
            return are_tasks(copied, scope, depth + 1)
        case ast.Name(id=name) if (given := _given(expr, scope)) is not None:
            value, home = given
            return (
                is_filled_with_tasks(name, home, depth + 1) if _is_empty(value) else are_tasks(value, home, depth + 1)
            )
        case _:
            return False


def is_filled_with_tasks(name: str, scope: Scope, depth: int = 0) -> bool:
    """Whether only tasks are ever added to this name."""
    added = [
        node.args[0]
        for node in ast.walk(scope.source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("add", "append")
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == name
        and node.args
    ]
    return bool(added) and all(is_task(one, scope, depth + 1) for one in added)


def _is_empty(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return not value.args and not value.keywords
    return isinstance(value, ast.List) and not value.elts


def _given(name: ast.Name, scope: Scope) -> tuple[ast.expr, Scope] | None:
    found = scope.binding(name.id, name.lineno)
    return None if found is None or found[0].value is None else (found[0].value, found[1])
