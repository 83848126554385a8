"""Waiting for a store that is away when a worker begins, until the store answers or the worker is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.define import HouseLogger
from holdfast.errors import StoreAway

_log = HouseLogger("holdfast.worker")
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0
_PARTING = 2.0


async def patiently(
    attempt: Callable[[], Coroutine[Any, Any, object]], stopping: asyncio.Event, waits_for: str
) -> bool:
    """Try until the store answers, at growing intervals; False if the worker is told to stop before that.

    Other errors are raised. The log has a line when the wait begins, and one when the store is back.
    """
    pause = _FIRST_PAUSE
    while not stopping.is_set():
        try:
            is_done = await _unless(stopping, attempt())
        except StoreAway as error:
            if pause == _FIRST_PAUSE:
                _log.warning("the store is away, %s: %s", waits_for, error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
            continue
        if is_done and pause != _FIRST_PAUSE:
            _log.warning("the store is back")
        return is_done
    return False


async def _unless(stopping: asyncio.Event, work: Coroutine[Any, Any, object]) -> bool:
    """Do the work; False if it was given up, because the worker is to stop and the store has not answered."""
    doing = asyncio.ensure_future(work)
    told = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait([doing, told], return_when=asyncio.FIRST_COMPLETED)
        # An answer that is on its way is waited for, so that what it brings is undone in good order.
        await asyncio.wait([doing], timeout=_PARTING)
        if doing.done():
            doing.result()
        return doing.done()
    finally:
        told.cancel()
        doing.cancel()
