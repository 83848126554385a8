"""Exceptions whose own `__str__` raises: whoever wants to say what went wrong must not fail by that."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Failure, Retry, RunFailed, StepFailed, step, workflow
from holdfast.testing import Environment, replay

undone: list[str] = []


class Mute(Exception):
    def __str__(self) -> str:
        raise AttributeError("response")


class MuteStop(BaseException):
    def __str__(self) -> str:
        raise AttributeError("response")


@step(retry=Retry(attempts=1))
async def undo(what: str) -> None:
    undone.append(what)
    if what == "hotel":
        raise Mute


@step
async def stop() -> None:
    raise MuteStop


@step(retry=Retry(attempts=1))
async def mute(n: int) -> int:
    if n == 1:
        raise Mute
    return n


@workflow
async def mapped() -> list[str]:
    found = await holdfast.map(mute, range(3), on_error="collect")
    return [one.message if isinstance(one, Failure) else str(one) for one in found]


@workflow
async def trip() -> None:
    for what in ("flight", "hotel", "car"):
        holdfast.compensate(undo, what)
    raise Mute


@workflow
async def stopped() -> str:
    try:
        await stop()
    except StepFailed as error:
        return str(error)
    return "went on"


async def test_a_compensation_that_fails_with_an_unprintable_error_does_not_keep_the_others_from_being_called():
    undone.clear()
    async with Environment([trip]) as env:
        await (await env.client.start(trip)).wait()
        assert undone == ["car", "hotel", "flight"]


async def test_a_run_that_fails_with_an_unprintable_error_names_its_class():
    async with Environment([trip]) as env:
        run = await env.client.start(trip)
        with pytest.raises(RunFailed, match="Mute without a printable message") as failed:
            await run.result()
        assert type(failed.value.__cause__) is Mute
        assert "Mute without a printable message" in str(await env.client.explain(run.id))


async def test_a_step_that_raises_an_unprintable_base_exception_fails():
    async with Environment([stopped]) as env:
        told = await (await env.client.start(stopped)).result()
        assert told == "<MuteStop without a printable message>"


async def test_an_item_of_a_map_that_fails_with_an_unprintable_error_is_collected_like_others():
    async with Environment([mapped]) as env:
        found = await (await env.client.start(mapped)).result()
        assert found == ["0", "<Mute without a printable message>", "2"]


async def test_the_journal_of_a_run_that_failed_with_an_unprintable_error_is_replayed():
    async with Environment([trip]) as env:
        run = await env.client.start(trip)
        await run.wait()
        assert replay(await env.client.journal(run.id), trip).status == "failed"
