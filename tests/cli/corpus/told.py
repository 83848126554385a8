"""What is only told, and what is told of something that was asked for with it. Nothing here is ever executed."""

from __future__ import annotations

import os

import holdfast
from holdfast import step, workflow

REGION = os.environ["REGION"]


@step
async def charge(name: str) -> str:
    return name


@step
def book(name: str) -> str:
    return name


@workflow
async def only_told(names: set[str], count: int) -> None:
    print(*names, f"{names}", REGION)
    holdfast.logger.info("in %s", REGION, extra={"region": REGION, "names": str(names)})
    assert count, f"nothing for {names} in {REGION}"
    print(REGION if count else "nowhere", await charge("ann"))
    raise LookupError(f"{names} in {REGION}")


@workflow
async def asked_for(names: set[str], count: int) -> None:
    print(await charge(f"{names}"))  # hazard: unordered
    print(book(str(names)))  # hazard: unordered
    holdfast.logger.info("%s", await charge(REGION))  # hazard: environment
    print(await charge("ann") if REGION == "eu" else "nothing")  # hazard: environment
    print(book("ann") if REGION == "eu" else "nothing")  # hazard: environment
    print(REGION == "eu" and await charge("ann"))  # hazard: environment
    assert REGION == "eu", "this is for Europe"  # hazard: environment
    raise LookupError(await charge(REGION))  # hazard: environment
