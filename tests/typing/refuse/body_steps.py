"""Bodies and steps that must not type-check."""

from __future__ import annotations

import holdfast
from holdfast import Retry, Worker, blocking, current_step, resource, step, workflow


@step
async def charge(card: str, cents: int = 0) -> str:
    return card


@step
def render(order: int, *, draft: bool = False) -> bytes:
    return b""


def plain(a: int, b: str) -> float:
    return 0.5


@step(retry=3)  # refused: No overload variant of "step" matches
def retried() -> None: ...


@step(tries=3)  # refused: Unexpected keyword argument "tries" for overloaded function "step"
def tried() -> None: ...


@workflow(version=2)  # refused: No overload variant of "workflow" matches
async def versioned() -> None: ...


@workflow
async def slow() -> None:
    await charge()  # refused: Missing positional argument "card"
    await charge(5)  # refused: Argument 1 to "__call__" of "AsyncStep" has incompatible type "int"; expected "str"
    await charge("4711", colour="red")  # refused: Unexpected keyword argument "colour"
    charge("4711")  # refused: Value of type "Coroutine[object, None, str]" must be used
    number: int = await charge("4711")  # refused: Incompatible types in assignment (expression has type "str"
    text: str = charge("4711")  # refused: Incompatible types in assignment (expression has type "Coroutine
    await render(1)  # refused: Incompatible types in "await"
    render("one")  # refused: Argument 1 to "__call__" of "BlockingStep" has incompatible type "str"; expected "int"
    render(1, True)  # refused: Too many positional arguments
    await charge.start(5)  # refused: Argument 1 to "start" of "Step" has incompatible type "int"
    await render.start("one")  # refused: Argument 1 to "start" of "Step" has incompatible type "str"
    wrong: int = await charge.start("4711")  # refused: Incompatible types in assignment (expression has type "str"
    charge.start("4711").result(5)  # refused: Too many arguments for "result" of "Pending"
    await charge.options(name="again")(5)  # refused: incompatible type "int"; expected "str"
    await charge.options(tries=3)("4711")  # refused: Unexpected keyword argument "tries" for "options" of "Step"
    charge.options(retry=3)  # refused: Argument "retry" to "options" of "Step" has incompatible type "int"
    await holdfast.call("plain", plain, 1)  # refused: Argument 2 to "call" has incompatible type
    await holdfast.call("plain", plain, 1, 2)  # refused: Argument 2 to "call" has incompatible type
    await holdfast.call(plain, 1, "b")  # refused: No overload variant of "call" matches
    holdfast.sleep("1h")  # refused: Value of type "Coroutine[object, None, None]" must be used
    await holdfast.sleep(None)  # refused: Argument 1 to "sleep" has incompatible type "None"
    await holdfast.sleep_until("noon")  # refused: Argument 1 to "sleep_until" has incompatible type "str"
    await holdfast.now()  # refused: Incompatible types in "await"
    current_step().attempt.cents  # refused: "int" has no attribute "cents"


@workflow
def quick() -> None:
    wrong: str = render.start(1).result()  # refused: Incompatible types in assignment (expression has type "bytes"
    also: list[str] = blocking.gather(render.start(1))  # refused: incompatible type "Pending[bytes]"
    blocking.gather(1, 2)  # refused: No overload variant of "gather"
    blocking.wait(render.start(1))  # refused: incompatible type "Pending[bytes]"; expected "Iterable[Pending[
    number: int = blocking.call("plain", plain, 1, "b")  # refused: Incompatible types in assignment
    blocking.call("plain", plain, "a", "b")  # refused: Argument 2 to "call" has incompatible type
    blocking.sleep([])  # refused: Argument 1 to "sleep" has incompatible type
    slow.options(key=5)  # refused: Argument "key" to "options" of "Workflow" has incompatible type "int"
    slow.options(on_conflict="explode")  # refused: Argument "on_conflict" to "options" of "Workflow"
    slow.options(priority="high")  # refused: Argument "priority" to "options" of "Workflow"


@resource  # refused: Argument 1 to "resource" has incompatible type
def no_generator() -> int:
    return 5


@resource
async def pool():  # refused: Function is missing a return type annotation
    yield 5


Retry(initial=None)  # refused: Argument "initial" to "Retry" has incompatible type "None"
Retry(on=ConnectionError)  # refused: Argument "on" to "Retry" has incompatible type
Worker("sqlite:///:memory:", workflows=[plain])  # refused: List item 0 has incompatible type
Worker("sqlite:///:memory:", workflows=[slow], resources=[plain])  # refused: List item 0 has incompatible type
Worker("sqlite:///:memory:", workflows=[slow], lease=None, workers=3)  # refused: Unexpected keyword argument "workers"
holdfast.run(plain, 1, "b")  # refused: No overload variant of "run" matches
text: int = holdfast.run(slow)  # refused: (expression has type "None", variable has type "int")
