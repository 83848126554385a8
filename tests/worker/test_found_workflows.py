"""Which workflows `holdfast.run` serves beside the one that it was given: those that can be reached from it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import tests.worker.samples
from holdfast import sleep, step, workflow
from holdfast.script import workflows_of
from tests.worker import samples
from tests.worker.samples import names_ready


@workflow
async def doubled(n: int) -> int:
    return 2 * n


@workflow
async def other() -> None: ...


def helper() -> object:
    return other


@workflow
async def calls_a_helper() -> object:
    return helper()


@workflow
async def names_another() -> object:
    return doubled


@step
async def starts_another() -> object:
    return names_another


@workflow
async def through_a_step() -> object:
    return await starts_another()


@workflow
async def in_a_lambda() -> object:
    return (lambda: doubled)()


TABLE = {"ready": samples.ready}


class Shop:
    order = other


@workflow
async def through_a_module() -> object:
    return samples.ready


@workflow
async def through_a_package() -> object:
    return tests.worker.samples.ready


@workflow
async def through_a_class() -> object:
    return Shop.order


@workflow
async def through_a_table() -> object:
    return TABLE["ready"]


@workflow
async def through_a_foreign_helper() -> object:
    return names_ready()


doubled_later = partial(doubled, 1)


@workflow
async def through_a_partial_call() -> int:
    return await doubled_later()


doubled_by_name = partial(print, end=doubled)


@workflow
async def through_a_named_argument() -> object:
    return doubled_by_name


async def _to_the_other(which: Any = other) -> None:
    await which()


async def _to_the_named(*, which: Any = other) -> None:
    await which()


@workflow
async def through_a_named_default() -> None:
    await _to_the_named()


@workflow
async def through_a_default() -> None:
    await _to_the_other()


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (doubled, {doubled}),
        (names_another, {names_another, doubled}),
        (calls_a_helper, {calls_a_helper, other}),
        (through_a_step, {through_a_step, names_another, doubled}),
        (in_a_lambda, {in_a_lambda, doubled}),
        (through_a_module, {through_a_module, samples.ready}),
        (through_a_package, {through_a_package, samples.ready}),
        (through_a_class, {through_a_class, other}),
        (through_a_table, {through_a_table, samples.ready}),
        (through_a_foreign_helper, {through_a_foreign_helper, samples.ready}),
        (through_a_partial_call, {through_a_partial_call, doubled}),
        (through_a_named_argument, {through_a_named_argument, doubled}),
        (through_a_default, {through_a_default, other}),
        (through_a_named_default, {through_a_named_default, other}),
    ],
    ids=[
        "itself",
        "a global",
        "a helper",
        "a step",
        "a nested function",
        "a module",
        "a package",
        "a class",
        "a table",
        "another module's helper",
        "a partial call",
        "its named argument",
        "a default",
        "a named default",
    ],
)
def test_workflows_are_found_through_globals(body, found):
    assert set(workflows_of(body)) == found


def test_workflows_are_found_through_closures():
    @workflow
    async def inner() -> None:
        await sleep(1)

    @workflow
    async def outer() -> object:
        return inner

    assert set(workflows_of(outer)) == {outer, inner}


def test_a_closure_variable_that_is_not_bound_yet_hides_no_other_workflows():
    @workflow
    async def outer() -> object:
        return later, inner

    @workflow
    async def inner() -> None:
        await sleep(1)

    found = set(workflows_of(outer))
    later = None
    assert (later, found) == (None, {outer, inner})


def test_workflows_that_name_each_other_are_found_once():
    @workflow
    async def ping() -> object:
        return pong

    @workflow
    async def pong() -> object:
        return ping

    assert sorted(one.name for one in workflows_of(ping)) == ["ping", "pong"]
