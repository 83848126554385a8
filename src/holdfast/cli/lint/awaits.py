"""Durable calls that nobody awaits: in an `async def` body they are coroutines, and do nothing until awaited.

A call is handed on if it is an argument (gather, create_task), stored under a name that is used, or put into a list:
that is somebody else's to await. It is forgotten if it stands alone, or where only a value makes sense.
"""

from __future__ import annotations

import ast

from .meanings import Function, Kind, Scope

_DURABLE = frozenset(
    {
        *("holdfast.sleep", "holdfast.sleep_until", "holdfast.wait_for_signal", "holdfast.wait_for_event"),
        *("holdfast.map", "holdfast.call", "holdfast.rollback", "holdfast.hook().wait"),
    }
)
_PLAIN_COROUTINES = frozenset({"asyncio.sleep", "asyncio.gather", "asyncio.wait", "asyncio.wait_for"})
_WANT_VALUES = frozenset(
    {
        *("builtins.len", "builtins.str", "builtins.int", "builtins.float", "builtins.bool", "builtins.print"),
        *("builtins.sum", "builtins.sorted", "builtins.min", "builtins.max", "builtins.any", "builtins.all"),
        *("builtins.repr", "builtins.abs", "builtins.round", "json.dumps"),
    }
)


def is_forgotten(call: ast.Call, scope: Scope, owner: ast.AST) -> bool:
    """Whether this call inside the `async def` function `owner` gives a coroutine that nobody awaits."""
    found = scope.meaning(call.func)
    parent = scope.source.parent(call)
    if isinstance(found, Function):
        if found.attribute == "start":
            # A child may be let go; a step that nobody looks at is an error when the body ends.
            return found.kind is Kind.STEP and isinstance(parent, ast.Expr)
        if found.attribute is not None or not found.is_async or found.kind is Kind.RESOURCE:
            return False
    elif isinstance(found, str):
        if found in _PLAIN_COROUTINES:
            return isinstance(parent, ast.Expr)
        if found not in _DURABLE:
            return False
    else:
        return False
    return _is_lost(call, parent, scope, owner)


def _is_lost(call: ast.expr, parent: ast.AST | None, scope: Scope, owner: ast.AST) -> bool:
    match parent:
        case ast.IfExp(test=test) if test is not call:
            # One of two values: what becomes of that decides.
            return _is_lost(parent, scope.source.parent(parent), scope, owner)
        case ast.Tuple() | ast.List():
            return isinstance(scope.source.parent(parent), ast.Expr)
        case ast.Expr() | ast.Compare() | ast.BoolOp() | ast.BinOp() | ast.UnaryOp() | ast.FormattedValue():
            return True
        case ast.Attribute() | ast.Assert() | ast.Raise():
            return True
        case ast.Subscript(value=value):
            return value is call
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return test is call
        case ast.For(iter=iterated):
            return iterated is call
        case ast.comprehension(iter=iterated, is_async=0):
            return iterated is call
        case ast.Return():
            # A helper may hand a coroutine on; a run's result can't be one.
            return _is_workflow(owner, scope)
        case ast.Call(func=func) if func is not call:
            return _wants_value(func, scope)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return not _is_used(name, owner)
        case _:
            return False


def _wants_value(func: ast.expr, scope: Scope) -> bool:
    found = scope.meaning(func)
    if isinstance(found, Function):
        return found.kind in (Kind.STEP, Kind.WORKFLOW)
    return found in _WANT_VALUES


def _is_workflow(owner: ast.AST, scope: Scope) -> bool:
    if not isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef)) or scope.outer is None:
        return False
    return scope.outer.function_at(owner).kind is Kind.WORKFLOW


def _is_used(name: str, owner: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load) for node in ast.walk(owner)
    )
