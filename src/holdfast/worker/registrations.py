"""Whether the store knows the waits that a rebuilt body has. A deploy may have changed them: another event's name,
another match or type. The journal says nothing of these, so such a change is no divergence.

A body that was rebuilt and has such waits goes on only after its rows were read and compared. What differs is
registered anew by its next turn, or removed; an unchanged body costs a read and no write.

The row of a wait for an event may be gone because an event was matched with it: that delete and the message are one
commit. So if a row is missing, the inbox is read after the rows were, and the message is here before the body goes on.
A wait that takes it ends in that turn. One that doesn't, since its code has changed, is registered by the same turn,
and the message stays in the inbox for a wait that takes it. An event that is matched with the old row after that look
deletes the old row only, or meets the new one: a number that is registered anew is another wait. A hook without a row
was resumed, and the store does not open it again.

Crash before that turn is committed: whoever rebuilds the body next finds the same rows and compares them anew.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Sequence

from holdfast.define import HouseLogger
from holdfast.errors import StoreAway
from holdfast.model import Message, WaitRecord

from .held import Held

_log = HouseLogger("holdfast.worker")
_PAUSE = 0.05
_AT_ONCE = 20


class Registrations:
    """The comparisons of one session. Each run goes on when it was compared."""

    def __init__(
        self,
        read: Callable[[str], Awaitable[Sequence[WaitRecord]]],
        read_inbox: Callable[[], Awaitable[Sequence[Message]]],
        deliver: Callable[[Sequence[Message]], object],
    ) -> None:
        self._read = read
        self._read_inbox = read_inbox
        self._deliver = deliver
        self._waiting: list[tuple[Held, Callable[[], None]]] = []
        self._task: asyncio.Task[None] | None = None
        # Runs may be claimed in a step's context, which their bodies must not see.
        self._context = contextvars.copy_context()

    def add(self, held: Held, go_on: Callable[[], None]) -> None:
        """Compare the waits of this run, then let it go on."""
        self._waiting.append((held, go_on))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._compare(), context=self._context.copy())

    @property
    def is_under_way(self) -> bool:
        """Whether a run waits for a comparison."""
        return self._task is not None

    def close(self) -> None:
        """Compare no more: the runs are given up."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _compare(self) -> None:
        try:
            while self._waiting:
                some, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
                some = [(held, go_on) for held, go_on in some if _is_here(held)]
                try:
                    await self._compare_some([held for held, _ in some])
                except StoreAway:
                    # A run that went on could commit nothing, either.
                    self._waiting = some + self._waiting
                    await asyncio.sleep(_PAUSE)
                    continue
                except Exception:
                    _log.exception("the waits of rebuilt runs could not be compared with those in the store")
                for held, go_on in some:
                    if _is_here(held):
                        held.is_unsure = False
                        go_on()
        finally:
            if self._task is asyncio.current_task():
                self._task = None

    async def _compare_some(self, some: Sequence[Held]) -> None:
        found = await asyncio.gather(*(self._read(held.id) for held in some))
        is_any_missing = False
        for held, rows in zip(some, found, strict=True):
            if _is_here(held) and held.execution is not None:
                is_any_missing |= held.execution.life.compare_waits(rows)
        if is_any_missing:
            self._deliver(await self._read_inbox())


def _is_here(held: Held) -> bool:
    """Whether it was neither dropped nor given back meanwhile. Its next claim compares it then."""
    return held.is_unsure and not held.is_lost and not held.is_parked and not held.is_committing
