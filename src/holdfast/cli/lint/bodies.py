"""Which functions are bodies, which helpers they call, and what is found in them.

A body is a function decorated with `@workflow`, under whichever name that was imported. From there, every function of
the same module that the body calls or hands on is read too, methods of its classes included. Functions that become
steps are not read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from .awaits import forgotten_by
from .bindings import FUNCTIONS, FunctionNode, own_nodes
from .choices import choices
from .fields import left_to_factories
from .findings import CODES, Allowances, Finding
from .hazards import READ, Hazard, hazard_of
from .loaded import made_when_loaded
from .meanings import Class, Function, Kind, Scope
from .sources import Project, Source
from .ties import tied_in
from .unordered import is_only_told, minds_no_order, unordered_in

_STEP_MAKERS = frozenset(
    {
        *("holdfast.call", "holdfast.compensate", "holdfast.step", "holdfast.map", "holdfast.workflow"),
        *("holdfast.blocking.call", "holdfast.blocking.map"),
    }
)
"""These execute a function that they are given as a step: elsewhere, and once."""
_CALLERS = frozenset({"builtins.map", "builtins.filter", "functools.reduce"})
"""Functions that call their first argument."""
_SORTERS = frozenset({"builtins.sorted", "builtins.min", "builtins.max", "builtins.list.sort"})
"""Functions that call their argument `key=`."""
_CHANGES = frozenset(
    {
        *("append", "add", "update", "extend", "insert", "pop", "popitem", "clear", "setdefault", "remove", "discard"),
        *("appendleft", "popleft"),
    }
)
_CONTAINERS = frozenset(
    {f"builtins.{name}" for name in ("list", "dict", "set")}
    | {f"collections.{name}" for name in ("defaultdict", "Counter", "deque", "OrderedDict")}
)
_ITERATORS = frozenset(f"builtins.{name}" for name in ("iter", "enumerate", "map", "filter", "zip", "reversed"))


def check(project: Project, path: Path) -> list[Finding]:
    """All findings in the bodies of one file and in the helpers that they call there, by line."""
    try:
        return _checked(project, project.source(path))
    except RecursionError:
        return [Finding(str(path), 1, 1, "syntax", f"{CODES['syntax']}: it nests too deeply to be checked")]
    except (SyntaxError, ValueError, OSError) as error:
        line = getattr(error, "lineno", None) or 1
        column = getattr(error, "offset", None) or 1
        return [Finding(str(path), line, column, "syntax", f"{CODES['syntax']}: {getattr(error, 'msg', error)}")]


def _checked(project: Project, source: Source) -> list[Finding]:
    allowances = Allowances(source.shown, source.text)
    module = Scope(project, source)
    found: dict[tuple[int, int, str], Finding] = {}
    visited: set[ast.AST] = set()
    for body in _bodies(module):
        for finding in _Reader(body, visited).findings():
            found.setdefault((finding.line, finding.column, finding.code), finding)
    return sorted([*allowances.without(found.values()), *allowances.wrong])


def _bodies(module: Scope) -> Iterator[Function]:
    yield from (one for one in _functions(module, module.source.tree) if one.kind is Kind.WORKFLOW)
    for binding in chain.from_iterable(module.bindings.values()):
        # A body made by a call, as in `checkout = workflow(checkout_body)`.
        found = module.meaning(binding.value) if isinstance(binding.value, ast.Call) else None
        if isinstance(found, Function) and found.kind is Kind.WORKFLOW and found.scope.source is module.source:
            yield found


def _functions(scope: Scope, top: ast.AST) -> Iterator[Function]:
    for node in own_nodes(top):
        if isinstance(node, FUNCTIONS):
            yield scope.function_at(node)
            yield from _functions(scope.inside(node), node)
        elif isinstance(node, ast.ClassDef):
            yield from _functions(scope, node)


class _Reader:
    """Reads one body and all helpers that it reaches."""

    def __init__(self, body: Function, visited: set[ast.AST]) -> None:
        self._body = body
        self._visited = visited
        self._waiting: list[Function] = [body]
        self._found: list[Finding] = []

    def findings(self) -> list[Finding]:
        while self._waiting:
            function = self._waiting.pop()
            if function.node not in self._visited:
                self._visited.add(function.node)
                self._read_defaults(function.node.args, function.scope, function.node)
                self._waiting += _wrappers_of(function)
                scope = function.scope.inside(function.node)
                for statement in function.node.body:
                    self._read(statement, scope, function.node)
        return self._found

    def _read_defaults(self, args: ast.arguments, scope: Scope, owner: FunctionNode) -> None:
        for default in (*args.defaults, *filter(None, args.kw_defaults)):
            self._read(default, scope, owner)

    def _read(self, node: ast.AST, scope: Scope, owner: FunctionNode) -> None:
        match node:
            case ast.FunctionDef(args=args) | ast.AsyncFunctionDef(args=args):
                # An inner function is read when something calls it. Its defaults are evaluated here.
                self._read_defaults(args, scope, owner)
                return
            case ast.ClassDef(body=statements):
                for statement in statements:
                    self._read(statement, scope, owner)
                return
            case ast.Import() | ast.ImportFrom():
                return
            case ast.Lambda():
                self._read(node.body, scope.inside(node), owner)
                return
            case ast.Global():
                for name in node.names:
                    self._add(node, f"global {name}", Hazard("global"))
            case ast.Name(ctx=ast.Load()):
                self._follow(node, scope)
                self._check_name(node, scope)
                return
            case ast.Attribute(ctx=ast.Load()):
                self._follow(node, scope)
                self._check_name(node, scope)
            case ast.Assign(targets=targets):
                for target in targets:
                    self._check_written(target, scope)
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                self._check_written(target, scope)
            case ast.Delete(targets=targets):
                for target in targets:
                    self._check_written(target, scope)
            case ast.Call():
                self._check_call(node, scope, owner)
            case ast.With(items=items):
                self._follow_context(items, ("__enter__", "__exit__"), scope)
            case ast.AsyncWith(items=items):
                self._follow_context(items, ("__aenter__", "__aexit__"), scope)
        self._check_iteration(node, scope)
        for child in self._children(node, scope):
            self._read(child, scope, owner)

    def _children(self, node: ast.AST, scope: Scope) -> Iterator[ast.AST]:
        made = self._arguments_as_steps(node, scope) if isinstance(node, ast.Call) else ()
        for child in ast.iter_child_nodes(node):
            value = child.value if isinstance(child, ast.keyword) else child
            is_annotation = isinstance(node, ast.AnnAssign) and child is node.annotation
            if not is_annotation and value not in made:
                yield child

    def _arguments_as_steps(self, call: ast.Call, scope: Scope) -> list[ast.expr]:
        """Functions among the arguments that are executed as steps, not here."""
        if _is_partial(call, scope):
            # Only the function inside the partial is executed there.
            above = scope.source.parent(call)
            maker = scope.source.parent(above) if isinstance(above, ast.keyword) else above
            return call.args[:1] if isinstance(maker, ast.Call) and _makes_steps(maker, scope) else []
        if not _makes_steps(call, scope):
            return []
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        return [one for one in given if isinstance(one, ast.Lambda) or self._is_callable(one, scope)]

    def _is_callable(self, expr: ast.expr, scope: Scope) -> bool:
        """Whether a function is handed on by its name, and not called here to make an argument."""
        found = scope.meaning(expr)
        if isinstance(found, Function):
            return not _is_partial(expr, scope)
        return isinstance(expr, (ast.Name, ast.Attribute)) and isinstance(found, str) and found not in READ

    def _follow(self, expr: ast.expr, scope: Scope) -> None:
        self._queue(scope.function(expr), scope)

    def _queue(self, found: Function | None, scope: Scope) -> None:
        is_plain = found is not None and found.kind is Kind.PLAIN and found.attribute is None
        if found is not None and is_plain and found.scope.source is scope.source:
            self._waiting.append(found)

    def _check_name(self, node: ast.Name | ast.Attribute, scope: Scope) -> None:
        path = scope.path(node)
        if path in READ:
            self._add(node, path, READ[path])
        found = scope.binding(node.id, node.lineno) if isinstance(node, ast.Name) else None
        made = None if found is None else made_when_loaded(*found)
        if made is not None and not is_only_told(node, scope):
            self._add(node, f"{ast.unparse(node)} was made when its module was loaded: {ast.unparse(made[0])}", made[1])

    def _follow_context(self, items: list[ast.withitem], names: tuple[str, str], scope: Scope) -> None:
        for item in items:
            if isinstance(found := scope.meaning(item.context_expr), Class):
                for name in names:
                    self._queue(found.method(name), scope)

    def _check_call(self, call: ast.Call, scope: Scope, owner: FunctionNode) -> None:
        found = scope.meaning(call.func)
        if isinstance(found, Function) and found.kind is Kind.RESOURCE and found.attribute is None:
            self._add(call, f"{ast.unparse(call.func)}()", Hazard("resource"))
        elif isinstance(found, Class):
            is_class = _is_class(call.func, scope)
            for name in ("__new__", "__init__", "__post_init__") if is_class else ("__call__",):
                self._queue(found.method(name), scope)
            if is_class:
                self._check_factories(call, found, scope)
        elif isinstance(found, str):
            hazard = hazard_of(found, len(call.args) + len(call.keywords))
            if hazard is not None and not self._was_reported(call.func, found, scope):
                self._add(call, f"{ast.unparse(call.func)}()", hazard)
            if found in _CALLERS:
                for given in call.args[:1]:
                    self._check_passed(given, scope)
            if found == "asyncio.as_completed":
                self._check_as_completed(call, scope)
        self._check_choices(call, scope, owner)
        if found in _SORTERS or (isinstance(call.func, ast.Attribute) and call.func.attr == "sort"):
            for keyword in call.keywords:
                if keyword.arg == "key":
                    self._check_passed(keyword.value, scope)
        self._check_change(call, scope)
        forgotten = forgotten_by(call, scope, owner) if isinstance(owner, ast.AsyncFunctionDef) else None
        if forgotten is not None:
            self._add(call, f"{ast.unparse(forgotten)}()", Hazard("await"))

    def _check_choices(self, call: ast.Call, scope: Scope, owner: FunctionNode) -> None:
        """Read and check everything that may be called if the text leaves a choice."""
        for one, home in choices(call.func, scope):
            if one is call.func or home.source is not scope.source:
                continue
            if isinstance(one, ast.Lambda):
                self._read(one, home, owner)
            elif isinstance(one, (ast.Name, ast.Attribute)):
                self._queue(home.function(one), home)
                path = home.path(one)
                hazard = None if path is None else hazard_of(path, len(call.args) + len(call.keywords))
                if hazard is not None:
                    self._add(call, f"{ast.unparse(call.func)}() may be {ast.unparse(one)}(), which", hazard)

    def _check_factories(self, call: ast.Call, klass: Class, scope: Scope) -> None:
        """An object is made here. Check the factories of the fields that the call leaves out."""
        for field, factory, home in left_to_factories(call, klass):
            self._queue(home.function(factory), scope)
            calls = [one for one in ast.walk(factory) if isinstance(one, ast.Call)]
            made_by = [(one.func, len(one.args) + len(one.keywords)) for one in calls] or [(factory, 0)]
            for func, arguments in made_by:
                path = home.path(func)
                hazard = None if path is None else hazard_of(path, arguments)
                if hazard is not None:
                    what = f"{ast.unparse(call.func)}() makes its field {field} by {ast.unparse(func)}(), which"
                    self._add(call, what, hazard)

    def _was_reported(self, func: ast.expr, path: str, scope: Scope) -> bool:
        """Whether the body has made the object itself: that was a finding already, so its use is not another one."""
        while isinstance(func, ast.Attribute):
            func = func.value
        if not isinstance(func, ast.Name) or path.startswith(("pathlib.", "asyncio.")):
            return False
        found = scope.binding(func.id, func.lineno)
        return found is not None and found[1].outer is not None and found[0].value is not None and "()" in path

    def _check_passed(self, given: ast.expr, scope: Scope) -> None:
        path = scope.path(given)
        hazard = None if path is None else hazard_of(path, 1)
        if hazard is not None:
            self._add(given, f"{ast.unparse(given)}()", hazard)

    def _check_as_completed(self, call: ast.Call, scope: Scope) -> None:
        given = call.args[0] if call.args else None
        if isinstance(given, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
            elements = [given.elt]
        else:
            elements = list(given.elts) if isinstance(given, (ast.List, ast.Tuple, ast.Set)) else []
        for element in elements:
            found = scope.function(element.func) if isinstance(element, ast.Call) else None
            if found is not None and found.is_async and found.attribute is None:
                fix = "make tasks of them first: asyncio.as_completed([asyncio.create_task(c) for c in ...])"
                told = "asyncio.as_completed() over bare coroutines starts them in no fixed order"
                self._add(call, told, Hazard("asyncio", fix), message=f"{told}; {fix}")
                return

    def _check_change(self, call: ast.Call, scope: Scope) -> None:
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr in _CHANGES and self._is_module_state(func.value, scope):
            self._add(call, f"{ast.unparse(func)}()", Hazard("global"))
        if scope.path(func) == "builtins.next" and call.args and _is_module_iterator(call.args[0], scope):
            self._add(call, f"next({ast.unparse(call.args[0])})", Hazard("global"))

    def _check_written(self, target: ast.expr, scope: Scope) -> None:
        if isinstance(target, (ast.Subscript, ast.Attribute)):
            is_attribute = isinstance(target, ast.Attribute)
            if self._is_module_state(target.value, scope, is_inside=is_attribute):
                self._add(target, ast.unparse(target), Hazard("global"))

    def _is_module_state(self, expr: ast.expr, scope: Scope, *, is_inside: bool = False) -> bool:
        """Whether this is a list, dict or set at the top of a module, or something inside an object there."""
        while isinstance(expr, (ast.Subscript, ast.Attribute)):
            is_inside = is_inside or isinstance(expr, ast.Attribute)
            expr = expr.value
        if not isinstance(expr, ast.Name) or (found := scope.binding(expr.id, expr.lineno)) is None:
            return False
        binding, home = found
        if home.outer is not None:
            return False
        if is_inside:
            # An attribute of one of the project's classes, or of an instance.
            return isinstance(home.meaning(expr), Class)
        if isinstance(binding.value, (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)):
            return True
        return isinstance(binding.value, ast.Call) and home.path(binding.value.func) in _CONTAINERS

    def _check_iteration(self, node: ast.AST, scope: Scope) -> None:
        found = unordered_in(node, scope)
        if found is not None and not minds_no_order(node, scope):
            self._add(found, f"the set {_shortened(ast.unparse(found))}", Hazard("unordered"))
        if (tied := tied_in(node, scope)) is not None:
            members, key = (_shortened(ast.unparse(one)) for one in tied)
            message = f"the set {members} may have several with the same {key}, in an order that is another one in "
            message += f"another process; use sorted({members}) there"
            self._add(tied[0], "", Hazard("unordered"), message=message)

    def _add(self, node: ast.AST, what: str, hazard: Hazard, *, message: str | None = None) -> None:
        line, column = getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1
        name = self._body.node.name
        told = message or f"{what} {hazard.told}"
        text = f"{told} (workflow {name})"
        end = getattr(node, "end_lineno", None) or line
        self._found.append(Finding(self._body.scope.source.shown, line, column, hazard.code, text, end))


def _makes_steps(call: ast.Call, scope: Scope) -> bool:
    path = scope.path(call.func)
    return path is not None and path.rstrip("()") in _STEP_MAKERS


def _is_partial(expr: ast.expr, scope: Scope) -> bool:
    return isinstance(expr, ast.Call) and scope.path(expr.func) == "functools.partial"


def _is_module_iterator(expr: ast.expr, scope: Scope) -> bool:
    """Whether this is an iterator at the top of a module, which gives other values each time: `itertools.count()`."""
    if not isinstance(expr, ast.Name) or (found := scope.binding(expr.id, expr.lineno)) is None:
        return False
    binding, home = found
    if home.outer is not None or binding.value is None:
        return False
    path = home.path(binding.value.func) if isinstance(binding.value, ast.Call) else None
    is_made_so = path is not None and (path in _ITERATORS or path.startswith("itertools."))
    return is_made_so or isinstance(binding.value, ast.GeneratorExp)


def _wrappers_of(function: Function) -> Iterator[Function]:
    """The functions that a function's decorators wrap around it. They run with each call; the decorators don't."""
    for decorator in function.node.decorator_list:
        makes = isinstance(decorator, ast.Call)
        found = function.scope.function(decorator.func if isinstance(decorator, ast.Call) else decorator)
        if found is None or found.scope.source is not function.scope.source:
            continue
        around = list(_defined_in(found))
        yield from [inner for one in around for inner in _defined_in(one)] if makes else around


def _defined_in(function: Function) -> Iterator[Function]:
    scope = function.scope.inside(function.node)
    yield from (scope.function_at(node) for node in own_nodes(function.node) if isinstance(node, FUNCTIONS))


def _is_class(expr: ast.expr, scope: Scope) -> bool:
    """Whether an expression that stands for a class is the class itself, not an instance."""
    if isinstance(expr, ast.Call):
        return False
    found = scope.binding(expr.id, expr.lineno) if isinstance(expr, ast.Name) else None
    if found is None or found[0].klass is not None or found[0].path is not None:
        return True
    return isinstance(found[0].value, (ast.Name, ast.Attribute))


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:39]}…"
