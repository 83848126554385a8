"""Undoing what was done: compensations run as steps, last first, when a run fails, is cancelled or calls rollback().

Look at the order: the hotel was booked last and is given back first. Nothing is undone in the trip that completes.
"""

import asyncio
import tempfile

import holdfast
from holdfast import AsyncClient, FatalError, RunFailed, Worker, step, workflow


def undo(what: str) -> None:  # a plain function becomes a step, too
    print(f"undo {what}")


@step(compensate=undo)  # registered with its result: if the run fails later, undo(result) is called
async def pay(cents: int) -> str:
    return f"payment of {cents}"


@step
async def book(what: str) -> None:
    if what == "moon":
        raise FatalError("no flights to the moon")


@workflow
async def trip(goal: str) -> str:
    await pay(1200)
    await book("hotel")
    holdfast.compensate(undo, "hotel")
    await book(goal)
    return f"off to {goal}"


@workflow
async def doubt() -> str:
    await pay(700)
    await holdfast.rollback()  # undo everything registered so far, now, and go on
    return "stayed at home"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/trips.db") as client, Worker(client, workflows=[trip, doubt]):
            print(await (await client.start(trip, "Rome")).result(timeout=30))
            try:
                await (await client.start(trip, "moon")).result(timeout=30)
            except RunFailed as error:
                print("failed:", error.__cause__)
            print(await (await client.start(doubt)).result(timeout=30))


if __name__ == "__main__":
    asyncio.run(main())
