"""The workflows that real processes run in these tests, and what each must return."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import holdfast
from holdfast import Retry, blocking, current_step, step, workflow
from tests.acceptance import effects

KILLED = 1_000
"""Crashes that runs survive here: they are innocent, however often they are met by a kill before they get anywhere."""
FIRST = {
    "branches": {"work", "work:1", "work:2", "work:3"},
    "retries": {"flaky", "flaky:1", "work"},
    "plain": {"thread_work", "thread_work:1", "thread_work:2"},
}
"""Steps that a body asks for before anything has happened; for all others that is its first one."""


def is_first() -> bool:
    info = current_step()
    return info.key in FIRST.get(info.workflow, {"work"})


@step(retry=Retry(attempts=1))
async def work(number: int, seconds: float) -> int:
    """Real work, for so long."""
    effects.begin(is_first=is_first())
    await asyncio.sleep(seconds)
    effects.end()
    return number * 10


@step(retry=Retry(attempts=1))
def thread_work(number: int, seconds: float) -> int:
    """The same in a thread."""
    effects.begin(is_first=is_first())
    time.sleep(seconds)
    effects.end()
    return number * 10


@step(retry=Retry(attempts=3, initial="0.05s", factor=1, jitter=0))
async def flaky(number: int) -> int:
    """Two errors and then a result. A crash in between counts for nothing, so it never runs out of attempts."""
    effects.begin(is_first=is_first())
    await asyncio.sleep(0.01)
    if current_step().attempt < 3:
        effects.fail()
        raise ConnectionError(f"attempt {current_step().attempt}")
    effects.end()
    return number * 10


@workflow(max_crashes=KILLED)
async def sequence(seed: int) -> list[int]:
    return [await work(seed + place, 0.02) for place in range(5)]


@workflow(max_crashes=KILLED)
async def branches(seed: int) -> list[int]:
    async def branch(place: int) -> int:
        return await work(seed + place, 0.01 * place) + await work(place, 0.02)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(branch(place)) for place in range(4)]
    return [task.result() for task in tasks]


@workflow(max_crashes=KILLED)
async def retries(seed: int) -> list[int]:
    return list(await asyncio.gather(flaky(seed), flaky(seed + 1), work(seed + 2, 0.05)))


@workflow(max_crashes=KILLED)
async def timers(seed: int) -> list[int]:
    first = await work(seed, 0.01)
    await holdfast.sleep("0.2s")
    second = await work(seed + 1, 0.01)
    await asyncio.sleep(0.1)
    return [first, second, await work(seed + 2, 0.01)]


@workflow(max_crashes=KILLED)
def plain(seed: int) -> list[int]:
    """A `def` body with steps in threads."""
    pending = [thread_work.start(seed + place, 0.02) for place in range(3)]
    blocking.sleep("0.05s")
    return [*blocking.gather(*pending), thread_work(seed + 3, 0.01)]


@step(retry=Retry(attempts=1))
async def tidy(number: int) -> int:
    """What is left to do when a run was cancelled."""
    effects.begin()
    await asyncio.sleep(0.01)
    effects.end()
    return number


@workflow(max_crashes=KILLED)
async def patient(seed: int) -> None:
    """Waits until it is cancelled, and tidies up."""
    try:
        await work(seed, 0.02)
        await holdfast.sleep("1h")
    finally:
        await tidy(seed)


MIXED = [sequence, branches, retries, timers, plain]
STEPS = {"sequence": 5, "branches": 8, "retries": 3, "timers": 3, "plain": 4}


def expected(name: str, seed: int) -> list[int]:
    """What the run must return."""
    if name == "branches":
        return [(seed + place) * 10 + place * 10 for place in range(4)]
    return [(seed + place) * 10 for place in range(STEPS[name])]


def until_told(name: str) -> None:
    """Go on when the test has put a file of that name into the folder."""
    while not (effects.folder() / name).exists():
        time.sleep(0.01)


@step
async def until_allowed(name: str) -> str:
    effects.begin()
    while not (effects.folder() / name).exists():
        await asyncio.sleep(0.01)
    effects.end()
    return name


@step
def until_allowed_in_thread(name: str) -> str:
    effects.begin()
    until_told(name)
    effects.end()
    return name


@step
async def until_allowed_by_the_loop(name: str) -> str:
    effects.begin()
    await asyncio.to_thread(until_told, name)
    effects.end()
    return name


def gate_here() -> Path:
    """What lets this very process go on."""
    return effects.folder() / f"gate-{os.getpid()}"


@step
async def until_allowed_here() -> int:
    """Ends when the test lets this very process go on."""
    effects.begin()
    while not gate_here().exists():
        await asyncio.sleep(0.01)
    effects.end()
    return os.getpid()


@workflow
async def errand(seconds: float) -> list[int]:
    """A quick step, a slow one, a quick one."""
    return [await work(1, 0), await work(2, seconds), await work(3, 0)]


@workflow(max_crashes=KILLED)
async def gated() -> list[object]:
    """A quick step, one that ends when the test says so, a quick one."""
    return [await work(1, 0), await until_allowed("gate"), await work(3, 0)]


@workflow
async def gated_at_the_end() -> str:
    return await until_allowed("gate")


@workflow
async def failing_at_the_end() -> None:
    await until_allowed("gate")
    raise ValueError("behind the gate")


@workflow
async def gated_here() -> int:
    """The process that executed its second step."""
    await work(1, 0)
    return await until_allowed_here()


@workflow
async def side_by_side() -> list[object]:
    """Beside a step that ends when the test says so, a timer, and after it another such step."""

    async def after_a_nap() -> str:
        await holdfast.sleep("0.3s")
        return await until_allowed("second gate")

    first = await work(1, 0)
    return [first, *await asyncio.gather(until_allowed("gate"), after_a_nap())]


@workflow
def thread_gated() -> list[object]:
    """The same with steps in threads."""
    return [
        thread_work.options(name="work")(1, 0),
        until_allowed_in_thread("gate"),
        thread_work.options(name="work")(3, 0),
    ]


@workflow
async def loop_thread_gated() -> str:
    """Its step sits in a thread of the loop's own."""
    return await until_allowed_by_the_loop("gate")


