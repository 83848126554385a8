"""Names that come with a star. Nothing here is ever executed."""

from time import *

from holdfast import *


@step
async def charge(card: str) -> str:
    return card


@workflow
async def order() -> float:
    charge("x")  # hazard: await
    await sleep("1d")
    return monotonic()  # hazard: clock
