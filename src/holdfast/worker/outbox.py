"""What steps send while they execute: values and items of streams, visible at once.

They go out in the order in which they were sent, a few statements behind the step, and a step's result is recorded
only after what it has sent. A process that dies takes along what was not out yet; the next attempt sends it again.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from typing import NamedTuple

from holdfast.errors import StoreAway, StoreError
from holdfast.store import Store

from .clock import Clock

_log = logging.getLogger("holdfast.worker")
_PAUSE = 0.2


class Item(NamedTuple):
    """A value, or an item of a stream."""

    run_id: str
    name: str
    data: bytes
    step: str
    attempt: int
    is_value: bool
    begins: bool = False
    """The first item that this execution of the step sends to the stream."""


class Outbox:
    """Lives on the worker's loop; steps in threads may add to it."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._items: list[Item] = []
        self._task: asyncio.Task[None] | None = None
        self._added = 0
        self._moved = asyncio.Event()
        """Set whenever something has gone out."""

    def add(self, item: Item) -> None:
        """Send it; from any thread."""
        self._loop.call_soon_threadsafe(self._add, item, context=self._context)

    def _add(self, item: Item) -> None:
        self._items.append(item)
        self._added += 1
        if self._task is None:
            self._task = self._loop.create_task(self._send(), name="holdfast: send")

    async def flush(self) -> None:
        """Wait until everything added so far is out."""
        # What a step has just added is on its way to the loop, one turn ahead of this.
        await asyncio.sleep(0)
        wanted = self._added
        # What others add meanwhile is not waited for.
        while self._task is not None and self._added - len(self._items) < wanted:
            self._moved.clear()
            await self._moved.wait()

    def close(self) -> None:
        """Nothing more goes out."""
        self._items.clear()
        if self._task is not None:
            self._task.cancel()

    async def _send(self) -> None:
        try:
            while self._items:
                try:
                    await self._send_some()
                except StoreAway:
                    await asyncio.sleep(_PAUSE)
                except StoreError as error:
                    lost = self._items.pop(0)
                    _log.error("run %s: what its step sent as %r could not be kept: %s", lost.run_id, lost.name, error)
                self._moved.set()
        finally:
            self._task = None
            self._moved.set()

    async def _send_some(self) -> None:
        first = self._items[0]
        now = self._clock.store_time()
        if first.is_value:
            await self._store.set_value(first.run_id, first.name, first.data, now=now)
            count = 1
        else:
            # Items of one stream that follow one another go out together.
            count = 1
            alike = first._replace(data=b"", begins=False)
            while count < len(self._items) and self._items[count]._replace(data=b"") == alike:
                count += 1
            await self._store.append_items(
                first.run_id,
                first.name,
                [item.data for item in self._items[:count]],
                step=first.step,
                attempt=first.attempt,
                begins=first.begins,
                now=now,
            )
        del self._items[:count]
