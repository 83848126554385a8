"""A body that can't go on does not cost a step its result: what came for it is recorded, and waits for fixed code.

The laws: whatever ended is in the journal before the run rests as blocked; what the body asked for while it
was being stopped is not; a further try, on whichever worker, executes nothing again and writes nothing again.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from holdfast import NeverAwaited, Retry, StoreError, Worker, step, workflow
from holdfast.model import Blocked, StepAsked
from holdfast.store import SqliteStore
from tests.worker.stage import PATIENCE, stage, until

calls: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nothing_called_yet():
    calls.clear()


@step
async def charge(cents: int) -> int:
    calls["charge"] += 1
    return cents


@step
async def mail() -> str:
    calls["mail"] += 1
    return "sent"


@step(retry=Retry(attempts=1))
async def refuse() -> None:
    calls["refuse"] += 1
    raise ValueError("no")


@step(retry=Retry(attempts=2, initial="1s", jitter=0))
async def stumble() -> str:
    calls["stumble"] += 1
    if calls["stumble"] == 1:
        raise ValueError("not yet")
    return "well"


def do_io() -> None:
    """What no body may do."""
    asyncio.get_running_loop().run_in_executor(None, print)


@workflow(name="order")
async def forgets() -> str:
    await charge(1)
    mail()  # type: ignore[unused-coroutine]  # the mistake that this is about
    return "forgotten"


@workflow(name="order")
async def reaches_out() -> str:
    await charge(1)
    do_io()
    return "never"


@workflow(name="order")
async def fixed() -> str:
    cents = await charge(1)
    return f"{cents} {await mail()}"


@pytest.mark.parametrize("broken", [forgets, reaches_out])
async def test_a_step_that_ended_before_its_body_was_blocked_is_not_executed_again(database_url, broken):
    async with stage(database_url, broken) as on:
        run = await on.client.start(broken)
        await on.until_blocked(run)
        async with on.worker(broken):
            await until_tried_again(on, run)
    assert calls == {"charge": 1}


@pytest.mark.parametrize("broken", [forgets, reaches_out])
async def test_fixed_code_gets_the_result_of_the_step_that_ended_before_the_fault(database_url, broken):
    async with stage(database_url) as on:
        async with on.worker(broken):
            run = await on.client.start(broken)
            await on.until_blocked(run)
        async with on.worker(fixed):
            assert await run.result(PATIENCE) == "1 sent"
    assert calls == {"charge": 1, "mail": 1}


async def test_a_body_that_ends_before_it_takes_in_a_kept_result_is_blocked_with_a_report(database_url):
    @workflow(name="order")
    async def ends_at_once() -> None:
        charge.start(1).done()

    async with stage(database_url) as on:
        async with on.worker(reaches_out):
            run = await on.client.start(reaches_out)
            await on.until_blocked(run)
        async with on.worker(ends_at_once):
            await until_tried_again(on, run)
            blocked = await on.until_blocked(run)
    assert "holds: step_completed of 'charge', attempt 1\n  the code asked for: the end of the run" in blocked


async def test_what_a_body_asked_for_before_it_was_blocked_is_not_in_the_journal(database_url):
    @workflow
    async def body() -> None:
        await charge(1)
        mail.start()
        do_io()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_blocked(run)
        asked = [entry.key for entry in await on.entries(run) if isinstance(entry, StepAsked)]
    assert asked == ["charge"]
    assert calls == {"charge": 1}


async def test_a_further_try_of_a_blocked_run_writes_nothing(database_url):
    async with stage(database_url, forgets) as on:
        run = await on.client.start(forgets)
        await on.until_blocked(run)
        before = await on.entries(run)
        await until_tried_again(on, run)
        assert await on.entries(run) == before
    assert [entry.kind for entry in before] == ["started", "step_asked", "blocked", "step_completed"]


async def test_a_result_that_came_after_the_one_that_blocked_the_body_is_kept(database_url):
    @step
    async def first() -> None:
        calls["first"] += 1

    @workflow
    async def body() -> None:
        # The turn of `first` is under way when the other two steps end, so both results go into the next turn.
        begun = [first.start(), charge.start(1), mail.start()]
        await begun[1]
        do_io()

    async with stage(database_url, body) as on:
        run = await on.client.start(body)
        await on.until_blocked(run)
        await until_tried_again(on, run)
        blocked = next(entry for entry in await on.entries(run) if isinstance(entry, Blocked))
    assert blocked.results == 2
    assert calls == {"first": 1, "charge": 1, "mail": 1}


async def test_a_result_that_came_while_a_turn_that_can_t_be_stored_was_under_way_is_kept(database_url):
    ended, answer = asyncio.Event(), asyncio.Event()

    class Refusing(SqliteStore):
        async def commit_turns(self, turns, *, now=None):
            if answer.is_set():
                return await super().commit_turns(turns, now=now)
            ended.set()
            await answer.wait()
            return [StoreError("a number too large")] * len(turns)

    @step
    async def slow() -> None:
        await ended.wait()
        calls["slow"] += 1

    @workflow
    async def body() -> None:
        await asyncio.gather(charge(1), slow())

    store = Refusing(database_url.removeprefix("sqlite:///"), database_url, "default")
    await store.open()
    async with stage(database_url) as on:
        async with Worker(store, workflows=[body]) as worker:
            run = await on.client.start(body)
            await until(lambda: run.id in worker._session.runs.held and worker._session.runs.held[run.id].arrivals)
            answer.set()
            await on.until_blocked(run)
        async with on.worker(body):
            await run.result(PATIENCE)
    await store.close()
    assert calls == {"charge": 2, "slow": 1}


async def test_a_failure_that_came_to_a_blocked_body_is_kept(database_url):
    def made(is_fixed: bool):
        @workflow(name="refused")
        async def body() -> str:
            try:
                await refuse()
            except ValueError:
                if not is_fixed:
                    do_io()
            return "caught"

        return body

    async with stage(database_url) as on:
        async with on.worker(made(False)):
            run = await on.client.start(made(False))
            await on.until_blocked(run)
        async with on.worker(made(True)):
            assert await run.result(PATIENCE) == "caught"
    assert calls == {"refuse": 1}


async def test_an_attempt_that_failed_while_the_body_was_blocked_counts(database_url):
    def made(is_fixed: bool):
        @workflow(name="stumbles")
        async def body() -> str:
            first, failing = charge.start(1), stumble.start()
            second = mail.start()
            await second
            if not is_fixed:
                do_io()
            await first
            return await failing

        return body

    async with stage(database_url) as on:
        async with on.worker(made(False)):
            run = await on.client.start(made(False))
            await on.until_blocked(run)
            assert "step_retrying" in await on.kinds(run)
        async with on.worker(made(True)):
            await until(lambda: calls["mail"] == 1)
            on.skip("2s")
            assert await run.result(PATIENCE) == "well"
    assert calls == {"charge": 1, "mail": 1, "stumble": 2}


async def test_a_result_that_came_in_time_is_not_overtaken_by_the_timeout_that_ran_out_while_blocked(database_url):
    def made(is_fixed: bool):
        @workflow(name="races")
        async def body() -> str:
            try:
                async with asyncio.timeout(60):
                    await charge(1)
                    if not is_fixed:
                        do_io()
            except TimeoutError:
                return "too late"
            return "in time"

        return body

    async with stage(database_url) as on:
        async with on.worker(made(False)):
            run = await on.client.start(made(False))
            await on.until_blocked(run)
        on.skip("1h")
        async with on.worker(made(True)):
            assert await run.result(PATIENCE) == "in time"
    assert calls == {"charge": 1}


async def test_a_run_blocked_with_a_kept_result_is_waiting_and_says_why(database_url):
    async with stage(database_url, forgets) as on:
        run = await on.client.start(forgets)
        await on.until_blocked(run)
        record = await on.record(run)
        assert (record.status, record.owner, record.crashes) == ("waiting", None, 0)
        assert NeverAwaited.__name__ in str(await on.client.explain(run.id))


async def until_tried_again(on, run):
    """Waits until the run was tried once more: the time of its next try moves on."""
    due = (await on.record(run)).due_at

    async def is_moved() -> bool:
        on.skip("5s")
        found = await on.record(run)
        return found.owner is None and found.due_at != due

    await until(is_moved)
