"""Functions that are called by way of a table, a loop or a choice. Nothing here is ever executed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

import holdfast
from holdfast import step, workflow


@step
async def charge(name: str) -> str:
    return f"{name} {time.time()}"


def by_hand(name: str) -> float:
    return time.time()  # hazard: clock


def by_post(name: str) -> float:
    return random.random()  # hazard: random


def is_new(name: str) -> bool:
    return time.time() > 5  # hazard: clock


def is_due(name: str) -> bool:
    return time.monotonic() > 5  # hazard: clock


def is_lucky(name: str) -> bool:
    return random.random() > 0.5  # hazard: random


def is_late(name: str) -> bool:
    return time.time() > 5  # hazard: clock


def is_odd(name: str) -> bool:
    return time.time() % 2 > 1  # hazard: clock


def is_other(name: str) -> bool:
    return time.time() % 2 > 1  # hazard: clock


def is_never_called(name: str) -> bool:
    return time.time() > 5


WAYS = {"hand": by_hand, "post": by_post, "step": charge, "never": {"deeper": is_never_called}}
CHECKS = [is_new, is_due]
NAMED = (("lucky", is_lucky), ("late", is_late))
CLOCKS = {"wall": time.time, "run": holdfast.now}
LATER = {"now": lambda: time.time()}  # hazard: clock
UNUSED = [is_never_called]


class Rules:
    clock = time.time
    checks = {"odd": is_odd}


@dataclass
class Pricing:
    clock: Callable[[], object] = time.time


@workflow
async def of_tables(name: str, way: str) -> None:
    WAYS[way](name)
    for check in CHECKS:
        check(name)
    for _, check in NAMED:
        check(name)
    CLOCKS["wall"]()  # hazard: clock
    CLOCKS["run"]()
    CLOCKS[way]()  # hazard: clock
    CLOCKS.get(way)()  # hazard: clock
    CLOCKS.get(way, is_other)(name)  # hazard: clock
    LATER["now"]()
    Rules.clock()  # hazard: clock
    Rules.checks[way](name)
    # Whoever makes one may give it another clock, and does.
    Pricing(clock=holdfast.now).clock()
    print(UNUSED, WAYS["never"])


@workflow
async def of_choices(name: str, is_live: bool) -> None:
    clock = holdfast.now if is_live else time.time
    clock()  # hazard: clock
    (is_live and time.time)()  # hazard: clock
    later = CLOCKS["wall"]
    later()  # hazard: clock
    [draw() for draw in (random.random, holdfast.now)]  # hazard: random
    for tick in CLOCKS.values():
        tick()  # hazard: clock
    for _, tick in CLOCKS.items():
        tick()  # hazard: clock
    for key in CLOCKS:
        print(key.title())
    own = {"charge": charge, "sleep": holdfast.sleep}
    await own["charge"](name)
    await (charge if is_live else own["sleep"])(name)
