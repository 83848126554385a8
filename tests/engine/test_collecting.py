"""The garbage collector is watched for as long as bodies can be advanced, and no longer."""

from __future__ import annotations

import gc
import sys
import threading

import pytest

from holdfast import workflow
from holdfast.engine import Runners
from tests.engine.samples import double


@pytest.fixture(autouse=True)
def nothing_left() -> None:
    """Runners that earlier tests have left to the collector would stop watching in the middle of one of these."""
    gc.collect()


def test_closed_runners_no_longer_watch_the_garbage_collector():
    before = list(gc.callbacks)
    runners = Runners()
    assert len(gc.callbacks) == len(before) + 1
    runners.close()
    assert gc.callbacks == before


def test_runners_that_nobody_closed_stop_watching_the_garbage_collector_when_they_are_freed():
    before = list(gc.callbacks)
    runners = Runners()
    del runners
    gc.collect()
    assert gc.callbacks == before


def test_closing_runners_twice_changes_nothing():
    runners = Runners()
    runners.close()
    before = list(gc.callbacks)
    runners.close()
    assert gc.callbacks == before


def test_a_garbage_collection_in_another_thread_does_not_disturb_a_body(begin):
    runners = Runners()

    @workflow
    async def body() -> int:
        # The collection has begun in the other thread and has not ended.
        [watching] = [one for one in gc.callbacks if getattr(one, "_runners", lambda: None)() is runners]
        collecting = threading.Thread(target=watching, args=("start", {}))
        collecting.start()
        collecting.join()
        return await double(1)

    assert begin(body, runners=runners).open == ["double"]
    runners.close()


def test_async_generator_hooks_of_the_host_are_restored_after_an_advance(begin):
    before = sys.get_asyncgen_hooks()

    @workflow
    async def body() -> int:
        assert sys.get_asyncgen_hooks() != before
        return await double(1)

    assert begin(body).open == ["double"]
    assert sys.get_asyncgen_hooks() == before
