"""The collector is watched for as long as bodies can be advanced, and no longer."""

from __future__ import annotations

import gc

from holdfast.engine import Runners


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
