"""P4: what a body sees live is what it sees on replay, because everything passes through the codec first."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from holdfast import step, workflow
from holdfast.errors import BadArguments, NotEncodable, StepFailed
from tests.engine.drive import note
from tests.engine.samples import Declined, double, echo, refuse


class Colour(Enum):
    RED = "red"


@dataclass
class Order:
    id: int
    lines: list[str]


@step
async def keep(order: Order) -> Order:
    order.lines.append("changed by the step")
    return order


@workflow
async def bare(value: Any) -> Any:
    value = await echo(value)
    note(value)
    return value


@pytest.mark.parametrize(
    "value",
    [
        (1, (2, 3)), {1, 2}, b"\x00\xff", datetime(2024, 1, 2, tzinfo=UTC), Decimal("1.10"), UUID(int=7),
        {1: "a", 2: None}, [None, [None]], frozenset({1}), 1.5, float("inf"), 2**70, "\u0000",
        {"__type__": "tuple"}, {"$": 1}, {(1, 2): 3},
    ],
)  # fmt: skip
def test_a_bare_value_keeps_its_type_live_and_on_replay(begin, value):
    drive = begin(bare, value).finish().check()
    assert drive.result == value
    assert type(drive.result) is type(value)


@workflow
async def copies() -> list[str]:
    order = Order(1, [])
    back = await keep(order)
    note(back is order, order.lines, back.lines)
    return order.lines


def test_a_step_works_on_a_copy_of_its_arguments(begin):
    assert begin(copies).finish().check().result == []


def test_a_result_is_a_decoded_copy_too(begin):
    assert begin(copies).finish().check().notes == [(False, [], ["changed by the step"])]


def test_two_awaits_of_one_result_see_one_value(begin):
    @workflow
    async def body() -> bool:
        pending = keep.start(Order(1, []))
        first = await pending
        first.lines.append("mine")
        second = await pending
        return first is second

    assert begin(body).finish().check().result is True


def test_the_input_is_a_fresh_copy_on_every_replay(begin):
    @workflow
    async def body(order: Order) -> list[str]:
        order.lines.append("once")
        await double(1)
        note(list(order.lines))
        return order.lines

    assert begin(body, Order(1, [])).finish().check().result == ["once"]


def test_an_argument_that_the_body_changes_after_the_call_reaches_the_step_unchanged(begin):
    @workflow
    async def body() -> list[str]:
        order = Order(1, [])
        pending = keep.start(order)
        order.lines.append("too late")
        return (await pending).lines

    assert begin(body).finish().check().result == ["changed by the step"]


def test_wrong_arguments_to_a_step_are_refused_at_the_call(begin):
    @workflow
    async def body() -> str:
        try:
            await double("one")  # type: ignore[arg-type]
        except BadArguments as error:
            return str(error)
        return "asked"

    drive = begin(body)
    assert "double" in drive.result
    assert drive.asked == []


def test_an_argument_that_can_not_be_stored_is_refused_at_the_call(begin):
    @workflow
    async def body() -> str:
        try:
            await echo(object())
        except NotEncodable as error:
            return str(error)
        return "asked"

    assert "object" in begin(body).result


def test_a_workflow_result_that_can_not_be_stored_fails_the_run_with_its_type(begin):
    @workflow
    async def body() -> object:
        return {"a": [object()]}

    drive = begin(body)
    assert drive.status == "failed"
    assert "object" in str(drive.error)


@workflow
async def declined() -> list[object]:
    try:
        await refuse("visa")
    except Declined as error:
        note(type(error).__name__, error.args, error.card, error.cents, getattr(error, "__notes__", None))
        return [error.card, error.cents]
    return []


def test_an_exception_comes_back_as_its_own_class_with_its_fields(begin):
    drive = begin(declined)
    drive.fail("refuse", Declined("visa", cents=5))
    assert drive.check().result == ["visa", 5]


def test_an_exception_of_a_local_class_is_step_failed_with_its_type(begin):
    class Local(Exception):
        pass

    @workflow
    async def body() -> list[str]:
        try:
            await echo(1)
        except StepFailed as error:
            note(error.type, str(error))
            return [error.type, str(error)]
        return []

    drive = begin(body)
    drive.fail("echo", Local("lost"))
    kind, message = drive.check().result
    assert "Local" in kind
    assert "lost" in message


def test_an_exception_group_comes_back_with_its_members(begin):
    @workflow
    async def body() -> list[str]:
        try:
            await echo(1)
        except* Declined as found:
            note([one.card for one in found.exceptions])
        except* ValueError as found:
            note([str(one) for one in found.exceptions])
        return []

    drive = begin(body)
    drive.fail("echo", ExceptionGroup("both", [Declined("visa", cents=1), ValueError("bad")]))
    assert drive.check().notes == [["visa"], ["bad"]]


def test_the_notes_of_an_exception_come_back(begin):
    error = ValueError("bad")
    error.add_note("of the third kind")

    @workflow
    async def body() -> None:
        try:
            await echo(1)
        except ValueError as found:
            note(found.__notes__)

    drive = begin(body)
    drive.fail("echo", error)
    assert "of the third kind" in drive.check().notes[0]


def test_a_failure_awaited_twice_is_raised_twice(begin):
    @workflow
    async def body() -> int:
        pending, count = echo.start(1), 0
        for _ in range(2):
            try:
                await pending
            except ValueError:
                count += 1
        return count

    drive = begin(body)
    drive.fail("echo", ValueError("bad"))
    assert drive.check().result == 2


def test_a_failed_body_keeps_its_own_exception(begin):
    @workflow
    async def body() -> None:
        raise Declined("visa", cents=7)

    error = begin(body).error
    assert isinstance(error, Declined)
    assert error.cents == 7


def test_a_step_failure_that_leaves_the_body_fails_the_run_with_it(begin):
    @workflow
    async def body() -> None:
        await asyncio.gather(echo(1), echo(2))

    drive = begin(body)
    drive.fail("echo:1", Declined("visa", cents=7))
    assert isinstance(drive.check().error, Declined)


def test_a_stop_iteration_that_leaves_the_body_fails_the_run(begin):
    @workflow
    def body() -> None:
        raise StopIteration

    assert begin(body).status == "failed"


def test_an_enum_keeps_its_class_where_it_is_annotated(begin):
    @workflow
    async def body(colour: Colour) -> Colour:
        note(await double(1), colour)
        return colour

    assert begin(body, Colour.RED).finish().check().result is Colour.RED
