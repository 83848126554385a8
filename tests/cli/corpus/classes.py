"""Classes of the module: what their fields are made by, how they are entered and called, and what is written to them."""

import dataclasses
import random
import time
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

import msgspec
from pydantic import BaseModel, Field

import holdfast
from holdfast import step, workflow


@step
def save(what: object) -> None: ...


def stamp() -> float:
    return time.time()  # hazard: clock


@dataclass
class Named:
    name: str
    id: uuid.UUID = field(default_factory=uuid.uuid4)


@dataclass
class Order(Named):
    at: datetime = dataclasses.field(default_factory=lambda: datetime.now(UTC))
    lines: list[str] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)
    codes: "frozenset[str] | None" = None


class Item(BaseModel):
    id: uuid.UUID = Field(default_factory=uuid4)
    lines: list[str] = Field(default_factory=list)


class Note(msgspec.Struct):
    at: float = msgspec.field(default_factory=stamp)


class Timer:
    began = 0.0

    def __enter__(self) -> float:
        return time.monotonic()  # hazard: clock

    def __exit__(self, *raised: object) -> None:
        save(time.monotonic())  # hazard: clock

    async def __aenter__(self) -> float:
        return time.monotonic()  # hazard: clock

    async def __aexit__(self, *raised: object) -> None: ...

    def __call__(self) -> float:
        return random.random()  # hazard: random


class Plain:
    """Nothing of it is entered or called by a body."""

    count = 0

    def __enter__(self) -> float:
        return time.time()

    def __exit__(self, *raised: object) -> None: ...

    def __call__(self) -> float:
        return time.time()


@dataclass
class State:
    count: int = 0
    seen: list[str] = field(default_factory=list)


STATE = State()
TABLE: dict[str, list[str]] = {"a": []}


@workflow
async def made(order: Order) -> None:
    save(Named("a"))  # hazard: random
    save(Named("a", holdfast.uuid4()))
    save(Named("a", id=holdfast.uuid4()))
    save(Order("a", holdfast.uuid4()))  # hazard: clock
    save(Order("a", holdfast.uuid4(), at=holdfast.now()))
    save(Order(**{"name": "a"}))
    save(Item())  # hazard: random
    save(Item(id=holdfast.uuid4()))
    save(Note())
    save(Note(at=1.0))


@workflow
async def iterated(order: Order) -> None:
    for tag in order.tags:  # hazard: unordered
        save(tag)
    save([code for code in order.codes or ()])  # hazard: unordered
    for line in order.lines:
        save(line)
    for number in order.numbers:
        save(number)
    for tag in sorted(order.tags):
        save(tag)


@workflow
async def entered() -> None:
    timer = Timer()
    with timer:
        save(1)
    async with Timer() as begun:
        save(begun)
    save(timer())
    save(Plain())
    local = State()
    local.count += 1
    local.seen.append("a")


@workflow
async def written() -> None:
    STATE.count += 1  # hazard: global
    Plain.count = 2  # hazard: global
    TABLE["a"][0] = "b"  # hazard: global
    TABLE["a"].append("b")  # hazard: global
    STATE.seen.append("b")  # hazard: global
    del STATE.count  # hazard: global
    save(TABLE["a"])
