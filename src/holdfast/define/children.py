"""Child runs: a workflow called or started inside another workflow's body."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, TypeVar

from holdfast.model import NOT_GIVEN

from .pending import Keeper, Pending
from .scope import body_for
from .steps import checked_name

T = TypeVar("T")
_WAITS = vars(asyncio.tasks)
"""The module in which asyncio waits for futures and cancels them. A cancel that a body made with call_later comes from
elsewhere."""


class ChildRun(Pending[T]):
    """A child run under way: what `workflow.start(...)` returns in a body.

    It is a Pending: await it, gather it, or call `.result()` in a `def` body. A child that failed raises its own
    exception, noted with the run's id; a cancelled child raises RunCancelled.
    """

    __slots__ = ("id",)

    def __init__(self, keeper: Keeper, loop: asyncio.AbstractEventLoop, key: str) -> None:
        super().__init__(keeper, loop, key)
        self.id = ""
        """The child's run id."""

    def signal(self, name: str, payload: Any = None) -> None:
        """Send the child a signal, with this turn: once, and not again on replay; it is dropped if the child has
        ended."""
        body_for("ChildRun.signal()").send_signal(self.id, checked_name(name), payload, self.key)

    def cancel(self, msg: Any | None = NOT_GIVEN) -> bool:
        """Ask the child to end, with this turn; False if it has ended. Its end is delivered as always: the child may
        clean up first, and waiting for it raises RunCancelled once it has ended cancelled. A run that was there before
        and was only joined goes on."""
        if msg is not NOT_GIVEN or sys._getframe(1).f_globals is _WAITS:
            # asyncio cancels the wait: the waiting task was cancelled or is out of time. asyncio says so by passing a
            # message, except in wait_for on Python 3.11, which then waits until this is done: a child's cleanup may
            # take long.
            return super().cancel(None if msg is NOT_GIVEN else msg)
        if self.done():
            return False
        body_for("ChildRun.cancel()").cancel_child(self)
        return True
