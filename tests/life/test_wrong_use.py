"""Wrong use is refused where it is written, and changes nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import holdfast
from holdfast import (
    AsyncClient,
    BadArguments,
    DefinitionError,
    Retry,
    RunFailed,
    RunFilter,
    RunNotFound,
    StepFailed,
    Worker,
    step,
    workflow,
)
from holdfast.testing import Environment


@workflow
async def double(x: int) -> int:
    return 2 * x


@workflow
async def mapping(items: Any) -> list[int]:
    return await holdfast.map(double, items)


async def test_mapping_over_something_that_is_no_collection_of_items_raises_an_error_that_names_it():
    async with Environment([mapping, double]) as env:
        run = await env.client.start(mapping, 5)
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert isinstance(failed.value.__cause__, DefinitionError)
        assert "map(double, 5): expected items to map over" in str(failed.value)


@workflow
async def mapping_a_set(items: set[str]) -> list[int]:
    return await holdfast.map(double, items)


async def test_a_set_is_not_mapped_over_since_another_process_has_it_in_another_order():
    async with Environment([mapping_a_set, double]) as env:
        run = await env.client.start(mapping_a_set, {"a", "b"})
        with pytest.raises(
            RunFailed, match=r"map\(double, \.\.\.\): expected items in an order.*map over sorted\(items\)"
        ):
            await run.result()


@step(retry=Retry(attempts=3))
async def leave() -> None:
    raise SystemExit(3)


@workflow
async def leaving() -> tuple[str, str]:
    try:
        await leave()
    except StepFailed as error:
        return error.type, error.traceback
    return "", ""


@workflow
async def calling_a_number() -> Any:
    return await holdfast.call("number", 5)  # type: ignore[call-overload]


@step(transaction=True)
def book(db: Any, n: int) -> int:
    return n


@workflow
async def calling_a_transaction() -> Any:
    return await holdfast.call("again", book, 1)


async def test_a_transactional_step_is_no_inline_step():
    async with Environment(calling_a_transaction) as env:
        with pytest.raises(RunFailed, match="'book' is transactional"):
            await (await env.client.start(calling_a_transaction)).result()


def test_a_version_that_is_no_text_is_refused_by_its_value():
    with pytest.raises(DefinitionError, match="workflow 'numbered': version=2 can't be a name"):

        @workflow(version=2)  # type: ignore[call-overload]
        async def numbered() -> None: ...


def test_attributes_that_a_function_has_set_on_itself_are_not_taken_for_options_of_a_step_or_workflow():
    """As decorators of others do: tenacity's `retry` sets one of that name."""

    async def fn() -> None: ...

    fn.retry = fn.name = fn.queue = fn.is_async = "theirs"  # type: ignore[attr-defined]
    made, flow = step(fn), workflow(fn)
    assert (made.name, made.retry, made.is_async) == ("fn", Retry(), True)
    assert (flow.name, flow.retry, flow.queue) == ("fn", None, "default")


@pytest.mark.parametrize("input", [("many",), (1, 2), 5, "1"], ids=["type", "number", "no tuple", "text"])
async def test_a_fork_is_checked_against_what_workers_have_declared(input):
    async with Environment(double) as env:
        run = await env.client.start(double, 2)
        await run.result()
        with pytest.raises(BadArguments):
            await env.client.fork(run.id, input=input)
        assert await env.client.count(RunFilter()) == 1


async def test_a_fork_with_other_arguments_uses_them(url):
    async with AsyncClient(url) as client, Worker(client, workflows=[double]):
        run = await client.start(double, 2)
        await run.result(timeout=30)
        assert await (await client.fork(run.id, input=(4,))).result(timeout=30) == 8


async def test_driving_a_run_that_does_not_exist_is_refused(database_url):
    with pytest.raises(RunNotFound, match="'nobody'"):
        await Worker(database_url, workflows=[double]).drive("nobody")


def test_a_lease_lasts_a_second_at_least(database_url):
    with pytest.raises(DefinitionError, match="expected a second or more"):
        Worker(database_url, workflows=[double], lease=0)


def test_a_compensation_is_a_step_or_a_function():
    with pytest.raises(DefinitionError, match="compensate=5"):
        step(compensate=5)(lambda: None)  # type: ignore[call-overload]


def takes_nothing() -> None: ...


def takes_two(first: object, second: object) -> None: ...


def takes_it_by_name(*, result: object) -> None: ...


@step(transaction=True)
def takes_a_connection(db: object) -> None: ...


@pytest.mark.parametrize("undo", [takes_nothing, takes_two, takes_it_by_name, takes_a_connection])
def test_a_compensation_that_cannot_take_the_result_alone_is_refused(undo):
    with pytest.raises(DefinitionError, match=r"step 'int': compensate=takes_\w+: it is called with the step's result"):
        step(compensate=undo)(int)


@step(transaction=True)
def undo_inside(db: object, result: object) -> None: ...


@pytest.mark.parametrize("undo", [print, undo_inside, partial(takes_two, 1), lambda result, reason="": None, max])
def test_a_compensation_that_can_take_the_result_or_may_be_able_to_is_accepted(undo):
    assert step(compensate=undo)(int).compensate is not None


@workflow
async def undone_by_a_workflow() -> None:
    holdfast.compensate(double, 1)


async def test_a_workflow_is_neither_a_step_nor_a_compensation():
    with pytest.raises(DefinitionError, match="'double' is a workflow"):
        step(double)
    with pytest.raises(DefinitionError, match="'double' is a workflow"):
        step(compensate=double)(print)
    async with Environment(undone_by_a_workflow) as env:
        with pytest.raises(RunFailed, match="'double' is a workflow") as failed:
            await (await env.client.start(undone_by_a_workflow)).result()
        assert isinstance(failed.value.__cause__, DefinitionError)


async def test_an_inline_step_calls_a_function():
    async with Environment(calling_a_number) as env:
        run = await env.client.start(calling_a_number)
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert isinstance(failed.value.__cause__, DefinitionError)


async def test_a_step_that_would_leave_the_process_fails_with_where_it_tried():
    async with Environment(leaving) as env:
        kind, traceback = await (await env.client.start(leaving)).result()
        assert kind == "builtins.SystemExit"
        assert "in leave" in traceback


async def test_options_of_a_start_are_refused_by_continue_as_new():
    @workflow
    async def later(n: int) -> int:
        if n:
            later.options(delay="1h", tags={"a": "b"}).continue_as_new(n - 1)
        return n

    async with Environment(later) as env:
        with pytest.raises(RunFailed, match=r"later\.options\(delay=, tags=\)\.continue_as_new\(\): the next run has"):
            await (await env.client.start(later, 1)).result()
