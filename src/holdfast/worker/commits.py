"""Group commit: all that this worker's runs want written while a commit is under way goes out in the next one.

No timer, no artificial delay: alone, a turn is one commit; under load, hundreds are one. "The store is away" is not
"refused": the batch waits and is sent again as it was until it is answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from holdfast.errors import StoreAway, StoreError

_log = logging.getLogger("holdfast.worker")
T = TypeVar("T")
_BATCH = 512
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 5.0


class GroupWriter(Generic[T]):
    """Writes items in groups, in order, and tells each one's verdict:

    True, False, or the error that it can never be stored.
    """

    def __init__(
        self,
        write: Callable[[Sequence[T]], Awaitable[list[bool]]],
        may_write: Callable[[], Awaitable[bool]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._write = write
        self._may_write = may_write
        self._sleep = sleep
        self._queue: list[tuple[T, Callable[[bool | StoreError], None]]] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, item: T, told: Callable[[bool | StoreError], None]) -> None:
        self._queue.append((item, told))
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def is_idle(self) -> bool:
        return self._task is None

    async def idle(self) -> None:
        """Wait until everything added so far has been answered."""
        while self._task is not None:
            await asyncio.wait([self._task])

    def stop(self) -> None:
        """Forget what is queued: the runs it belongs to are lost."""
        self._queue.clear()
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._queue:
                batch, self._queue = self._queue[:_BATCH], self._queue[_BATCH:]
                await self._send(batch)
        finally:
            self._task = None

    async def _send(self, batch: list[tuple[T, Callable[[bool | StoreError], None]]]) -> None:
        pause = _FIRST_PAUSE
        while True:
            if not await self._may_write():
                # The lease is gone for good; whoever took it will not miss this.
                for _, told in batch:
                    told(False)
                return
            try:
                verdicts = await self._write([item for item, _ in batch])
            except StoreAway as error:
                if pause == _FIRST_PAUSE:
                    _log.warning("the store is away, %d turns wait for it: %s", len(batch), error)
                await self._sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            except StoreError as error:
                await self._split(batch, error)
                return
            else:
                if pause != _FIRST_PAUSE:
                    _log.warning("the store is back")
                for (_, told), verdict in zip(batch, verdicts, strict=True):
                    told(verdict)
                return

    async def _split(self, batch: list[tuple[T, Callable[[bool | StoreError], None]]], error: StoreError) -> None:
        # One item that can never be stored must not hold up the others: halve until it is alone.
        if len(batch) == 1:
            batch[0][1](error)
            return
        half = len(batch) // 2
        await self._send(batch[:half])
        await self._send(batch[half:])
