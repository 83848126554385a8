"""map: a step or a child for each of many items, in chunks, with results in order."""

from __future__ import annotations

import asyncio
import threading

import pytest

import holdfast
from holdfast import AsyncClient, Failure, Retry, RunFailed, StepFailed, Worker, blocking, step, workflow
from holdfast.testing import Environment, assert_durable
from tests.life.waiting import kinds

executed: dict[int, int] = {}


@step
async def double(n: int) -> int:
    executed[n] = 2 * n
    return 2 * n


@step
def triple(n: int) -> int:
    return 3 * n


@step(retry=Retry(attempts=1))
async def picky(n: int) -> int:
    if n == 3:
        raise ValueError("not three")
    return n


@workflow
async def child(n: int) -> int:
    return await double(n)


@workflow
async def picky_child(n: int) -> int:
    return await picky(n)


@workflow
async def doubling(count: int, chunk: int | None = None) -> list[int]:
    return await holdfast.map(double, range(count), chunk=chunk)


@workflow
def tripling(count: int) -> list[int]:
    return blocking.map(triple, range(count))


@workflow
async def with_children(count: int) -> list[int]:
    return await holdfast.map(child, range(count), concurrency=2)


async def test_results_come_in_the_order_of_the_items():
    async with Environment(doubling) as env:
        assert await (await env.client.start(doubling, 25)).result() == [2 * n for n in range(25)]


async def test_a_plain_body_maps_plain_steps():
    async with Environment(tripling) as env:
        assert await (await env.client.start(tripling, 5)).result() == [0, 3, 6, 9, 12]


async def test_map_blocks_a_plain_body_without_being_told():
    @workflow
    def plain() -> list[int]:
        return list(holdfast.map(triple, [1, 2]))  # type: ignore[call-overload]

    async with Environment(plain) as env:
        assert await (await env.client.start(plain)).result() == [3, 6]


async def test_a_map_without_items_gives_an_empty_list():
    async with Environment(doubling) as env:
        assert await (await env.client.start(doubling, 0)).result() == []


async def test_a_chunk_is_one_step_of_the_journal():
    async with Environment(doubling) as env:
        run = await env.client.start(doubling, 100, 25)
        await run.result()
        assert (await kinds(env.client, run.id)).count("step_completed") == 4


async def test_a_chunk_of_a_step_that_records_its_arguments_records_its_items():
    @step(record_args=True)
    async def noted(n: int) -> int:
        return n

    @workflow
    async def noting() -> list[int]:
        return await holdfast.map(noted, [1, 2, 3], chunk=2)

    async with Environment(noting) as env:
        run = await env.client.start(noting)
        await run.wait()
        asked = [entry.value for entry in await env.client.journal(run.id) if entry.kind == "step_asked"]
    assert asked == [[[1, 2]], [[3]]]


async def test_a_workflow_is_mapped_too():
    async with Environment([with_children, child]) as env:
        assert await (await env.client.start(with_children, 5)).result() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("target", [picky, picky_child])
async def test_the_first_failure_stops_everything_and_is_raised(target):
    @workflow
    async def stopping() -> list[int]:
        return await holdfast.map(target, range(6))

    async with Environment([stopping, picky_child]) as env:
        with pytest.raises(RunFailed) as failed:
            await (await env.client.start(stopping)).result()
        assert isinstance(failed.value.__cause__, ValueError)


@pytest.mark.parametrize("target", [picky, picky_child])
async def test_a_map_that_collects_gives_a_failure_in_the_place_of_its_item(target):
    @workflow
    async def collecting() -> list[str]:
        found = await holdfast.map(target, range(5), on_error="collect")
        return [one.message if isinstance(one, Failure) else str(one) for one in found]

    async with Environment([collecting, picky_child]) as env:
        assert await (await env.client.start(collecting)).result() == ["0", "1", "2", "not three", "4"]


async def test_a_collected_failure_is_falsy():
    assert not Failure("ValueError", "no")


