"""An async step or workflow is a coroutine function to decorators, mocks, `call` and `inspect`."""

from __future__ import annotations

import functools
import inspect
import sys
from unittest.mock import AsyncMock, MagicMock, patch

import pytest

import holdfast
from holdfast import Done, Machine, Retry, step, workflow
from holdfast.testing import Environment

once = Retry(attempts=1)


@step(retry=once)
async def refund(receipt: str, cents: int = 0) -> str:
    return f"{receipt}: {cents} back"


@step
def log(text: str) -> None: ...


@workflow
async def child() -> None: ...


@workflow
def blocking_child() -> None: ...


machine = Machine("machine", {"start": lambda ctx: Done(None)})


@pytest.mark.parametrize("one", [refund, refund.options(name="other"), child, machine])
def test_an_async_step_or_workflow_is_a_coroutine_function(one):
    assert inspect.iscoroutinefunction(one)


@pytest.mark.parametrize("one", [log, blocking_child])
def test_a_blocking_step_or_workflow_is_no_coroutine_function(one):
    assert not inspect.iscoroutinefunction(one)


def test_a_step_has_the_signature_of_its_function():
    assert list(inspect.signature(refund).parameters) == ["receipt", "cents"]
    assert inspect.getcallargs(refund, "receipt 7") == {"receipt": "receipt 7", "cents": 0}


def test_a_mock_of_an_async_step_is_awaited():
    with patch.object(sys.modules[__name__], "refund") as awaited, patch.object(sys.modules[__name__], "log") as called:
        assert isinstance(awaited, AsyncMock)
        assert isinstance(called, MagicMock)


def retried(fn):
    """A decorator as libraries write it, for functions of both kinds."""
    assert inspect.iscoroutinefunction(fn)

    @functools.wraps(fn)
    async def again(*args, **kwargs):
        try:
            return await fn(*args, **kwargs)
        except OSError:
            return await fn(*args, **kwargs)

    return again


def test_a_decorator_above_an_async_step_awaits_it():
    @workflow
    async def body() -> str:
        return await retried(refund)("receipt 7")

    answers = iter([OSError("away"), "done"])

    def answer(*_):
        match next(answers):
            case OSError() as error:
                raise error
            case text:
                return text

    with Environment([body], stubs={refund: answer}) as env:
        assert env.client.start(body).result() == "done"


def test_an_inline_step_may_be_a_partial_of_an_async_step():
    @workflow
    async def body() -> str:
        return await holdfast.call("refund it", functools.partial(refund, "receipt 7", cents=5))

    with Environment([body]) as env:
        assert env.client.start(body).result() == "receipt 7: 5 back"


def test_a_partial_of_an_async_step_may_be_a_compensation():
    @workflow
    async def body() -> None:
        holdfast.compensate(functools.partial(refund, "receipt 7"))
        await holdfast.rollback()

    with Environment([body]) as env:
        env.client.start(body).result()
        assert len(env.calls("refund")) == 1
