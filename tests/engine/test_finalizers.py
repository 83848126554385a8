"""P9: what the garbage collector runs, at any moment and in any thread, executes no step and reaches no run."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

import holdfast
from holdfast import step, workflow
from holdfast.define import StepInfo, current_run, current_scope, current_step
from holdfast.engine import Runners, collecting
from holdfast.errors import NotInRun, Suspended
from holdfast.observe import LogContext
from tests.engine.alerts import ALERTS
from tests.engine.samples import double


@pytest.fixture(autouse=True)
def by_hand() -> Iterator[None]:
    """The collector runs where a test says so, and finds nothing that other tests have left."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()
    gc.collect()


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | None]:
    """What finalizers have raised."""
    raised: list[BaseException | None] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda failed: raised.append(failed.exc_value))
    return raised


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No bodies but this test's, whatever other tests have left open."""
    before = list(gc.callbacks)
    gc.callbacks[:] = [one for one in before if type(one).__module__ != collecting.__name__]
    monkeypatch.setattr(collecting, "_refusing", type(collecting._refusing)())
    yield
    gc.callbacks[:] = before


@pytest.fixture
def runners() -> Iterator[Runners]:
    made = Runners()
    yield made
    made.close()


@step
def release(what: str) -> None:
    ALERTS.append(what)


@step
async def release_slowly(what: str) -> None:
    ALERTS.append(what)


