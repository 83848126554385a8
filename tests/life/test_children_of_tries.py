"""Children of a run that is tried again: what a later try asks for is executed anew, whatever was there before."""

from __future__ import annotations

from contextlib import suppress

import pytest

import holdfast
from holdfast import (
    AsyncClient,
    AsyncRun,
    ChildRun,
    DeadlineExceeded,
    Retry,
    RunCancelled,
    RunFailed,
    RunFilter,
    RunNotFound,
    RunStatus,
    Worker,
    current_run,
    step,
    workflow,
)
from holdfast.testing import Environment
from tests.life.waiting import kinds, until


@step(retry=Retry(attempts=1))
async def refuse() -> None:
    raise ConnectionError("not now")


@step(retry=Retry(attempts=1))
async def refuse_at_first() -> None:
    if current_run().attempt == 1:
        raise ConnectionError("not now")


@workflow
async def echo(n: int) -> int:
    return n


@workflow(retry=Retry(attempts=2, initial="1s"))
async def asking() -> int:
    try:
        await refuse()
    except ConnectionError:
        answer = await echo(current_run().attempt)
    if current_run().attempt == 1:
        raise ValueError("once more")
    return answer


@workflow(retry=Retry(attempts=2, initial="1s"))
async def mapping() -> list[int]:
    try:
        await refuse()
    except ConnectionError:
        answers = await holdfast.map(echo, [current_run().attempt])
    if current_run().attempt == 1:
        raise ValueError("once more")
    return answers


@workflow
async def approval() -> str:
    link = holdfast.hook(type=str)
    holdfast.set_value("token", link.token)
    return await link.wait()


@workflow(retry=Retry(attempts=2, initial="1s"))
async def approved() -> str:
    waiting: ChildRun[str] = approval.start()
    await refuse_at_first()
    return await waiting


@workflow(deadline="10m")
async def hurried(pause: str) -> str:
    await holdfast.sleep(pause)
    return "in time"


@workflow(retry=Retry(attempts=2, initial="1h", max="1h", jitter=0))
async def hurrying(pause: str) -> str:
    child = hurried.start(pause)
    await refuse_at_first()
    return await child


@workflow(retry=Retry(attempts=2, initial="1s"))
async def leaving() -> int:
    try:
        await refuse()
    except ConnectionError:
        child = approval.start() if current_run().attempt == 1 else None
    if child is not None:
        await holdfast.sleep("1s")
        raise ValueError("once more")
    await holdfast.sleep("1h")
    return 3


async def test_a_later_try_gets_the_result_of_its_own_child():
    async with Environment(workflows=[asking, echo]) as env:
        run = await env.client.start(asking)
        assert await run.result() == 2
        assert await env.client.count(RunFilter(workflow=echo)) == 2


async def test_a_later_try_maps_its_own_items():
    async with Environment(workflows=[mapping, echo]) as env:
        run = await env.client.start(mapping)
        assert await run.result() == [2]


async def test_the_deadline_of_a_child_that_is_begun_anew_counts_from_its_new_start():
    async with Environment(workflows=[hurrying, hurried]) as env:
        run = await env.client.start(hurrying, "9m")
        assert await run.result() == "in time"
        late = await env.client.start(hurrying, "11m")
        with pytest.raises(RunFailed) as failed:
            await late.result()
        assert isinstance(failed.value.__cause__, DeadlineExceeded)


async def test_a_child_that_is_asked_anew_has_hooks_that_can_be_resumed():
    async with Environment(workflows=[approved, approval]) as env:
        run = await env.client.start(approved)
        await env.until_waiting(run)
        await env.skip("1m")
        children = [child async for child in env.client.runs(RunFilter(workflow=approval))]
        tokens = {child.id: await child.value("token") for child in children}
        [live] = [child for child in children if child.status == "waiting"]
        assert len(set(tokens.values())) == 2
        await env.client.resume_hook(tokens[live.id], "yes")
        assert await run.result() == "yes"


async def test_a_child_that_no_later_try_asks_for_is_called_off():
    async with Environment(workflows=[leaving, approval]) as env:
        run = await env.client.start(leaving)
        await env.until_waiting(run)
        await env.skip("1m")
        [child] = [child async for child in env.client.runs(RunFilter(workflow=approval))]
        assert (await child.wait(), (await run.refresh()).status) == ("cancelled", "waiting")


