"""Suspects wait for each other no longer than it takes to see that the one at work is innocent; what the guilty say."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AlreadyCompensated, RunFailed, step, workflow
from holdfast.client import AsyncRun
from holdfast.model import Lane, instant_of
from tests.worker.stage import PATIENCE, Stage, stage, until

SOON = 60_000
"""Microseconds."""


async def crash(on: Stage, runs: list[AsyncRun[None]], times: int) -> None:
    """So many workers claim all that is due and die."""
    lane = Lane("body", "1")
    for n in range(times):
        await on.store.register_worker(f"dead-{n}", [lane], 1, now=on.clock.now())
        assert len(await on.store.claim_runs(f"dead-{n}", [lane], 9, now=on.clock.now())) == len(runs)
        on.skip("1s")
        await on.store.reap_workers("somebody", now=on.clock.now())


async def test_a_suspect_waits_longer_the_longer_the_one_at_work_takes(database_url):
    flying: list[str] = []
    go_on = asyncio.Event()

    @step
    async def act(name: str) -> None:
        flying.append(name)
        await go_on.wait()

    @workflow
    async def body(name: str) -> None:
        await act(name)

    async with stage(database_url) as on:
        runs = [await on.client.start(body, str(n)) for n in range(2)]
        await crash(on, runs, 2)
        async with on.worker(body):
            await until(lambda: flying)
            waiting = runs[1 - int(flying[0])]

            async def pause() -> int:
                due_at = (await on.record(waiting)).due_at
                assert due_at is not None
                return instant_of(due_at, what="due") - on.clock.now()

            first = await pause()
            on.skip("10s")
            while (later := await pause()) < SOON:
                await asyncio.sleep(0)
            go_on.set()
            on.skip("1s")
            for run in runs:
                await run.result(PATIENCE)
        assert first < SOON < later


async def test_suspects_that_wait_are_handed_back_before_anything_begins_that_could_take_the_worker_down(
    database_url, monkeypatch
):
    events: list[str] = []

    @step
    async def act(name: str) -> None:
        events.append(name)

    @workflow
    async def body(name: str) -> None:
        await act(name)

    async with stage(database_url) as on:
        suspects = [await on.client.start(body, "suspect") for _ in range(2)]
        await crash(on, suspects, 2)
        new = await on.client.start(body, "new")
        write_rows = on.store.write_rows

        async def told(writes):
            answers = await write_rows(writes)
            events.append("handed back")
            return answers

        monkeypatch.setattr(on.store, "write_rows", told)
        async with on.worker(body):
            await new.result(PATIENCE)
            assert (events[0], sorted(events[1:3])) == ("handed back", ["new", "suspect"])
            on.skip("2s")
            for run in suspects:
                await run.result(PATIENCE)


async def test_a_suspect_is_not_let_in_with_a_run_that_a_worker_has_just_died_with(database_url):
    @step
    async def act() -> None: ...

    @workflow
    async def body() -> None:
        await act()

    async with stage(database_url) as on:
        suspect = await on.client.start(body)
        await crash(on, [suspect], 1)
        other = await on.client.start(body)
        await crash(on, [suspect, other], 1)
        async with on.worker(body):
            await other.result(PATIENCE)
            on.skip("2s")
            await suspect.result(PATIENCE)
        # Claimed by both of the dead, handed back by this worker, and claimed once more: not counted again.
        assert (await on.record(suspect)).epoch > 3
        assert (await on.kinds(suspect)).count("claimed") == 2


@pytest.mark.parametrize("crashes", [2, 3])
async def test_a_run_stopped_while_it_undid_says_that_the_rest_is_to_be_undone_by_hand(database_url, crashes):
    undoing = asyncio.Event()

    @step
    async def undo(_result: None) -> None:
        undoing.set()
        await asyncio.Event().wait()

    @step(compensate=undo)
    async def act() -> None: ...

    @workflow(max_crashes=2)
    async def body() -> None:
        await act()
        raise ValueError("broken")

    async with stage(database_url) as on:
        run = await on.client.start(body)
        async with on.worker(body, grace=0):
            await undoing.wait()
        await crash(on, [run], crashes)
        async with on.worker(body):
            with pytest.raises(RunFailed, match="undo by hand what it has not undone yet"):
                await run.result(PATIENCE)
        with pytest.raises(AlreadyCompensated):
            await on.client.retry(run.id)
