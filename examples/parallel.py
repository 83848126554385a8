"""Steps side by side: wait for all, for the first, or for as long as time allows. Replay takes the same branches."""

import asyncio

import holdfast
from holdfast import step, workflow


@step
async def price(shop: str) -> int:
    await asyncio.sleep({"near": 0.2, "far": 0.4, "asleep": 60}[shop])
    return {"near": 120, "far": 90, "asleep": 10}[shop]


@workflow
async def compare() -> dict[str, int]:
    both = await asyncio.gather(price("near"), price("far"))

    # The first answer wins. The loser is cancelled, and stays a loser on every replay.
    race = {shop: price.start(shop) for shop in ("near", "asleep")}
    done, late = await asyncio.wait(race.values(), return_when=asyncio.FIRST_COMPLETED)
    for one in late:
        one.cancel()

    # A timeout in a body is a durable timer.
    try:
        async with asyncio.timeout(0.5):
            patient = await price("asleep")
    except TimeoutError:
        patient = -1
    return {"best of both": min(both), "first": done.pop().result(), "patient": patient}


if __name__ == "__main__":
    print(holdfast.run(compare))
