"""Putting a body away: it ends in its own context, marked dead, and nothing that it does on the way gets out.

A body is never left to the garbage collector, whose moment nobody chooses: a `finally` block that ran then would find
the loop and the context of another run around it. Code that will not end is kept, so that it never runs again, and is
reported.
"""

from __future__ import annotations

import contextvars
from asyncio import current_task, events
from asyncio.tasks import _enter_task, _leave_task
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from greenlet import getcurrent, greenlet

from holdfast.define import HouseLogger
from holdfast.errors import Suspended

from .hosts import enter
from .loop import BodyLoop
from .runners import STUBBORN, Pumped, Runners, is_entered, run_beside
from .tasks import BodyTask

_log = HouseLogger("holdfast.engine")
_PATIENCE = 8


class Departing(Pumped, Protocol):
    """What this file needs of an execution."""

    loop: BodyLoop
    run: Any
    context: contextvars.Context

    @property
    def runners(self) -> Runners: ...

    @property
    def has_generators(self) -> bool: ...

    def open_generators(self) -> list[AsyncGenerator[Any, Any]]:
        """The async generators that are not closed yet. Each is returned once."""

    def forget(self) -> None: ...


def put_away(body: Departing) -> None:
    """End every task of the body, youngest first, then forget it."""
    body.is_dead = True
    # Most bodies have ended by themselves, with all of their tasks.
    if body.has_generators or not all(task.done() for task in body.loop.tasks.values()):
        _end_all(body)
    body.forget()


def _end_all(body: Departing) -> None:
    leave = enter(body.loop, events._get_running_loop())
    body.runners.pumped = body
    body.hub = getcurrent()
    ready: deque[Any] = body.runners.ready
    try:
        for task in reversed(list(body.loop.tasks.values())):
            if not task.done() and not _end(body, task):
                # Keeping the task keeps the collector from running its code at some later moment.
                body.runners.kept.append(task)
                _log.error("%r: a task of its body would not end when it was put away: %r", body.run, task.get_coro())
            # However the task ended, asyncio is not to report it.
            task._log_destroy_pending = False
        while body.has_generators:
            for generator in body.open_generators():
                _drive(body, generator.aclose(), body.context.copy(), is_new=True)
    finally:
        ready.clear()
        body.hub = body.runners.pumped = None
        leave()


def _end(body: Departing, task: BodyTask[Any]) -> bool:
    for _ in range(_PATIENCE):
        if task.greenlet is not None:
            if task.greenlet.throw(Suspended()) is STUBBORN:
                if current_task(body.loop) is task:
                    # The task is still the current one: left so, the host would find it in the place of its own.
                    _leave_task(body.loop, task)
                return False
            if task.done():
                return True
            continue
        _enter_task(body.loop, task)
        try:
            return _drive(body, task.get_coro(), task.own_context)
        finally:
            _leave_task(body.loop, task)
    return False


def _drive(body: Departing, work: Any, context: contextvars.Context, *, is_new: bool = False) -> bool:
    """Throw Suspended into a coroutine until it has ended; False if it won't."""
    # In a greenlet of its own, so that code which never stops calling can be left behind in it.
    hand = greenlet(_throw)
    outcome = hand.switch(work, context, is_new)
    if outcome is STUBBORN:
        body.runners.kept.append(hand)
        return False
    return outcome is True


def _throw(work: Coroutine[Any, Any, Any], context: contextvars.Context, is_new: bool) -> bool:
    run: Callable[..., object] = context.run
    for _ in range(_PATIENCE):
        try:
            if is_new:
                is_new = False
                run(work.send, None)
            else:
                run(work.throw, Suspended())
        except BaseException as error:
            if not is_entered(error):
                return True
            run = partial(run_beside, context)
    return False
