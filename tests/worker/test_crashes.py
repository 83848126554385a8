"""Crashes: counted apart from errors, stopped after a set number without progress, and found one suspect at a time."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Retry, RunCrashed, RunFailed, current_step, sleep, step, workflow
from holdfast.client import AsyncRun
from holdfast.model import Lane
from tests.worker.stage import PATIENCE, Stage, stage, until


async def crash(on: Stage, run: AsyncRun[object], times: int) -> None:
    """So many workers claim the run and die."""
    lane = Lane((await on.record(run)).workflow, "1")
    for n in range(times):
        await on.store.register_worker(f"dead-{n}", [lane], 1, now=on.clock.now())
        assert await on.store.claim_runs(f"dead-{n}", [lane], 1, run_id=run.id, now=on.clock.now())
        on.skip("1s")
        await on.store.reap_workers("somebody", now=on.clock.now())


@pytest.fixture
def executed() -> list[int]:
    return []


@pytest.fixture
def body(executed):
    @step
    async def act() -> int:
        executed.append(current_step().attempt)
        return current_step().attempt

    @workflow(max_crashes=2)
    async def body() -> int:
        return await act()

    return body


async def test_a_run_that_crashed_too_many_workers_is_stopped_with_a_clear_error(database_url, body, executed):
    async with stage(database_url) as on:
        run = await on.client.start(body)
        await crash(on, run, 2)
        async with on.worker(body):
            with pytest.raises(RunFailed) as caught:
                await run.result(PATIENCE)
    assert isinstance(caught.value.__cause__, RunCrashed)
    assert "claimed 2 times by workers that died before it got on; its max_crashes is 2" in str(caught.value.__cause__)
    assert executed == []


async def test_a_run_with_fewer_crashes_than_stop_it_goes_on(database_url, body, executed):
    async with stage(database_url) as on:
        run = await on.client.start(body)
        await crash(on, run, 1)
        async with on.worker(body):
            assert await run.result(PATIENCE) == 1
        # The first claim counts no crash: the run had not begun.
        assert (await on.kinds(run)).count("claimed") == 1


async def test_a_run_that_is_only_found_waiting_is_not_stopped(database_url):
    @workflow(max_crashes=1)
    async def patient() -> str:
        await sleep("1d")
        return "done"

    async with stage(database_url) as on:
        run = await on.client.start(patient)
        await crash(on, run, 1)
        async with on.worker(patient):
            await on.until_waiting(run)
            on.skip("25h")
            assert await run.result(PATIENCE) == "done"


async def test_a_body_that_crashed_too_many_workers_by_itself_is_not_begun_again(database_url):
    """Only a try shows that the body is to blame: one crash more than with a step, and no further one."""
    begun: list[str] = []

    @workflow(max_crashes=1)
    async def heavy() -> None:
        begun.append("body")

    async with stage(database_url) as on:
        run = await on.client.start(heavy)
        await crash(on, run, 2)
        async with on.worker(heavy):
            with pytest.raises(RunFailed, match="its max_crashes is 1"):
                await run.result(PATIENCE)
    assert begun == []


async def test_crashes_use_up_no_attempts_of_a_step(database_url):
    @step(retry=Retry(attempts=2, initial="1ms"))
    async def shaky() -> int:
        if current_step().attempt == 1:
            raise ConnectionError
        return current_step().attempt

    @workflow
    async def body() -> int:
        return await shaky()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await crash(on, run, 3)
        async with on.worker(body):
            assert await run.result(PATIENCE) == 2


async def test_errors_are_no_crashes(database_url):
    @step(retry=Retry(attempts=5, initial="1ms"))
    async def shaky() -> int:
        if current_step().attempt < 5:
            raise ConnectionError
        return current_step().attempt

    @workflow(max_crashes=1)
    async def body() -> int:
        return await shaky()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        assert await run.result(PATIENCE) == 5
        assert (await on.record(run)).crashes == 0


async def test_an_accepted_turn_makes_up_for_the_crashes_before_it(database_url):
    go_on, begun = asyncio.Event(), asyncio.Event()

    @step
    async def first() -> None: ...

    @step
    async def second() -> None:
        begun.set()
        await go_on.wait()

    @workflow(max_crashes=2)
    async def body() -> None:
        await first()
        await second()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await crash(on, run, 1)
        async with on.worker(body, grace=0):
            await begun.wait()
            assert (await on.record(run)).crashes == 0
        await crash(on, run, 1)
        go_on.set()
        async with on.worker(body):
            await run.result(PATIENCE)


async def test_a_worker_executes_one_suspect_at_a_time(database_url):
    flying: list[str] = []
    go_on = asyncio.Event()

    @step
    async def act(name: str) -> None:
        flying.append(name)
        await go_on.wait()
        flying.remove(name)

    @workflow
    async def body(name: str) -> None:
        await act(name)

    async with stage(database_url) as on:
        suspects = [await on.client.start(body, f"suspect {n}") for n in range(2)]
        for run in suspects:
            await crash(on, run, 2)
        async with on.worker(body):
            await until(lambda: flying)
            innocent = await on.client.start(body, "innocent")
            await until(lambda: "innocent" in flying)
            assert len(flying) == 2
            go_on.set()
            await innocent.result(PATIENCE)
            on.skip("2s")
            for run in suspects:
                await run.result(PATIENCE)


async def test_a_suspect_that_made_progress_lets_the_next_one_begin(database_url):
    flying: list[str] = []
    go_on = asyncio.Event()

    @step
    async def prepare() -> None:
        pass

    @step
    async def act(name: str) -> None:
        flying.append(name)
        await go_on.wait()

    @workflow
    async def body(name: str) -> None:
        await prepare()
        await act(name)

    async with stage(database_url) as on:
        suspects = [await on.client.start(body, name) for name in ("first", "next")]
        for run in suspects:
            await crash(on, run, 2)
        async with on.worker(body):
            await until(lambda: sorted(flying) == ["first", "next"])
            go_on.set()
            for run in suspects:
                await run.result(PATIENCE)


async def test_a_heartbeat_makes_up_for_a_crash_also_in_a_run_that_is_handed_back(database_url):
    @step
    async def act() -> None:
        current_step().heartbeat()
        await asyncio.Event().wait()

    @workflow
    async def body() -> None:
        await act()

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await crash(on, run, 1)
        async with on.worker(body, grace="0s"):
            await until(lambda: _is_cleared(on, run))
        assert (await on.record(run)).crashes == 0


async def _is_cleared(on: Stage, run: AsyncRun[object]) -> bool:
    record = await on.record(run)
    return record.owner is not None and record.started_at is not None and record.crashes == 0


async def test_a_run_that_is_blocked_keeps_its_crashes(database_url):
    @step
    async def act() -> None:
        pass

    @workflow
    async def forgetful() -> None:
        act()

    async with stage(database_url) as on:
        run = await on.client.start(forgetful)
        await crash(on, run, 1)
        async with on.worker(forgetful):
            await on.until_blocked(run)
        assert (await on.record(run)).crashes == 1


async def test_a_step_that_ended_makes_up_for_crashes_although_its_body_was_blocked(database_url, executed):
    @step
    async def act() -> None:
        executed.append(1)

    @workflow
    async def forgetful() -> None:
        await act()
        act()

    async with stage(database_url) as on:
        run = await on.client.start(forgetful)
        await crash(on, run, 1)
        async with on.worker(forgetful):
            await on.until_blocked(run)
        assert (executed, (await on.record(run)).crashes) == ([1], 0)


async def test_runs_with_one_crash_go_on_side_by_side(database_url):
    """Each run that a killed worker had in flight gets one crash, which says nothing about any of them."""
    flying: list[str] = []
    go_on = asyncio.Event()

    @step
    async def act(name: str) -> str:
        flying.append(name)
        await go_on.wait()
        return name

    @workflow
    async def body(name: str) -> str:
        return await act(name)

    names = [f"run {n}" for n in range(5)]
    async with stage(database_url) as on:
        runs = [await on.client.start(body, name) for name in names]
        for run in runs:
            await crash(on, run, 1)
        async with on.worker(body):
            await until(lambda: len(flying) == 5)
            assert sorted(flying) == names
            go_on.set()
            assert [await run.result(PATIENCE) for run in runs] == names


async def test_a_stopped_run_can_be_retried_once_its_code_is_mended(database_url, body, executed):
    async with stage(database_url) as on:
        run = await on.client.start(body)
        await crash(on, run, 3)
        async with on.worker(body):
            with pytest.raises(RunFailed):
                await run.result(PATIENCE)
            again = await on.client.retry(run.id)
            assert await again.result(PATIENCE) == 1
    assert executed == [1]


async def test_a_run_that_waits_in_its_first_turn_counts_no_crash_at_a_takeover(database_url):
    @workflow
    async def body() -> str:
        await sleep("9s")
        return "woke"

    async with stage(database_url) as on:
        run = await on.client.start(body)
        await on.store.register_worker("dead", [Lane("body", "1")], 1, now=on.clock.now())
        await on.store.claim_runs("dead", [Lane("body", "1")], 1, now=on.clock.now())
        await on.store.reap_workers("somebody", now=on.clock.now() + 2)
        async with on.worker(body):
            await on.until_waiting(run)
            assert (await on.record(run)).crashes == 0


async def test_a_suspect_that_sends_a_heartbeat_lets_the_next_one_begin(database_url):
    begun: list[int] = []
    done = asyncio.Event()

    @step
    async def beating(number: int) -> None:
        begun.append(number)
        current_step().heartbeat()
        await done.wait()

    @workflow
    async def lively(number: int) -> None:
        await beating(number)

    async with stage(database_url) as on:
        runs = [await on.client.start(lively, number) for number in (1, 2)]
        for run in runs:
            await crash(on, run, 2)

        def have_begun() -> bool:
            on.skip("2s")
            return len(begun) == 2

        async with on.worker(lively):
            await until(have_begun)
            done.set()
            for run in runs:
                await run.result(PATIENCE)
