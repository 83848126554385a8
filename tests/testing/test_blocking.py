"""The environment for tests that are plain functions."""

from __future__ import annotations

import inspect
import threading
from datetime import UTC, datetime, timedelta

import pytest

from holdfast import Client, Run, RunFilter, RunStatus, step, workflow
from holdfast.errors import ClientClosed, MisplacedCall
from holdfast.testing import BlockingEnvironment, Environment
from tests.testing.orders import ORDER, charge, checkout

START = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_plain_test_uses_it_without_await():
    with Environment([checkout], stubs={charge: "paid"}, start=START) as env:
        assert isinstance(env.client, Client)
        run = env.client.start(checkout, ORDER)
        assert isinstance(run, Run)
        assert env.until_waiting(run).reason == "sleeping"
        env.skip("1h")
        assert env.now - START == timedelta(hours=1)
        assert run.result() == "4711 paid by paid"
        assert env.now - START == timedelta(days=1)
        assert [call.args for call in env.calls(charge)] == [("4711", 100)]
        assert [one.status for one in env.client.runs(RunFilter(workflow="checkout"))] == [RunStatus.COMPLETED]


def test_it_starts_no_thread():
    before = set(threading.enumerate())
    with Environment([checkout], stubs={charge: "paid"}) as env:
        env.until_waiting(env.client.start(checkout, ORDER))
        assert set(threading.enumerate()) <= before


def test_a_step_in_a_thread_may_use_its_client():
    @step
    def have_it_done() -> str:
        return env.client.start(checkout, ORDER).result()

    @workflow
    def asking() -> str:
        return have_it_done()

    with Environment([asking, checkout], stubs={charge: "paid"}) as env:
        assert env.client.start(asking).result() == "4711 paid by paid"


async def test_it_refuses_a_running_loop():
    with pytest.raises(MisplacedCall, match="async with Environment"), Environment([checkout]):
        pass


def test_it_is_closed_when_a_test_fails():
    def failing() -> None:
        with Environment([checkout]) as env:
            run.append(env.client.start(checkout, ORDER))
            raise ZeroDivisionError

    run = []
    with pytest.raises(ZeroDivisionError):
        failing()
    with pytest.raises(ClientClosed):
        run[0].refresh()


def test_both_have_the_same_methods():
    def methods(cls) -> dict[str, list[str]]:
        found = {}
        for name, value in vars(cls).items():
            if not name.startswith("_") and inspect.isfunction(value):
                found[name] = list(inspect.signature(value).parameters)
        return found

    assert methods(BlockingEnvironment) == methods(Environment)
