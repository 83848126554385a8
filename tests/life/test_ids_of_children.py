"""A child's id is nobody else's, and stays what the body was told: else it would be taken for another run, or a retry
would not match its journal."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

import holdfast
from holdfast import AsyncClient, Retry, RunFilter, Worker, current_run, step, workflow
from holdfast.testing import Environment
from tests.life.waiting import until_waiting


@workflow(name="shop")
async def shop() -> str:
    return f"shop with {await orders()}"


@workflow(name="orders")
async def orders() -> str:
    return "its orders"


@workflow(name="shop.orders")
async def shop_orders() -> str:
    return "all orders"


@workflow
async def both() -> list[str]:
    return list(await asyncio.gather(shop_orders(), shop()))


async def test_a_childs_child_is_not_taken_for_a_child_whose_name_has_a_dot():
    async with Environment([both, shop, orders, shop_orders]) as env:
        assert await (await env.client.start(both)).result() == ["all orders", "shop with its orders"]


paid: list[int] = []


@step
async def pay(cents: int) -> int:
    paid.append(cents)
    return cents


@workflow
async def payment(cents: int) -> int:
    return await pay(cents)


@workflow
async def order(cents: int) -> int:
    return await payment(cents)


@workflow
async def orders_at_once(cents: int) -> int:
    return sum(await holdfast.map(payment, [cents, cents]))


@pytest.mark.parametrize(("asking", "times"), [(order, 1), (orders_at_once, 2)])
async def test_a_run_with_the_id_of_a_deleted_one_has_children_of_its_own(url, asking, times):
    paid.clear()
    async with AsyncClient(url) as client, Worker(client, workflows=[asking, payment]):
        await (await client.start(asking, 5, id="order-1")).result(timeout=60)
        await client.delete("order-1")
        run = await client.start(asking, 7, id="order-1")
        assert await run.result(timeout=60) == 7 * times
        assert paid == [5] * times + [7] * times


@workflow
async def slow(who: str) -> str:
    await holdfast.wait_for_signal("end")
    return who


@workflow
async def leaving(who: str, waits: bool) -> str:
    child = slow.options(on_parent_end="abandon").start(who)
    return await child if waits else str(child.id)


async def test_a_run_with_the_id_of_a_deleted_one_does_not_take_an_end_of_its_child_for_its_own(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[leaving, slow]):
        old = await (await client.start(leaving, "old", False, id="leaving-1")).result(timeout=60)
        assert await client.delete("leaving-1") == 1
        run = await client.start(leaving, "new", True, id="leaving-1")
        await until_waiting(run)
        [new] = [one.id async for one in client.runs(RunFilter(workflow=slow)) if one.id != old]
        for child in (old, new):
            await client.signal(child, "end")
            await (await client.get_run(child)).result(timeout=60)
        assert await run.result(timeout=60) == "new"


is_away: list[bool] = []


@step
async def note(run_id: str) -> None: ...


@step(retry=Retry(attempts=1))
async def deliver() -> None:
    if is_away:
        raise ConnectionError("not now")


@workflow
async def errand() -> str:
    word: str = await holdfast.wait_for_signal("go")
    return f"went {word}"


@workflow
async def sending_later() -> str:
    child = errand.start()
    await note(child.id)
    await deliver()
    child.signal("go", "there")
    return await child


@workflow
async def sending_first() -> str:
    child = errand.start()
    await note(child.id)
    child.signal("go", "there")
    went = await child
    await deliver()
    return went


@pytest.mark.parametrize("how", ["retry", "fork"])
@pytest.mark.parametrize("body", [sending_later, sending_first])
async def test_a_run_whose_step_got_the_id_of_a_child_can_be_retried_and_forked(body, how):
    is_away[:] = [True]
    async with Environment([body, errand]) as env:
        run = await env.client.start(body)
        assert await run.wait() == "failed"
        is_away.clear()
        again = await (env.client.retry(run.id) if how == "retry" else env.client.fork(run.id, at="deliver"))
        assert await again.result() == "went there"


async def test_each_of_two_forks_has_its_own_child_in_place_of_one_that_was_open():
    is_away[:] = [True]
    async with Environment([sending_later, errand]) as env:
        run = await env.client.start(sending_later)
        await run.wait()
        is_away.clear()
        forks = [await env.client.fork(run.id, at="deliver") for _ in range(2)]
        assert [await fork.result() for fork in forks] == ["went there", "went there"]
        assert await env.client.count(RunFilter(workflow=errand)) == 3


@step(retry=Retry(attempts=1))
async def refuse_until(attempt: int) -> None:
    if current_run().attempt < attempt:
        raise ConnectionError("not now")


@workflow(retry=Retry(attempts=3, initial="1m"))
async def asking_thrice() -> str:
    child = errand.start()
    await refuse_until(3)
    await holdfast.sleep("1m")
    child.signal("go", "there")
    return await child


async def test_the_third_try_does_not_take_the_end_of_the_second_try_s_child_for_that_of_its_own():
    async with Environment([asking_thrice, errand]) as env:
        assert await (await env.client.start(asking_thrice)).result() == "went there"


@workflow(retry=Retry(attempts=3, initial="1m"))
async def failing_earlier() -> str:
    child = errand.start()
    with suppress(ConnectionError):
        await refuse_until(3)
    await refuse_until(2)
    if current_run().attempt == 2:
        raise ValueError("once more, from the failure before")
    await holdfast.sleep("1m")
    child.signal("go", "there")
    return await child


async def test_a_third_try_that_goes_on_from_an_earlier_place_does_not_take_the_second_try_s_child_for_its_own():
    async with Environment([failing_earlier, errand]) as env:
        assert await (await env.client.start(failing_earlier)).result() == "went there"
