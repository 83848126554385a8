"""The loop that a body advances on, its host's, and the body's own in its place meanwhile.

Both the running loop and the current task are swapped. Up to Python 3.13 each loop has a current task of its own; from
3.14 on a thread has one, and refuses to enter another while the host's is there.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio import events
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Callable
from functools import partial

ONE_A_THREAD = sys.version_info >= (3, 14)
"""Whether a thread has one current task, whatever its loops are."""


def enter(loop: asyncio.AbstractEventLoop, host: asyncio.AbstractEventLoop | None) -> Callable[[], None]:
    """Make the body's loop the running one, in which no task is current yet; the answer undoes it."""
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
