"""The environment for tests that are plain functions."""

from __future__ import annotations

import inspect
import threading
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast import Client, Run, RunFilter, RunStatus, blocking, step, workflow
from holdfast.errors import ClientClosed, HoldfastError, MisplacedCall
from holdfast.testing import BlockingEnvironment, Environment
from tests.testing.orders import ORDER, charge, checkout

START = datetime(2030, 1, 1, tzinfo=UTC)


def test_a_plain_test_uses_the_blocking_environment_without_await():
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


def test_the_blocking_environment_starts_no_thread():
    before = set(threading.enumerate())
    with Environment([checkout], stubs={charge: "paid"}) as env:
        env.until_waiting(env.client.start(checkout, ORDER))
        assert set(threading.enumerate()) <= before


def test_a_step_in_a_thread_may_use_the_blocking_environment_s_client():
    @step
    def have_it_done() -> str:
        return env.client.start(checkout, ORDER).result()

    @workflow
    def asking() -> str:
        return have_it_done()

    with Environment([asking, checkout], stubs={charge: "paid"}) as env:
        assert env.client.start(asking).result() == "4711 paid by paid"


async def test_the_blocking_environment_refuses_a_running_loop():
    with pytest.raises(MisplacedCall, match="async with Environment"), Environment([checkout]):
        pass


@step
def talk() -> None:
    holdfast.emit("words", "from a step")


@workflow
def talking() -> str:
    holdfast.emit("words", "first")
    talk()
    blocking.sleep("1d")
    holdfast.emit("words", "last")
    return "done"


def test_streams_and_changes_of_a_run_that_has_ended_are_followed_to_their_end():
    with Environment([talking]) as env:
        run = env.client.start(talking)
        run.result()
        assert [item.value for item in run.stream("words")] == ["first", "from a step", "last"]
        assert list(run.changes()) == [RunStatus.COMPLETED]


def test_following_a_run_executes_what_is_due_and_then_raises_as_time_stands_still():
    with Environment([talking]) as env:
        run = env.client.start(talking)
        words = run.stream("words")
        assert [next(words).value, next(words).value] == ["first", "from a step"]
        with pytest.raises(HoldfastError, match="never be more to follow"):
            next(words)
        env.skip("1d")
        assert [item.value for item in run.stream("words", after=2)] == ["last"]


def test_a_step_may_follow_a_run_while_the_test_waits():
    @step
    def listen(run_id: str) -> list[str]:
        return [item.value for item in env.client.get_run(run_id).stream("words")]

    @workflow
    def listening(run_id: str) -> list[str]:
        return listen(run_id)

    with Environment([talking, listening]) as env:
        talker = env.client.start(talking)
        assert env.client.start(listening, talker.id).result() == ["first", "from a step", "last"]


def test_the_blocking_environment_is_closed_when_a_test_fails():
    def failing() -> None:
        with Environment([checkout]) as env:
            run.append(env.client.start(checkout, ORDER))
            raise ZeroDivisionError

    run = []
    with pytest.raises(ZeroDivisionError):
        failing()
    with pytest.raises(ClientClosed):
        run[0].refresh()


def test_both_environments_have_the_same_methods():
    def methods(cls) -> dict[str, list[str]]:
        found = {}
        for name, value in vars(cls).items():
            if not name.startswith("_") and inspect.isfunction(value):
                found[name] = list(inspect.signature(value).parameters)
        return found

    assert methods(BlockingEnvironment) == methods(Environment)
