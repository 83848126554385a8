"""Swapping the host's event loop for a body's loop while the body advances, and back.

Both the running loop and the current task are swapped. Up to Python 3.13 each loop has a current task of its own; from
3.14 on each thread has one, and refuses to enter another task while the host's is current.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import events
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable
from functools import partial

ONE_A_THREAD = sys.version_info >= (3, 14)
"""Whether there is one current task per thread, and not one per loop."""


def enter(loop: asyncio.AbstractEventLoop, host: asyncio.AbstractEventLoop | None) -> Callable[[], None]:
    """Make the body's loop the running one, with no current task yet. Call the returned function to undo it."""
    task = asyncio.current_task(host) if ONE_A_THREAD and host is not None else None
    if host is None or task is None:
        events._set_running_loop(loop)
        return partial(events._set_running_loop, host)
    _leave_task(host, task)
    events._set_running_loop(loop)
    return partial(_go_back, host, task)


def _go_back(host: asyncio.AbstractEventLoop, task: asyncio.Task[object]) -> None:
    events._set_running_loop(host)
    _enter_task(host, task)
