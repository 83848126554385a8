"""Where the names of a module or a function get their meaning: imports, definitions, assignments, loops, parameters."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Binding:
    """One place where a name gets its meaning, for uses below `line`."""

    line: int
    value: ast.expr | None = None
    annotation: ast.expr | None = None
    function: FunctionNode | None = None
    klass: ast.ClassDef | None = None
    path: str | None = None
    """What an import names."""
    name: str | None = None
    """The name in `from path import name`."""
    level: int = 0


class Element(ast.expr):
    """One element of what a loop iterates over, or a part of each element. The text does not say which element."""

    def __init__(self, of: ast.expr, part: int | None = None) -> None:
        super().__init__()
        self.of = of
        self.part = part


def own_nodes(top: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module or function. Functions and classes in it are yielded, but not the nodes inside them."""
    body = top.body if isinstance(top, (ast.Module, *FUNCTIONS, ast.ClassDef, ast.Lambda)) else []
    waiting: list[ast.AST] = [*body] if isinstance(body, list) else [body]
    while waiting:
        node = waiting.pop(0)
        yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef, ast.Lambda)):
            waiting[:0] = ast.iter_child_nodes(node)


def bindings_of(top: ast.AST, around: ast.AST | None) -> Iterator[tuple[str, Binding]]:
    """The names bound in a module or function, parameters first. `around` is the node around it."""
    if isinstance(top, (*FUNCTIONS, ast.Lambda)):
        given = top.args
        for one in [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]:
            if one is not None:
                is_many = one in (given.vararg, given.kwarg)
                yield one.arg, Binding(0, annotation=None if is_many else one.annotation)
        if isinstance(around, ast.ClassDef) and not _is_static(top):
            # `self` and `cls`, which nobody annotates. The later of two bindings holds.
            for one in [*given.posonlyargs, *given.args][:1]:
                yield one.arg, Binding(0, annotation=ast.Name(around.name, ast.Load(), lineno=around.lineno))
    for node in own_nodes(top):
        yield from _bound_by(node)


def _is_static(node: ast.AST) -> bool:
    decorators = node.decorator_list if isinstance(node, FUNCTIONS) else []
    return any(isinstance(one, ast.Name) and one.id == "staticmethod" for one in decorators)


def _bound_by(node: ast.AST) -> Iterator[tuple[str, Binding]]:
    match node:
        case ast.Import(names=names):
            for alias in names:
                name = alias.asname or alias.name.partition(".")[0]
                yield name, Binding(node.lineno, path=alias.name if alias.asname else name)
        case ast.ImportFrom(names=names, module=module, level=level):
            for alias in names:
                yield alias.asname or alias.name, Binding(node.lineno, path=module or "", name=alias.name, level=level)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name, Binding(node.lineno, function=node)
        case ast.ClassDef(name=name):
            yield name, Binding(node.lineno, klass=node)
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                yield from _targets(target, value, node.end_lineno or node.lineno)
        case ast.AnnAssign(target=ast.Name(id=name), value=value, annotation=annotation):
            yield name, Binding(node.end_lineno or node.lineno, value=value, annotation=annotation)
        case ast.NamedExpr(target=ast.Name(id=name), value=value):
            yield name, Binding(node.lineno, value=value)
        case (
            ast.For(target=target, iter=iterated)
            | ast.AsyncFor(target=target, iter=iterated)
            | ast.comprehension(target=target, iter=iterated)
        ):
            yield from _targets(target, _one_of(iterated), target.lineno)
        case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
            yield from _targets(target, value, target.lineno)
        case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
            yield name, Binding(node.lineno)


def _one_of(iterated: ast.expr) -> ast.expr:
    """What a loop binds to its target. For the values of a mapping that is `groups[...]`."""
    match iterated:
        case ast.Call(func=ast.Attribute(value=value, attr="values" | "items" as attr), args=[]):
            held = ast.Subscript(value, ast.Constant(...), ast.Load(), lineno=iterated.lineno)
            return held if attr == "values" else ast.Tuple([ast.Constant(...), held], ast.Load())
        case _:
            return Element(iterated)


def _targets(target: ast.expr, value: ast.expr | None, line: int) -> Iterator[tuple[str, Binding]]:
    if isinstance(target, ast.Name):
        yield target.id, Binding(line, value=value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        values: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts):
            values = list(value.elts)
        elif isinstance(value, Element) and value.part is None:
            values = [Element(value.of, part) for part in range(len(target.elts))]
        for one, its in zip(target.elts, values, strict=True):
            yield from _targets(one, its, line)
    elif isinstance(target, ast.Starred):
        yield from _targets(target.value, None, line)
