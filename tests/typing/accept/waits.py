"""Waits, hooks, children, maps and continuations that must type-check, and what is inferred of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeVar, assert_type

import holdfast
from holdfast import ChildRun, Failure, Hook, blocking, step, workflow

T = TypeVar("T")


@dataclass
class Answer:
    yes: bool


@step
async def fetch(url: str) -> bytes:
    return b""


@step
def render(number: int) -> str:
    return ""


@step
async def same(thing: T) -> T:
    return thing


@workflow
async def child(number: int, name: str = "") -> Answer:
    return Answer(True)


@workflow
def plain_child(number: int) -> float:
    return 0.5


@workflow
async def waiting() -> str:
    assert_type(await holdfast.wait_for_signal("go", type=Answer), Answer)
    assert_type(await holdfast.wait_for_signal("go", type=Answer, timeout="1h", default=None), Answer | None)
    assert_type(await holdfast.wait_for_event("paid", match={"order": 7}, type=int), int)
    assert_type(await holdfast.wait_for_event("paid", type=int, timeout=5, default="late"), int | str)
    assert_type(await holdfast.wait_for_signal("go"), Any)
    assert_type(await holdfast.wait_for_signal("go", timeout=1, default=None), Any)
    assert_type(await holdfast.wait_for_signal("go", type=list[int]), list[int])
    await holdfast.wait_for_signal("go", type=Answer | None)
    assert_type(await holdfast.wait_for_event("go", type=Literal["yes", "no"], default=None), Any)
    await holdfast.hook(type=int | str).wait()
    hook = holdfast.hook(type=Answer, expires="3d")
    assert_type(hook, Hook[Answer])
    assert_type(hook.token, str)
    assert_type(await hook.wait(), Answer)
    assert_type(await holdfast.hook().wait(), Any)
    return ""


@workflow
async def parent() -> str:
    assert_type(await child(1, name="a"), Answer)
    assert_type(await child.options(key="k", on_parent_end="abandon")(1), Answer)
    held = child.start(1)
    assert_type(held, ChildRun[Answer])
    held.signal("go", {"any": "thing"})
    assert_type(held.id, str)
    assert_type(await held, Answer)
    assert_type(plain_child(1), float)
    assert_type(await plain_child.start(1), float)
    assert_type(await holdfast.map(fetch, ["a", "b"]), list[bytes])
    assert_type(await holdfast.map(render, range(5), concurrency=2), list[str])
    assert_type(await holdfast.map(fetch, ["a"], on_error="collect"), list[bytes | Failure])
    assert_type(await holdfast.map(plain_child, [1]), list[float])
    assert_type(await holdfast.map(child, [1]), list[Answer])
    assert_type(await holdfast.map(same, ["a"]), list[str])
    return ""


def ends() -> NoReturn:
    child.continue_as_new(1, name="b")


@workflow
def blocked() -> str:
    assert_type(blocking.wait_for_signal("go", type=Answer), Answer)
    assert_type(blocking.wait_for_signal("go", type=Answer, timeout="1h", default=None), Answer | None)
    assert_type(blocking.wait_for_event("paid", type=int), int)
    assert_type(blocking.wait_for_signal("go"), Any)
    blocking.wait_for_signal("go", type=Answer | None)
    hook = blocking.hook(type=Answer)
    assert_type(hook, blocking.Hook[Answer])
    assert_type(hook.wait(), Answer)
    assert_type(blocking.map(fetch, ["a"]), list[bytes])
    assert_type(blocking.map(same, ["a"]), list[str])
    assert_type(blocking.map(render, [1], on_error="collect"), list[str | Failure])
    assert_type(child.start(1).result(), Answer)
    return ""
