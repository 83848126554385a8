"""Iteration over sets: strings hash differently in every process, so a set of them has another order on every replay.

Sets of the body's own tasks and futures are fine, for those hash by number; so are literal sets of whole numbers. Uses
that ignore the order (sorted, sum, min, len, `in`, another set) are fine, too.
"""

from __future__ import annotations

import ast

from .bindings import own_nodes
from .fields import fields_of
from .meanings import Class, Function, Kind, Scope
from .tasks import are_tasks, is_filled_with_tasks, is_task

_SET_TYPES = frozenset({"builtins.set", "builtins.frozenset", "typing.Set", "typing.FrozenSet", "typing.AbstractSet"})
_SETS_BY_ANNOTATION = _SET_TYPES | {"collections.abc.Set", "collections.abc.MutableSet", "typing.MutableSet"}
_SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_IN_ORDER = frozenset(
    {
        *("builtins.list", "builtins.tuple", "builtins.enumerate", "builtins.iter", "builtins.zip", "builtins.map"),
        *("builtins.filter", "builtins.dict", "builtins.reversed", "builtins.dict.fromkeys", "collections.deque"),
        *("holdfast.map", "functools.reduce", "collections.OrderedDict", "itertools.chain.from_iterable"),
        *("collections.OrderedDict.fromkeys", "collections.Counter"),
    }
)
"""Functions that pass on the order of their argument."""
_WITHOUT_ORDER = frozenset(
    {
        *("builtins.sorted", "builtins.sum", "builtins.min", "builtins.max", "builtins.any", "builtins.all"),
        *("builtins.set", "builtins.frozenset", "builtins.len", "math.fsum", "statistics.mean"),
    }
)
_CALLING = frozenset({"builtins.map", "builtins.filter"})
_COPIES = _CALLING | {
    *("builtins.list", "builtins.tuple", "builtins.iter"),
    *("itertools.chain", "itertools.chain.from_iterable"),
}
"""Functions that return their argument, or what they make of each element, in its order, and nothing else of it."""
_TEXTS = frozenset({"builtins.str", "builtins.repr", "builtins.ascii", "builtins.format"})
_TELLING = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
_HOLDERS = (ast.Starred, ast.GeneratorExp, ast.ListComp, ast.List, ast.Tuple)
_OPERATORS = (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)


def is_set(expr: ast.expr | None, scope: Scope, depth: int = 0) -> bool:
    """Whether an expression is a set whose order may differ on replay, as far as the text says."""
    if expr is None or depth > 8:
        return False
    match expr:
        case ast.Set(elts=elements):
            return not all(_is_whole(one) for one in elements) and not all(is_task(one, scope) for one in elements)
        case ast.SetComp(elt=element):
            return not is_task(element, scope)
        case ast.Call(func=ast.Attribute(value=value, attr=attr)) if attr in _SET_METHODS:
            return is_set(value, scope, depth + 1)
        case ast.Call():
            return _is_made(expr, scope, depth)
        case ast.Await(value=ast.Call() as call):
            return _returns_set(call, scope, depth)
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _OPERATORS):
            return any(_is_view(one) or is_set(one, scope, depth + 1) for one in (left, right))
        case ast.IfExp(body=one, orelse=other):
            return is_set(one, scope, depth + 1) or is_set(other, scope, depth + 1)
        case ast.BoolOp(op=op, values=values):
            # `a and b` gives either an empty `a`, or `b`.
            return any(is_set(one, scope, depth + 1) for one in (values if isinstance(op, ast.Or) else values[-1:]))
        case ast.NamedExpr(value=value):
            return is_set(value, scope, depth + 1)
        case ast.Name(id=name):
            return _is_named(name, expr.lineno, scope, depth)
        case ast.Subscript(value=ast.Name(id=name)):
            return _holds_sets(name, expr.lineno, scope)
        case ast.Attribute(value=value, attr=attr):
            of = scope.meaning(value)
            held = fields_of(of).get(attr) if isinstance(of, Class) else None
            return held is not None and _is_set_type(held.annotation, held.scope)
        case _:
            return False


