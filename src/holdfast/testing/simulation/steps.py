"""The steps of every program. Each does its errand through the hand of the session that executes it; machines, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

import holdfast
from holdfast.define import Context, Done, Machine, Next, StepInfo, make_step, resource
from holdfast.errors import FatalError, RetryAfter

from .nodes import POLICIES, Do, Errand
from .programs import Program


class Flaky(Exception):
    """The error of a failing step. Its class is found again on replay."""


class Hand(Protocol):
    """A step's access to the world: a resource, like everything that arguments can't carry."""

    async def work(self, step: StepInfo, errand: int, value: int) -> int: ...

    async def item(self, step: StepInfo, errand: int, value: int) -> int: ...

    async def state(self, step: StepInfo, errand: int, context: Context) -> int: ...

    def book(self, step: StepInfo, errand: int, value: int, connection: Any) -> int: ...

    def judging(self) -> AbstractContextManager[None]: ...


@resource
def hands() -> Iterator[Hand]:
    """Stands for the hand that each session is given. It is never opened."""
    raise NotImplementedError
    yield


async def work(errand: int, value: int) -> int:
    """The one step: the session's hand does its errand."""
    hand = hands()
    with hand.judging():
        return await hand.work(holdfast.current_step(), errand, value)


def book(connection: Any, errand: int, value: int) -> int:
    """The one transactional step."""
    hand = hands()
    with hand.judging():
        return hand.book(holdfast.current_step(), errand, value, connection)


def item_step(errand: Errand) -> Any:
    """The step for one item of a map: its only argument is the item."""

    async def item(value: int) -> int:
        hand = hands()
        with hand.judging():
            return await hand.item(holdfast.current_step(), errand.number, value)

    return make_step(item, name=errand.name, retry=POLICIES[errand.policy], timeout=errand.timeout)


def failure(errand: Errand, attempt: int) -> Exception:
    """The error that an attempt of this errand raises."""
    said = f"errand {errand.number}, attempt {attempt}"
    if errand.error == "value":
        return ValueError(said)
    if errand.error == "fatal":
        return FatalError(said)
    if errand.error == "later":
        return RetryAfter(0.7, said)
    return Flaky(said)


def step_of(errand: Errand) -> Any:
    """The step that does an errand."""
    if errand.name == "item":
        return item_step(errand)
    is_booking = errand.name == "book"
    return make_step(
        book if is_booking else work,
        name=errand.name,
        retry=POLICIES[errand.policy],
        timeout=None if is_booking else errand.timeout,
        transaction=is_booking,
    )


def machine_of(program: Program) -> Machine:
    """The program as a machine: its states take turns until there were enough."""
    assert isinstance(program.root, Do)
    errand = program.root.errand

    async def state(context: Context) -> Next | Done[int]:
        hand = hands()
        with hand.judging():
            count = await hand.state(holdfast.current_step(), errand.number, context)
        if count >= program.states:
            return Done(count)
        after = (None, None, 0.3, None, 2.0)[count % 5] if program.states <= 8 else None
        return Next("odd" if count % 2 else "even", after=after)

    retry = POLICIES[errand.policy] if errand.policy > 1 else POLICIES[2]
    return Machine(program.name, {"start": state, "odd": state, "even": state}, retry=retry)


def states_before(key: str) -> int:
    """How many states of a machine come before the one with this key: "start", "odd", "even", "odd:1", and so on."""
    name, _, number = key.partition(":")
    return 0 if name == "start" else 2 * int(number or 0) + (1 if name == "odd" else 2)
