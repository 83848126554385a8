"""A last look into the inbox before a timer may win over a message.

A signal that was sent before its wait's timeout wins, even if nobody has told this worker of it yet. So a run that
waits for messages, and has a timer that is due, waits for a look into the inbox; one look serves all runs that wait for
one. A message that is committed later was sent later. A timer that becomes due before the look is answered needs
another look. An event reaches the inbox only when it was matched with its wait: if one of the runs waits for an event,
matching comes first.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping, Sequence

from holdfast.define import HouseLogger
from holdfast.errors import StoreAway
from holdfast.model import Instant, Message

from .held import Held

_log = HouseLogger("holdfast.worker")
_PAUSE = 0.05


class Listening:
    """The looks of one session. `deliver` gets the messages found, the runs that waited for the look, and its time."""

    def __init__(
        self,
        read: Callable[[], Awaitable[Sequence[Message]]],
        match: Callable[[], Awaitable[None]],
        deliver: Callable[[Sequence[Message], Mapping[str, Held], Instant], object],
        now: Callable[[], Instant],
    ) -> None:
        self._read = read
        self._match = match
        self._deliver = deliver
        self._now = now
        self._waiting: dict[str, Held] = {}
        self._task: asyncio.Task[None] | None = None
        # A look may be asked for in a step's context, which the runs must not see.
        self._context = contextvars.copy_context()

    def add(self, held: Held) -> None:
        """Look before this run goes on. A run that comes while a look is under way waits for the next one."""
        self._waiting[held.id] = held
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._listen(), context=self._context.copy())

    @property
    def is_under_way(self) -> bool:
        """Whether a run waits for a look."""
        return self._task is not None

    def close(self) -> None:
        """Look no more: the runs are given up."""
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _listen(self) -> None:
        try:
            await self._listen_to_all()
        finally:
            if self._task is asyncio.current_task():
                self._task = None

    async def _listen_to_all(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, {}
            found: Sequence[Message] = ()
            heard_at = self._now()
            try:
                if any(held.execution is not None and held.execution.awaits_event for held in waiting.values()):
                    await self._match()
                found = await self._read()
            except StoreAway:
                # A run that went on could commit nothing, either.
                self._waiting = {**waiting, **self._waiting}
                await asyncio.sleep(_PAUSE)
                continue
            except Exception:
                _log.exception("the inbox could not be read before timers fire")
            self._deliver(found, waiting, heard_at)
