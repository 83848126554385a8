"""Idempotency keys of steps: what a payment provider is told, so that one deed is done once and the next is another."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import AsyncClient, Retry, RunStatus, Worker, step, workflow
from holdfast.testing import Environment, assert_durable

charged: dict[str, int] = {}
"""A payment provider's books: by idempotency key, so that charging twice under one key is charging once."""
asked: list[str] = []
"""Every key that the provider was given, in order."""
is_away: dict[str, bool] = {}
refunded: dict[str, str] = {}


@pytest.fixture(autouse=True)
def fresh():
    for known in (charged, asked, is_away, refunded):
        known.clear()


@step(retry=Retry(attempts=1))
async def charge(month: int) -> str:
    key = holdfast.current_step().idempotency_key
    asked.append(key)
    if is_away.get(str(month)):
        raise ConnectionError(f"month {month}")
    charged.setdefault(key, month)
    return key


@step
async def refund(what: str) -> None:
    refunded[holdfast.current_step().idempotency_key] = what


@workflow
async def subscription(month: int, months: int) -> None:
    await charge(month)
    if month < months:
        subscription.continue_as_new(month + 1, months)


@workflow
async def double_charge() -> list[str]:
    return [await charge(1), await charge(2)]


@workflow
async def undone_in_the_end(month: int) -> None:
    holdfast.compensate(refund, f"month {month}")
    await charge(month)
    if month < 3:
        undone_in_the_end.continue_as_new(month + 1)
    raise ValueError("it was never wanted")


@workflow
async def undone_each_month(month: int) -> None:
    holdfast.compensate(refund, f"month {month}")
    await holdfast.rollback()
    if month < 3:
        undone_each_month.continue_as_new(month + 1)


async def successor_of(client: AsyncClient, run_id: str) -> str:
    found = (await client.get_run(run_id)).record.successor_id
    assert found is not None
    return found


async def test_the_key_of_a_first_run_is_its_id_and_the_step_s_key():
    async with Environment(double_charge) as env:
        run = await env.client.start(double_charge)
        assert await run.result() == [f"{run.id}/charge", f"{run.id}/charge:1"]


async def test_every_month_of_a_subscription_is_charged(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[subscription]):
        await (await client.start(subscription, 1, 4)).result(30)
    assert sorted(charged.values()) == [1, 2, 3, 4]


def test_a_crash_charges_no_month_twice():
    assert_durable(subscription, 1, 3, effects=charged)


async def test_a_retry_charges_under_the_key_of_the_run_that_failed():
    is_away["1"] = True
    async with Environment(subscription) as env:
        run = await env.client.start(subscription, 1, 1)
        for _ in range(2):
            assert await run.wait() is RunStatus.FAILED
            run = await env.client.retry(run.id)
        await run.wait()
    assert len(asked) == 3
    assert len(set(asked)) == 1


async def test_a_retry_of_a_successor_charges_under_the_successor_s_key(url):
    is_away["2"] = True
    async with AsyncClient(url) as client, Worker(client, workflows=[subscription]):
        first = await client.start(subscription, 1, 3)
        with pytest.raises(holdfast.RunFailed):
            await first.result(30)
        failed = await successor_of(client, first.id)
        again = await client.retry(failed)
        with pytest.raises(holdfast.RunFailed):
            await again.result(30)
        is_away.clear()
        await (await client.retry(again.id)).result(30)
    assert asked[:4] == [f"{first.id}/charge", *[f"{failed}/charge"] * 3]
    assert len(set(asked)) == 3
    assert sorted(charged.values()) == [1, 2, 3]


async def test_a_workflow_s_own_retry_keeps_its_keys():
    @workflow(retry=Retry(attempts=2, initial="1s"))
    async def stubborn() -> None:
        await charge(1)

    is_away["1"] = True
    async with Environment(stubborn) as env:
        await (await env.client.start(stubborn)).wait()
    assert len(asked) == 2
    assert len(set(asked)) == 1


