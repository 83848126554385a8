"""Durable calls that nobody awaits: in an `async def` body they make coroutines, which do nothing until awaited.

A call that is an argument (gather, create_task), or that is stored under a name that is used, is left for others to
await. A call is forgotten if it is a statement of its own, or stands where only a value makes sense. If it is put into
a list, a mapping or a comprehension, the use of that decides.
"""

from __future__ import annotations

import ast

from .bindings import own_nodes
from .meanings import Function, Kind, Meaning, Scope

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
_LOOKS = frozenset(
    {
        *("builtins.len", "builtins.str", "builtins.repr", "builtins.bool", "builtins.print", "builtins.any"),
        *("builtins.all", "json.dumps"),
    }
)
"""Functions that neither await what is in their argument nor hand it on."""
_COPIES = frozenset({"builtins.list", "builtins.tuple", "builtins.set", "builtins.frozenset"})
"""Functions whose result holds what is in their argument."""
_HOLDERS = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def forgotten_by(call: ast.Call, scope: Scope, owner: ast.AST) -> ast.expr | None:
    """The function of which this call, inside the `async def` function `owner`, makes a coroutine that nobody awaits:
    the called function, or the one that it passes to map. None if there is none."""
    found = scope.meaning(call.func)
    parent = scope.source.parent(call)
    if found == "builtins.map" and call.args:
        mapped = call.args[0]
        return mapped if _is_coroutine(scope.meaning(mapped)) and _is_lost_inside(call, scope, owner) else None
    if isinstance(found, Function) and found.attribute == "start":
        # A child may be left alone. A step that nobody looks at is an error when the body ends.
        is_lost = found.kind is Kind.STEP and isinstance(parent, ast.Expr)
    elif isinstance(found, str) and found in _PLAIN_COROUTINES:
        is_lost = isinstance(parent, ast.Expr)
    else:
        is_lost = _is_coroutine(found) and _is_lost(call, parent, scope, owner)
    return call.func if is_lost else None


def _is_coroutine(found: Meaning) -> bool:
    """Whether calling this makes a coroutine that does something durable."""
    if isinstance(found, Function):
        return found.attribute is None and found.is_async and found.kind is not Kind.RESOURCE
    return isinstance(found, str) and found in _DURABLE


def _is_lost(call: ast.expr, parent: ast.AST | None, scope: Scope, owner: ast.AST) -> bool:
    match parent:
        case ast.IfExp(test=test) if test is not call:
            # The call is one of two values: the use of the expression decides.
            return _is_lost(parent, scope.source.parent(parent), scope, owner)
        case ast.BoolOp(values=[*_, last]) if last is call:
            # As `cached or charge(card)`. Only the truth of the operands before it is used, and a coroutine is true.
            return _is_lost(parent, scope.source.parent(parent), scope, owner)
        case ast.expr() if isinstance(parent, _HOLDERS):
            return _is_lost_inside(parent, scope, owner)
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
        case ast.comprehension(ifs=conditions) if call in conditions:
            return True
        case ast.comprehension(iter=iterated, is_async=0):
            return iterated is call
        case ast.Return():
            # A helper may return a coroutine to its caller; a run can't.
            return _is_workflow(owner, scope)
        case ast.Call(func=func) if func is not call:
            return _wants_value(func, scope)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return not _is_used(name, scope, owner)
        case _:
            return False


def _is_lost_inside(holder: ast.expr, scope: Scope, owner: ast.AST) -> bool:
    """Whether nobody can await what is in a list, a mapping or the like. When in doubt, somebody can."""
    match parent := scope.source.parent(holder):
        case ast.Expr() | ast.FormattedValue():
            return True
        case ast.expr() if isinstance(parent, _HOLDERS):
            return _is_lost_inside(parent, scope, owner)
        case ast.IfExp(test=test) if test is not holder:
            return _is_lost_inside(parent, scope, owner)
        case ast.For(target=ast.Name(id=name), iter=iterated) if iterated is holder:
            return not _is_used(name, scope, owner)
        case ast.Return():
            return _is_workflow(owner, scope)
        case ast.Call(func=func) if func is not holder:
            if (path := scope.path(func)) in _COPIES:
                return _is_lost_inside(parent, scope, owner)
            return path in _LOOKS or _makes_step(func, scope)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return not _is_used(name, scope, owner)
        case _:
            return False


def _wants_value(func: ast.expr, scope: Scope) -> bool:
    return scope.path(func) in _WANT_VALUES or _makes_step(func, scope)


def _makes_step(func: ast.expr, scope: Scope) -> bool:
    """Whether this makes a step or a child, whose arguments are stored: a coroutine can't be."""
    found = scope.function(func)
    return found is not None and found.kind in (Kind.STEP, Kind.WORKFLOW)


def _is_workflow(owner: ast.AST, scope: Scope) -> bool:
    if not isinstance(owner, (ast.FunctionDef, ast.AsyncFunctionDef)) or scope.outer is None:
        return False
    return scope.outer.function_at(owner).kind is Kind.WORKFLOW


def _is_used(name: str, scope: Scope, owner: ast.AST) -> bool:
    """Whether a name is used for more than looking at it or storing it. A name of an outer function counts as used."""
    for node in ast.walk(owner):
        if isinstance(node, (ast.Global, ast.Nonlocal)) and name in node.names:
            return True
        is_read = isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)
        if is_read and not _is_looked_at(node, scope, owner):
            return True
    return False


def _is_looked_at(name: ast.AST, scope: Scope, owner: ast.AST) -> bool:
    parent = scope.source.parent(name)
    match parent:
        case ast.FormattedValue():
            return True
        case ast.Return():
            # An inner function returns it to its caller.
            return parent in own_nodes(owner) and _is_workflow(owner, scope)
        case ast.Call(func=func) if func is not name:
            return scope.path(func) in _LOOKS or _makes_step(func, scope)
        case _:
            return False