async def test_no_more_chunks_than_asked_for_are_under_way_at_once():
    most = {"now": 0, "ever": 0}

    @step
    async def counted(n: int) -> int:
        most["now"] += 1
        most["ever"] = max(most["ever"], most["now"])
        await asyncio.sleep(0)
        most["now"] -= 1
        return n

    @workflow
    async def counting() -> list[int]:
        return await holdfast.map(counted, range(20), concurrency=3, chunk=1)

    async with Environment(counting) as env:
        assert await (await env.client.start(counting)).result() == list(range(20))
        assert most["ever"] <= 3


@pytest.mark.parametrize("wrong", [{"concurrency": 0}, {"concurrency": None}, {"chunk": -1}, {"on_error": "shrug"}])
async def test_wrong_arguments_of_a_map_are_refused_at_the_call(wrong):
    @workflow
    async def odd() -> str:
        try:
            await holdfast.map(double, [1], **wrong)
        except holdfast.DefinitionError:
            return "refused"
        return "taken"

    async with Environment(odd) as env:
        assert await (await env.client.start(odd)).result() == "refused"


async def test_a_map_that_was_forgotten_is_never_awaited():
    @workflow
    async def forgetful() -> None:
        holdfast.map(double, [1])  # type: ignore[unused-coroutine]

    async with Environment(forgetful) as env:
        with pytest.raises(holdfast.NeverAwaited):
            await (await env.client.start(forgetful)).result()


def test_map_survives_a_crash_at_every_commit():
    assert_durable(doubling, 4, 2, effects=executed)


def test_a_map_over_children_survives_a_crash_at_every_commit():
    assert_durable(with_children, 2, effects=executed)


async def test_a_thousand_items_are_mapped_on_every_store(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[doubling]):
        run = await client.start(doubling, 1000)
        assert await run.result(timeout=60) == [2 * n for n in range(1000)]


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_item_that_does_not_end_in_time_is_a_step_timeout(is_async):
    release = threading.Event()

    @step(timeout=0.01, retry=Retry(attempts=2, initial=0))
    async def slow(n: int) -> int:
        await asyncio.Event().wait() if n == 1 else None
        return n

    @step(timeout=0.01, retry=Retry(attempts=2, initial=0))
    def slow_thread(n: int) -> int:
        if n == 1:
            release.wait(60)
        return n

    @workflow
    async def timing() -> list[str]:
        found = await holdfast.map(slow if is_async else slow_thread, range(3), on_error="collect")
        return [one.type if isinstance(one, Failure) else str(one) for one in found]

    async with Environment(timing) as env:
        assert await (await env.client.start(timing)).result() == ["0", "StepTimeout", "2"]
    release.set()


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_item_knows_which_attempt_of_its_own_it_is(is_async):
    def third_time(n: int) -> tuple[int, int]:
        attempt = holdfast.current_step().attempt
        if n == 1 and attempt < 3:
            raise ConnectionError
        return n, attempt

    @step(retry=Retry(attempts=3, initial=0))
    async def trying(n: int) -> tuple[int, int]:
        return third_time(n)

    @workflow
    async def tried() -> list[tuple[int, int]]:
        target = trying if is_async else step(retry=Retry(attempts=3, initial=0))(third_time)
        return await holdfast.map(target, range(3), chunk=3)

    async with Environment(tried) as env:
        assert await (await env.client.start(tried)).result() == [(0, 1), (1, 3), (2, 1)]


@pytest.mark.parametrize("is_async", [True, False])
@pytest.mark.parametrize("on_error", ["stop", "collect"])
async def test_an_item_that_raises_stop_iteration_is_not_tried_again(is_async, on_error):
    seen: list[int] = []

    @step
    async def ended(n: int) -> int:
        seen.append(n)
        raise StopIteration

    @step
    def ended_thread(n: int) -> int:
        seen.append(n)
        raise StopIteration

    @workflow
    async def ending() -> list[str]:
        try:
            found = await holdfast.map(ended if is_async else ended_thread, [1], on_error=on_error)
        except StepFailed as error:
            return [error.type]
        return [one.type for one in found if isinstance(one, Failure)]

    async with Environment(ending) as env:
        [name] = await (await env.client.start(ending)).result()
        assert name.endswith("StopIteration")
    assert seen == [1]