class Reader:
    """Keeps a generator that keeps it: only the collector can end that."""

    def __init__(self, last: Callable[[], object]) -> None:
        self.last = last
        self.rows = self._rows()
        next(self.rows)

    def _rows(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.last()


def releasing() -> Reader:
    return Reader(lambda: release("reader"))


@workflow
async def leaving() -> int:
    releasing()
    return await double(1)


def collect(phase: str) -> None:
    """What Python does before and after a collection."""
    for one in list(gc.callbacks):
        one(phase, {"generation": 0})


def in_a_step() -> StepInfo:
    """What `current_scope` holds while a step executes, as far as this file needs it."""
    return StepInfo("export", "export", 1, run=None, resources={})  # type: ignore[arg-type]  # nobody asks for its run


def test_a_generator_collected_while_its_body_waits_executes_no_step(begin, said):
    drive = begin(leaving)
    gc.collect()
    assert ALERTS == []
    assert [type(error) for error in said] == [Suspended]
    assert drive.finish().asked == ["double"]


def test_a_generator_of_a_body_that_was_put_away_executes_no_step(begin, said):
    begin(leaving).execution.put_away()
    gc.collect()
    assert ALERTS == []
    assert len(said) == 1


def test_a_generator_collected_after_its_worker_has_stopped_executes_no_step(alone, begin, said, runners):
    begin(leaving, runners=runners).close()
    runners.close()
    gc.collect()
    assert ALERTS == []
    assert len(said) == 1


def test_a_generator_collected_in_another_thread_executes_no_step(begin, said):
    begin(leaving)
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()
    assert ALERTS == []
    assert len(said) == 1


def test_a_young_collection_after_a_worker_has_stopped_does_not_end_the_watch(alone, begin, runners):
    @workflow
    async def body() -> None:
        reader = releasing()
        await double(1)
        del reader

    drive = begin(body, runners=runners)
    # It is old by now, and no garbage yet.
    gc.collect()
    drive.close()
    runners.close()
    gc.collect(0)
    gc.collect()
    assert ALERTS == []


def test_an_async_step_is_refused_where_a_finalizer_calls_it(begin, said):
    @workflow
    async def body() -> int:
        Reader(lambda: ALERTS.append(str(release_slowly("reader"))))
        return await double(1)

    begin(body)
    gc.collect()
    assert ALERTS == []
    assert [type(error) for error in said] == [Suspended]


def test_a_child_run_is_refused_where_a_finalizer_starts_it(begin, said):
    @workflow
    async def body() -> int:
        Reader(lambda: leaving.start())
        return await double(1)

    begin(body)
    gc.collect()
    assert [type(error) for error in said] == [Suspended]


def test_python_reports_the_step_that_was_refused_and_what_to_do(begin, said):
    begin(leaving)
    gc.collect()
    assert "the step 'release'" in str(said[0])
    assert "contextlib.closing" in str(said[0])


def test_a_finalizer_that_runs_while_a_step_executes_sends_nothing_in_its_name(begin, said):
    @workflow
    async def body() -> int:
        Reader(lambda: holdfast.set_value("progress", 1))
        return await double(1)

    begin(body)
    before = current_scope.set(in_a_step())
    gc.collect()
    current_scope.reset(before)
    assert [type(error) for error in said] == [Suspended]


@pytest.mark.parametrize("draw", [holdfast.uuid4, holdfast.rng, holdfast.now])
def test_a_finalizer_draws_nothing_from_the_body_that_advances(begin, said, draw):
    @workflow
    async def body() -> int:
        Reader(draw)
        gc.collect()
        return await double(1)

    begin(body)
    assert [type(error) for error in said] == [Suspended]


def test_a_finalizer_leaves_no_shield(begin, said):
    @workflow
    async def first() -> int:
        whole = holdfast.shield()
        whole.__enter__()
        Reader(lambda: whole.__exit__(None, None, None))
        return await double(1)

    @workflow
    async def second() -> int:
        gc.collect()
        return await double(2)

    left = begin(first)
    begin(second, run_id="run-2").cancel()
    assert [type(error) for error in said] == [Suspended]
    # When the collector comes is no part of the journal: a cancel that it let in would come elsewhere on replay.
    left.cancel()
    assert left.ended is None


def test_a_finalizer_sets_no_timer_in_the_body_that_advances(begin, said):
    @workflow
    async def body() -> int:
        Reader(lambda: asyncio.get_running_loop().call_later(60, print))
        gc.collect()
        return await double(1)

    assert begin(body).execution.next_timer() is None
    assert [type(error) for error in said] == [Suspended]


def test_a_step_finds_itself_again_after_a_collection(runners):
    info = in_a_step()
    before = current_scope.set(info)
    gc.collect()
    found = current_step()
    current_scope.reset(before)
    assert found is info


@holdfast.resource
def database() -> Iterator[str]:
    yield "open"


@pytest.mark.parametrize("ask", [current_step, current_run, database])
def test_a_finalizer_is_in_no_run_and_in_no_step(runners, said, ask):
    reader = Reader(ask)
    before = current_scope.set(in_a_step())
    del reader
    gc.collect()
    current_scope.reset(before)
    assert [type(error) for error in said] == [NotInRun]


@pytest.mark.parametrize("logger", [holdfast.logger, logging.getLogger("tests.finalizers")])
def test_what_a_finalizer_logs_is_of_no_run(begin, caplog, monkeypatch, logger):
    @workflow
    async def body() -> int:
        Reader(lambda: logger.warning("closed"))
        gc.collect()
        return await double(1)

    monkeypatch.setattr(caplog.handler, "filters", [LogContext()])
    with caplog.at_level(logging.WARNING, logger.name):
        begin(body)
    assert [record.run_id for record in caplog.records] == [None]


def test_a_finalizer_executes_a_step_as_a_function_once_no_garbage_of_bodies_is_left(alone):
    Runners().close()
    gc.collect()
    releasing()
    gc.collect()
    assert ALERTS == ["reader"]


def test_a_finalizer_executes_a_step_as_a_function_where_there_were_never_bodies(alone):
    releasing()
    gc.collect()
    assert ALERTS == ["reader"]


def test_a_worker_that_has_stopped_leaves_the_watch_of_another_as_it_is(alone, begin, runners):
    begin(leaving, runners=runners)
    Runners().close()
    gc.collect()
    releasing()
    gc.collect()
    assert ALERTS == []


def test_collections_within_one_another_give_back_what_was_there(runners):
    info = in_a_step()
    before = current_scope.set(info)
    # Python has no such collections now, and promises nothing. A finalizer may let another thread go on.
    collect("start")
    collect("start")
    thread = threading.Thread(target=gc.collect)
    thread.start()
    thread.join()
    collect("stop")
    with pytest.raises(NotInRun):
        current_step()
    collect("stop")
    found = current_step()
    current_scope.reset(before)
    assert found is info
