"""Children: runs that a body starts, waits for, holds, and joins."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, RunCancelled, RunFailed, RunFilter, RunStatus, Worker, blocking, step, workflow
from holdfast.testing import Environment, assert_durable
from tests.life.waiting import until, until_waiting


class Broke(Exception):
    """No money."""


executed: dict[str, int] = {}


@step
async def double(n: int) -> int:
    executed[holdfast.current_step().idempotency_key] = n
    return 2 * n


@workflow
async def child(n: int) -> int:
    await holdfast.sleep("1h")
    return await double(n)


@workflow
def plain_child(n: int) -> int:
    return n + 1


@workflow
async def failing() -> int:
    raise Broke("no money")


@workflow
async def endless() -> None:
    await holdfast.wait_for_signal("end")


@workflow
async def parent(n: int) -> int:
    return await child(n) + 1


@workflow
def plain_parent(n: int) -> int:
    return plain_child(n) + 1


@workflow
async def fanning() -> list[int]:
    return await asyncio.gather(child(1), child(2), child(3))


@workflow
async def quick(n: int) -> int:
    return await double(n)


@workflow
async def told_child() -> Any:
    return await holdfast.wait_for_signal("go")


@workflow
async def telling() -> Any:
    held = told_child.start()
    held.signal("go", "from above")
    return await held


@workflow
async def holding() -> str:
    held = endless.start()
    await holdfast.wait_for_signal("end")
    held.cancel()
    return held.id


@workflow
async def three_of_them() -> list[int]:
    return list(await asyncio.gather(quick(1), quick(2), quick(3)))


async def test_calling_a_workflow_in_a_body_waits_for_its_result():
    async with Environment([parent, child]) as env:
        assert await (await env.client.start(parent, 5)).result() == 11


async def test_a_plain_body_waits_for_its_child():
    async with Environment([plain_parent, plain_child]) as env:
        assert await (await env.client.start(plain_parent, 5)).result() == 7


async def test_children_run_side_by_side():
    async with Environment([fanning, child]) as env:
        begun = env.now
        assert await (await env.client.start(fanning)).result() == [2, 4, 6]
        assert (env.now - begun).total_seconds() == 3600


async def test_a_child_knows_its_parent():
    @workflow
    async def who() -> str | None:
        return holdfast.current_run().parent_id

    @workflow
    async def asks() -> str | None:
        return await who()

    async with Environment([asks, who]) as env:
        run = await env.client.start(asks)
        assert await run.result() == run.id


async def test_children_are_listed_by_their_parent():
    async with Environment([fanning, child]) as env:
        run = await env.client.start(fanning)
        await run.result()
        found = [one async for one in env.client.runs(RunFilter(parent=run.id))]
        assert [one.workflow for one in found] == ["child"] * 3


async def test_a_failed_child_raises_its_own_exception_in_its_parent():
    @workflow
    async def careful() -> list[str]:
        try:
            await failing()
        except Broke as error:
            return [str(error), *error.__notes__]
        return []

    async with Environment([careful, failing]) as env:
        run = await env.client.start(careful)
        message, *notes = await run.result()
        [one] = [one async for one in env.client.runs(RunFilter(parent=run.id))]
        assert message == "no money"
        assert any(one.id in text for text in notes)


async def test_a_failed_child_fails_a_parent_that_does_not_catch_it():
    @workflow
    async def careless() -> int:
        return await failing()

    async with Environment([careless, failing]) as env:
        with pytest.raises(RunFailed) as failed:
            await (await env.client.start(careless)).result()
        assert isinstance(failed.value.__cause__, Broke)


async def test_a_cancelled_child_raises_run_cancelled_which_is_an_exception():
    @workflow
    async def careful() -> str:
        held = endless.options(id="the-child").start()
        try:
            await held
        except Exception as error:
            return type(error).__name__
        return "ended"

    async with Environment([careful, endless]) as env:
        run = await env.client.start(careful)
        await env.until_waiting(run)
        await env.client.cancel("the-child")
        assert await run.result() == RunCancelled.__name__


async def test_a_parent_that_catches_every_exception_does_not_catch_its_own_waiting():
    caught: list[str] = []

    @workflow
    async def alarmed() -> int:
        try:
            return await child(1)
        except Exception as error:
            caught.append(repr(error))
            return 0

    async with Environment([alarmed, child]) as env:
        assert await (await env.client.start(alarmed)).result() == 2
        assert caught == []


async def test_a_childs_arguments_are_checked_where_it_is_asked_for():
    @workflow
    async def wrong() -> str:
        try:
            await child("five")  # type: ignore[arg-type]
        except holdfast.BadArguments:
            return "refused"
        return "taken"

    async with Environment([wrong, child]) as env:
        assert await (await env.client.start(wrong)).result() == "refused"


async def test_a_held_child_is_signalled_through_its_handle():
    async with Environment([telling, told_child]) as env:
        assert await (await env.client.start(telling)).result() == "from above"


async def test_a_held_child_is_cancelled_through_its_handle():
    async with Environment([holding, endless]) as env:
        run = await env.client.start(holding)
        await env.until_waiting(run)
        await run.signal("end")
        held = await env.client.get_run(await run.result())
        assert await held.wait() is RunStatus.CANCELLED


async def test_a_child_is_named_by_its_options():
    @workflow
    async def naming() -> str:
        held = plain_child.options(id="mine", key="once", tags={"colour": "red"}).start(1)
        await held
        return held.id

    async with Environment([naming, plain_child]) as env:
        assert await (await env.client.start(naming)).result() == "mine"
        named = await env.client.get_run(plain_child, key="once")
        assert named.record is not None
        assert (named.id, named.record.tags) == ("mine", {"colour": "red"})


async def test_a_child_with_a_delay_begins_later():
    @workflow
    async def delaying() -> float:
        begun = holdfast.now()
        await plain_child.options(delay="1h").start(1)
        return (holdfast.now() - begun).total_seconds()

    async with Environment([delaying, plain_child]) as env:
        assert await (await env.client.start(delaying)).result() == 3600


async def test_a_pending_child_is_waited_for_in_a_plain_body():
    @workflow
    def holding_two() -> list[int]:
        pending = [plain_child.start(1), plain_child.start(2)]
        return blocking.gather(*pending)

    async with Environment([holding_two, plain_child]) as env:
        assert await (await env.client.start(holding_two)).result() == [2, 3]


async def test_a_child_with_another_choice_for_a_taken_key_than_to_join_is_refused():
    @workflow
    async def insisting() -> object:
        return await told_child.options(key="one", on_conflict="restart")()

    async with Environment([insisting, told_child]) as env:
        run = await env.client.start(insisting)
        with pytest.raises(RunFailed, match=r"told_child\.options\(on_conflict='restart'\) in a body: a child joins"):
            await run.result()


async def test_a_run_that_would_join_itself_fails_with_advice():
    @workflow
    async def countdown(left: int) -> int:
        return 0 if left == 0 else await countdown.options(key="launch")(left - 1)

    async with Environment([countdown]) as env:
        with pytest.raises(RunFailed, match=r"it would join itself.*give the child another key"):
            await (await env.client.start(countdown, 2, key="launch")).result()


async def test_a_child_with_the_key_of_another_run_joins_that_run():
    @workflow
    async def joining() -> Any:
        return await told_child.options(key="one")()

    async with Environment([joining, told_child]) as env:
        there = await env.client.start(told_child, key="one")
        runs = await env.client.start_many(joining, [(), ()])
        for run in runs:
            await env.until_waiting(run)
        await there.signal("go", "all of you")
        assert [await run.result() for run in runs] == ["all of you", "all of you"]


async def test_a_joined_run_that_has_ended_gives_its_result_at_once():
    @workflow
    async def joining() -> Any:
        return plain_child.options(key="one")(100)

    async with Environment([joining, plain_child]) as env:
        await (await env.client.start(plain_child, 1, key="one")).result()
        assert await (await env.client.start(joining)).result() == 2


async def test_a_joined_run_is_not_cancelled_with_the_one_that_joined_it():
    @workflow
    async def joining() -> Any:
        return await told_child.options(key="one")()

    async with Environment([joining, told_child]) as env:
        there = await env.client.start(told_child, key="one")
        run = await env.client.start(joining)
        await env.until_waiting(run)
        await run.cancel()
        await run.wait()
        await env.skip("1m")
        assert not (await there.refresh()).status.is_final


def test_children_survive_a_crash_at_every_commit():
    assert_durable(three_of_them, effects=executed)


def test_a_held_child_survives_a_crash_at_every_commit():
    assert_durable(telling)


def test_a_child_that_fails_survives_a_crash_at_every_commit():
    @workflow
    async def careful() -> str:
        try:
            await failing()
        except Broke as error:
            return str(error)
        return "no error"

    assert_durable(careful)


async def test_a_parent_is_woken_by_a_child_that_ends_under_another_worker(url):
    async with AsyncClient(url) as client:
        async with Worker(client, workflows=[telling]):
            run = await client.start(telling)
            await until_waiting(run)
        async with Worker(client, workflows=[told_child]):

            async def is_ended() -> bool:
                return [one.status async for one in client.runs(RunFilter(parent=run.id))] == [RunStatus.COMPLETED]

            await until(is_ended)
        async with Worker(client, workflows=[telling]):
            assert await run.result(timeout=30) == "from above"


async def test_a_parent_and_its_children_share_one_place_without_a_deadlock(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[three_of_them, quick], concurrency=1):
        assert await (await client.start(three_of_them)).result(timeout=30) == [2, 4, 6]


@workflow(name="deep" * 40)
async def deep(levels: int) -> int:
    return 1 + await deep(levels - 1) if levels else len(holdfast.current_run().id)


async def test_ids_of_children_stay_short_however_deep_they_nest(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[deep]):
        run = await client.start(deep, 20)
        assert await run.result(timeout="60s") == 20 + 500


@workflow
async def told() -> str:
    return str(await holdfast.wait_for_signal("go"))


@workflow
async def joining(by_id: bool) -> str:
    joined = told.options(key="the one").start()
    if by_id:
        holdfast.signal(joined.id, "go", "on")
    else:
        joined.signal("go", "on")
    return await joined


@pytest.mark.parametrize("by_id", [False, True])
async def test_a_signal_to_a_run_that_was_joined_by_its_key_reaches_it(url, by_id):
    async with AsyncClient(url) as client, Worker(client, workflows=[told, joining]):
        run = await client.start(told, key="the one")
        assert await (await client.start(joining, by_id)).result(timeout="60s") == "on"
        assert await run.result(timeout=0) == "on"


async def test_a_signal_to_a_child_without_a_name_is_refused():
    @workflow
    async def nameless() -> None:
        child = told.start()
        child.signal("")
        await child

    async with Environment(workflows=[told, nameless]) as env:
        with pytest.raises(RunFailed, match="can't be a name"):
            await (await env.client.start(nameless)).result()
