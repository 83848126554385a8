"""@resource: what steps need and arguments can't carry, such as pools, clients and secrets."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Generic, TypeVar, cast

from holdfast.errors import DefinitionError, NotInBody, NotInRun

from .scope import IN_THREADS, StepInfo, current_scope

T = TypeVar("T")


class Resource(Generic[T]):
    """What @resource makes of a generator function. Calling it inside a step returns what the generator yielded."""

    def __init__(self, fn: Callable[[], AsyncIterator[T] | Iterator[T]]) -> None:
        self.fn = fn
        self.name = fn.__name__
        self.is_async = inspect.isasyncgenfunction(fn)
        functools.update_wrapper(cast(Any, self), fn, updated=())

    def __call__(self) -> T:
        scope = current_scope.get()
        if scope is None:
            raise NotInRun(
                f"the resource {self.name!r} was used outside a run; only steps that a worker executes can use it, and "
                f"no other resource can: Worker(..., resources=[{self.name}]); {IN_THREADS}"
            )
        if not isinstance(scope, StepInfo):
            raise NotInBody(f"the resource {self.name!r} was used in a workflow body; use it inside a step")
        try:
            return cast(T, scope.resources[self])
        except KeyError:
            raise NotInRun(
                f"the resource {self.name!r} is not open on this worker; give it: Worker(..., resources=[{self.name}])"
            ) from None

    def __repr__(self) -> str:
        return f"<resource {self.name}>"


def resource(fn: Callable[[], AsyncIterator[T] | Iterator[T]]) -> Resource[T]:
    """Declare something that steps share: opened on the worker's loop at its start, closed at its end, last first.

        @holdfast.resource
        async def db():
            async with asyncpg.create_pool(DSN) as pool:
                yield pool

    Inside a step `db()` is the pool, typed by what is yielded. Give the resource to the worker
    (`Worker(..., resources=[db])`; `holdfast worker` finds it by itself), and in tests to the environment, perhaps with
    a stand-in. If a resource can't be opened, the worker does not start, and the resources that are open are closed.

    `fn` is a generator function that yields once, `async def` or `def`, and needs no arguments, else DefinitionError.
    It can't call other resources: if two need the same thing, let both get it from a function of yours.

    In a body `db()` raises NotInBody, because nothing that a body does with it would survive replay. Outside any run,
    or on a worker that was not given the resource, it raises NotInRun.
    """
    if not (inspect.isasyncgenfunction(fn) or inspect.isgeneratorfunction(fn)):
        below = inspect.unwrap(fn)
        is_covered = below is not fn and (inspect.isasyncgenfunction(below) or inspect.isgeneratorfunction(below))
        hint = "; take the decorator between them away, such as @contextmanager" if is_covered else ""
        raise DefinitionError(f"@resource expects a generator function that yields once, not {fn!r}{hint}")
    needed = [one.name for one in inspect.signature(fn).parameters.values() if _is_needed(one)]
    if needed:
        raise DefinitionError(
            f"the resource {fn.__name__!r} is opened without arguments, and needs {', '.join(needed)}; have it look "
            "for them itself, or give them defaults"
        )
    return Resource(fn)


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.default is parameter.empty and parameter.kind not in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )
