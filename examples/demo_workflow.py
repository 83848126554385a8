"""The demo's order: its steps, its workflow, and the worker process that serves it.

Every step writes a line into a file when it begins and when it ends. That file is outside the store: not Holdfast, but
the file says what was executed, how often, and by which process.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass

import holdfast
from holdfast import Retry, Worker, current_step, step, workflow

EFFECTS = "HOLDFAST_DEMO_EFFECTS"
PACKING = "HOLDFAST_DEMO_PACKING"
"""For how many seconds a worker packs."""


@dataclass(frozen=True)
class Receipt:
    bill: str
    payment: str
    delivery: str


def note(what: str) -> None:
    """Append one whole line to the effects file. It is on disk before the step goes on."""
    info = current_step()
    line = {"what": what, "step": info.key, "attempt": info.attempt, "pid": os.getpid(), "at": time.time()}
    descriptor = os.open(os.environ[EFFECTS], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, (json.dumps(line) + "\n").encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@step
async def reserve(order: str) -> str:
    note("begin")
    await asyncio.sleep(0.5)
    note("end")
    return f"shelf 12 for {order}"


@step
async def invoice(order: str) -> str:
    note("begin")
    await asyncio.sleep(0.3)
    note("end")
    return f"invoice-{order}"


@step(retry=Retry(attempts=3, initial="4s", jitter=0))
async def charge(order: str, cents: int) -> str:
    note("begin")
    await asyncio.sleep(0.5)
    if current_step().attempt == 1:
        note("fail")
        raise ConnectionError("the bank did not answer")
    note("end")
    return f"{cents} cents for {order}"


@step
def pack(order: str, shelf: str) -> str:  # a plain function: it runs in a thread
    note("begin")
    time.sleep(float(os.environ[PACKING]))
    note("end")
    return f"parcel-{order} from {shelf}"


@step
async def ship(parcel: str) -> str:
    note("begin")
    await asyncio.sleep(0.4)
    note("end")
    return f"{parcel} is on its way"


@workflow
async def order(number: str, cents: int) -> Receipt:
    """Reserve; then bill, charge and pack side by side; wait a little; ship."""
    shelf = await reserve(number)
    packing = pack.start(number, shelf)
    bill, payment = await asyncio.gather(invoice(number), charge(number, cents))
    parcel = await packing
    await holdfast.sleep("1s")
    return Receipt(bill=bill, payment=payment, delivery=await ship(parcel))


if __name__ == "__main__":
    asyncio.run(Worker(sys.argv[1], workflows=[order]).run())
