"""`client.retry`: a new run that goes on where a failed or cancelled one stopped, which stays as it was."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import (
    NotRetryable,
    Retry,
    RunStatus,
    step,
    workflow,
)
from holdfast.testing import Environment
from tests.life.doors import enter, is_open, prepare, told, visiting
from tests.life.waiting import kinds


@pytest.fixture(autouse=True)
def shut():
    is_open["door"] = False


async def test_a_retry_goes_on_from_the_failed_step():
    async with Environment(visiting) as env:
        run = await env.client.start(visiting, 1)
        assert await run.wait() is RunStatus.FAILED
        is_open["door"] = True
        begun = env.now
        again = await env.client.retry(run.id)
        assert await again.result() == "in 2, out"
        assert (len(env.calls(prepare)), len(env.calls(enter)), env.now) == (1, 2, begun)


async def test_a_run_that_gave_its_id_and_deadline_to_steps_and_children_can_be_retried():
    facts: list[str] = []
    doors: list[int] = []

    @step
    async def book(what: str) -> None:
        facts.append(what)

    @step(retry=Retry(attempts=1))
    async def pass_through(door: int) -> None:
        if door not in doors:
            raise ConnectionError("the door is shut")

    @workflow
    async def talking(parent_id: str) -> None:
        await holdfast.wait_for_signal("enough")

    @workflow(deadline="1h")
    async def telling() -> list[str]:
        me = holdfast.current_run()
        child = talking.start(me.id)
        for door in (1, 2):
            await book(f"{door} {me.id} {me.created_at} {me.started_at} {me.deadline}")
            await pass_through(door)
        child.signal("enough")
        await child
        return [me.id, holdfast.current_run().id]

    async with Environment([telling, talking]) as env:
        first = await env.client.start(telling)
        await first.wait()
        await env.skip("2h")
        doors.append(1)
        second = await env.client.retry(first.id)
        await second.wait()
        await env.skip("2h")
        doors.append(2)
        third = await env.client.retry(second.id)
        assert await third.result() == [third.id, third.id]
        assert [run.id in fact for run, fact in zip((first, second), facts, strict=True)] == [True, True]


async def test_a_retry_leaves_the_old_run_as_it_was():
    async with Environment(visiting) as env:
        run = await env.client.start(visiting, 1)
        await run.wait()
        before = await kinds(env.client, run.id)
        is_open["door"] = True
        again = await env.client.retry(run.id)
        await again.result()
        assert await kinds(env.client, run.id) == before
        assert (await run.refresh()).status is RunStatus.FAILED
        assert again.record is None or again.record.forked_from == run.id


async def test_a_retry_takes_the_key_over():
    async with Environment(visiting) as env:
        run = await env.client.start(visiting, 1, key="one")
        await run.wait()
        is_open["door"] = True
        again = await env.client.retry(run.id)
        assert (await env.client.get_run(visiting, key="one")).id == again.id


async def test_a_second_retry_of_a_run_with_a_key_returns_the_first():
    async with Environment(visiting) as env:
        run = await env.client.start(visiting, 1, key="one")
        await run.wait()
        is_open["door"] = True
        assert (await env.client.retry(run.id)).id == (await env.client.retry(run.id)).id


async def test_a_retry_of_a_cancelled_run_goes_on_where_that_was():
    async with Environment(told) as env:
        run = await env.client.start(told)
        await env.until_waiting(run)
        await run.cancel()
        await run.wait()
        again = await env.client.retry(run.id)
        await again.signal("go", 1)
        assert await again.result() == 1


async def test_a_live_run_cannot_be_retried():
    async with Environment(told) as env:
        run = await env.client.start(told)
        with pytest.raises(NotRetryable):
            await env.client.retry(run.id)


async def test_a_completed_run_cannot_be_retried():
    async with Environment(told) as env:
        run = await env.client.start(told)
        await run.signal("go")
        await run.result()
        with pytest.raises(NotRetryable):
            await env.client.retry(run.id)


async def test_a_retry_keeps_the_idempotency_keys_of_steps():
    keys: list[str] = []

    @step(retry=Retry(attempts=1))
    async def failing() -> None:
        keys.append(holdfast.current_step().idempotency_key)
        if len(keys) == 1:
            raise ConnectionError

    @workflow
    async def trying() -> None:
        await failing()

    async with Environment(trying) as env:
        run = await env.client.start(trying)
        await run.wait()
        await (await env.client.retry(run.id)).result()
        assert len(set(keys)) == 1


async def test_a_run_that_failed_at_its_deadline_is_retried_with_as_much_time():
    async with Environment(told) as env:
        run = await env.client.start(told, deadline="1h")
        assert await run.wait() is RunStatus.FAILED
        again = await env.client.retry(run.id)
        await env.until_waiting(again)
        await again.signal("go", 1)
        assert await again.result() == 1


@workflow
async def reminding_itself() -> str:
    await holdfast.wait_for_signal("go")
    holdfast.signal(holdfast.current_run().id, "note", "kept")
    return await holdfast.wait_for_signal("note", type=str)


async def test_a_signal_that_a_run_sent_itself_just_before_its_cancel_is_read_by_a_retry():
    async with Environment(workflows=[reminding_itself]) as env:
        run = await env.client.start(reminding_itself)
        await env.until_waiting(run)
        await run.signal("go")
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED
        again = await env.client.retry(run.id)
        assert await again.result() == "kept"


@workflow
async def reminding_its_chain(is_first: bool) -> str:
    if is_first:
        reminding_its_chain.continue_as_new(False)
    await holdfast.wait_for_signal("go")
    holdfast.signal(holdfast.current_run().chain_id, "note", "kept")
    return await holdfast.wait_for_signal("note", type=str)


async def test_a_signal_that_a_run_sent_its_own_chain_just_before_its_cancel_is_read_by_a_retry():
    async with Environment(workflows=[reminding_its_chain]) as env:
        run = await env.client.start(reminding_its_chain, True)
        await env.until_waiting(run)
        await run.signal("go")
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED
        last = (await run.refresh()).record.successor_id
        again = await env.client.retry(last)
        assert await again.result() == "kept"
