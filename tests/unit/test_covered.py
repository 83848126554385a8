"""A decorator above @workflow or @step hides it: whoever gets the wrapper says so, and which one belongs on top."""

from __future__ import annotations

import functools

import pytest

import holdfast
from holdfast import Client, DefinitionError, Worker, step, workflow
from holdfast.testing import Environment, assert_durable, replay


def logged(fn):
    @functools.wraps(fn)
    async def inner(*args, **kwargs):
        return await fn(*args, **kwargs)

    return inner


@logged
@logged
@workflow
async def checkout() -> None: ...


@logged
@step
async def charge(cents: int) -> int:
    return cents


@workflow
async def charges() -> list[int]:
    return await holdfast.map(charge, [1, 2])


async def plain() -> None: ...


TAKERS = {
    "Worker": lambda one: Worker("sqlite:///:memory:", workflows=[one]),
    "Environment": lambda one: Environment([one]),
    "start": lambda one: Client("sqlite:///:memory:").start(one),
    "run": holdfast.run,
    "assert_durable": assert_durable,
    "replay": lambda one: replay([], one),
}


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_a_workflow_below_another_decorator_is_told_from_a_plain_function(take):
    with pytest.raises(DefinitionError, match=r"<workflow checkout version 1> is hidden.*: have @workflow on top"):
        take(checkout)
    with pytest.raises(DefinitionError, match=r"expected.* @workflow") as found:
        take(plain)
    assert "hidden" not in str(found.value)


@pytest.mark.parametrize("take", TAKERS.values(), ids=TAKERS)
def test_a_step_in_place_of_a_workflow_is_hidden_by_nothing(take):
    for one in (charge, charge.__wrapped__):
        with pytest.raises(DefinitionError, match="expected") as found:
            take(one)
        assert "hidden" not in str(found.value)


def test_a_stub_for_a_step_below_another_decorator_is_refused_with_advice():
    with pytest.raises(DefinitionError, match=r"<step charge> is hidden by another decorator.*: have @step on top"):
        Environment([charges], stubs={charge: 1})


def test_a_map_over_a_step_below_another_decorator_is_refused_with_advice():
    with Environment([charges]) as env, pytest.raises(holdfast.RunFailed, match=r"<step charge> is hidden"):
        env.client.start(charges).result()
