"""What an environment is given. What a worker would refuse it refuses too, in the same words."""

from __future__ import annotations

import contextlib
from datetime import datetime

import pytest

import holdfast
from holdfast import RunStatus, step, workflow
from holdfast.errors import (
    BadDuration,
    DefinitionError,
    DuplicateWorkflow,
)
from holdfast.testing import Environment
from holdfast.worker import Worker
from tests.testing.environments import environment
from tests.testing.orders import ORDER, charge, checkout

both = pytest.mark.parametrize("make", [Worker, Environment])


async def test_resources_are_opened_and_closed():
    opened = []

    @holdfast.resource
    async def pool():
        opened.append("open")
        yield "the pool"
        opened.append("closed")

    @step
    async def use() -> str:
        return pool()

    @workflow
    async def using() -> str:
        return await use()

    async with environment(workflows=[using], resources=[pool]) as env:
        assert await (await env.client.start(using)).result() == "the pool"
        assert opened == ["open"]
    assert opened == ["open", "closed"]
    async with environment(workflows=[using], resources={pool: "another"}) as env:
        assert await (await env.client.start(using)).result() == "another"
    assert opened == ["open", "closed"]


async def test_middleware_wraps_stubs_too():
    wrapped = []

    @contextlib.contextmanager
    def note(info):
        wrapped.append(info.name)
        yield

    async with environment(middleware=[note]) as env:
        await (await env.client.start(checkout, ORDER)).wait()
    assert wrapped == ["charge", "ship"]


async def test_one_workflow_may_be_given_without_a_list():
    async with Environment(checkout, stubs={charge: "paid"}) as env:
        assert await (await env.client.start(checkout, ORDER)).wait() is RunStatus.COMPLETED


@both
def test_an_empty_list_of_workflows_is_refused(make):
    with pytest.raises(DefinitionError, match=rf"{make.__name__}\(workflows=\[\]\): expected at least one workflow"):
        make(workflows=[])


@both
def test_an_object_that_is_no_workflow_is_refused(make):
    with pytest.raises(DefinitionError, match=rf"{make.__name__}\(.*print.*decorated with @workflow"):
        make(workflows=[print])


@both
def test_two_workflows_of_one_name_are_refused(make):
    @workflow(name="checkout")
    async def other() -> None: ...

    with pytest.raises(
        DuplicateWorkflow, match=r"'checkout'.*orders\.checkout and .*other; give one of them another name="
    ):
        make(workflows=[checkout, other])


@both
def test_a_workflow_given_twice_counts_once(make):
    make(workflows=[checkout, checkout])


@both
def test_an_object_that_is_no_resource_is_refused(make):
    with pytest.raises(DefinitionError, match=rf"{make.__name__}\(.*print.*decorated with @resource"):
        make(workflows=[checkout], resources=[print])


def test_a_start_without_a_zone_is_refused():
    with pytest.raises(BadDuration, match="aware datetime"):
        Environment(workflows=[checkout], start=datetime(2030, 1, 1))


@both
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"middleware": len}, r"\(middleware=\): .* is no list"),
        ({"middleware": ["a scope"]}, r"\(middleware=\['a scope'\]\): expected functions"),
        ({"resources": len}, r"\(resources=\): .* is no list"),
        ({"resources": [len]}, r"\(resources=\[.*\]\): expected functions decorated with @resource"),
    ],
)
def test_invalid_middleware_or_resources_are_refused_at_once(make, given, words):
    with pytest.raises(DefinitionError, match=make.__name__ + words):
        make(workflows=[checkout], **given)


async def test_resources_may_come_one_by_one():
    @holdfast.resource
    async def pool():
        yield "the pool"

    @step
    async def use() -> str:
        return pool()

    @workflow
    async def using() -> str:
        return await use()

    async with environment(workflows=[using], resources=(one for one in [pool])) as env:
        assert await (await env.client.start(using)).result() == "the pool"


def test_stubs_that_are_no_mapping_are_refused():
    with pytest.raises(DefinitionError, match=r"stubs=.*: expected a mapping of steps"):
        environment(stubs=[charge])
