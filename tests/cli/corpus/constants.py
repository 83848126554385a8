"""What a module made when it was loaded is another thing in the next process; and so is a default of a parameter."""

import os
import random
import time
import uuid
from datetime import datetime
from random import Random

import holdfast
from holdfast import step, workflow

STARTED = time.time()
NODE = f"{uuid.uuid4()}"
REGION = os.environ.get("REGION", "eu")
LIMIT = int(os.environ["LIMIT"])
HOST = os.getenv("HOST") or "localhost"
DICE = Random(42)
SINCE = datetime(2026, 1, 1)
PRICES = {"a": 1}
NAMES = [name.upper() for name in ("a", "b")]
LEVEL: str = "info"


@step
def save(what: object) -> None: ...


class Settings:
    region = "eu"


def settings() -> Settings:
    return Settings()


SETTINGS = settings()


@step
def inside() -> str:
    return REGION


@workflow
async def constants() -> None:
    save(STARTED)  # hazard: clock
    save(NODE)  # hazard: random
    save(REGION)  # hazard: environment
    save(LIMIT + 1)  # hazard: environment
    save(f"at {HOST}")  # hazard: environment
    save(DICE.random())  # hazard: random
    save(SINCE)
    save(PRICES["a"])
    save(NAMES)
    save(LEVEL)
    save(SETTINGS.region)
    save(inside())
    print(REGION)
    holdfast.logger.info("in %s", REGION)
    await holdfast.call("where", lambda: REGION)


@workflow
async def defaulted(
    at: float = time.time(),  # hazard: clock
    node: str = NODE,  # hazard: random
    cents: int = 1200,
) -> None:
    save(cents)


@workflow
async def seeded() -> None:
    dice = random.Random(7)
    save(dice.random())
    region = "local"
    REGION = region
    save(REGION)


def chosen(dice: Random, names: list[str]) -> str:
    return dice.choice(names)


def shuffled(dice: "random.Random", names: list[str]) -> list[str]:
    return dice.sample(names, len(names))


def drawn() -> Random:
    return holdfast.rng()


@workflow
async def handed_on(names: list[str]) -> None:
    save(chosen(holdfast.rng(), names))
    save(shuffled(holdfast.rng(), names))
    save(drawn().random())


@workflow
async def by_reference(names: list[str]) -> None:
    save(sorted(names, key=id))  # hazard: identity
    save(max(names, key=hash))  # hazard: identity
    names.sort(key=hash)  # hazard: identity
    save(sorted(names, key=len))
    save(sorted(names, key=str.lower))


@workflow
async def local_time(at: datetime) -> None:
    save(at.astimezone())  # hazard: environment
    save(holdfast.now().astimezone())  # hazard: environment
    save(datetime.fromtimestamp(0))  # hazard: environment
    save(holdfast.now().astimezone(SINCE.tzinfo))
