"""A client and a real worker on one file: what one writes, the other understands."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from holdfast.client import Reason
from holdfast.define import current_step, sleep, step, workflow
from holdfast.errors import RunCancelled, RunFailed
from holdfast.model import NO_RETRY
from holdfast.worker import Worker

CALLS: list[str] = []
IDEMPOTENCY_KEYS: set[str] = set()
IS_BROKEN = [True]


@dataclass
class Order:
    card: str
    cents: int


@step(retry=NO_RETRY)
async def reserve(cents: int) -> int:
    CALLS.append("reserve")
    return cents


@step(retry=NO_RETRY)
async def charge(card: str, cents: int) -> str:
    CALLS.append("charge")
    IDEMPOTENCY_KEYS.add(current_step().idempotency_key)
    if IS_BROKEN[0]:
        raise ConnectionError("the bank is closed")
    return f"{card}: {cents}"


@workflow
async def checkout(order: Order) -> str:
    return await charge(order.card, await reserve(order.cents))


@workflow
async def nap() -> None:
    await sleep("1h")


@pytest.fixture(autouse=True)
def _afresh():
    CALLS.clear()
    IDEMPOTENCY_KEYS.clear()
    IS_BROKEN[0] = True


async def test_a_retried_run_goes_on_from_the_failed_step_with_its_idempotency_key(client):
    async with Worker(client, workflows=[checkout]):
        failed = await client.start(checkout, Order("4711", 5), key="k")
        with pytest.raises(RunFailed, match="ConnectionError: the bank is closed") as refused:
            await failed.result(timeout="60s")
        assert isinstance(refused.value.__cause__, ConnectionError)
        IS_BROKEN[0] = False
        again = await client.start(checkout, Order("4711", 5), key="k", on_conflict="retry")
        assert await again.result(timeout="60s") == "4711: 5"
    assert CALLS == ["reserve", "charge", "charge"]
    assert len(IDEMPOTENCY_KEYS) == 1


async def test_a_run_started_by_name_gets_its_arguments_by_its_annotations(client):
    IS_BROKEN[0] = False
    async with Worker(client, workflows=[checkout]):
        run = await client.start("checkout", order={"card": "4711", "cents": 7})
        assert await run.result(timeout="60s") == "4711: 7"


async def test_a_sleeping_run_is_explained_and_can_be_cancelled(client):
    async with Worker(client, workflows=[nap]):
        run = await client.start(nap)
        async with asyncio.timeout(60):
            while (answer := await client.explain(run.id)).reason is not Reason.SLEEPING:
                await asyncio.sleep(0.01)
        assert "sleeps until" in str(answer)
        assert await run.cancel(reason="time to get up")
        with pytest.raises(RunCancelled, match="time to get up"):
            await run.result(timeout="60s")


async def test_many_results_are_waited_for_at_once(client):
    IS_BROKEN[0] = False
    async with Worker(client, workflows=[checkout]):
        runs = await client.start_many(checkout, [(Order("c", n),) for n in range(100)])
        results = await asyncio.gather(*(run.result(timeout="60s") for run in runs))
    assert results == [f"c: {n}" for n in range(100)]
