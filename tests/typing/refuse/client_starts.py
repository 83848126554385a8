"""Starts and handles that must not type-check."""

from __future__ import annotations

from holdfast.client import AsyncClient, Client
from holdfast.define import workflow


@workflow
async def checkout(card: str, cents: int = 0) -> int:
    return cents


def plain(card: str) -> int:
    return 0


async def slow(client: AsyncClient) -> None:
    await client.start(checkout)  # refused: No overload variant of "start"
    await client.start(checkout, 5)  # refused: No overload variant of "start"
    await client.start(checkout, "4711", "five")  # refused: No overload variant of "start"
    await client.start(checkout, "4711", colour="red")  # refused: Unexpected keyword argument "colour"
    await client.start(checkout.options(key="k"), 5)  # refused: No overload variant of "start"
    await client.start(checkout, "4711", key=5)  # refused: Unexpected keyword argument "key"
    await client.start(plain, "4711")  # refused: No overload variant of "start"
    await client.start_many(checkout, [("4711",)], key="k")  # refused: No overload variant of "start_many"
    await client.get_run(checkout)  # refused: No overload variant of "get_run"
    run = await client.start(checkout, "4711")
    text: str = await run.result()  # refused: Incompatible types in assignment (expression has type "int"
    await run.result("30s", 5)  # refused: Too many arguments for "result" of "AsyncRun"
    async for item in run.stream("cents", type=int):
        word: str = item.value  # refused: Incompatible types in assignment (expression has type "int"
    cents: int = await run.value("cents", type=int)  # refused: Incompatible types in assignment
    await run.value("cents", default=0, type=5)  # refused: No overload variant of "value"
    run.stream("cents", type=5)  # refused: No overload variant of "stream"
    run.id = 5  # refused: Incompatible types in assignment
    run.status = "completed"  # refused: Property "status" defined in "AsyncRun" is read-only


def quick(client: Client) -> None:
    client.start(checkout, 5)  # refused: No overload variant of "start"
    client.start(checkout.options(key="k"))  # refused: No overload variant of "start"
    text: str = client.start(checkout, "4711").result()  # refused: Incompatible types in assignment
    client.cancel("id", "because")  # refused: No overload variant of "cancel" of "Client"
