"""holdfast.map: chunks are steps, results are in order, failures stop it or are collected."""

from __future__ import annotations

from decimal import Decimal
from functools import partial

import pytest

import holdfast
from holdfast import Failure, Retry, step, workflow
from holdfast.model import StepCompleted, StepFailed
from tests.engine.drive import CODEC


@step
async def square(n: int) -> int:
    return n * n


@step(retry=Retry(attempts=1))
def picky(n: int) -> str:
    if n == 3:
        raise ValueError("not three")
    return f"<{n}>"


def test_results_come_in_the_order_of_the_items_and_a_chunk_is_one_entry(begin):
    @workflow
    async def body() -> list[int]:
        return await holdfast.map(square, range(10), chunk=4, concurrency=2)

    drive = begin(body)
    assert drive.open == ["square.map", "square.map:1"]
    drive.complete("square.map:1")
    drive.finish()
    assert drive.asked == ["square.map", "square.map:1", "square.map:2"]
    assert drive.check().result == [n * n for n in range(10)]


def test_a_step_may_be_made_of_whatever_can_be_called(begin):
    class Adding:
        def __call__(self, n: Decimal) -> Decimal:
            return n + 1

    def times(by: int, n: Decimal) -> Decimal:
        return n * by

    adding, doubling = step(Adding()), step(partial(times, 2))

    @workflow
    async def body() -> list[Decimal]:
        return await holdfast.map(doubling, await holdfast.map(adding, [Decimal("0.5"), Decimal(1)]))

    assert begin(body).finish().check().result == [Decimal("3.0"), Decimal(4)]


def test_by_default_many_items_are_few_chunks(begin):
    @workflow
    async def body() -> int:
        return sum(await holdfast.map(square, range(5_000)))

    drive = begin(body).finish()
    assert len(drive.asked) == 200
    assert drive.result == sum(n * n for n in range(5_000))


def test_large_items_make_small_chunks(begin):
    @step
    async def size(text: str) -> int:
        return len(text)

    @workflow
    async def body() -> list[int]:
        return await holdfast.map(size, ["x" * 200_000] * 1_000, concurrency=1000)

    drive = begin(body)
    assert len(drive.asked) == 1_000


def test_chunks_of_a_size_that_was_asked_for_are_of_that_size(begin):
    @step
    async def size(text: str) -> int:
        return len(text)

    @workflow
    async def body() -> list[int]:
        return await holdfast.map(size, ["x" * 200_000] * 3, chunk=3)

    assert begin(body).asked == ["size.map"]


def test_no_chunk_has_more_than_a_thousand_items(begin, monkeypatch):
    monkeypatch.setattr("holdfast.define.maps._CHUNKS", 1)

    @workflow
    async def body() -> list[int]:
        return await holdfast.map(square, range(1_001))

    assert begin(body).asked == ["square.map", "square.map:1"]


def test_a_chunk_has_one_attempt_because_its_items_are_retried(begin):
    @workflow
    async def body() -> list[int]:
        return await holdfast.map(square, [1])

    [command] = begin(body).execution.commands.values()
    assert command.step.retry.attempts == 1


def test_the_first_failure_stops_everything(begin):
    @workflow
    async def body() -> list[str]:
        return await holdfast.map(picky, range(6), chunk=1, concurrency=6)

    drive = begin(body).finish()
    assert isinstance(drive.check().error, ValueError)


def test_failures_are_collected_in_their_places(begin):
    @workflow
    async def body() -> list[str]:
        found = await holdfast.map(picky, range(5), chunk=2, on_error="collect")
        assert found[3] == Failure("ValueError", "not three")
        return [one for one in found if one]  # type: ignore[misc]

    assert begin(body).finish().check().result == ["<0>", "<1>", "<2>", "<4>"]


def test_no_items_are_no_steps(begin):
    @workflow
    async def body() -> list[int]:
        return await holdfast.map(square, [])

    drive = begin(body)
    assert drive.check().result == []


def test_a_def_body_maps(begin):
    @workflow
    def body() -> list[int]:
        return holdfast.map(square, [1, 2])  # type: ignore[return-value]

    assert begin(body).finish().check().result == [1, 4]


@pytest.mark.parametrize("options", [{"concurrency": 0}, {"concurrency": None}, {"chunk": 0}, {"on_error": "ignore"}])
def test_invalid_options_of_a_map_are_refused_by_name(begin, options):
    @workflow
    async def body() -> str:
        try:
            await holdfast.map(square, [1], **options)
        except holdfast.DefinitionError as error:
            return str(error)
        return "no"

    assert next(iter(options)) in begin(body).result


@step(transaction=True)
def booked(db: object, n: int) -> int:
    return n


def test_a_transactional_step_is_refused_by_name(begin):
    @workflow
    async def body() -> str:
        try:
            await holdfast.map(booked, [1])
        except holdfast.DefinitionError as error:
            return str(error)
        return "no"

    assert "'booked' is transactional" in begin(body).result


@step
async def unsquare(n: int) -> None: ...


@step(compensate=unsquare)
async def squared(n: int) -> int:
    return n * n


def test_a_map_is_undone_item_by_item_last_first(begin):
    @workflow
    async def body() -> None:
        await holdfast.map(squared, [2, 3, 4], chunk=2)
        raise ValueError("no")

    drive = begin(body)
    drive.complete("squared.map")
    drive.complete("squared.map:1")
    seen = []
    while drive.ended is None:
        [command] = drive.execution.commands.values()
        seen.append(CODEC.arguments(unsquare.fn).unpack(command.args)[0])
        drive.complete(command.key)
    assert seen == [(16,), (9,), (4,)]
    drive.check()


def test_an_item_whose_failure_was_collected_is_not_undone(begin):
    @step
    async def forget(n: int | None) -> None: ...

    @step(compensate=forget)
    async def kept(n: int) -> int:
        return n

    @workflow
    async def body() -> None:
        await holdfast.map(kept, [2, 3, 4], chunk=3, on_error="collect")
        raise ValueError("no")

    drive = begin(body)
    [command] = drive.execution.commands.values()
    done = CODEC.result(command.step.fn).encode(([4, None, 16], {1: ("ValueError", "no")}))
    drive.take(StepCompleted(drive.tick(), command.key, 1, done))
    seen = []
    while drive.ended is None:
        [command] = drive.execution.commands.values()
        seen.append(CODEC.arguments(forget.fn).unpack(command.args)[0])
        drive.complete(command.key)
    assert seen == [(16,), (4,)]


def test_items_before_the_one_that_failed_are_undone(begin):
    @workflow
    async def body() -> None:
        await holdfast.map(squared, [2, 3, 4], chunk=3)

    drive = begin(body)
    [command] = drive.execution.commands.values()
    done = CODEC.result(command.step.fn).encode(([4, 9], {}))
    drive.take(StepFailed(drive.tick(), command.key, 1, CODEC.encode_exception(ValueError("no")), done))
    assert drive.open == ["unsquare"]
    drive.complete("unsquare")
    drive.complete("unsquare:1")
    assert isinstance(drive.check().error, ValueError)
