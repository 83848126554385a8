"""Which callables have to be awaited: functions given to @step, and async steps and workflows as others see them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any


async def _awaited() -> None: ...


class CoroutineFunction:
    """A callable that returns an awaitable, also in the eyes of `inspect.iscoroutinefunction`, which looks at these
    three attributes.

    Decorators for both kinds of functions ask that, and so do mocks. Without it, a decorator that retries would be
    content with the coroutine, before anything in it could fail. `inspect.getfullargspec` reads the same attributes, so
    they are those of the function.
    """

    fn: Callable[..., Any]

    @property
    def __code__(self) -> CodeType:
        found: CodeType = getattr(self.fn, "__code__", _awaited.__code__)
        return found

    @property
    def __defaults__(self) -> tuple[Any, ...] | None:
        return getattr(self.fn, "__defaults__", None)

    @property
    def __kwdefaults__(self) -> dict[str, Any] | None:
        return getattr(self.fn, "__kwdefaults__", None)


def is_coroutine_callable(fn: Callable[..., Any]) -> bool:
    """Whether calling it returns a coroutine: an `async def`, a partial of one, or an object with an async
    `__call__`."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004  # the method itself is inspected
