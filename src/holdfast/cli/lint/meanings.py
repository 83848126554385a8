"""What a name or an expression stands for, as far as the text says: `dt.now` is "datetime.datetime.now".

A meaning is a dotted path, in which `()` is an instance ("httpx.Client().get"); or a function, a class or a module of
the project; or None, if it can't be told. A name that is bound twice has the meaning from the nearest line above.
"""

from __future__ import annotations

import ast
import builtins
import sys
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from .bindings import FUNCTIONS, Binding, FunctionNode, bindings_of, own_nodes
from .sources import Project, Source

_ROOMS = frozenset({"define", "client", "worker", "script"})
_SEEDED = frozenset({"random.Random", "numpy.random.default_rng", "numpy.random.RandomState"})
_GENERATORS = frozenset({"random.Random", "numpy.random.Generator", "numpy.random.RandomState"})
_BY_TEXT = frozenset({"builtins.getattr", "builtins.__import__", "importlib.import_module"})
_DEEPEST = 12


class Kind(StrEnum):
    """What the decorators make of a function."""

    PLAIN = "plain"
    STEP = "step"
    WORKFLOW = "workflow"
    RESOURCE = "resource"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the project, and the scope of its definition."""

    node: FunctionNode
    scope: Scope
    kind: Kind
    attribute: str | None = None
    """`start` in `charge.start`."""

    @property
    def is_async(self) -> bool:
        """Whether calling the function gives a coroutine. An async generator function does not."""
        if not isinstance(self.node, ast.AsyncFunctionDef):
            return False
        return not any(isinstance(one, (ast.Yield, ast.YieldFrom)) for one in own_nodes(self.node))


@dataclass(frozen=True, slots=True)
class Class:
    """A class of the project or an instance of it, and the scope of its definition."""

    node: ast.ClassDef
    scope: Scope

    def method(self, name: str, depth: int = 0) -> Function | None:
        """The method of that name: the class's own, or inherited from a class of the project."""
        for node in reversed(self.node.body):
            if isinstance(node, FUNCTIONS) and node.name == name:
                return self.scope.function_at(node)
        for base in self.node.bases if depth < _DEEPEST else ():
            above = self.scope.meaning(base, depth + 1)
            if isinstance(above, Class) and (found := above.method(name, depth + 1)) is not None:
                return found
        return None


class Scope:
    """The names of a module or function, and where they get their meaning."""

    def __init__(
        self, project: Project, source: Source, outer: Scope | None = None, node: ast.AST | None = None
    ) -> None:
        self.project = project
        self.source = source
        self.outer = outer
        self.bindings: dict[str, list[Binding]] = {}
        self._stars: list[Binding] = []
        self._evaluating: set[tuple[str, int]] = set()
        self._modules: dict[Path, Scope] = {} if outer is None else outer._modules
        top = source.tree if node is None else node
        for name, binding in bindings_of(top, source.parent(top)):
            if name == "*":
                self._stars.append(binding)
            else:
                self.bindings.setdefault(name, []).append(binding)

    def inside(self, node: FunctionNode | ast.Lambda) -> Scope:
        """The scope of a function inside this one."""
        return Scope(self.project, self.source, self, node)

    def binding(self, name: str, line: int) -> tuple[Binding, Scope] | None:
        """Where a name that is used on this line gets its meaning."""
        found = self.bindings.get(name)
        if found is None:
            return None if self.outer is None else self.outer.binding(name, sys.maxsize)
        above = [one for one in found if one.line < line]
        return (above[-1] if above else found[0]), self

    def meaning(self, expr: ast.expr | None, depth: int = 0) -> Meaning:
        """What an expression stands for; see the module."""
        if expr is None or depth > _DEEPEST:
            return None
        match expr:
            case ast.Name(id=name):
                return self._named(name, expr.lineno, depth)
            case ast.Attribute(value=value, attr=attr):
                return self._member(self.meaning(value, depth + 1), attr, depth)
            case ast.Call():
                return self._called(expr, depth)
            case ast.Await(value=value) | ast.NamedExpr(value=value) | ast.IfExp(body=value):
                return self.meaning(value, depth + 1)
            case ast.BinOp(left=left, op=ast.Div()):
                found = self.meaning(left, depth + 1)
                return found if isinstance(found, str) and found.startswith("pathlib.") else None
            case ast.Constant(value=str() as text):
                # A quoted annotation.
                return self._quoted(text, depth)
            case _:
                return None

    def path(self, expr: ast.expr | None) -> str | None:
        """The dotted path that an expression stands for, if it stands for one."""
        found = self.meaning(expr)
        return found if isinstance(found, str) else None

    def function(self, expr: ast.expr) -> Function | None:
        """The function of the project that an expression stands for, if it does."""
        found = self.meaning(expr)
        return found if isinstance(found, Function) else None

    def function_at(self, node: FunctionNode) -> Function:
        """A function defined in this scope, with its decorators taken into account."""
        for decorator in node.decorator_list:
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            if (kind := self._makes(target)) is not None:
                return Function(node, self, kind)
        return Function(node, self, Kind.PLAIN)

    def _makes(self, decorator: ast.expr, depth: int = 0) -> Kind | None:
        found = self.meaning(decorator, depth + 1)
        if not isinstance(found, str) or not found.startswith("holdfast."):
            return None
        name = found.removeprefix("holdfast.").rstrip("()")
        return Kind(name) if name in ("step", "workflow", "resource") else None

    def _named(self, name: str, line: int, depth: int) -> Meaning:
        found = self.binding(name, line)
        if found is None:
            return self._unbound(name, depth)
        binding, scope = found
        if binding.function is not None:
            return scope.function_at(binding.function)
        if binding.klass is not None:
            return Class(binding.klass, scope)
        if binding.path is not None or binding.level:
            return scope._imported(binding, depth)
        if (key := (name, binding.line)) in scope._evaluating:
            return None
        scope._evaluating.add(key)
        try:
            if binding.value is not None:
                return scope.meaning(binding.value, depth + 1)
            return _instance(scope.meaning(binding.annotation, depth + 1))
        finally:
            scope._evaluating.discard(key)

    def _unbound(self, name: str, depth: int) -> Meaning:
        module = self
        while module.outer is not None:
            module = module.outer
        # Of two star imports the later one wins.
        for star in reversed(module._stars):
            if _brings(star, name):
                return module._imported(replace(star, name=name), depth)
        return f"builtins.{name}" if hasattr(builtins, name) else None

    def _imported(self, binding: Binding, depth: int) -> Meaning:
        path = binding.path or ""
        if path.partition(".")[0] in sys.stdlib_module_names or path.partition(".")[0] == "holdfast":
            return _canonical(path if binding.name is None else f"{path}.{binding.name}")
        if binding.name is None:
            return path
        source = self.project.module(path, binding.level, self.source.path)
        if source is not None and depth < _DEEPEST:
            scope = self._module(source)
            if binding.name in scope.bindings or scope._stars:
                return scope._named(binding.name, sys.maxsize, depth + 1)
        inner = self.project.module(f"{path}.{binding.name}", binding.level, self.source.path)
        if inner is not None:
            return self._module(inner)
        return None if binding.level else f"{path}.{binding.name}"

    def _module(self, source: Source) -> Scope:
        """The scope of another module, made once."""
        found = self._modules.get(source.path)
        if found is None:
            found = self._modules[source.path] = Scope(self.project, source)
        return found

    def _member(self, of: Meaning, attr: str, depth: int) -> Meaning:
        if isinstance(of, Function):
            return replace(of, attribute=attr)
        if isinstance(of, Scope):
            return of._named(attr, sys.maxsize, depth + 1)
        if isinstance(of, Class):
            return of.method(attr, depth + 1)
        if of is None:
            return None
        is_known = of.partition(".")[0] in sys.stdlib_module_names or of.startswith(("holdfast", "builtins"))
        if not is_known and "(" not in of and self.project.module(of, 0, self.source.path) is not None:
            return self._imported(Binding(0, path=of, name=attr), depth)
        return _canonical(f"{of}.{attr}")

    def _called(self, call: ast.Call, depth: int) -> Meaning:
        found = self.meaning(call.func, depth + 1)
        if isinstance(found, Function):
            if found.attribute == "options":
                return replace(found, attribute=None)
            return _instance(found.scope.meaning(found.node.returns, depth + 1)) if found.attribute is None else None
        if not isinstance(found, str):
            return _instance(found)
        if found == "functools.partial" and call.args:
            return self.meaning(call.args[0], depth + 1)
        if found in _BY_TEXT:
            return self._by_text(found, call.args, depth)
        if found in _SEEDED and (call.args or call.keywords) and self.outer is not None:
            # Only inside a function. A generator at the top of a module is shared by all runs, and replays draw, too.
            return "seeded()"
        made = self._makes(call.func, depth) if found.startswith("holdfast.") and call.args else None
        if made is not None and isinstance(given := self.meaning(call.args[0], depth + 1), Function):
            return replace(given, kind=made)
        return f"{found}()"

    def _by_text(self, path: str, args: list[ast.expr], depth: int) -> Meaning:
        """What a call names by a literal string: `getattr(time, "time")`, `import_module("time")`."""
        match path, args:
            case "builtins.getattr", [of, ast.Constant(value=str() as name), *_]:
                return self._member(self.meaning(of, depth + 1), name, depth)
            case "builtins.__import__", [ast.Constant(value=str() as name)]:
                # Like `import os.path`, it returns the outermost package.
                return self._imported(Binding(0, path=name.partition(".")[0]), depth)
            case "importlib.import_module", [ast.Constant(value=str() as name)]:
                return self._imported(Binding(0, path=name), depth)
            case _:
                return None

    def _quoted(self, text: str, depth: int) -> Meaning:
        try:
            expr = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError):
            return None
        return self.meaning(expr, depth + 1) if isinstance(expr, (ast.Name, ast.Attribute)) else None


Meaning = str | Function | Class | Scope | None


def _instance(of: Meaning) -> Meaning:
    """The meaning of an instance of this type."""
    if isinstance(of, str):
        # The code did not make this generator: it may be holdfast.rng().
        return "seeded()" if of in _GENERATORS else f"{of}()"
    return of if isinstance(of, Class) else None


def _brings(star: Binding, name: str) -> bool:
    """Whether `from ... import *` may have bound a name. For the standard library, only loaded modules are known."""
    if star.path == "holdfast":
        return name in _PUBLIC
    if star.path in sys.stdlib_module_names:
        return hasattr(sys.modules.get(star.path or ""), name)
    return not hasattr(builtins, name)


def _canonical(path: str) -> str:
    """A public name by its shortest path, whichever room it was imported from."""
    parts = path.split(".")
    if parts[0] == "holdfast" and len(parts) > 2 and parts[1] in _ROOMS:
        del parts[1]
    return ".".join(parts)


_PUBLIC = frozenset(
    {
        *("call", "compensate", "continue_as_new", "current_run", "current_step", "emit", "hook", "logger", "map"),
        *("now", "patched", "publish", "resource", "rng", "rollback", "set_value", "shield", "signal", "sleep"),
        *("sleep_until", "step", "uuid4", "wait_for_event", "wait_for_signal", "workflow", "run", "Client"),
        *("AsyncClient", "Worker"),
    }
)
"""The names of `from holdfast import *` that matter here."""
