"""Children that a run which is tried again does not begin twice: others may mean them, or they outlive it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import holdfast
from holdfast import AsyncClient, Retry, RunCancelled, RunFailed, RunFilter, RunStatus, Worker, step, workflow
from holdfast.testing import Environment
from tests.life.doors import is_open
from tests.life.waiting import until

SHARED = [{"key": "X"}, {"id": "X"}, {"on_parent_end": "abandon"}, {"key": "X", "on_parent_end": "abandon"}]


@pytest.fixture(autouse=True)
def shut():
    is_open["door"] = False


@step
async def charge() -> None: ...


@step(retry=Retry(attempts=1))
async def pass_through() -> None:
    if not is_open["door"]:
        raise ConnectionError("the door is shut")


@workflow
async def paying(pause: int) -> str:
    await charge()
    await holdfast.sleep(pause)
    return "paid"


async def entrusting(pause: int, options: dict[str, Any]) -> str:
    payment = paying.options(**options).start(pause)
    await pass_through()
    return await payment


trying = workflow(name="trying", retry=Retry(attempts=3, initial="1m", max="1m", jitter=0))(entrusting)
once = workflow(name="once")(entrusting)


@pytest.mark.parametrize("options", SHARED)
@pytest.mark.parametrize("pause", [10, 100], ids=["it ends in the pause", "it lives"])
async def test_a_later_try_waits_for_the_child_that_the_first_try_began(pause, options):
    async with Environment(workflows=[trying, paying]) as env:
        run = await env.client.start(trying, pause, options)
        await env.skip("30s")
        is_open["door"] = True
        assert await run.result() == "paid"
        [child] = [child async for child in env.client.runs(RunFilter(workflow=paying))]
        assert (child.status, len(env.calls(charge))) == (RunStatus.COMPLETED, 1)


@pytest.mark.parametrize("options", [one for one in SHARED if "on_parent_end" in one])
@pytest.mark.parametrize("pause", [10, 100], ids=["it has ended", "it lives"])
async def test_a_retry_waits_for_a_child_that_outlived_the_failed_run(pause, options):
    async with Environment(workflows=[once, paying]) as env:
        run = await env.client.start(once, pause, options)
        assert await run.wait() is RunStatus.FAILED
        await env.skip("30s")
        for is_there in (False, True):
            is_open["door"] = is_there
            run = await env.client.retry(run.id)
            await run.wait()
        assert await run.result() == "paid"
        assert len(env.calls(charge)) == 1


async def test_every_retry_begins_a_child_that_was_called_off_anew():
    async with Environment(workflows=[once, paying]) as env:
        run = await env.client.start(once, 100, {"id": "X"})
        await run.wait()
        for is_there in (False, False, True):
            await env.skip("30s")
            is_open["door"] = is_there
            run = await env.client.retry(run.id)
            await run.wait()
        assert await run.result() == "paid"
        ids = {child.id: child.status async for child in env.client.runs(RunFilter(workflow=paying))}
        called_off = dict.fromkeys(("X", "X~1", "X~1~1"), RunStatus.CANCELLED)
        assert ids == {**called_off, "X~1~1~1": RunStatus.COMPLETED}


async def test_a_child_that_completed_in_the_pause_is_not_begun_again_on_any_store(url):
    quick = workflow(name="quick", retry=Retry(attempts=2, initial="1s", jitter=0))(entrusting)
    async with AsyncClient(url) as client, Worker(client, workflows=[quick, paying]):
        run = await client.start(quick, 0, {"key": "X"})

        async def is_paid() -> bool:
            return [one.status async for one in client.runs(RunFilter(workflow=paying))] == [RunStatus.COMPLETED]

        await until(is_paid)
        is_open["door"] = True
        assert await run.result(timeout="60s") == "paid"
        assert await client.count(RunFilter(workflow=paying)) == 1


NAMED = pytest.mark.parametrize("options", [{"key": "X"}, {"id": "X"}, {"key": "X", "id": "X"}])


@workflow
async def handing_over(is_mended: bool, options: dict[str, Any]) -> str:
    payment = paying.options(**options).start(100)
    if not is_mended and not is_open["door"]:
        raise KeyError("a mistake of the body's own")
    return await payment


@NAMED
async def test_a_retry_begins_a_named_child_again_that_a_forced_cancel_has_called_off(options):
    async with Environment(workflows=[handing_over, paying]) as env:
        run = await env.client.start(handing_over, True, options)
        await env.until_waiting(run)
        await run.cancel(force=True)
        assert await (await env.client.retry(run.id)).result() == "paid"


@NAMED
async def test_a_retry_begins_a_named_child_again_that_was_asked_for_where_the_body_failed(options):
    async with Environment(workflows=[handing_over, paying]) as env:
        run = await env.client.start(handing_over, False, options)
        assert await run.wait() is RunStatus.FAILED
        is_open["door"] = True
        assert await (await env.client.retry(run.id)).result() == "paid"


@step(retry=Retry(attempts=1))
async def refuse() -> None:
    raise ConnectionError("it never passes")


@workflow
async def handing_over_late(options: dict[str, Any]) -> str:
    with suppress(ConnectionError):
        await refuse()
    payment = paying.options(**options).start(100)
    await charge()
    if not is_open["door"]:
        raise KeyError("a mistake of the body's own")
    return await payment


@NAMED
async def test_a_retry_begins_a_named_child_again_that_was_asked_for_behind_its_cut(options):
    async with Environment(workflows=[handing_over_late, paying]) as env:
        run = await env.client.start(handing_over_late, options)
        assert await run.wait() is RunStatus.FAILED
        is_open["door"] = True
        assert await (await env.client.retry(run.id)).result() == "paid"


@workflow
async def paying_once(form: str) -> str:
    with suppress(ConnectionError):
        await refuse()
    await paying.options(id=form.format(holdfast.current_run().chain_id))(0)
    if not is_open["door"]:
        raise KeyError("a mistake of the body's own")
    return "done"


@pytest.mark.parametrize("form", ["payment of {}", "{}.paying"])
async def test_a_completed_child_with_an_id_of_its_own_is_not_begun_again_whatever_its_id_looks_like(form):
    async with Environment(workflows=[paying_once, paying]) as env:
        run = await env.client.start(paying_once, form)
        assert await run.wait() is RunStatus.FAILED
        is_open["door"] = True
        assert await (await env.client.retry(run.id)).result() == "done"
        assert len(env.calls(charge)) == 1


@workflow
async def joining() -> str:
    await pass_through()
    return await paying.options(key="X").start(100)


async def test_a_retry_that_first_comes_to_a_key_joins_the_run_that_others_began_with_it():
    async with Environment(workflows=[joining, paying]) as env:
        payment = await env.client.start(paying, 100, key="X")
        await payment.cancel()
        run = await env.client.start(joining)
        await run.wait()
        is_open["door"] = True
        with pytest.raises(RunFailed) as failure:
            await (await env.client.retry(run.id)).result()
        assert isinstance(failure.value.__cause__, RunCancelled)