def unordered_in(node: ast.AST, scope: Scope) -> ast.expr | None:
    """The set over which this very node iterates in order, if it does."""
    match node:
        case ast.For(iter=iterated) | ast.AsyncFor(iter=iterated) | ast.YieldFrom(value=iterated):
            return iterated if is_set(iterated, scope) else None
        case ast.ListComp(generators=generators) | ast.DictComp(generators=generators):
            return next((one.iter for one in generators if is_set(one.iter, scope)), None)
        case ast.GeneratorExp(generators=generators) | ast.SetComp(generators=generators):
            return next((one.iter for one in generators if is_set(one.iter, scope)), None)
        case ast.Starred(value=value) if is_set(value, scope) and not is_only_told(node, scope):
            return value
        case ast.Assign(targets=[ast.Tuple() | ast.List()], value=value) if is_set(value, scope):
            return value
        case ast.AugAssign(op=ast.Add(), value=value) if is_set(value, scope):
            return value
        case ast.FormattedValue(value=value) if is_set(value, scope) and not is_only_told(node, scope):
            return value
        case ast.Call():
            return _unordered_call(node, scope)
        case _:
            return None


def minds_no_order(node: ast.AST, scope: Scope) -> bool:
    """Whether this iteration does nothing durable meanwhile, and feeds only something that ignores the order."""
    if _asks_for_each(node, scope):
        return False
    if isinstance(node, ast.SetComp):
        return True
    is_copy = scope.path(node.func) in _COPIES if isinstance(node, ast.Call) else isinstance(node, _HOLDERS)
    if not is_copy:
        return False
    parent = scope.source.parent(node)
    match parent:
        case ast.Set():
            return True
        case ast.Call(func=func) if func is not node:
            return scope.path(func) in _WITHOUT_ORDER or minds_no_order(parent, scope)
        case ast.Compare(ops=[ast.In() | ast.NotIn()], comparators=[looked_in]):
            return looked_in is node
        case ast.List() | ast.Tuple() if isinstance(node, ast.Starred):
            return minds_no_order(parent, scope)
        case ast.comprehension(iter=iterated) if iterated is node:
            return minds_no_order(scope.source.parent(parent) or parent, scope)
        case ast.Starred():
            return minds_no_order(parent, scope)
        case _:
            return False


def copied_from(expr: ast.expr, scope: Scope) -> ast.expr:
    """The expression whose order this one has: `names` for `list(names)`."""
    match expr:
        case ast.GeneratorExp(generators=[first, *_]) | ast.ListComp(generators=[first, *_]):
            return copied_from(first.iter, scope)
        case ast.Call(func=func, args=[*_, last]) if scope.path(func) in _COPIES:
            return copied_from(last, scope)
        case ast.List(elts=[ast.Starred(value=value)]) | ast.Tuple(elts=[ast.Starred(value=value)]):
            return copied_from(value, scope)
        case _:
            return expr


def _asks_for_each(node: ast.AST, scope: Scope) -> bool:
    """Whether something durable is done for each element. The first iterable is made before that, so it is left out."""
    parts: list[ast.AST] = []
    match node:
        case ast.GeneratorExp(elt=elt, generators=[first, *rest]) | ast.ListComp(elt=elt, generators=[first, *rest]):
            parts = [elt, *first.ifs, *rest]
        case ast.SetComp(elt=elt, generators=[first, *rest]):
            parts = [elt, *first.ifs, *rest]
        case ast.Call(func=func, args=[called, _, *_]) if scope.path(func) in _CALLING:
            if _is_durable(called, scope):
                return True
            parts = [called]
    return any(_asks(one, scope) for part in parts for one in ast.walk(part))


def _unordered_call(call: ast.Call, scope: Scope) -> ast.expr | None:
    if isinstance(call.func, ast.Attribute) and not call.args and call.func.attr == "pop":
        return call.func.value if is_set(call.func.value, scope) else None
    takes_order = isinstance(call.func, ast.Attribute) and call.func.attr in ("join", "extend")
    if not takes_order:
        path = scope.path(call.func)
        takes_order = path is not None and (path in _IN_ORDER or path.startswith("itertools."))
        takes_order = takes_order or (path in _TEXTS and not is_only_told(call, scope))
    return next((one for one in call.args if is_set(one, scope)), None) if takes_order else None


def is_only_told(node: ast.AST, scope: Scope) -> bool:
    """Whether a text is only printed, logged or raised, so that its order does not matter. Not if a step or a child
    gets it, or is asked for because of it."""
    parent = scope.source.parent(node)
    while isinstance(parent, (ast.expr, ast.keyword)):
        if _asks(parent, scope):
            return False
        if isinstance(parent, ast.Call):
            func = parent.func
            if (isinstance(func, ast.Attribute) and func.attr in _TELLING) or scope.path(func) == "builtins.print":
                return True
        node, parent = parent, scope.source.parent(parent)
    return isinstance(parent, ast.Raise) or (isinstance(parent, ast.Assert) and node is parent.msg)


