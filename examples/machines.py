"""A workflow made of states instead of a replayed body: each state does real work and says which one is next.

Look at `ctx`: what a state writes is committed with it. The first attempt of "charge" fails after it has written, and
the second sees nothing of that. And look at the unknown state: the error names the known ones.
"""

import asyncio
import tempfile
from typing import Any

from holdfast import AsyncClient, Done, Machine, Next, Retry, RunFailed, Worker, current_step
from holdfast.define import Context


async def start(ctx: Context) -> Next:
    ctx["order"] = f"order of {ctx.input['item']}"
    return Next("charge", after="0.1s")


def charge(ctx: Context) -> Next | Done[dict[str, Any]]:
    if "charged" in ctx:
        raise AssertionError("written by an attempt that failed")
    ctx["charged"] = True
    if current_step().attempt == 1:
        raise ConnectionError("no answer from the bank")
    if ctx.input["item"] == "wings":
        return Next("fly")
    return Done({"order": ctx["order"], "charged": ctx["charged"]})


shop = Machine("shop", {"start": start, "charge": charge}, retry=Retry(attempts=3, initial="0.01s"), timeout="30s")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncClient(f"sqlite:///{folder}/shop.db") as client, Worker(client, workflows=[shop]):
            print(await (await client.start(shop, {"item": "tea"})).result(timeout=30))
            try:
                await (await client.start(shop, {"item": "wings"})).result(timeout=30)
            except RunFailed as error:
                print(error.__cause__)


if __name__ == "__main__":
    asyncio.run(main())