async def test_a_fork_of_a_successor_charges_under_a_key_of_its_own():
    async with Environment(subscription) as env:
        run = await env.client.start(subscription, 1, 2)
        await run.result()
        successor = await successor_of(env.client, run.id)
        fork = await env.client.fork(successor, at="charge")
        await fork.result()
    assert asked == [f"{run.id}/charge", f"{successor}/charge", f"{fork.id}/charge"]


async def test_compensations_carried_along_a_chain_have_idempotency_keys_of_the_run_that_executes_them():
    async with Environment(undone_in_the_end) as env:
        run = await env.client.start(undone_in_the_end, 1)
        await run.wait()
        last = await successor_of(env.client, await successor_of(env.client, run.id))
    assert refunded == {
        f"{last}/refund": "month 3",
        f"{last}/refund:1": "month 2",
        f"{last}/refund:2": "month 1",
    }


async def test_compensations_of_each_run_of_a_chain_have_idempotency_keys_of_their_own():
    async with Environment(undone_each_month) as env:
        await (await env.client.start(undone_each_month, 1)).result()
    assert sorted(refunded.values()) == ["month 1", "month 2", "month 3"]


def test_a_crash_does_not_change_the_idempotency_key_of_a_compensation():
    assert_durable(undone_in_the_end, 1, effects=refunded)


async def test_a_retry_of_a_run_imported_into_another_database_keeps_its_idempotency_keys():
    is_away["1"] = True
    async with Environment(subscription) as old, Environment(subscription) as new:
        run = await old.client.start(subscription, 1, 1)
        await run.wait()
        again = await old.client.retry(run.id)
        await again.wait()
        line = await old.client.export(again.id)
        await new.client.import_run(line)
        await (await new.client.retry(again.id)).wait()
    assert len(asked) == 3
    assert len(set(asked)) == 1


@step(retry=Retry(attempts=2, initial=0.001))
async def charge_item(cents: int) -> str:
    return _charged_once_refused(cents)


@step(retry=Retry(attempts=2, initial=0.001))
def charge_plainly(cents: int) -> str:
    return _charged_once_refused(cents)


def _charged_once_refused(cents: int) -> str:
    """Every item is refused once, and charged when it is tried again."""
    key = holdfast.current_step().idempotency_key
    asked.append(key)
    if asked.count(key) == 1:
        raise ConnectionError
    charged.setdefault(key, cents)
    return key


MAPPED = {
    "async def": charge_item,
    "async def in time": charge_item.options(timeout="10s"),
    "def": charge_plainly,
    "def in time": charge_plainly.options(timeout="10s"),
}


@workflow
async def mapping(how: str) -> list[str]:
    return await holdfast.map(MAPPED[how], [5, 5, 7], chunk=2)


@workflow
async def mapping_charges(n: int) -> list[str]:
    return await holdfast.map(charge, list(range(n)), chunk=10)


@pytest.mark.parametrize("how", MAPPED)
async def test_every_item_of_a_chunk_is_charged_under_a_key_of_its_own(how):
    async with Environment(mapping) as env:
        keys = await (await env.client.start(mapping, how)).result()
    assert charged == dict(zip(keys, [5, 5, 7], strict=True))
    assert len(charged) == 3
    assert [asked.count(key) for key in keys] == [2, 2, 2]


def test_a_chunk_that_is_interrupted_charges_no_item_twice():
    assert_durable(mapping_charges, 3, effects=charged)


async def test_a_retry_charges_the_items_of_a_failed_chunk_under_their_keys():
    is_away["1"] = True
    async with Environment(mapping_charges) as env:
        run = await env.client.start(mapping_charges, 3)
        assert await run.wait() is RunStatus.FAILED
        is_away.clear()
        keys = await (await env.client.retry(run.id)).result()
    assert asked == [*keys[:2], *keys]
    assert list(charged.values()) == [0, 1, 2]
