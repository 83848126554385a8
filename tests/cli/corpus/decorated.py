"""What a decorator of the module puts around a body or a helper runs with it; what it does when it decorates does not."""

import functools
import time
from collections.abc import Callable
from typing import Any

from holdfast import step, workflow

NAMES: list[str] = []


@step
def save(what: object) -> None: ...


def timed(function: Callable[..., Any]) -> Callable[..., Any]:
    NAMES.append(function.__name__)

    @functools.wraps(function)
    async def around(*args: Any) -> Any:
        save(time.time())  # hazard: clock
        return await function(*args)

    return around


def repeated(times: int) -> Callable[..., Any]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        NAMES.append(function.__name__)

        def around(*args: Any) -> Any:
            NAMES.append("called")  # hazard: global
            return [function(*args) for _ in range(times)]

        return around

    return decorate


def named(name: str) -> Callable[..., Any]:
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        NAMES.append(name)
        return function

    return decorate


def unused(function: Callable[..., Any]) -> Callable[..., Any]:
    def around(*args: Any) -> Any:
        return time.time()

    return around


@repeated(3)
def helper() -> int:
    return 1


@unused
def nobody() -> None: ...


@workflow
@timed
async def decorated() -> None:
    save(helper())


@workflow
@named("a")
async def registered() -> None:
    save(1)
