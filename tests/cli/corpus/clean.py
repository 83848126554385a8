"""Look-alikes: what reads like a hazard and is none. Nothing here is ever executed."""

import asyncio
import collections
import datetime
import functools
import importlib
import logging
import os.path
import random
import time
import time as time_module
from collections.abc import Iterable
from datetime import UTC, timedelta
from io import open as open_file
from pathlib import Path, PurePath

import httpx

import holdfast
from holdfast import Retry, blocking, call, compensate, rng, step, workflow
from holdfast import now as today
from holdfast import uuid4 as uuid

EPOCH = datetime.datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = {"a": 1, "b": 2}
NAMES = frozenset({"a", "b"})
STARTED = time.time()
log = logging.getLogger(__name__)


@step
async def charge(card: str) -> str:
    time.sleep(0.1)
    with open("x") as lines:
        return lines.read() + str(random.random()) + os.environ["HOME"]


@step(retry=Retry(attempts=2))
def render(card: str) -> str:
    Path("x").write_text(card)
    return httpx.get("http://x").text


@step
async def numbers() -> list[int]:
    return [1]


def real_work(card: str) -> float:
    return time.time()


def undo(card: str) -> None:
    open("x")


@workflow
async def looks(card: str, time: float, open: bool, random: list[int]) -> object:
    # Parameters hide what they are named as.
    total = time + len(random) + int(open)
    started = today()
    later = started + timedelta(days=1)
    ident = uuid()
    draw = rng().random()
    dice = rng()
    dice.shuffle(random)
    await holdfast.sleep(5)
    await asyncio.sleep(5)
    async with asyncio.timeout(5):
        await charge(card)
    await call("stamp", real_work, card)
    await holdfast.call("stamp", lambda: datetime.datetime.now())
    await call("stamp", functools.partial(real_work, card))
    await call("read", functools.partial(open_file, "x"))
    await call("clock", fn=functools.partial(time_module.time))
    clock = functools.partial(time_module.time)
    await call("clock", clock)
    await call("raw", time_module.time)
    compensate(undo, card)
    print(f"{total} {later}")
    log.info("a line")
    holdfast.logger.info("a line")
    loop = asyncio.get_running_loop()
    loop.call_later(5, print)
    loop.time()
    parsed = datetime.datetime.fromisoformat("2026-01-01")
    path = PurePath("x") / "y"
    joined = os.path.join("a", str(path))
    name = Path("a/b.txt").stem
    return [ident, draw, parsed, joined, name, EPOCH]


class Watch:
    def time(self) -> float:
        return 5.0


@workflow
async def by_text(card: str, kind: str) -> object:
    # What a text names is as harmless as what it stands for, and nobody knows what a variable names.
    getattr(Watch(), "time")()
    getattr(card, "time", print)()
    getattr(time_module, kind)()
    importlib.import_module(kind).time()
    importlib.import_module("math").floor(1.5)
    importlib.import_module(".time", "shop").time()
    return await getattr(asyncio, "gather")(charge(card))


@workflow
async def orders(names: set[str], numbers_only: set[int], kinds: Iterable[str]) -> list[str]:
    for name in sorted(names):
        await charge(name)
    for number in {1, 2, 3}:
        await charge(str(number))
    for number in set(range(3)):
        await charge(str(number))
    for limit in sorted(LIMITS.keys() & names):
        await charge(limit)
    for limit in LIMITS.keys():
        await charge(limit)
    for limit in LIMITS:
        await charge(limit)
    for one in numbers_only:
        await charge(str(one))
    if "a" in names and len(names) > 1 and "b" in NAMES:
        biggest = max(names)
        total = sum(len(name) for name in names)
        print(collections.Counter(sorted(names)).most_common(1))
        print(biggest, total, any(name == "a" for name in names))
    upper = {name.upper() for name in names}
    names = sorted(upper)
    for name in names:
        await charge(name)
    tasks = {asyncio.create_task(charge(name)) for name in names}
    for task in tasks:
        await task
    pending = {charge.start(name) for name in names}
    done, late = await asyncio.wait(pending)
    for one_done in done:
        print(one_done.result())
    late.pop() if late else None
    background = set()
    background.add(asyncio.create_task(charge("x")))
    for task in background:
        await task
    kinds_seen: set[str] = set()
    for kind in kinds:
        kinds_seen.add(kind)
    return sorted(kinds_seen)


@workflow
async def awaited(card: str) -> str:
    both = await asyncio.gather(charge(card), charge(card))
    task = asyncio.create_task(charge(card))
    held = charge(card)
    pending = charge.start(card)
    waiting = [charge(name) for name in both]
    render(card)
    render.start(card).result()
    first = await asyncio.wait_for(held, 5)
    rest = [await one for one in waiting]
    async with asyncio.TaskGroup() as group:
        group.create_task(charge(card))
    for one in asyncio.as_completed([asyncio.create_task(charge(card))]):
        await one
    child = child_of.options(id="x").start(card)
    child_of.start(card)
    hook = holdfast.hook(name="x")
    print(hook.token, first, rest, child)
    choice = await handing(card)
    await (charge(card) if card else charge("x"))
    pair = (charge(card), charge(card))
    await asyncio.gather(*pair)
    holdfast.signal("run", "name", 1)
    async for item in counting():
        print(item)
    return await pending + await task + choice


def handing(card: str):
    return charge(card)


async def counting():
    yield 1


@workflow
async def child_of(card: str) -> str:
    return await charge(card)


@workflow
def blocking_body(card: str) -> str:
    blocking.sleep(5)
    charge(card)
    holdfast.sleep(5)
    return render(card)


@workflow
async def allowed() -> float:
    seeded = random.Random(42)
    first = seeded.random() + random.Random("x").random()
    return first + time.time()  # holdfast: allow[clock]


@workflow
async def allowed_on_many_lines() -> float:
    return max(
        time.time(),  # holdfast: allow[clock, random]
        random.random(),  # holdfast: allow[random] the line says why
    )


@workflow
async def told(names: set[str], some: set[str] | None = None) -> int:
    holdfast.logger.info(f"names: {names}, {str(some)}")
    print(f"{names!r}")
    assert names, f"none of {names}"
    for name in some and sorted(some) or ():
        await charge(name)

    class Local:
        size = len(names)

        def at(self) -> float:
            return time.time()

    if "x" in names:
        raise ValueError(f"not one of {names}")
    return Local.size


def test_helper_of_nobody() -> float:
    return time.time()


async def no_workflow() -> None:
    open("x")
    time.sleep(1)
