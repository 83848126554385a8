"""Who has to be awaited: functions that steps are made of, and async steps and workflows in the eyes of others."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any


async def _awaited() -> None: ...


class CoroutineFunction:
    """Something that is awaited when it is called, also to `inspect.iscoroutinefunction`, which goes by these three.

    Decorators for both kinds of functions ask it, and mocks do. One that retries would be content with the coroutine,
    before anything in it could fail. `inspect.getfullargspec` goes by them, too, so they are those of its function.
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
    """Whether calling it gives a coroutine: an `async def`, a partial of one, an object with an async `__call__`."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    return inspect.iscoroutinefunction(fn) or inspect.iscoroutinefunction(getattr(fn, "__call__", None))  # noqa: B004  # the method itself is inspected
