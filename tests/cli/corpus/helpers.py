"""Hazards in what bodies call, and in bodies that are hard to see. Nothing here is ever executed."""

import functools
import random as dice
import time
from datetime import datetime

import holdfast as hf
import holdfast.define as words
from holdfast import workflow as durable
from holdfast.define import workflow as defined

from .renamed import flow, remote, shared

retried = durable(retry=hf.Retry(attempts=2))
versioned = functools.partial(durable, version="2")


def deepest() -> float:
    return time.time()  # hazard: clock


def deeper() -> float:
    return deepest()


def helper() -> float:
    return deeper()


def handed(item: int) -> float:
    return dice.random() * item  # hazard: random


def never_called() -> float:
    return time.time()


@hf.workflow
async def by_module() -> float:
    return helper()


@durable
async def by_alias() -> list[float]:
    return list(map(handed, [1, 2]))


@defined(name="other")
async def by_room() -> datetime:
    return datetime.now()  # hazard: clock


@words.workflow
async def by_room_module() -> datetime:
    return datetime.now()  # hazard: clock


@retried
async def by_made_decorator() -> datetime:
    return datetime.now()  # hazard: clock


@versioned
async def by_partial() -> datetime:
    return datetime.now()  # hazard: clock


@flow
async def by_other_module() -> datetime:
    remote("x")  # hazard: await
    shared.remote("x")  # hazard: await
    return datetime.now()  # hazard: clock


async def bare() -> datetime:
    return datetime.now()  # hazard: clock


called = durable(bare)


class Shop:
    @staticmethod
    @durable
    async def in_a_class() -> datetime:
        return datetime.now()  # hazard: clock


@durable
async def inside() -> float:
    import random  # an import in the body is still that module

    def local() -> float:
        return random.random()  # hazard: random

    pick = lambda: random.choice([1, 2])  # hazard: random
    return local() + pick()


def made_elsewhere():
    @durable
    async def nested() -> datetime:
        return datetime.now()  # hazard: clock

    return nested
