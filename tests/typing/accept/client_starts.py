"""Starts and handles that must type-check, and what is inferred of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from holdfast.client import AsyncClient, AsyncRun, Client, Run, StreamItem
from holdfast.define import workflow
from holdfast.model import Page, RunFilter, RunStatus


@dataclass
class Receipt:
    number: int


@workflow
async def checkout(card: str, cents: int = 0) -> Receipt:
    return Receipt(cents)


@workflow(name="render", version="2")
def render(*, page: int) -> bytes:
    return b""


async def passed_on(client: AsyncClient, key: str | None, tags: dict[str, str] | None, delay: timedelta | None) -> None:
    assert_type(await client.start(checkout, "4711", key=key), AsyncRun[Receipt])
    assert_type(await client.start(checkout, "4711", id=key), AsyncRun[Receipt])
    assert_type(await client.start(checkout, "4711", tags=tags, delay=delay), AsyncRun[Receipt])
    assert_type(await client.start(checkout, "4711", deadline=delay), AsyncRun[Receipt])
    assert_type(await client.start(checkout, "4711", queue=key), AsyncRun[Receipt])


async def slow(client: AsyncClient) -> None:
    run = await client.start(checkout, "4711", cents=5)
    assert_type(run, AsyncRun[Receipt])
    assert_type(await run.result(timeout="30s"), Receipt)
    assert_type(await run.wait(timeout=timedelta(seconds=1)), RunStatus)
    assert_type(await client.start(checkout.options(key="order-42", delay="5m"), "4711"), AsyncRun[Receipt])
    assert_type(await client.start(checkout, "4711", key="order-42", priority=5), AsyncRun[Receipt])
    assert_type(await client.start(checkout, "4711", 5, deadline=datetime.now(UTC)), AsyncRun[Receipt])
    assert_type(await client.start(checkout, "4711", tags={"shop": "north"}), AsyncRun[Receipt])
    assert_type(await client.start(render, page=3), AsyncRun[bytes])
    assert_type(await client.start(render, page=3, id="mine", on_conflict="raise"), AsyncRun[bytes])
    assert_type(await client.start("checkout", "4711", key="order-42"), AsyncRun[Any])
    assert_type(await client.start_many(checkout, [("4711",), ("4712", 5)], priority=1), list[AsyncRun[Receipt]])
    assert_type(await client.start_many("checkout", [("4711",)]), list[AsyncRun[Any]])
    assert_type(await client.get_run(run.id), AsyncRun[Any])
    assert_type(await client.get_run(checkout, key="order-42"), AsyncRun[Receipt])
    assert_type(await client.get_run(checkout, id=run.id), AsyncRun[Receipt])
    assert_type(await client.retry(run.id), AsyncRun[Any])
    async for one in client.runs(RunFilter(workflow="checkout", status=("failed", RunStatus.CANCELLED))):
        assert_type(one, AsyncRun[Any])
    await client.cancel(RunFilter(status=["pending", "waiting"]))
    await client.cancel(RunFilter(status={RunStatus.PENDING}))
    assert_type(await client.runs().page(limit=5), Page[AsyncRun[Any]])
    async for item in run.stream("receipts", after=3, type=Receipt):
        assert_type(item, StreamItem[Receipt])
    run.stream("receipts", type=Receipt | None)
    assert_type(await run.value("receipt", type=Receipt), Receipt | None)
    assert_type(await run.value("receipt", default=0, type=Receipt), Receipt | int)
    await run.value("receipt", default=0, type=Receipt | str)
    assert_type(await run.value("receipt", default=0), Any)
    assert_type(await run.value("receipt"), Any)
    async for bare in run.stream("receipts"):
        assert_type(bare, StreamItem[Any])


def quickly_passed_on(client: Client, key: str | None, priority: int | None) -> None:
    assert_type(client.start(checkout, "4711", key=key, priority=priority), Run[Receipt])
    assert_type(client.start(checkout, "4711", priority=priority), Run[Receipt])


def quick(client: Client) -> None:
    run = client.start(checkout, "4711", cents=5)
    assert_type(run, Run[Receipt])
    assert_type(run.result(30), Receipt)
    assert_type(run.refresh(), Run[Receipt])
    assert_type(client.start(checkout.options(key="order-42"), "4711"), Run[Receipt])
    assert_type(client.start(checkout, "4711", key="order-42"), Run[Receipt])
    assert_type(client.start("checkout", "4711"), Run[Any])
    assert_type(client.start_many(render, [()]), list[Run[bytes]])
    assert_type(client.get_run(checkout, key="order-42"), Run[Receipt])
    for one in client.runs():
        assert_type(one, Run[Any])
    assert_type(run.value("receipt", type=Receipt), Receipt | None)
    assert_type(run.value("receipt", default=0, type=Receipt), Receipt | int)
    assert_type(run.value("receipt"), Any)
    for item in run.stream("receipts", type=list[Receipt]):
        assert_type(item, StreamItem[list[Receipt]])


def covariant(run: Run[Receipt]) -> Run[object]:
    return run
