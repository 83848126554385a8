"""Suspects begin one at a time, so that a crash shows which of them caused it; the error of a stopped run."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import AlreadyCompensated, RunFailed, step, wait_for_signal, workflow
from holdfast.client import AsyncRun
from holdfast.model import Lane
from tests.worker.stage import PATIENCE, Stage, StandingClock, stage, until


async def crash(on: Stage, runs: list[AsyncRun[None]], times: int) -> None:
    """So many workers claim all that is due and die."""
    lane = Lane("body", "1")
    for n in range(times):
        await on.store.register_worker(f"dead-{n}", [lane], 1, now=on.clock.now())
        assert len(await on.store.claim_runs(f"dead-{n}", [lane], 9, now=on.clock.now())) == len(runs)
        on.skip("1s")
        await on.store.reap_workers("somebody", now=on.clock.now())


async def test_suspects_that_wait_are_not_even_claimed(database_url):
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
        runs = [await on.client.start(body, str(n)) for n in range(3)]
        await crash(on, runs, 2)
        async with on.worker(body):
            await until(lambda: flying)
            waiting = [run for run in runs if run is not runs[int(flying[0])]]
            for _ in range(3):
                on.skip("10s")
                innocent = await on.client.start(body, "innocent")
                await until(lambda: flying[-1] == "innocent")
                flying.pop()
                await innocent.cancel(force=True)
            # By each of the dead, and by nobody else since: no worker that dies now has died with them.
            assert [(await on.record(run)).epoch for run in waiting] == [2, 2]
            assert len(flying) == 1
            go_on.set()
            for run in runs:
                await run.result(PATIENCE)
        assert [(await on.record(run)).epoch for run in waiting] == [3, 3]


async def test_a_suspect_is_not_let_in_with_a_run_that_a_worker_has_just_died_with(database_url):
    begun: list[str] = []
    go_on = asyncio.Event()

    @step
    async def act(name: str) -> None:
        begun.append(name)
        await go_on.wait()

    @workflow
    async def body(name: str) -> None:
        await act(name)

    # However long all this takes: it is less than a second since the worker died.
    async with stage(database_url, clock=StandingClock()) as on:
        suspect = await on.client.start(body, "suspect")
        await crash(on, [suspect], 1)
        other = await on.client.start(body, "other")
        await crash(on, [suspect, other], 1)
        async with on.worker(body):
            await until(lambda: begun)
            innocent = await on.client.start(body, "innocent")
            await until(lambda: len(begun) == 2)
            assert begun == ["other", "innocent"]
            # The step takes long, which is not suspicious: the next suspect need not wait for its end.
            on.skip("2s")
            await until(lambda: len(begun) == 3)
            go_on.set()
            for run in (other, innocent, suspect):
                await run.result(PATIENCE)
        assert (await on.record(suspect)).epoch == 3


async def test_a_suspect_that_waits_for_a_message_lets_the_next_one_in(database_url):
    @workflow
    async def body(name: str) -> str:
        await wait_for_signal("go")
        return name

    async with stage(database_url) as on:
        runs = [await on.client.start(body, name) for name in ("first", "next")]
        await crash(on, runs, 2)
        async with on.worker(body):
            for run in runs:
                await on.until_waiting(run)
            # Both wait in the store: the second was let in when the first was seen only to wait.
            assert [(await on.record(run)).owner is None for run in runs] == [True, True]
            for run in runs:
                await run.signal("go")
            assert [await run.result(PATIENCE) for run in runs] == ["first", "next"]


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
