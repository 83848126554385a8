"""Methods that bodies lead to: of a class, of what is made of it or annotated so, of the classes above it."""

import random
import time
from datetime import datetime

import holdfast
from holdfast import step, workflow


class Goods:
    def stamp(self) -> float:
        return time.time()  # hazard: clock

    def replaced(self) -> float:
        return time.time()


class Shop(Goods):
    def __init__(self) -> None:
        self.at = datetime.now()  # hazard: clock

    @property
    def expiry(self) -> float:
        return time.monotonic()  # hazard: clock

    def total(self) -> float:
        return self._dice()

    def _dice(self) -> float:
        return random.random()  # hazard: random

    @staticmethod
    def clock(self: float = 0) -> float:
        return time.time()  # hazard: clock

    @classmethod
    def opened(cls) -> float:
        return cls.first()

    @classmethod
    def first(cls) -> float:
        return time.time()  # hazard: clock

    def replaced(self) -> float:
        return 1.0

    async def later(self) -> None:
        await holdfast.sleep(1)

    def nobody_calls_it(self) -> float:
        return time.time()

    def work(self) -> str:
        with open("x") as file:
            return file.read()

    @step
    def done() -> str:
        with open("x") as file:
            return file.read()


def made() -> Shop:
    return Shop()


@workflow
async def sells(shop: Shop, named: "Shop") -> float:
    mine = Shop()
    mine.stamp()
    mine.replaced()
    made().later()  # hazard: await
    await made().later()
    await holdfast.call("work", shop.work)
    Shop.done()
    return named.expiry + shop.total() + Shop.clock() + Shop.opened()
