"""Child runs: a workflow called or started inside another workflow's body."""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from .pending import Keeper, Pending
from .scope import body_for

T = TypeVar("T")


class ChildRun(Pending[T]):
    """A child run under way: what `workflow.start(...)` gives in a body.

    It is a Pending: await it, gather it, or call `.result()` in a `def` body. A child that failed raises its own
    exception, noted with the run's id; one that was cancelled raises RunCancelled.
    """

    __slots__ = ("id",)

    def __init__(self, keeper: Keeper, loop: asyncio.AbstractEventLoop, key: str) -> None:
        super().__init__(keeper, loop, key)
        self.id = ""
        """The child's run id."""

    def signal(self, name: str, payload: Any = None) -> None:
        """Send the child a signal, with this turn."""
        body_for("ChildRun.signal()").send_signal(self.id, name, payload)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the child: waiting for it raises CancelledError here."""
        return super().cancel(msg)
