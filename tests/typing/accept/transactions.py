"""Transactional steps, which are called without the connection that their function takes, and starts inside one."""

from __future__ import annotations

import sqlite3
from typing import Any, assert_type

from holdfast import AsyncClient, Client, Pending, Retry, step, workflow
from holdfast.client import AsyncRun, Run
from holdfast.define import AsyncStep, BlockingStep


class Connection:
    """One that is awaited."""


@step(transaction=True)
def book(db: sqlite3.Connection, order: str, *, seats: int = 1) -> int:
    return seats


@step(transaction=True, retry=Retry(attempts=5), timeout="2s", name="reserved")
async def reserve(db: Connection, order: str) -> bytes:
    return b""


@step(transaction=False)
def plain(order: str) -> int:
    return 1


@workflow
async def order(name: str) -> int:
    assert_type(book(name, seats=2), int)
    assert_type(await reserve(name), bytes)
    assert_type(book.start(name), Pending[int])
    assert_type(await book.start(name), int)
    assert_type(plain(name), int)
    return book.options(timeout="1s")(name)


def colours(both: tuple[BlockingStep[..., int], AsyncStep[..., bytes]]) -> None: ...


def outside(db: sqlite3.Connection) -> None:
    colours((book, reserve))
    book.fn(db, "a")


def blocking(client: Client, db: sqlite3.Connection) -> None:
    assert_type(client.start(order, "a", connection=db), Run[int])
    assert_type(client.start(order.options(key="a"), "a", connection=db), Run[int])
    assert_type(client.start("order", "a", connection=db), Run[Any])
    assert_type(client.start_many(order, [("a",)], connection=db), list[Run[int]])
    client.get_run("a").signal("paid", 1, connection=db)
    client.signal("a", "paid", 1, message_id="m", connection=db)
    client.publish("paid", connection=db)
    client.resume_hook("token", connection=db)


async def awaited(client: AsyncClient, db: Connection) -> None:
    assert_type(await client.start(order, "a", connection=db), AsyncRun[int])
    assert_type(await client.start_many(order, [("a",)], connection=db), list[AsyncRun[int]])
    await (await client.get_run("a")).signal("paid", 1, connection=db)
    await client.signal("a", "paid", 1, message_id="m", connection=db)
    await client.publish("paid", connection=db)
    await client.resume_hook("token", connection=db)
