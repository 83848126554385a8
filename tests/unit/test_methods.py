"""`@step` and `@workflow` on a method are refused where they are written: `self` would have to be stored."""

from __future__ import annotations

import functools

import pytest

from holdfast import DefinitionError, step, workflow
from holdfast.testing import Environment


def test_a_step_that_is_a_method_is_refused_with_advice():
    with pytest.raises(DefinitionError, match=r"step 'charge' is a method.*'self'.*resources.*step\(thing.method\)"):

        class Shop:
            @step
            def charge(self, cents: int = 0) -> int:
                return cents


def test_a_step_that_is_a_class_method_is_refused_with_advice():
    with pytest.raises(DefinitionError, match=r"step 'charge' is a method.*'cls'.*@staticmethod"):

        class Shop:
            @classmethod
            @step
            async def charge(cls, cents: int) -> int:
                return cents


def test_a_workflow_that_is_a_method_is_refused_with_advice():
    def logged(fn):
        @functools.wraps(fn)
        async def inner(*args, **kwargs):
            return await fn(*args, **kwargs)

        return inner

    with pytest.raises(DefinitionError, match=r"workflow 'run' is a method.*'self'"):

        class Checkout:
            @workflow
            @logged
            async def run(self, order: str) -> str:
                return order


class Prices:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def times(self, cents: int) -> int:
        return cents * self.factor

    @staticmethod
    @step
    def twice(cents: int) -> int:
        return 2 * cents

    @step
    def half(cents: int) -> int:
        return cents // 2


times = step(Prices(3).times)


@step
def own(self: int) -> int:
    return self


@workflow
async def priced() -> list[int]:
    return [times(5), Prices.twice(5), Prices.half(5), own(5)]


def test_a_function_in_a_class_and_a_bound_method_may_be_steps():
    with Environment([priced]) as env:
        assert env.client.start(priced).result() == [15, 10, 2, 5]
