"""Machines: workflows as explicit states, each recorded like a step."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, Done, Machine, Next, NoSuchStep, Retry, RunFailed, RunStatus, Worker, workflow
from holdfast.testing import Environment, assert_durable, replay
from tests.life.waiting import until_waiting

done: dict[str, str] = {}


async def begin(ctx: Any) -> Any:
    ctx["order"] = f"order of {ctx.input}"
    return Next("charge", after="5m")


def charge(ctx: Any) -> Any:
    done["charge"] = ctx["order"]
    ctx["charged"] = True
    return Next("finish")


async def finish(ctx: Any) -> Any:
    return Done({"order": ctx["order"], "charged": ctx["charged"]})


checkout = Machine("checkout", {"start": begin, "charge": charge, "finish": finish})


def waiting_state(ctx: Any) -> Any:
    return Next("over", after="30d")


def over(ctx: Any) -> Any:
    return Done("over")


slow = Machine("slow", {"start": waiting_state, "over": over})


async def test_a_machine_goes_from_state_to_state():
    async with Environment(checkout) as env:
        run = await env.client.start(checkout, "Ada")
        assert await run.result() == {"order": "order of Ada", "charged": True}


async def test_the_delay_of_after_is_a_durable_timer():
    async with Environment(checkout) as env:
        begun = env.now
        await (await env.client.start(checkout, "Ada")).result()
        assert env.now - begun == timedelta(minutes=5)


async def test_a_fork_takes_for_the_result_of_a_state_what_a_state_returns():
    async with Environment(checkout) as env:
        run = await env.client.start(checkout, "Ada")
        await run.result()
        ended = await env.client.fork(run.id, at="charge", result=Done("paid in cash"))
        assert await ended.result() == "paid in cash"
        # What the states before it have written is there, and of this one nothing.
        begun = env.now
        again = await env.client.fork(run.id, at="charge", result=Next("charge", after="1h"))
        assert await again.result() == {"order": "order of Ada", "charged": True}
        assert env.now - begun == timedelta(hours=1)
        assert replay(await env.client.journal(again.id), checkout).status == "completed"


@pytest.mark.parametrize("result", ["paid", {"ok": True}, None, [1], [None, 0, "paid", {}, "more"]])
async def test_a_fork_with_what_no_state_can_come_to_fails_and_says_what_can(result):
    async with Environment(checkout) as env:
        run = await env.client.start(checkout, "Ada")
        await run.result()
        fork = await env.client.fork(run.id, at="charge", result=result)
        with pytest.raises(
            RunFailed, match=r"the state 'charge' came to .*; expected Next\('state'\) or Done\(result\)"
        ):
            await fork.result()


async def test_a_state_that_fails_is_tried_again_and_its_writes_are_dropped():
    tries: list[Any] = []

    def flaky(ctx: Any) -> Any:
        tries.append(ctx.get("mark"))
        ctx["mark"] = "from a failed try"
        if len(tries) < 3:
            raise ConnectionError
        return Done(len(tries))

    machine = Machine("flaky", {"start": flaky}, retry=Retry(attempts=3, initial="1m", jitter=0))
    async with Environment(machine) as env:
        assert await (await env.client.start(machine, None)).result() == 3
        assert tries == [None, None, None]


async def test_a_state_that_fails_for_good_fails_the_run():
    def broken(ctx: Any) -> Any:
        raise ValueError("no")

    machine = Machine("broken", {"start": broken}, retry=Retry(attempts=1))
    async with Environment(machine) as env:
        with pytest.raises(RunFailed) as failed:
            await (await env.client.start(machine, None)).result()
        assert isinstance(failed.value.__cause__, ValueError)


async def test_a_state_that_names_no_state_fails_with_the_names_there_are():
    def lost(ctx: Any) -> Any:
        return Next("nowhere")

    machine = Machine("lost", {"start": lost}, retry=Retry(attempts=1))
    async with Environment(machine) as env:
        with pytest.raises(RunFailed, match="nowhere"):
            await (await env.client.start(machine, None)).result()


async def test_a_state_past_its_timeout_fails(url):
    async def hang(ctx: Any) -> Any:
        await asyncio.Event().wait()

    machine = Machine("hangs", {"start": hang}, timeout=0.05, retry=Retry(attempts=1))
    async with AsyncClient(url) as client, Worker(client, workflows=[machine]):
        with pytest.raises(RunFailed) as failed:
            await (await client.start(machine, None)).result(timeout=30)
        assert isinstance(failed.value.__cause__, TimeoutError)


async def test_a_state_may_go_back_to_itself():
    def again(ctx: Any) -> Any:
        ctx["n"] = ctx.get("n", 0) + 1
        return Done(ctx["n"]) if ctx["n"] == 50 else Next("start")

    machine = Machine("again", {"start": again})
    async with Environment(machine) as env:
        assert await (await env.client.start(machine, None)).result() == 50


async def test_a_machine_is_a_child_like_any_workflow():
    @workflow
    async def parent() -> Any:
        return await checkout.start("Ada")

    async with Environment([parent, checkout]) as env:
        assert (await (await env.client.start(parent)).result())["charged"] is True


async def test_a_cancel_ends_a_machine_between_two_states():
    async with Environment(slow) as env:
        run = await env.client.start(slow, None)
        await env.until_waiting(run)
        await run.cancel()
        assert await run.wait() is RunStatus.CANCELLED


async def test_a_machine_has_a_deadline():
    machine = Machine("late", {"start": waiting_state, "over": over}, deadline="1h")
    async with Environment(machine) as env:
        run = await env.client.start(machine, None)
        assert await run.wait() is RunStatus.FAILED


def test_a_machine_without_states_is_refused():
    with pytest.raises(holdfast.DefinitionError):
        Machine("empty", {})


@pytest.mark.parametrize(
    ("name", "states", "retry", "words"),
    [
        (3, {"start": over}, None, "3 can't be a name"),
        ("wrong", [over], None, "machine 'wrong'.*expected a mapping"),
        ("wrong", {"start": over}, 3, "machine 'wrong': retry=3: expected"),
    ],
    ids=["name", "states", "retry"],
)
def test_a_wrong_definition_of_a_machine_is_refused_with_what_was_written(
    name: Any, states: Any, retry: Any, words: str
):
    with pytest.raises(holdfast.DefinitionError, match=words):
        Machine(name, states, retry=retry)


def test_a_machine_survives_a_crash_at_every_commit():
    assert_durable(checkout, "Ada", effects=done)


async def test_a_machine_goes_on_under_another_worker(url):
    def first(ctx: Any) -> Any:
        ctx["n"] = 1
        return Next("second", after=1)

    def second(ctx: Any) -> Any:
        return Done(ctx["n"] + 1)

    machine = Machine("two", {"start": first, "second": second})
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[machine]):
            run = await client.start(machine, None)
            await until_waiting(run)
        async with Worker(client, workflows=[machine]):
            assert await run.result(timeout=30) == 2


@pytest.mark.parametrize("is_async", [False, True], ids=["def", "async"])
async def test_a_value_that_can_t_be_stored_is_reported_with_the_name_of_its_state(is_async: bool):
    def keep(ctx: Any) -> Any:
        ctx["socket"] = object()
        return Done(None)

    async def keep_async(ctx: Any) -> Any:
        return keep(ctx)

    keeper = Machine("keeper", {"start": keep_async if is_async else keep})
    async with Environment(keeper) as env:
        with pytest.raises(RunFailed, match=r"\['socket'\].* \(returned by keeper\.start\(\)\)"):
            await (await env.client.start(keeper, None)).result()


async def test_a_fork_at_a_state_before_a_checkpoint_says_that_the_journal_holds_it_no_more():
    def count(ctx: Any) -> Any:
        ctx["n"] = ctx.get("n", 0) + 1
        return Done(ctx["n"]) if ctx["n"] == 120 else Next("start")

    counter = Machine("counter", {"start": count})
    async with Environment(counter) as env:
        run = await env.client.start(counter, None)
        assert await run.result() == 120
        with pytest.raises(NoSuchStep, match=r"journal begins at a checkpoint.*'start:20'.*it holds: start:\d"):
            await env.client.fork(run.id, at="start:20")
