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

    def add(self, item: Item) -> None:
        """Send it; from any thread."""
        self._loop.call_soon_threadsafe(self._add, item, context=self._context)

    def _add(self, item: Item) -> None:
        self._items.append(item)
        if self._task is None:
            self._task = self._loop.create_task(self._send(), name="holdfast: send")

    async def flush(self) -> None:
        """Wait until everything added so far is out."""
        # What a step has just added is on its way to the loop, one turn ahead of this.
        await asyncio.sleep(0)
        while self._task is not None:
            await asyncio.shield(self._task)

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
        finally:
            self._task = None

    async def _send_some(self) -> None:
        first = self._items[0]
        now = self._clock.store_time()
        if first.is_value:
            await self._store.set_value(first.run_id, first.name, first.data, now=now)
            count = 1
        else:
            # Items of one stream that follow one another go out together.
            count = next(
                (
                    place
                    for place, item in enumerate(self._items)
                    if place and item._replace(data=b"") != first._replace(data=b"", begins=False)
                ),
                len(self._items),
            )
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