def _asks(node: ast.AST, scope: Scope) -> bool:
    """Whether this very node puts its contents into something durable, or decides whether that is done."""
    match node:
        case ast.Await() | ast.Yield() | ast.YieldFrom():
            return True
        case ast.Call(func=func):
            return _is_durable(func, scope)
        case ast.IfExp() | ast.BoolOp():
            return any(_asks(one, scope) for one in ast.walk(node) if one is not node)
        case _:
            return False


def _is_durable(func: ast.expr, scope: Scope) -> bool:
    found = scope.meaning(func)
    return isinstance(found, Function) and found.kind in (Kind.STEP, Kind.WORKFLOW)


def _is_made(call: ast.Call, scope: Scope, depth: int) -> bool:
    if scope.path(call.func) in ("builtins.set", "builtins.frozenset"):
        made_of = call.args[0] if call.args else None
        is_of_numbers = isinstance(made_of, ast.Call) and scope.path(made_of.func) == "builtins.range"
        return made_of is not None and not is_of_numbers and not are_tasks(made_of, scope)
    return _returns_set(call, scope, depth)


def _returns_set(call: ast.Call, scope: Scope, depth: int) -> bool:
    """Whether a function of the project is annotated to return a set, or is a helper without annotation that does."""
    found = scope.meaning(call.func)
    if not isinstance(found, Function) or found.attribute is not None:
        return False
    if found.node.returns is not None or found.kind is not Kind.PLAIN:
        return _is_set_type(found.node.returns, found.scope)
    inside = found.scope.inside(found.node)
    returned = [node.value for node in own_nodes(found.node) if isinstance(node, ast.Return)]
    return any(is_set(one, inside, depth + 1) for one in returned)


def _is_named(name: str, line: int, scope: Scope, depth: int) -> bool:
    found = scope.binding(name, line)
    if found is None:
        return False
    binding, home = found
    if binding.annotation is not None and _is_set_type(binding.annotation, home):
        return True
    if binding.value is None:
        return False
    # A set that begins empty and is filled later has no order, either.
    is_empty = isinstance(binding.value, ast.Call) and not binding.value.args and not binding.value.keywords
    if is_empty and isinstance(binding.value, ast.Call) and home.path(binding.value.func) == "builtins.set":
        return not is_filled_with_tasks(name, home)
    return is_set(binding.value, home, depth + 1)


def _holds_sets(name: str, line: int, scope: Scope) -> bool:
    """Whether the values of a mapping are sets: `dict[str, set[str]]`, or `defaultdict(set)`."""
    found = scope.binding(name, line)
    if found is None:
        return False
    binding, home = found
    match binding.annotation:
        case ast.Subscript(slice=ast.Tuple(elts=[_, held])):
            return _is_set_type(held, home)
    match binding.value:
        case ast.Call(func=func, args=[made_by, *_]):
            return home.path(func) == "collections.defaultdict" and home.path(made_by) == "builtins.set"
    return False


def _is_set_type(annotation: ast.expr | None, scope: Scope) -> bool:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except SyntaxError:
            return False
    if isinstance(annotation, ast.BinOp):
        # `set[str] | None`
        return _is_set_type(annotation.left, scope) or _is_set_type(annotation.right, scope)
    if isinstance(annotation, ast.Subscript):
        if scope.path(annotation.value) == "typing.Optional":
            return _is_set_type(annotation.slice, scope)
        inner = annotation.slice
        if isinstance(inner, ast.Name) and inner.id == "int":
            return False
        annotation = annotation.value
    return annotation is not None and scope.path(annotation) in _SETS_BY_ANNOTATION


def _is_view(expr: ast.expr) -> bool:
    """Whether this is `prices.keys()` or the like: an operator on two of them makes a set."""
    return isinstance(expr, ast.Call) and isinstance(expr.func, ast.Attribute) and expr.func.attr in ("keys", "items")


def _is_whole(element: ast.expr) -> bool:
    return isinstance(element, ast.Constant) and isinstance(element.value, (int, bool, type(None)))