@workflow
async def nap(seconds: float) -> list[int]:
    """Asleep most of the time."""
    first = await work(1, 0)
    await holdfast.sleep(seconds)
    return [first, await work(2, 0)]


@workflow
async def addressed() -> list[int]:
    """Waits between two steps, for so short a time that its worker keeps it, or until it is told."""
    first = await work(1, 0)
    await holdfast.wait_for_signal("go", timeout="9s", default=None)
    return [first, await work(2, 0)]


def interrupt() -> str:
    """Somebody presses Ctrl-C while this code runs, until the test says that it is enough."""
    effects.begin(is_first=True)
    if not (effects.folder() / "calm").exists():
        raise KeyboardInterrupt
    effects.end()
    return "calm"


@step
async def interrupting() -> str:
    return interrupt()


@step
def interrupting_in_thread() -> str:
    return interrupt()


@workflow
async def interrupted() -> str:
    return await interrupting()


@workflow
async def interrupted_in_thread() -> str:
    return interrupting_in_thread()


@step
async def suicide() -> None:
    effects.begin(is_first=True)
    os.kill(os.getpid(), signal.SIGKILL)
    await asyncio.sleep(60)


@workflow(max_crashes=2)
async def deadly() -> None:
    await suicide()


@workflow
async def rude() -> int:
    """A body that blocks until the test says so."""
    until_told("rude")
    return await work(1, 0)


@step(timeout="5s", retry=Retry(attempts=2, initial="0.05s", jitter=0))
def deaf() -> str:
    """Ignores its timeout in a thread, the first time."""
    effects.begin(is_first=True)
    if current_step().attempt == 1:
        until_told("late")
        effects.end()
        return "late"
    effects.end()
    return "in time"


@workflow
async def overdue() -> list[object]:
    answer = deaf()
    return [answer, await until_allowed("gate")]


@workflow
async def journey(seed: int) -> list[int]:
    """Something of everything, as short as can be: what is killed at each of its commits."""
    first = await work(seed, 0)
    pair = await asyncio.gather(flaky(seed + 1), work(seed + 2, 0.01))
    await holdfast.sleep("0.05s")
    return [first, *pair, thread_work(seed + 3, 0)]


ALL = [
    *MIXED, patient, errand, gated, gated_here, side_by_side, thread_gated, nap, addressed,
    deadly, rude, overdue, journey,
]  # fmt: skip
