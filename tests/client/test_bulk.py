"""What is done to many runs at once, by a filter."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import BadArguments, Client, Retry, RunFilter, StoreAway, sleep, step, wait_for_signal, workflow
from holdfast.client.listings import PAGE
from holdfast.model import LIVE
from holdfast.testing import Environment


@workflow
async def sleepy(n: int) -> int:
    await sleep("1h")
    return n


@step
async def weigh(grams: int) -> int:
    return grams


@workflow
async def shipping(grams: int) -> int:
    return await weigh(grams) if grams else 0


@workflow
async def broken() -> None:
    raise ValueError("no")


async def test_all_live_runs_of_a_filter_are_cancelled_and_counted():
    async with Environment(workflows=[sleepy]) as env:
        runs = await env.client.start_many(sleepy, [(n,) for n in range(3)])
        await env.until_waiting(runs[0])
        assert await env.client.count(RunFilter(workflow=sleepy)) == 3
        assert await env.client.cancel(RunFilter(workflow=sleepy), reason="over") == 3
        assert [await run.wait() for run in runs] == ["cancelled"] * 3
        assert await env.client.cancel(RunFilter(workflow=sleepy)) == 0


@workflow(retry=Retry(attempts=3))
async def waits_for_a_child() -> int:
    return await sleepy.options(delay="1h")(1)


@pytest.mark.parametrize("force", [False, True])
async def test_parents_that_are_cancelled_with_their_children_are_cancelled_and_not_failed(force):
    async with Environment(workflows=[waits_for_a_child, sleepy]) as env:
        parent = await env.client.start(waits_for_a_child)
        await env.until_waiting(parent)
        await env.client.cancel(RunFilter(), force=force)
        assert await parent.wait() == "cancelled"
        assert await env.client.count(RunFilter(status="cancelled")) == 2


async def test_all_failed_runs_of_a_filter_are_retried_and_counted():
    async with Environment(workflows=[broken]) as env:
        for run in await env.client.start_many(broken, [(), ()]):
            await run.wait()
        assert await env.client.retry(RunFilter(workflow=broken, status="failed")) == 2
        assert await env.client.count(RunFilter(workflow=broken)) == 4


async def test_a_run_that_was_retried_by_a_filter_is_not_retried_by_it_again_but_its_retry_is():
    async with Environment(workflows=[broken]) as env:
        first = [run.id for run in await env.client.start_many(broken, [(), ()])]
        await env.skip("1s")
        failed = RunFilter(workflow=broken, status="failed")
        assert await env.client.retry(failed) == 2
        assert await env.client.retry(failed) == 0
        await env.skip("1s")
        assert await env.client.retry(failed) == 2
        forks = [run.record.forked_from async for run in env.client.runs(failed) if run.record is not None]
        assert sorted(forked for forked in forks if forked is not None) == sorted(first)
        assert await env.client.count(RunFilter(workflow=broken)) == 6


weighed: list[int] = []
scales: list[str] = []


@step(retry=Retry(attempts=1))
async def weigh_by_scales(grams: int) -> int:
    if not scales:
        raise LookupError("no scales")
    weighed.append(grams)
    return grams


@workflow
async def parcel(grams: int) -> int:
    return await weigh_by_scales(grams)


@workflow
async def van(loads: list[int]) -> list[int]:
    return await holdfast.map(parcel, loads)


@workflow
async def careful(grams: int) -> int:
    try:
        await parcel(grams)
    except LookupError:
        return await weigh_by_scales(-grams)
    return grams


async def test_a_child_that_begins_anew_with_its_parent_is_not_retried_beside_it():
    weighed.clear()
    scales.clear()
    async with Environment(workflows=[van, parcel]) as env:
        await (await env.client.start(van, [1])).wait()
        assert await env.client.count(RunFilter(status="failed")) == 3  # with the chunk run between them
        scales.append("mended")
        assert await env.client.retry(RunFilter(status="failed")) == 1
        assert await env.client.retry(RunFilter(status="failed")) == 0
        assert [await run.result() async for run in env.client.runs(RunFilter(status=LIVE, workflow=van))] == [[1]]
        await env.skip("1h")
        assert weighed == [1]


async def test_a_child_whose_failure_its_parent_keeps_is_retried_by_itself():
    weighed.clear()
    scales.clear()
    async with Environment(workflows=[careful, parcel]) as env:
        await (await env.client.start(careful, 1)).wait()
        scales.append("mended")
        assert await env.client.retry(RunFilter(status="failed")) == 2
        await env.skip("1h")
        assert sorted(weighed) == [-1, 1]


async def test_a_failed_run_whose_key_a_retry_has_taken_is_not_retried_by_a_filter_again():
    async with Environment(workflows=[broken]) as env:
        for key in ("one", "two"):
            await (await env.client.start(broken, key=key)).wait()
        failed = RunFilter(workflow=broken, status="failed")
        assert await env.client.retry(failed) == 2
        assert await env.client.retry(failed) == 0
        assert await env.client.count(RunFilter(workflow=broken)) == 4


async def test_all_runs_of_a_filter_that_have_the_step_are_forked_and_counted():
    async with Environment(workflows=[shipping]) as env:
        for run in await env.client.start_many(shipping, [(0,), (1,), (2,)]):
            await run.wait()
        assert await env.client.fork(RunFilter(workflow=shipping), at="weigh", result=7) == 2
        results = [await run.result() async for run in env.client.runs(RunFilter(workflow=shipping))]
        assert sorted(results) == [0, 1, 2, 7, 7]


async def test_a_fork_by_a_filter_passes_by_a_run_whose_step_never_began():
    """Nobody waits for that step there; it is passed by as one that never asked for it."""

    @workflow
    async def hasty(is_in_a_hurry: bool) -> str:
        asked = weigh.start(3)
        if is_in_a_hurry:
            asked.cancel()
            return "gone"
        return f"{await asked}"

    async with Environment(workflows=[hasty]) as env:
        for run in await env.client.start_many(hasty, [(False,), (True,)]):
            await run.wait()
        assert await env.client.fork(RunFilter(workflow=hasty), at="weigh", result=7) == 1


async def test_arguments_that_fit_one_workflow_but_not_another_fork_nothing():
    async with Environment(workflows=[shipping, broken]) as env:
        for run in (await env.client.start(broken), await env.client.start(shipping, 1)):
            await run.wait()
        with pytest.raises(BadArguments):
            await env.client.fork(RunFilter(), input=(3,))
        assert await env.client.count(RunFilter()) == 2


def test_a_blocking_client_forks_by_a_filter_too(database_url):
    with Client(database_url) as client:
        client.start(shipping, 1)
        assert client.fork(RunFilter(workflow=shipping), input=(2,)) == 1
        assert client.count(RunFilter(workflow=shipping)) == 2


async def test_many_are_cancelled_and_retried_in_a_few_commits(client):
    await client.start_many(sleepy, [(n,) for n in range(100)])
    for deed in (client.cancel, client.retry):
        before = client.store.stats.commits
        assert await deed(RunFilter(workflow=sleepy)) == 100
        assert client.store.stats.commits - before < 50


async def test_an_error_about_one_of_many_runs_is_raised(client, monkeypatch):
    runs = await client.start_many(sleepy, [(n,) for n in range(3)])
    cancel_run = client.store.cancel_run

    async def lose(run_id, **options):
        if run_id == runs[1].id:
            raise StoreAway("the cable is out")
        return await cancel_run(run_id, **options)

    monkeypatch.setattr(client.store, "cancel_run", lose)
    with pytest.raises(StoreAway, match="cable"):
        await client.cancel(RunFilter(workflow=sleepy))


@pytest.mark.parametrize("force", [False, True])
async def test_a_run_that_is_deleted_while_many_are_cancelled_is_passed_by(client, monkeypatch, force):
    runs = await client.start_many(sleepy, [(n,) for n in range(3)])
    cancel_run = client.store.cancel_run

    async def late(run_id, **options):
        if run_id == runs[1].id:
            await cancel_run(run_id)
            await client.store.delete_runs([run_id])
        return await cancel_run(run_id, **options)

    monkeypatch.setattr(client.store, "cancel_run", late)
    assert await client.cancel(RunFilter(workflow=sleepy), force=force) == 2
    assert await client.count(RunFilter(status="cancelled")) == 2


@workflow
async def rounds(left: int) -> None:
    await wait_for_signal("next")
    rounds.continue_as_new(left - 1)


async def many_of_which_one_goes_on(env, monkeypatch):
    """More runs than a page holds. While the second one is read, the run on it continues, and another one begins."""
    first, *_ = await env.client.start_many(rounds, [(9,) for _ in range(PAGE + 1)])
    await env.until_waiting(first)
    list_runs = env.client.store.list_runs

    async def late(where, *, cursor=None, **options):
        if cursor is not None:
            monkeypatch.setattr(env.client.store, "list_runs", list_runs)
            await env.skip("1s")
            await first.signal("next")
            await env.until_waiting(first)
            await env.client.start(rounds, 9, id="later")
        return await list_runs(where, cursor=cursor, **options)

    monkeypatch.setattr(env.client.store, "list_runs", late)


@pytest.mark.parametrize("deed", ["cancel", "pause"])
async def test_a_chain_that_goes_on_while_many_are_read_is_not_passed_by(monkeypatch, deed):
    async with Environment(workflows=[rounds]) as env:
        await many_of_which_one_goes_on(env, monkeypatch)
        assert await getattr(env.client, deed)(RunFilter(workflow=rounds)) == PAGE + 1
        await env.skip("1s")
        live = [run.record async for run in env.client.runs(RunFilter(status=LIVE)) if run.record is not None]
        assert [record.id for record in live if not record.paused] == ["later"]


async def test_a_chain_that_goes_on_while_live_runs_are_counted_is_counted(monkeypatch):
    async with Environment(workflows=[rounds]) as env:
        await many_of_which_one_goes_on(env, monkeypatch)
        assert await env.client.count(RunFilter(workflow=rounds, status=LIVE)) == PAGE + 1
