"""Forks: new runs that go on from another one's history, which stays as it was."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast import (
    AsyncClient,
    AsyncRun,
    DefinitionError,
    Retry,
    RunFilter,
    RunStatus,
    Worker,
    step,
    workflow,
)
from holdfast.testing import Environment, takes
from tests.life.doors import enter, is_open, knocking, leave, prepare
from tests.life.waiting import kinds


@workflow
async def drawing() -> list[Any]:
    first = str(holdfast.uuid4())
    await prepare(1)
    return [first, str(holdfast.uuid4()), holdfast.rng().random()]


@workflow
async def keyed() -> list[str]:
    return [await key_of(1), await key_of(2)]


@step
async def key_of(n: int) -> str:
    return holdfast.current_step().idempotency_key


@pytest.fixture(autouse=True)
def shut():
    is_open["door"] = False


async def test_a_fork_asks_for_its_step_anew():
    async with Environment(knocking) as env:
        is_open["door"] = True
        run = await env.client.start(knocking, 1)
        assert await run.result() == "in 2, out"
        fork = await env.client.fork(run.id, at="enter")
        assert await fork.result() == "in 2, out"
        assert (len(env.calls(prepare)), len(env.calls(enter)), len(env.calls(leave))) == (1, 2, 2)


async def test_a_fork_with_a_result_goes_on_as_if_the_step_had_come_to_it():
    async with Environment(knocking) as env:
        run = await env.client.start(knocking, 1)
        await run.wait()
        fork = await env.client.fork(run.id, at="enter", result="through the window")
        assert await fork.result() == "through the window, out"


async def test_a_fork_with_other_input_begins_at_the_start():
    async with Environment(knocking) as env:
        is_open["door"] = True
        run = await env.client.start(knocking, 1)
        await run.result()
        fork = await env.client.fork(run.id, input=(7,))
        assert await fork.result() == "in 8, out"


async def test_a_live_run_may_be_forked_and_goes_on():
    @workflow
    async def waits() -> list[Any]:
        first = await prepare(1)
        return [first, await holdfast.wait_for_signal("go")]

    async with Environment(waits) as env:
        run = await env.client.start(waits)
        await env.until_waiting(run)
        fork = await env.client.fork(run.id, at="prepare", result=50)
        await run.signal("go", "old")
        await fork.signal("go", "new")
        assert [await run.result(), await fork.result()] == [[2, "old"], [50, "new"]]


async def test_a_fork_at_a_step_that_is_not_there_is_refused():
    async with Environment(knocking) as env:
        run = await env.client.start(knocking, 1)
        await run.wait()
        with pytest.raises(holdfast.HoldfastError, match="nonsense"):
            await env.client.fork(run.id, at="nonsense")


async def test_a_fork_changes_the_idempotency_keys_of_steps():
    async with Environment(keyed) as env:
        run = await env.client.start(keyed)
        first, second = await run.result()
        fork = await env.client.fork(run.id, at="key_of:1")
        same, other = await fork.result()
        assert same == first
        assert other != second


async def test_a_fork_draws_the_same_random_numbers_before_its_cut():
    async with Environment(drawing) as env:
        run = await env.client.start(drawing)
        before, *_ = await run.result()
        fork = await env.client.fork(run.id, at="prepare")
        assert (await fork.result())[0] == before


@pytest.mark.parametrize("result", [{}, {"result": 7}])
async def test_a_fork_draws_other_random_numbers_behind_its_cut(result):
    async with Environment(drawing) as env:
        run = await env.client.start(drawing)
        _, *behind = await run.result()
        fork = await env.client.fork(run.id, at="prepare", **result)
        first = await fork.result()
        other = await (await env.client.fork(fork.id, at="prepare", **result)).result()
        assert first[0] == other[0]
        assert len({*behind, *first[1:], *other[1:]}) == 6


async def test_steps_before_the_one_forked_at_keep_their_results():
    @workflow
    async def together() -> list[str]:
        first = await prepare(1)
        holding = holdfast.rng()
        asked = [leave.start(str(holding.random())), leave.start(str(holding.random()))]
        return [str(first), *[await one for one in asked], str(holding.random())]

    async with Environment(together) as env:
        run = await env.client.start(together)
        before = await run.result()
        for result in ({}, {"result": before[2]}):
            after = await (await env.client.fork(run.id, at="leave:1", **result)).result()
            assert (after[:3], after[3] == before[3]) == (before[:3], False)


async def test_the_hooks_of_a_fork_have_tokens_of_their_own():
    tokens: list[str] = []

    @step
    async def tell(token: str) -> None:
        tokens.append(token)

    @workflow
    async def asking() -> Any:
        await prepare(1)
        hook = holdfast.hook(name="answer")
        await tell(hook.token)
        return await hook.wait()

    async with Environment(asking) as env:
        run = await env.client.start(asking)
        await env.until_waiting(run)
        fork = await env.client.fork(run.id, at="prepare")
        await env.until_waiting(fork)
        await env.client.resume_hook(tokens[1], "to the fork")
        await env.client.resume_hook(tokens[0], "to the run")
        assert [await run.result(), await fork.result()] == ["to the run", "to the fork"]


@pytest.mark.parametrize("at", ["tell", "tell:1"])
async def test_a_hook_that_is_open_at_the_cut_has_a_token_of_its_own_in_the_fork(at):
    tokens: list[str] = []

    @step
    async def tell(token: str) -> None:
        tokens.append(token)

    @workflow
    async def asking() -> Any:
        hook = holdfast.hook(name="answer")
        await tell(hook.token)
        await tell(hook.token)
        return await hook.wait()

    async with Environment(asking) as env:
        run = await env.client.start(asking)
        await env.until_waiting(run)
        fork = await env.client.fork(run.id, at=at)
        await env.until_waiting(fork)
        await env.client.resume_hook(tokens[-1], "to the fork")
        await env.client.resume_hook(tokens[0], "to the run")
        assert [await run.result(), await fork.result()] == ["to the run", "to the fork"]


async def test_a_fork_takes_no_result_for_a_step_that_never_began_because_the_run_ended_in_that_turn():
    @workflow
    async def hasty() -> int:
        await prepare(1)
        leave.start("nobody waits").cancel()
        return 2

    async with Environment(hasty) as env:
        run = await env.client.start(hasty)
        assert await run.result() == 2
        with pytest.raises(DefinitionError, match="never began"):
            await env.client.fork(run.id, at="leave", result="out")
        assert await (await env.client.fork(run.id, at="leave")).result() == 2


async def test_a_retry_of_a_fork_draws_the_same_random_numbers_as_the_fork():
    seen: list[str] = []

    @step
    async def look(drawn: str) -> None:
        seen.append(drawn)

    @workflow
    async def trying() -> str:
        await prepare(1)
        await look(str(holdfast.uuid4()))
        return await enter(1)

    async with Environment(trying) as env:
        run = await env.client.start(trying)
        await run.wait()
        fork = await env.client.fork(run.id, at="prepare", result=1)
        await fork.wait()
        is_open["door"] = True
        assert await (await env.client.retry(fork.id)).result() == "in 1"
        assert len(set(seen)) == 2


@pytest.mark.parametrize("result", [1, 9])
async def test_a_fork_of_a_run_that_was_tried_again_keeps_the_attempts_before_its_cut(result):
    answers = iter([ConnectionError("the door is shut"), "in"])

    def knock(n: int) -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @workflow(retry=Retry(attempts=2, initial="1s"))
    async def insisting() -> list[int]:
        await enter(0)
        attempt = holdfast.current_run().attempt
        return [await prepare(attempt), await prepare(0), holdfast.current_run().attempt]

    async with Environment(insisting, stubs={enter: knock}) as env:
        run = await env.client.start(insisting)
        assert await run.result() == [3, 1, 2]
        edited = {} if result == 1 else {"result": result}
        fork = await env.client.fork(run.id, at="prepare:1", **edited)
        assert await fork.result(timeout="1h") == [3, result, 2]
        assert "run_retrying" in await kinds(env.client, fork.id)


async def test_a_fork_has_no_key():
    async with Environment(knocking) as env:
        run = await env.client.start(knocking, 1, key="one")
        await run.wait()
        fork = await env.client.fork(run.id, input=(1,))
        assert fork.key is None
        assert (await env.client.get_run(knocking, key="one")).id == run.id


async def test_retry_and_fork_work_on_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[knocking]):
        run = await client.start(knocking, 1, key="one")
        assert await run.wait(timeout=30) is RunStatus.FAILED
        fork = await client.fork(run.id, at="enter", result="by the window")
        assert await fork.result(timeout=30) == "by the window, out"
        is_open["door"] = True
        again = await client.retry(run.id)
        assert await again.result(timeout=30) == "in 2, out"
        assert await client.count(RunFilter(workflow="knocking")) == 3


async def test_a_step_asked_for_before_the_cut_is_not_executed_again_though_it_ended_behind_it():
    @step
    async def slow() -> str:
        return "slow"

    @workflow
    async def beside() -> list[Any]:
        asked = slow.start()
        return [await prepare(1), await leave("bye"), await asked]

    stubs = {slow: takes("1m", "slow"), leave: takes("1h", "gone")}
    async with Environment(beside, stubs=stubs) as env:
        run = await env.client.start(beside)
        before = await run.result()
        fork = await env.client.fork(run.id, at="leave")
        assert await fork.result() == before
        assert (len(env.calls(leave)), len(env.calls(slow))) == (2, 1)


@workflow
async def tidying() -> None:
    await prepare(1)
    holdfast.compensate(prepare, 2)
    try:
        await holdfast.sleep("30d")
    finally:
        await leave("bye")


@pytest.mark.parametrize(("at", "again"), [("leave", ["leave", "prepare"]), ("prepare:1", ["prepare"])])
async def test_a_fork_at_a_cleanup_step_after_a_cancel_executes_that_step_anew_and_ends(at, again):
    """Of a run that was cancelled; what it has waited for is not waited for again."""
    async with Environment(tidying) as env:
        run = await env.client.start(tidying)
        await env.until_waiting(run)
        await run.cancel()
        await run.wait()
        done = {each: len(env.calls(each)) for each in (prepare, leave)}
        fork = await env.client.fork(run.id, at=at)
        await env.skip(0)
        assert (await fork.refresh()).status is RunStatus.CANCELLED
        assert [each.name for each in (leave, prepare) if len(env.calls(each)) == done[each] + 1] == again


async def test_a_fork_at_the_first_of_two_compensations_after_a_cancel_executes_both_anew():
    @workflow
    async def undone() -> None:
        holdfast.compensate(leave, "first")
        holdfast.compensate(prepare, 1)
        await holdfast.sleep("30d")

    async with Environment(undone) as env:
        run = await env.client.start(undone)
        await env.until_waiting(run)
        await run.cancel()
        await run.wait()
        fork = await env.client.fork(run.id, at="prepare")
        await env.skip(0)
        assert (await fork.refresh()).status is RunStatus.CANCELLED
        assert (len(env.calls(prepare)), len(env.calls(leave))) == (2, 2)


async def test_a_fork_at_a_step_that_a_cancelled_body_asked_for_and_left_is_refused():
    @workflow
    async def leaving() -> None:
        try:
            await holdfast.sleep("30d")
        finally:
            leave.start("bye").cancel()

    async with Environment(leaving) as env:
        run = await env.client.start(leaving)
        await env.until_waiting(run)
        await run.cancel()
        await run.wait()
        with pytest.raises(DefinitionError, match=r"ended in the very turn .* fork it at an earlier step"):
            await env.client.fork(run.id, at="leave")


async def test_a_fork_and_a_retry_keep_the_start_options_of_their_run():
    async with AsyncClient("sqlite:///:memory:") as client:
        run = await client.start(
            drawing, tags={"shop": "north"}, priority=7, queue="slow", retention="9d", deadline="1h"
        )
        await run.cancel()
        said = [
            _said(await client.get_run(one.id)) for one in (run, await client.fork(run.id), await client.retry(run.id))
        ]
        assert said[1:] == [said[0], said[0]]


def _said(run: AsyncRun[Any]) -> tuple[Any, ...]:
    record = run.record
    assert record is not None
    length = None if record.deadline_at is None else record.deadline_at - record.created_at
    return record.tags, record.priority, record.queue, record.retention, length