LONG = "x" * 500


@workflow
async def own_id() -> str:
    await holdfast.wait_for_signal("go")
    if current_run().id == LONG:
        raise ConnectionError("not now")
    return current_run().id


@workflow(retry=Retry(attempts=2, initial="1ms"))
async def naming(id: str) -> str:
    child = own_id.options(id=id).start()
    child.signal("go", None)
    return await child


async def test_a_failed_child_with_the_longest_id_is_begun_anew_with_an_id_that_is_no_longer(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[naming, own_id]):
        found = await (await client.start(naming, LONG)).result(timeout="60s")
        assert (len(found), found == LONG) == (500, False)


@workflow
async def errand() -> str:
    word: str = await holdfast.wait_for_signal("go")
    return f"went {word}"


@workflow(retry=Retry(attempts=3, initial="1ms"))
async def sending() -> str:
    child = errand.options(key="the one").start()
    await refuse_twice()
    child.signal("go", "there")
    return await child


@workflow(retry=Retry(attempts=3, initial="1ms"))
async def calling_off() -> str:
    child = errand.options(key="the one").start()
    await refuse_twice()
    child.cancel()
    try:
        return await child
    except RunCancelled:
        return "called off"


@step(retry=Retry(attempts=1))
async def refuse_twice() -> None:
    if current_run().attempt < 3:
        raise ConnectionError("not now")


@workflow(retry=Retry(attempts=2, initial="1ms"))
async def waiting_for_it() -> str:
    child = errand.options(key="the one").start()
    await refuse_at_first()
    return await child


async def test_a_child_with_a_key_is_still_the_one_that_a_later_try_waits_for(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[waiting_for_it, errand]):
        run = await client.start(waiting_for_it)
        await until_retried(client, run.id)
        child = await client.get_run(errand, key="the one")
        await child.signal("go", "home")
        assert await run.result(timeout="60s") == "went home"
        assert await client.count(RunFilter(workflow=errand)) == 1


async def test_a_later_try_can_signal_a_child_that_has_a_key(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[sending, errand]):
        assert await (await client.start(sending)).result(timeout="60s") == "went there"


async def test_a_later_try_can_cancel_a_child_that_has_a_key(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[calling_off, errand]):
        assert await (await client.start(calling_off)).result(timeout="60s") == "called off"


@step(retry=Retry(attempts=1))
async def refuse_the_first() -> None:
    if current_run().id == current_run().origin_id:
        raise ConnectionError("not now")


@workflow
async def careful_errand() -> str:
    try:
        return f"went {await holdfast.wait_for_signal('go')}"
    finally:
        await holdfast.wait_for_signal("home")


@workflow
async def entrusting() -> str:
    child = careful_errand.options(key="the one").start()
    await holdfast.wait_for_signal("sent")
    await refuse_the_first()
    child.signal("go", "again")
    child.signal("home")
    return await child


async def test_a_run_that_is_retried_waits_for_no_child_that_its_own_failure_called_off(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[entrusting, careful_errand]):
        run = await client.start(entrusting)
        called_off = await until_sent(client)
        await run.signal("sent")
        assert await run.wait(timeout="60s") is RunStatus.FAILED
        again = await client.retry(run.id)

        async def is_asked_anew() -> bool:
            return (await client.get_run(careful_errand, key="the one")).id != called_off.id

        await until(is_asked_anew)
        await called_off.signal("home")
        assert await again.result(timeout="60s") == "went again"
        assert await called_off.wait(timeout="60s") is RunStatus.CANCELLED


async def until_sent(client: AsyncClient) -> AsyncRun[str]:
    found: list[AsyncRun[str]] = []

    async def is_so() -> bool:
        with suppress(RunNotFound):
            found[:] = [await client.get_run(careful_errand, key="the one")]
        return bool(found) and found[0].status is RunStatus.WAITING

    await until(is_so)
    return found[0]


async def until_retried(client: AsyncClient, run_id: str) -> None:
    async def is_so() -> bool:
        return "step_completed" in await kinds(client, run_id)

    await until(is_so)
