"""What a step sends is written before its end is recorded, whichever end that is."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, emit, set_value, step, workflow
from holdfast.errors import StoreAway, StoreError
from holdfast.model import StepItems
from holdfast.store import SqliteStore
from tests.worker.stage import ONCE, PATIENCE, items, stage, until


@step(retry=ONCE)
async def failing() -> None:
    set_value("state", "begun")
    raise ValueError("no")


@step(retry=ONCE)
def failing_in_a_thread() -> None:
    set_value("state", "begun")
    raise ValueError("no")


@pytest.mark.parametrize("which", [failing, failing_in_a_thread])
async def test_a_value_that_the_body_sets_after_a_failed_step_is_the_last_one(file, which):
    @workflow
    async def order() -> None:
        try:
            await which.start()
        except ValueError:
            set_value("state", "failed")

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await run.result()
    async with AsyncClient(file) as client:
        # All that was sent has been written by now.
        assert await (await client.get_run(run.id)).value("state") == "failed"


async def test_a_step_may_send_to_several_streams_and_values_in_turn(file):
    @step
    async def tell() -> None:
        emit("log", 1)
        emit("words", 2)
        emit("log", 3)
        set_value("log", 4)
        emit("log", 5)

    @workflow
    async def order() -> None:
        await tell()

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await run.result()
        assert [found[0] for found in await items(run, "log")] == [1, 3, 5]
        assert [found[0] for found in await items(run, "words")] == [2]
        assert await run.value("log") == 4


async def test_steps_of_several_runs_that_send_at_once_send_to_their_own_run(file):
    begun: list[int] = []
    all_have = asyncio.Event()

    @step
    async def tell(n: int) -> None:
        begun.append(n)
        if len(begun) == 2:
            all_have.set()
        await all_have.wait()
        emit("log", n)

    @workflow
    async def order(n: int) -> None:
        await tell(n)

    async with stage(file, order) as s:
        runs = [await s.client.start(order, n) for n in (1, 2)]
        for run in runs:
            await run.result()
        assert [[found[0] for found in await items(run, "log")] for run in runs] == [[1], [2]]


async def test_a_value_is_sent_again_when_the_store_is_back_and_one_that_can_never_be_kept_is_dropped_alone(
    file, monkeypatch, caplog
):
    monkeypatch.setattr("holdfast.worker.outbox._PAUSE", 0)
    tried: list[str] = []

    @step
    async def tell() -> None:
        for name in ("odd", "away", "last"):
            set_value(name, name)

    @workflow
    async def order() -> None:
        await tell()

    async with stage(file, order) as s:
        kept = s.store.set_value

        async def set_some(run_id: str, name: str, value: bytes, **given: Any) -> None:
            tried.append(name)
            if name == "odd":
                raise StoreError("no such text")
            if tried.count("away") == 1 and name == "away":
                raise StoreAway("not now")
            await kept(run_id, name, value, **given)

        monkeypatch.setattr(s.store, "set_value", set_some)
        run = await s.client.start(order)
        await run.result()
        assert [await run.value(name, default=None) for name in ("odd", "away", "last")] == [None, "away", "last"]
    assert tried == ["odd", "away", "away", "last"]
    assert "what its step sent as 'odd' could not be kept: no such text" in caplog.text


async def test_a_step_does_not_wait_for_what_others_send_meanwhile(file):
    is_told, is_over = asyncio.Event(), asyncio.Event()

    @step
    async def chatter() -> None:
        while not is_over.is_set():
            emit("log", "and")
            is_told.set()
            await asyncio.sleep(0)

    @step
    async def brief() -> None:
        await is_told.wait()
        set_value("state", "brief")

    @step
    async def hush() -> None:
        is_over.set()

    @workflow
    async def order() -> None:
        talking = chatter.start()
        await brief()
        await hush()
        await talking

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await run.result(PATIENCE)
        assert await run.value("state") == "brief"


async def test_items_sent_by_a_step_after_its_run_gave_it_up_are_dropped(file):
    """The run was claimed again since: sent under that claim the items would make followers start over."""
    may_end, has_ended = asyncio.Event(), asyncio.Event()

    @step
    async def slow() -> None:
        emit("log", "first")
        try:
            await asyncio.Event().wait()
        finally:
            await may_end.wait()
            emit("log", "late")
            set_value("state", "late")
            has_ended.set()

    @step
    async def last() -> None:
        may_end.set()
        await has_ended.wait()
        emit("log", "last")

    @workflow
    async def order() -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(60):
                await slow()
        await holdfast.sleep("1h")
        await last()

    async with stage(file, order) as s:
        run = await s.client.start(order)

        async def is_over() -> bool:
            s.skip("1h")
            return (await s.record(run)).status.is_final

        await until(is_over)
        assert await items(run, "log") == [("first", "slow", 1, False), ("last", "last", 1, False)]
        assert await run.values() == []


@pytest.mark.parametrize(
    ("count", "size", "most"), [(2_500, 1, 1_000), (5, 600_000, 1), (3, 2_000_000, 1)], ids=["many", "long", "longest"]
)
async def test_a_flood_of_items_is_sent_in_writes_of_bounded_size(file, monkeypatch, count, size, most):
    sizes: list[int] = []
    append_items = SqliteStore.append_items

    async def counted(self: SqliteStore, sent: StepItems, *, now: int | None = None) -> None:
        sizes.append(len(sent.payloads))
        await append_items(self, sent, now=now)

    monkeypatch.setattr(SqliteStore, "append_items", counted)

    @step
    async def flood() -> None:
        for number in range(count):
            emit("rows", f"{number}:{'x' * size}")

    @workflow
    async def order() -> None:
        await flood()

    async with stage(file, order) as s:
        run = await s.client.start(order)
        await run.result()
        found = [int(str(item.value).partition(":")[0]) async for item in run.stream("rows")]
    assert found == [*range(count)]
    assert max(sizes) == most
