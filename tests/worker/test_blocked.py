"""Blocked runs: intact, out of everybody's way, tried again, and gone on with by code that fits."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import (
    AsyncClient,
    IOInBody,
    NotDecodable,
    RunCancelled,
    StoreError,
    Worker,
    compensate,
    sleep,
    step,
    workflow,
)
from holdfast.client import AsyncRun
from holdfast.define import Workflow
from holdfast.store import SqliteStore
from tests.worker.samples import add, ready
from tests.worker.stage import PATIENCE, Stage, stage, until


@pytest.fixture
def order():
    """A workflow, and a changed one of its name, which does not match its journals."""

    @workflow(name="order")
    async def right() -> int:
        n = await add(1, 1)
        await sleep("30d")
        return n

    @workflow(name="order")
    async def wrong() -> int:
        n = await add(2, 2)
        await sleep("30d")
        return n

    return right, wrong


async def slept(on: Stage, body: Workflow[[], Any]) -> AsyncRun[Any]:
    """A run of the workflow that is past its sleep and whose worker has left."""
    run = await on.client.start(body)
    async with on.worker(body):
        await on.until_waiting(run)
    on.skip("31d")
    return run


async def mended(url: str, broken: Workflow[[], int]) -> str:
    """Why a run of it is blocked. It is intact: with its code mended it goes on."""

    @workflow(name=broken.name)
    async def fixed() -> int:
        return await add(1, 1)

    async with stage(url) as on:
        run = await on.client.start(broken)
        async with on.worker(broken):
            report = await on.until_blocked(run)
            assert (await on.record(run)).status == "waiting"
        async with on.worker(fixed):
            assert await run.result(PATIENCE) == 2
    return report


async def test_a_blocked_run_goes_on_at_once_when_a_worker_with_the_right_code_starts(database_url, order):
    """The clock is not moved: the run does not wait for its next try."""
    right, wrong = order
    async with stage(database_url) as on:
        run = await slept(on, right)
        async with on.worker(wrong):
            await on.until_blocked(run)
        skipped = on.clock.skipped
        async with on.worker(right):
            assert await run.result(PATIENCE) == 2
        assert on.clock.skipped == skipped


async def test_a_run_that_went_on_is_blocked_no_more(database_url, order):
    right, wrong = order
    async with stage(database_url) as on:
        run = await slept(on, right)
        async with on.worker(wrong):
            await on.until_blocked(run)
        async with on.worker(right):
            await run.result(PATIENCE)
        assert (await on.record(run)).blocked is None


async def test_a_blocked_runs_journal_is_as_it_was(database_url, order):
    right, wrong = order
    async with stage(database_url) as on:
        run = await slept(on, right)
        before = await on.store.read_journal(run.id)
        async with on.worker(wrong):
            await on.until_blocked(run)
        assert await on.store.read_journal(run.id) == before


async def test_a_blocked_run_is_tried_less_and_less_often(database_url, order):
    right, wrong = order
    async with stage(database_url) as on:
        run = await slept(on, right)
        pauses = []
        async with on.worker(wrong):
            await on.until_blocked(run)
            for _ in range(3):
                record = await on.record(run)
                assert record.due_at is not None
                pauses.append(record.due_at.timestamp() - on.clock.now() / 1_000_000)
                epoch = record.epoch
                on.skip(pauses[-1] + 0.01)

                async def is_tried_again(epoch=epoch) -> bool:
                    record = await on.record(run)
                    return record.epoch > epoch and record.owner is None

                await until(is_tried_again)
        assert pauses[0] < pauses[1] < pauses[2]


async def test_a_run_that_made_progress_elsewhere_and_is_blocked_again_is_logged_again(database_url, caplog):
    @workflow
    async def body() -> None:
        add(1, 1)

    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body):
            await on.until_blocked(run)
            with sqlite3.connect(database_url.removeprefix("sqlite:///")) as file:
                # As if somebody else had gone on with it and given it back.
                file.execute("UPDATE runs SET blocked = NULL, due_at = ?", (on.clock.now(),))
            file.close()
            await on.until_blocked(run)
        assert caplog.text.count("is blocked") == 2


async def test_a_worker_remembers_a_bounded_number_of_blocked_runs(database_url, monkeypatch):
    monkeypatch.setattr("holdfast.worker.waits.REMEMBERED", 3)

    @workflow
    async def body() -> None:
        add(1, 1)

    async with stage(database_url) as on:
        runs = await on.client.start_many(body, [()] * 5)
        async with on.worker(body) as worker:
            for run in runs:
                await on.until_blocked(run)
            assert worker._session is not None
            assert len(worker._session.runs._block_counts) == 3


async def test_a_blocked_run_does_not_hold_up_others(database_url):
    @workflow
    async def forgetful() -> None:
        add(1, 1)

    async with stage(database_url, forgetful, ready, concurrency=1) as on:
        await on.client.start_many(forgetful, [()] * 3)
        assert await (await on.client.start(ready)).result(PATIENCE) == "ready"


async def test_a_cancel_that_came_while_the_run_was_blocked_is_not_lost(database_url, order):
    right, wrong = order
    async with stage(database_url) as on:
        run = await on.client.start(right)
        async with on.worker(right):
            await on.until_waiting(run)
        await run.cancel()
        async with on.worker(wrong):
            await on.until_blocked(run)
        async with on.worker(right):
            with pytest.raises(RunCancelled):
                await run.result(PATIENCE)


async def test_a_step_result_that_no_longer_fits_its_type_blocks_the_run(database_url):
    @step(name="ask")
    async def ask_text() -> str:
        return "text"

    @step(name="ask")
    async def ask_number() -> int:
        return 5

    @workflow(name="order")
    async def before() -> str:
        found = await ask_text()
        await sleep("30d")
        return found

    @workflow(name="order")
    async def after() -> str:
        found = await ask_number()
        await sleep("30d")
        return str(found)

    async with stage(database_url) as on:
        run = await slept(on, before)
        async with on.worker(after):
            assert NotDecodable.__name__ in await on.until_blocked(run)
        async with on.worker(before):
            assert await run.result(PATIENCE) == "text"


async def test_io_in_a_body_blocks_the_run_and_leaves_it_intact(database_url):
    @workflow(name="order")
    async def broken() -> int:
        n = await add(1, 1)
        await asyncio.to_thread(print, n)
        return n

    assert "move this into a step" in await mended(database_url, broken)


async def test_a_client_in_a_body_blocks_the_run_and_leaves_it_intact(database_url):
    @workflow(name="order")
    async def broken() -> int:
        n = await add(1, 1)
        compensate(add, 2, 2)
        await AsyncClient(database_url).signal("another", "go")
        return n

    assert "holdfast.signal" in await mended(database_url, broken)


async def test_a_body_that_catches_the_refusal_of_a_client_may_go_on(database_url):
    @workflow
    async def careful() -> str:
        with pytest.raises(IOInBody):
            await AsyncClient(database_url).signal("another", "go")
        return "went on"

    async with stage(database_url, careful) as on:
        assert await (await on.client.start(careful)).result(PATIENCE) == "went on"


async def test_changed_code_blocks_the_run_and_fixed_code_goes_on(database_url):
    @workflow(name="order")
    async def before() -> int:
        n = await add(1, 1)
        await sleep("1h")
        return n

    @workflow(name="order")
    async def changed() -> int:
        n = await add(2, 2)
        await sleep("1h")
        return n

    async with stage(database_url) as on:
        run = await on.client.start(before)
        async with on.worker(before):
            await on.until_waiting(run)
        on.skip("2h")
        async with on.worker(changed):
            assert "does not match its journal" in await on.until_blocked(run)
            assert (await on.record(run)).status == "waiting"
        async with on.worker(before):
            assert await run.result(PATIENCE) == 2


async def test_a_blocked_run_is_tried_again_by_itself(database_url):
    """The tries come with backoff: nobody has to start a worker for them."""
    lives: list[int] = []

    @workflow
    async def body() -> str:
        lives.append(1)
        if len(lives) == 1:
            add.start(1, 1)
        return "done"

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_blocked(run)

        async def is_ended() -> bool:
            on.skip("1h")
            return (await on.record(run)).status.is_final

        await until(is_ended)
        assert await run.result(PATIENCE) == "done"


async def test_a_blocked_run_counts_neither_as_an_error_nor_as_a_crash(database_url):
    tries: list[int] = []

    @workflow(max_crashes=1)
    async def body() -> None:
        tries.append(1)
        add.start(1, 1)

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        for so_often in range(1, 6):
            await until(lambda so_often=so_often: len(tries) >= so_often)
            await on.until_blocked(run)
            on.skip("1d")
        record = await on.record(run)
    assert (record.status.is_final, record.crashes) == (False, 0)


async def test_an_input_that_no_longer_fits_blocks_the_run(database_url):
    @workflow(name="order")
    async def before(n: int) -> None: ...

    @workflow(name="order")
    async def after(n: dict[str, int]) -> None: ...

    async with stage(database_url) as on:
        run = await on.client.start(before, 1)
        async with on.worker(after):
            await on.until_blocked(run)
            assert (await on.record(run)).status == "waiting"
        async with on.worker(before):
            assert await run.wait(PATIENCE) == "completed"


async def test_a_reason_that_can_not_be_encoded_as_text_is_written_escaped(database_url):
    """The reason comes from a user's class and may contain any text."""
    is_strict: list[int] = []

    @dataclass
    class Order:
        number: int

        def __post_init__(self) -> None:
            if is_strict:
                raise ValueError("not \ud800")

    async def body(order) -> int:
        return order.number

    body.__annotations__["order"] = Order
    checked = workflow(body)
    async with stage(database_url) as on:
        run = await on.client.start(checked, Order(1))
        is_strict.append(1)
        async with on.worker(checked):
            assert "not \\ud800" in await on.until_blocked(run)


async def test_a_row_that_can_t_be_stored_blocks_its_run_with_that_error(database_url):
    class Refusing(SqliteStore):
        async def write_rows(self, writes):
            answers = await super().write_rows([one for one in writes if one.change.blocked])
            return [answers.pop(0) if one.change.blocked else StoreError("a number too large") for one in writes]

    @workflow
    async def waits() -> None:
        await sleep("1h")

    store = Refusing(database_url.removeprefix("sqlite:///"), database_url, "default")
    await store.open()
    async with stage(database_url) as on, Worker(store, workflows=[waits]):
        run = await on.client.start(waits)
        assert "a number too large" in await on.until_blocked(run)
    await store.close()
