"""The collector is watched for as long as bodies can be advanced, and no longer."""

from __future__ import annotations

import gc
import sys
import threading

from holdfast import workflow
from holdfast.engine import Runners
from tests.engine.samples import double


def test_closed_runners_watch_the_collector_no_more():
    before = list(gc.callbacks)
    runners = Runners()
    assert len(gc.callbacks) == len(before) + 1
    runners.close()
    assert gc.callbacks == before


def test_runners_that_nobody_closed_stop_watching_when_they_are_gone():
    before = list(gc.callbacks)
    runners = Runners()
    del runners
    gc.collect()
    assert gc.callbacks == before


def test_closing_twice_is_closing_once():
    runners = Runners()
    runners.close()
    before = list(gc.callbacks)
    runners.close()
    assert gc.callbacks == before


def test_a_collector_that_runs_in_another_thread_refuses_a_body_nothing(begin):
    runners = Runners()

    @workflow
    async def body() -> int:
        # Half-way through: it has begun there, and has not ended.
        [watching] = [one for one in gc.callbacks if getattr(one, "_runners", lambda: None)() is runners]
        collecting = threading.Thread(target=watching, args=("start", {}))
        collecting.start()
        collecting.join()
        return await double(1)

    assert begin(body, runners=runners).open == ["double"]
    runners.close()


def test_async_generators_of_the_host_are_its_own_again_after_an_advance(begin):
    before = sys.get_asyncgen_hooks()

    @workflow
    async def body() -> int:
        assert sys.get_asyncgen_hooks() != before
        return await double(1)

    assert begin(body).open == ["double"]
    assert sys.get_asyncgen_hooks() == before
