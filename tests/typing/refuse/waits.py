"""Waits, hooks, children, maps and continuations that must not type-check."""

from __future__ import annotations

import holdfast
from holdfast import blocking, step, workflow


@step
async def fetch(url: str) -> bytes:
    return b""


@workflow
async def child(number: int) -> str:
    return ""


@workflow
def plain_child(number: int) -> float:
    return 0.5


@workflow
async def waiting() -> None:
    (await holdfast.wait_for_signal("go", type=int)).upper()  # refused: "int" has no attribute "upper"
    (await holdfast.wait_for_event("e", type=int, default=None)).bit_count()  # refused: has no attribute "bit_count"
    holdfast.wait_for_signal("go")  # refused: must be used
    await holdfast.wait_for_signal("go", colour=5)  # refused: No overload variant of "wait_for_signal"
    (await holdfast.hook(type=int).wait()).upper()  # refused: "int" has no attribute "upper"
    text: str = await holdfast.wait_for_signal("go", type=int)  # refused: incompatible type "type[int]"
    text = await holdfast.wait_for_event("e", type=int)  # refused: incompatible type "type[int]"
    text = await holdfast.wait_for_event("e", type=int, default=None)  # refused: incompatible type "type[int]"
    text = await holdfast.hook(type=int).wait()  # refused: Incompatible types in assignment
    hook: holdfast.Hook[str] = holdfast.hook(type=int)  # refused: incompatible type "type[int]"
    holdfast.hook("confirm")  # refused: No overload variant of "hook"


@workflow
def blocked() -> None:
    text: str = blocking.wait_for_signal("go", type=int)  # refused: Incompatible types in assignment
    text = blocking.wait_for_event("e", type=int)  # refused: Incompatible types in assignment
    text = blocking.hook(type=int).wait()  # refused: Incompatible types in assignment
    hook: blocking.Hook[str] = blocking.hook(type=int)  # refused: incompatible type "type[int]"


@workflow
async def parent() -> None:
    await child("one")  # refused: incompatible type "str"; expected "int"
    child(1)  # refused: must be used
    await plain_child(1)  # refused: Incompatible types in "await"
    child.start("one")  # refused: incompatible type "str"; expected "int"
    number: int = await child.start(1)  # refused: Incompatible types in assignment
    child.options(on_parent_end="keep")  # refused: incompatible type "Literal['keep']"
    await holdfast.map(fetch, [1, 2])  # refused: Cannot infer value of type parameter "T" of "map"
    names: list[str] = await holdfast.map(fetch, ["a"])  # refused: Argument 1 to "map" has incompatible type
    holdfast.map(fetch, ["a"])  # refused: must be used


def ends() -> None:
    child.continue_as_new("one")  # refused: incompatible type "str"; expected "int"