@pytest.mark.parametrize("is_async", [True, False])
async def test_an_item_whose_resource_was_not_given_is_not_tried_again(is_async):
    seen: list[int] = []

    @holdfast.resource
    def pool():
        yield 1

    def needing(n: int) -> int:
        seen.append(n)
        return pool()

    @step
    async def needing_too(n: int) -> int:
        return needing(n)

    @workflow
    async def forgetful() -> list[int]:
        return await holdfast.map(needing_too if is_async else step(needing), [1])

    async with Environment(forgetful) as env:
        with pytest.raises(RunFailed, match="is not open on this worker"):
            await (await env.client.start(forgetful)).result()
    assert seen == [1]


async def test_an_item_whose_error_the_policy_can_t_read_fails_alone():
    @step
    async def odd(n: int) -> int:
        later = holdfast.RetryAfter("1s")
        if n == 1:
            later.delay = "soon"
            raise later
        return n

    @workflow
    async def trying() -> list[str]:
        found = await holdfast.map(odd, [1, 2], on_error="collect", chunk=2)
        return [one.type if isinstance(one, Failure) else str(one) for one in found]

    async with Environment(trying) as env:
        assert await (await env.client.start(trying)).result() == ["BadDuration", "2"]


async def test_an_item_in_a_thread_sees_that_its_time_is_up():
    saw = threading.Event()

    @step(timeout=0.01, retry=Retry(attempts=1))
    def looking(n: int) -> int:
        info = holdfast.current_step()
        while not info.cancelled:
            saw.wait(0.001)
        saw.set()
        return n

    @workflow
    async def waiting() -> None:
        await holdfast.map(looking, [1])

    async with Environment(waiting) as env:
        with pytest.raises(RunFailed):
            await (await env.client.start(waiting)).result()
    assert await asyncio.to_thread(saw.wait, 60)


async def test_items_of_a_chunk_that_failed_are_undone_on_every_store(url):
    undone = []

    @step
    def forget(name: str) -> None:
        undone.append(name)

    @step(compensate=forget, retry=Retry(attempts=1))
    def remember(n: int) -> str:
        if n == 3:
            raise ValueError("not three")
        return f"note {n}"

    @workflow
    async def noting() -> list[str]:
        return await holdfast.map(remember, range(6), chunk=6)

    async with AsyncClient(url) as client, Worker(client, workflows=[noting]):
        with pytest.raises(RunFailed):
            await (await client.start(noting)).result(timeout=60)
    assert undone == ["note 2", "note 1", "note 0"]


async def test_results_of_a_map_that_can_t_be_stored_are_reported_with_its_name():
    @step(name="odd")
    def odd(n: int):
        return object()

    @workflow
    async def mapping() -> None:
        await holdfast.map(odd, [1])

    async with Environment(mapping) as env:
        with pytest.raises(RunFailed, match=r"returned by odd\.map\(\)"):
            await (await env.client.start(mapping)).result()


@pytest.mark.parametrize("timeout", [None, "2h", "1m"])
async def test_an_item_knows_when_it_must_have_ended(timeout):
    """With its run, or by its own timeout, whichever comes first."""

    @step(timeout=timeout)
    async def left(n: int) -> float:
        run, ends = holdfast.current_run(), holdfast.current_step().deadline
        assert ends is not None
        return (ends - run.started_at).total_seconds()

    @workflow(deadline="1h")
    async def body() -> list[float]:
        return await holdfast.map(left, [1])

    async with Environment(body) as env:
        assert await (await env.client.start(body)).result() == [60 if timeout == "1m" else 3_600]
